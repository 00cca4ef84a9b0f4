"""Which operand is most often the stray one, by the operation that an error names: for errors without source.

Torch names the C++ function (`wrapper_CUDA_addmm`) and often the argument. What people write is another name;
the table translates, and says what is usually behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from devfix.errors.messages import Kind


@dataclass(frozen=True)
class Hint:
    """`operation` as a program writes it, the operand that is most often the `stray` one, what to `look` for."""

    operation: str
    stray: str
    look: str


_METHOD = re.compile(r"in method wrapper_{1,9}(?:(?:Sparse(?:Csr)?)?(?:CUDA|MPS|XPU)_)?(?P<method>\w+?)\)")
_NEW = re.compile(
    r"got (?P<argument>\w+) is on (?P<device>[\w:]+), different from other tensors on (?P<common>[\w:]+)"
)
_OLD = re.compile(
    r"found at least two devices, (?P<common>[\w:]+) and (?P<device>[\w:]+)!"
    r"(?: \(when checking arg\w* for argument (?P<argument>\w+))?"
)

_BATCH = (
    "a batch, or one entry of it, that was not moved: `x = x.to(device)` whose result is dropped, a dict or "
    "tuple of which only some entries are moved"
)
_LAYER = (
    "layers in a plain list or dict, made in `forward`, or attached after the model was moved; a model that was "
    "never moved"
)
_MADE = (
    "`torch.zeros`, `torch.arange`, `torch.tensor` and their like without `device=`; a tensor attribute that is not a "
    "buffer, so that `.to(device)` leaves it"
)
_LABELS = "labels that were not moved with the inputs"

# Operation -> what it is called, and for its arguments what each one is, and what to look for.
_TABLE: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "addmm": ("nn.Linear", {"mat1": ("the input of the layer", _BATCH), "mat2": ("its weight", _LAYER)}),
    "mm": (
        "a product of matrices, or nn.Linear without bias",
        {"mat2": ("the right operand or weight", _LAYER)},
    ),
    "bmm": ("a product of batches of matrices", {"mat2": ("the right operand", _MADE)}),
    "baddbmm": ("a product of batches of matrices", {"batch2": ("the right operand", _MADE)}),
    "addmv": ("a product of a matrix and a vector", {"vec": ("the vector", _MADE)}),
    "index_select": ("nn.Embedding or index_select", {"index": ("the ids", _BATCH)}),
    "embedding_bag": ("nn.EmbeddingBag", {"indices": ("the ids", _BATCH)}),
    "convolution": ("a convolution", {"weight": ("its weight", _LAYER)}),
    "native_layer_norm": ("nn.LayerNorm", {"weight": ("its weight", _LAYER), "bias": ("its bias", _LAYER)}),
    "native_group_norm": ("nn.GroupNorm", {"weight": ("its weight", _LAYER)}),
    "native_batch_norm": (
        "nn.BatchNorm",
        {"weight": ("its weight", _LAYER), "running_mean": ("its buffers", _LAYER)},
    ),
    "cudnn_batch_norm": (
        "nn.BatchNorm",
        {"weight": ("its weight", _LAYER), "running_mean": ("its buffers", _LAYER)},
    ),
    "nll_loss_forward": (
        "cross_entropy or nll_loss",
        {"target": ("the labels", _LABELS), "weight": ("the weights of the classes", _MADE)},
    ),
    "nll_loss2d_forward": (
        "cross_entropy of images",
        {"target": ("the labels", _LABELS), "weight": ("the weights of the classes", _MADE)},
    ),
    "binary_cross_entropy": ("binary_cross_entropy", {"target": ("the labels", _LABELS)}),
    "cat": ("torch.cat or torch.stack", {"tensors": ("one of the tensors", _MADE)}),
    "gather": ("gather", {"index": ("the index", _MADE)}),
    "scatter": ("scatter", {"index": ("the index", _MADE), "src": ("the source", _MADE)}),
    "index_add": ("index_add, as message passing on graphs uses it", {"index": ("the index", _BATCH)}),
    "index_copy": ("index_copy", {"index": ("the index", _MADE)}),
    "index_fill": ("index_fill", {"index": ("the index", _MADE)}),
    "masked_select": ("masked_select", {"mask": ("the mask", _MADE)}),
    "masked_scatter": ("masked_scatter", {"mask": ("the mask", _MADE)}),
    "clamp": ("clamp", {"min": ("a bound", _MADE), "max": ("a bound", _MADE)}),
    "dot": ("dot", {"tensor": ("the right operand", _MADE)}),
    "cdist_forward": ("torch.cdist", {"x2": ("the second set of points", _MADE)}),
    "prelu_kernel": ("nn.PReLU", {"weight": ("its weight", _LAYER)}),
}
_BY_KIND = {
    "rnn": Hint("a recurrent layer", "the first hidden state", _MADE),
    "index": Hint(
        "indexing", "the index or mask", "an index that was made on a device for a tensor that stayed"
    ),
    "numpy": Hint(
        "a conversion to numpy",
        "the tensor",
        "`.numpy()`, numpy and plotting functions without `.cpu()` before",
    ),
    "lengths": Hint("pack_padded_sequence", "the lengths", "lengths that are moved with the batch"),
    "generator": Hint(
        "drawing random numbers",
        "the generator",
        "`torch.Generator()` without a device; a default device or tensor type of CUDA beside a DataLoader that "
        "shuffles, or `random_split`",
    ),
    "collective": Hint(
        "a collective operation", "a tensor of the CPU", f"a metric or loss as number: {_MADE}"
    ),
    "loading": Hint("torch.load", "the checkpoint", "`torch.load` without `map_location`"),
    "first-device": Hint(
        "DataParallel", "the module", "a module that is not moved to the first device before"
    ),
    "pinned": Hint(
        "pinning memory", "what the data set gives", "a data set that moves; a default device of CUDA"
    ),
}


def hint_for(message: str, kind: Kind) -> Hint | None:
    """What to look for behind an error, by its text alone; None where nothing is known of it."""
    text = " ".join(message.split())
    if kind.id == "weight-type":
        return _layer(text)
    if kind.id != "mixed":
        return _BY_KIND.get(kind.id)
    found = _METHOD.search(text)
    name = found["method"] if found else ""
    where = _NEW.search(text) or _OLD.search(text)
    argument, device = (where["argument"] or "", where["device"]) if where else ("", "")
    for form in (name, name.strip("_"), *(name.removesuffix(end).strip("_") for end in _ENDS)):
        if form in _TABLE:
            operation, arguments = _TABLE[form]
            break
    else:
        return None if name else Hint("arithmetic, a comparison or `where`", "the one on the CPU", _MADE)
    stray, look = arguments.get(argument, next(iter(arguments.values())))
    if device == "cpu" or not device:
        return Hint(operation, stray, look)
    if look in (_BATCH, _LABELS):  # what was to move has moved
        return Hint(operation, f"what {stray} met, on the CPU", _MADE if look is _LABELS else _LAYER)
    return Hint(
        operation, "the one on the CPU, which is another operand", _BATCH if look is _LAYER else _MADE
    )


# The type of a tensor on the CPU is `torch.FloatTensor`, on others `torch.cuda.FloatTensor` or `MPSFloatType`.
_WEIGHT_ON_CPU = re.compile(r"type \((?!torch\.\w+Tensor\)).{1,99}?\) and \w+ type \(torch\.\w+Tensor\)")


def _layer(text: str) -> Hint:
    """Which of the input and the weight of a layer is on the CPU."""
    operation = "a convolution or recurrent layer"
    if _WEIGHT_ON_CPU.search(text):
        return Hint(operation, "the weight of the layer", _LAYER)
    return Hint(operation, "the input of the layer", _BATCH)


_ENDS = ("_out", "_value", "_value_out", "_src", "_src_out", "_reduce", "_Tensor", "_Tensor_out", "_tensor")
