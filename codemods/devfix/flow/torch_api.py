"""What torch's functions do to devices, as tables.

Sources: torch's own signatures (`torch/_C/_VariableFunctions.pyi`, `torch.nn` docs). The test
`tests/flow/test_torch_api.py` compares the tables with the installed torch.
"""

from __future__ import annotations

import ast

from devfix.models.loader import models


def _of(*forms: str) -> frozenset[str]:
    """What the model of torch has under these forms."""
    return frozenset(name for name, row in models().rows.items() if row.form in forms)


# Take `device=` and make a tensor on the default device without it. Not `normal`: it may be given tensors.
FACTORIES = _of("make", "data") - {"torch.normal"}
# Of those, the ones that keep the device of a tensor given as data.
KEEP_DATA = frozenset({"torch.as_tensor", "torch.asarray"})
# Constructors by dtype: always on the CPU.
LEGACY = _of("legacy")
LEGACY_CUDA = _of("cuda")
# Data of the host becomes a CPU tensor.
FROM_HOST = {
    "torch.from_numpy": "a numpy array",
    "torch.frombuffer": "a buffer",
    "torchaudio.load": "a loaded audio file",
    "torchvision.io.read_image": "a loaded image",
    "torchvision.io.decode_image": "a decoded image",
    "torchvision.transforms.functional.to_tensor": "a converted image",
    "torchvision.transforms.functional.pil_to_tensor": "a converted image",
    "torchvision.transforms.ToTensor": "a converted image",
}
# Give the host's own data, never a tensor.
ARRAY_CALLS = {
    "PIL.Image.open": "an image",
    "PIL.Image.fromarray": "an image",
    "cv2.imread": "an image",
    "librosa.load": "loaded audio",
    "soundfile.read": "loaded audio",
    "imageio.imread": "an image",
    "skimage.io.imread": "an image",
}
ARRAY_ROOTS = ("numpy.",)
# Tensor methods whose result is no tensor.
TO_HOST = frozenset({"item", "tolist", "numpy"})
NOT_TENSOR = frozenset(
    {
        "shape", "dtype", "ndim", "requires_grad", "is_cuda", "layout", "names", "size", "dim",
        "numel", "nelement", "element_size", "stride", "data_ptr", "storage_offset", "get_device",
        "is_contiguous", "is_floating_point", "type", "backward", "register_hook", "itemsize", "nbytes",
        "retain_grad", "storage", "untyped_storage", "is_complex", "is_pinned", "is_shared", "grad_fn",
    }
)  # fmt: skip
# Names that only tensors have: using one tells that a value is a tensor. Not `backward`, which engines
# and accelerators have: `booster.backward(loss, optimizer)`.
TENSOR_ONLY = frozenset(
    {
        "unsqueeze", "unsqueeze_", "squeeze", "view", "permute", "contiguous", "detach", "long",
        "numel", "argmax", "softmax", "log_softmax", "sigmoid", "expand", "expand_as", "view_as",
        "masked_fill", "scatter_", "gather", "index_select", "matmul", "bmm", "item", "type_as", "new_zeros",
        "new_ones", "new_tensor", "new_full", "new_empty", "unbind", "transpose", "narrow", "normal_",
        "zero_",
        "fill_", "copy_", "clamp", "clamp_", "topk", "dim", "flatten", "chunk", "size",
    }
)  # fmt: skip
# Methods that modules share with optimizers, schedulers and scalers.
STATEFUL = frozenset({"state_dict", "load_state_dict", "zero_grad"})
# Methods that only modules have.
MODULE_ONLY = frozenset(
    {
        "train", "eval", "parameters", "named_parameters", "modules",
        "named_modules", "children", "named_children", "buffers", "named_buffers", "add_module",
        "register_module", "register_buffer", "register_parameter", "register_forward_hook",
        "register_forward_pre_hook", "apply", "get_submodule", "get_parameter", "forward",
    }
)  # fmt: skip
# Losses that have a tensor only where `weight` or `pos_weight` is given.
WEIGHTED_LOSSES = frozenset(
    f"torch.nn.{name}Loss" for name in ("CrossEntropy", "NLL", "BCE", "BCEWithLogits", "MultiMargin")
) | {"torch.nn.NLLLoss2d"}
# torch.nn modules without parameters or buffers unless an argument gives them one: where they
# are makes no difference.
BARE_MODULES = frozenset(one for one in _of("bare", "loss") if one.startswith("torch.nn.")) - (
    WEIGHTED_LOSSES | {"torch.nn.MultiLabelSoftMarginLoss"}
)
CONTAINERS = _of("container")
# Modules with weights or buffers that companions of torch make, on the CPU; classes unless named whole.
LIBRARY_MODULES = (
    "torchaudio.transforms.",
    "torchmetrics.",
    "torch.quantization.observer.",
    "torch.ao.quantization.observer.",
    "lpips.LPIPS",
    "pytorch_msssim.",
    "segmentation_models_pytorch.",
    "timm.create_model",
)
_NO_GRADIENTS = frozenset({"no_grad", "inference_mode"})
PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
MODULE_BASES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
# Wraps that want the module on its device already: nothing may be moved past them.
WRAPS = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "torch.distributed.fsdp.fully_shard",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.compile",
        "torch.jit.script",
        "torch.jit.trace",
        "apex.parallel.DistributedDataParallel",
        "torch.fx.symbolic_trace",
        "deepspeed.initialize",
    }
)
WRAP_NAMES = frozenset({"DDP", "FSDP", "DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"})
LOADERS = frozenset(
    {
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "torch_geometric.loader.dataloader.DataLoader",
    }
)
# torch.* functions that return no tensor.
NOT_TENSOR_CALLS = frozenset(
    f"torch.{name}"
    for name in [
        "is_tensor",
        "manual_seed",
        "seed",
        "save",
        "load",
        "no_grad",
        "enable_grad",
        "set_grad_enabled",
        "inference_mode",
        "get_default_dtype",
        "set_default_dtype",
        "set_num_threads",
        "get_num_threads",
        "device",
        "dtype",
        "finfo",
        "iinfo",
        "Size",
        "Generator",
        "compile",
        "is_floating_point",
        "is_complex",
        "numel",
        "set_printoptions",
        "typename",
        "is_grad_enabled",
        "set_float32_matmul_precision",
        "get_rng_state",
        "set_rng_state",
        "autocast",
        "use_deterministic_algorithms",
        "set_default_device",
        "set_default_tensor_type",
        "get_default_device",
        "is_inference_mode_enabled",
    ]
)
# Change where new tensors are made: after them "made on the CPU by default" is no longer known.
DEFAULT_DEVICE_CALLS = ("set_default_device(", "set_default_tensor_type(")
AUTOCAST = {
    "torch.autocast": "torch.autocast",
    "torch.amp.autocast": "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast": "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast": "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast": "torch.cuda.amp.autocast",
    "torch.cpu.amp.autocast": "torch.cpu.amp.autocast",
    "torch.amp.GradScaler": "torch.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.cpu.amp.GradScaler": "torch.cpu.amp.GradScaler",
}
ACCELERATORS = ("cuda", "mps", "xpu", "hpu", "npu", "xla", "mtia", "privateuseone", "ipu")


def device_literal(text: str) -> str:
    """'cpu' or 'accelerator' for a device string such as "cuda:1"; '' for any other string."""
    kind = text.partition(":")[0]
    if kind == "cpu":
        return "cpu"
    return "accelerator" if kind in ACCELERATORS else ""


# Progress bars: they yield what they are given.
PROGRESS = frozenset({"tqdm", "trange", "track", "progress_bar", "tqdm_notebook", "log_every", "prange"})


def turns_gradients_off(node: ast.expr) -> bool:
    """Is it `torch.no_grad()` or its like, as a `with` statement or a decorator has it?"""
    node = node.func if isinstance(node, ast.Call) else node
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _NO_GRADIENTS
