"""Which errors are about devices. The texts are torch's own, of the versions named."""

from __future__ import annotations

import re

import pytest
from devfix.codemod import registry
from devfix.errors.messages import KINDS, kind_of

TEXTS = [
    # 2.9 and newer name the argument, older ones both devices.
    (
        "mixed",
        "RuntimeError: Expected all tensors to be on the same device, but got mat1 is on cpu, different from "
        "other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
    ),
    (
        "mixed",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument index in method wrapper_CUDA__index_select)",
    ),
    (
        "mixed",
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #1 'self'",
    ),
    ("mixed", "RuntimeError: Expected object of backend CUDA but got backend CPU for argument #2 'mat2'"),
    ("mixed", "RuntimeError: expected device cuda:0 but got device cpu"),
    (
        "mixed",
        "RuntimeError: iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at "
        '"/pytorch/aten/src/ATen/native/cuda/Loops.cuh":109, please report a bug to PyTorch. argument 2: expected a '
        "CUDA device but found cpu",
    ),
    (
        "mixed",
        "RuntimeError: CPU Scalar support for self argument is not supported when calling addcmul on CUDA tensors.",
    ),
    (
        "old-constructor",
        "RuntimeError: legacy constructor expects device type: cpu but device type: cuda was passed",
    ),
    (
        "old-constructor",
        "TypeError: expected TensorOptions(dtype=float, device=cpu, layout=Strided, requires_grad=false (default), "
        "pinned_memory=false (default), memory_format=(nullopt)) (got TensorOptions(dtype=float, device=cuda:0, "
        "layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)))",
    ),
    ("mixed", "RuntimeError: Placeholder storage has not been allocated on MPS device!"),
    (
        "mixed",
        "RuntimeError: slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on",
    ),
    (
        "mixed",
        "RuntimeError: arguments are located on different GPUs at /pytorch/aten/src/THC/generic/THCTensor.cu",
    ),
    (
        "weight-type",
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same "
        "or input should be a MKLDNN tensor and weight is a dense tensor",
    ),
    (
        "weight-type",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and bias type (torch.HalfTensor) should be the same",
    ),
    (
        "rnn",
        "RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and "
        "hidden tensor at cpu",
    ),
    (
        "index",
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
    ),
    ("autocast", "RuntimeError: User specified an unsupported autocast device_type 'cuda:0'"),
    ("autocast", "ValueError: Expected `device_type` of type `str`, got: `<class 'torch.device'>`"),
    (
        "lengths",
        "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor",
    ),
    (
        "numpy",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
        "memory first.",
    ),
    ("half-loss", "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."),
    ("generator", "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'"),
    ("collective", "RuntimeError: Tensors must be CUDA and dense"),
    ("collective", "RuntimeError: No backend type associated with device type cpu"),
    (
        "loading",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
        "you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
        "your storages to the CPU.",
    ),
    (
        "loading",
        "RuntimeError: Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1.",
    ),
    (
        "first-device",
        "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of "
        "them on device: cpu",
    ),
    ("no-cuda", "AssertionError: Torch not compiled with CUDA enabled"),
    ("no-cuda", "RuntimeError: Found no NVIDIA driver on your system."),
    ("no-cuda", "RuntimeError: Cannot access accelerator device when none is available."),
    ("no-cuda", "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'"),
    ("ordinal", "RuntimeError: CUDA error: invalid device ordinal"),
    ("ordinal", "RuntimeError: Invalid device argument : did you call init?"),
    ("mixed", "RuntimeError: Tensor for argument weight is on cpu but expected on mps"),
    (
        "dtype",
        "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please "
        "use float32 instead.",
    ),
    (
        "dtype",
        "TypeError: Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that dtype.",
    ),
    (
        "operation",
        "NotImplementedError: The operator 'aten::_linalg_eigh.eigenvalues' is not currently implemented for the MPS "
        "device. If you want this op to be considered for addition please comment on",
    ),
    ("pinned", "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"),
]


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_known(kind: str, text: str) -> None:
    found = kind_of(text)
    assert found is not None and found.id == kind


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 5x2)",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: expected scalar type Half but found Float",
        "ValueError: Expected input batch_size (3) to match target batch_size (4).",
        "KeyError: 'device'",
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
)
def test_about_something_else(text: str) -> None:
    assert kind_of(text) is None


def test_every_kind_has_a_text() -> None:
    assert {kind.id for kind in KINDS} == {kind for kind, _ in TEXTS}


def test_every_codemod_is_known_and_explains_something() -> None:
    known = set(registry())
    named = {codemod for kind in KINDS for codemod in kind.codemods}
    assert named - known == set()
    quiet = {"assert-device", "device-comparison"}  # what they find raises no device error
    assert known - named <= quiet


def test_what_the_examples_raise_is_explained_by_their_codemod() -> None:
    """Examples say what torch raises, as regular expressions; a text that they match needs a kind."""
    for codemod in registry().values():
        for example in codemod.examples:
            for _, text in TEXTS:
                if example.raises and re.search(example.raises, text):
                    assert kind_of(text) is not None
