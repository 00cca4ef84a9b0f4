"""The device errors of torch and its neighbours: how to know them, what they mean, who repairs them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of device error. `codemods` are those that repair it, the likeliest first."""

    id: str
    pattern: str
    meaning: str
    codemods: tuple[str, ...]


_MEET = (
    "move-inputs",
    "place-factory",
    "module-never-moved",
    "reorder-to",
    "register-buffer",
    "register-modules",
)

# Of several that match, the first one counts. The texts are those of torch 1.x to 2.13; `tests/errors` has
# each of them, the ones that the simulator raises are raised there.
KINDS = (
    Kind(
        "weight-type",
        r"Input type \(.{0,400}\) and (?:weight|bias) type \(.{0,400}\) should be the same",
        "a module was run on an input that lives on another device than the module's weights",
        ("move-inputs", "reorder-to", "register-modules", "module-never-moved", "list-in-modules"),
    ),
    Kind(
        "rnn",
        r"(?:Input and (?:hidden|parameter) tensors are not at the same device|"
        r"Expected hidden.{0,400}to be on the same device)",
        "the input, the hidden state and the weights of a recurrent layer are not on one device",
        ("place-factory", "move-inputs", "reorder-to", "register-buffer"),
    ),
    Kind(
        "index",
        r"indices should be either on .{0,400} or on the same device as the indexed tensor",
        "a tensor was indexed by one on another device (only an index on the CPU into any tensor is allowed)",
        ("place-factory", "move-inputs", "register-buffer"),
    ),
    Kind(
        "mixed",
        r"Expected all tensors to be on the same device|"
        r"Expected object of (?:device type|backend) \S{1,99} but got (?:device type|backend)|"
        r"Tensor for (?:argument (?:#\d+ )?)?'?\w+'? is on (?:CPU|cpu),? but expected|"
        r"tensors? to be on the same device|found at least two devices|"
        r"is on cpu, different from other tensors on|mat\d is on cpu|"
        r"Expected tensor .{0,400} to have the same device as|"
        r"All input tensors must be on the same device|"
        r"Placeholder storage has not been allocated on MPS device|"
        r"input\(device='\w.{0,99}'\) and weight\(device=|"
        r"expected device \S+ but got device|"
        r"arguments are located on different GPUs|"
        r"expected a CUDA device but found cpu|CPU Scalar support for \w+ argument is not supported|"
        r"tensors should have same device type|"
        r"expected \w+ and \w+ to be on the same device",
        "tensors on different devices met in one operation",
        (*_MEET, "hand-on-device", "list-in-modules", "map-location", "one-device", "restore-after-move"),
    ),
    Kind(
        "old-constructor",
        r"legacy constructor expects device type|expected TensorOptions\(.{0,400}device=.{0,400}\(got TensorOptions\(",
        "torch.Tensor, torch.FloatTensor, .new and their like make tensors on their own device only, and take neither "
        "`device=` of another one nor a tensor that is there: use torch.tensor, torch.as_tensor or .to",
        ("place-factory", "numpy-of-device"),
    ),
    Kind(
        "autocast",
        r"unsupported autocast device_type|Unsupported device type.{0,400}autocast|"
        r"Expected `?device_type`? of type `?str`?|User specified (?:an unsupported )?autocast device_type",
        'autocast takes the type of a device ("cuda"), not a device or a name with an index',
        ("normalize-device-type",),
    ),
    Kind(
        "half-loss",
        r"are unsafe to autocast",
        "this loss needs float32, so autocast on CUDA refuses it: take the loss of logits, or turn autocast off for it",
        (),
    ),
    Kind(
        "numpy",
        r"can't convert \S+ device type tensor to numpy|"
        r"Use Tensor\.cpu\(\) to copy the tensor to host memory",
        "numpy takes tensors of the CPU only; a tensor on another device has to be copied there first",
        ("numpy-of-device",),
    ),
    Kind(
        "lengths",
        r"'lengths' argument should be a 1D CPU int64 tensor",
        "a packed sequence reads its lengths on the CPU, whichever device the sequences are on",
        ("lengths-on-cpu",),
    ),
    Kind(
        "generator",
        r"Expected a '\w+' (?:device type for )?generator (?:device )?but found '\w+'|"
        r"Expected a '\w+' device type for generator",
        "a random generator makes numbers on its own device only",
        ("default-device", "hard-coded-cuda", "place-factory"),
    ),
    Kind(
        "collective",
        r"Tensors must be CUDA and dense|No backend type associated with device type \w+|"
        r"ProcessGroup\w{0,99} does not support|Tensors? must be on (?:GPU|CUDA)|"
        r"Expected all tensors to be CUDA|NCCL.{0,400}(?:CPU|cpu) tensor",
        "a collective operation of NCCL was given a tensor on the CPU",
        ("place-factory", "one-device", "module-never-moved"),
    ),
    Kind(
        "loading",
        r"Attempting to deserialize object on (?:a )?CUDA device|"
        r"torch\.load with map_location|don't know how to restore data location",
        "a checkpoint remembers the device that its tensors were on, which this machine does not have",
        ("map-location",),
    ),
    Kind(
        "first-device",
        r"module must have its parameters and buffers on device \S+ \(device_ids\[0\]\)",
        "DataParallel wants the module on the first of its devices before it runs",
        ("one-device", "reorder-to", "module-never-moved", "register-modules"),
    ),
    Kind(
        "no-cuda",
        r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|"
        r"CUDA (?:driver version is insufficient|unknown error)|"
        r"Cannot access accelerator device when none is available|"
        r"torch\.cuda\.FloatTensor is not available|module 'torch\._C' has no attribute '_cuda_",
        "the program asks for CUDA on a machine that has none",
        ("hard-coded-cuda", "hand-on-device", "map-location"),
    ),
    Kind(
        "ordinal",
        r"invalid device ordinal|Invalid device (?:id|argument)|device ordinal out of range|"
        r"The device index is out of range",
        "a device was named that this machine, or this process, does not have",
        ("one-device", "hard-coded-cuda", "map-location"),
    ),
    Kind(
        "dtype",
        r"MPS framework doesn't support float64|to the MPS backend but it does not have support for that dtype",
        "a Mac's GPU has no float64, complex128 or float8: make such a tensor in float32, or keep it on the CPU",
        (),
    ),
    Kind(
        "operation",
        r"The operator '\S{1,200}' is not currently implemented for the MPS device",
        "torch has no kernel of this operation for a Mac's GPU: copy its operands to the CPU, or set "
        "PYTORCH_ENABLE_MPS_FALLBACK=1",
        (),
    ),
    Kind(
        "pinned",
        r"cannot pin '.{0,400}' only dense CPU tensors can be pinned",
        "only memory of the CPU can be pinned; the data set makes tensors on a device already",
        ("default-device", "hard-coded-cuda"),
    ),
)

_KNOWN = tuple((re.compile(kind.pattern), kind) for kind in KINDS)


def kind_of(message: str) -> Kind | None:
    """The kind of device error that a message is of, or None: it is about something else."""
    text = " ".join(message.split())  # a box or a narrow terminal has broken the lines
    for pattern, kind in _KNOWN:
        if pattern.search(text):
            return kind
    return None
