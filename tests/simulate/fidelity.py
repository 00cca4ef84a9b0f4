"""What CUDA says to each kind of device mix, and what it allows: a table.

The texts are those of torch's sources (RegisterCUDA.cpp's generated checks, TensorIterator.cpp,
Indexing.cu, Convolution.cpp, the Python layer), for the wording from 2.9 on and the one before.
`record_cuda.py` writes what a real GPU says; where such a record is committed, it counts as well.
In the code, `c` is a tensor on cuda:0, `h` the same on the CPU, 2 x 2; `ci`, `hi` are indices [0, 1], `cm`,
`hm` masks, `c0`, `h0` have no dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
h = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
c, hi, hm, h0 = h.cuda(), torch.tensor([0, 1]), torch.tensor([[True, False], [False, True]]), torch.tensor(2.0)
ci, cm, c0 = hi.cuda(), hm.cuda(), h0.cuda()
"""
SHOW = """
if isinstance(result, torch.Tensor):
    print(result.device, result.detach().cpu().tolist())
else:
    print(result)
"""


@dataclass(frozen=True)
class Mix:
    """`code` gives `result`, or raises `error` with one of the `texts` (new wording, old wording)."""

    name: str
    code: str
    texts: tuple[str, ...] = ()
    error: str = "RuntimeError"
    result: str = ""
    devices: int = 1

    @property
    def program(self) -> str:
        lines = self.code.splitlines()
        last = lines[-1] if lines[-1].startswith("result") else f"result = {lines[-1]}"
        return "\n".join([HEAD, *lines[:-1], last]) + SHOW


def generated(argument: str, device: str, common: str, method: str) -> tuple[str, str]:
    """The check that torchgen puts into every CUDA wrapper."""
    return (
        f"Expected all tensors to be on the same device, but got {argument} is on {device}, different from "
        f"other tensors on {common} (when checking argument in method wrapper_CUDA_{method})",
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{common} and {device}! "
        f"(when checking argument for argument {argument} in method wrapper_CUDA_{method})",
    )


def iterator(first: str = "cuda:0", second: str = "cpu") -> tuple[str]:
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!",
    )


INDEX = ("indices should be either on cpu or on the same device as the indexed tensor (cpu)",)
NUMPY = (
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
)

RAISED = (
    # TensorIterator
    Mix("add", "c + h", iterator()),
    Mix("add, the CPU first", "h + c", iterator()),
    Mix("add in place on cuda", "c.add_(h)", iterator()),
    Mix("add in place on the CPU", "h.add_(c)", iterator()),
    Mix("out= on the CPU", "torch.add(c, c, out=h)", iterator()),
    Mix("two GPUs", "c + c.to('cuda:1')", iterator("cuda:0", "cuda:1"), devices=2),
    Mix("a scalar of cuda with the CPU", "h + c0", iterator()),
    Mix("compare", "c == h", iterator()),
    Mix("maximum", "torch.maximum(c, h)", iterator()),
    Mix("addcmul", "c.addcmul(h, c)", iterator()),
    Mix("lerp", "c.lerp(h, 0.1)", iterator()),
    Mix("where", "torch.where(cm, c, h)", iterator()),
    Mix("mse_loss", "F.mse_loss(c, h)", iterator()),
    Mix("smooth_l1_loss", "F.smooth_l1_loss(c, h)", iterator()),
    Mix("assign by an index", "c[hi] = h\nc", iterator()),
    # the generated check
    Mix("mm", "c @ h", generated("mat2", "cpu", "cuda:0", "mm")),
    Mix("mm, the CPU first", "h @ c", generated("mat2", "cuda:0", "cpu", "mm")),
    Mix("bmm", "torch.bmm(c[None], h[None])", generated("mat2", "cpu", "cuda:0", "bmm")),
    Mix("clamp", "c.clamp(min=h)", generated("min", "cpu", "cuda:0", "clamp_Tensor")),
    Mix("dot", "c[0].dot(h[0])", generated("tensor", "cpu", "cuda:0", "_dot")),
    Mix("linear, input", "nn.Linear(2, 2).cuda()(h)", generated("mat1", "cpu", "cuda:0", "addmm")),
    Mix("linear, module", "nn.Linear(2, 2)(c)", generated("mat1", "cuda:0", "cpu", "addmm")),
    Mix("linear without bias", "F.linear(h, c)", generated("mat2", "cuda:0", "cpu", "mm")),
    Mix("embedding", "nn.Embedding(3, 2).cuda()(hi)", generated("index", "cpu", "cuda:0", "_index_select")),
    Mix("index_select", "c.index_select(0, hi)", generated("index", "cpu", "cuda:0", "_index_select")),
    Mix("gather", "c.gather(1, hi[None])", generated("index", "cpu", "cuda:0", "gather")),
    Mix(
        "scatter of a value",
        "c.scatter_(1, hi[None], 1.0)",
        generated("index", "cpu", "cuda:0", "scatter__value"),
    ),
    Mix("index_add", "c.index_add_(0, hi, c)", generated("index", "cpu", "cuda:0", "index_add_")),
    Mix("masked_select", "c.masked_select(hm)", generated("mask", "cpu", "cuda:0", "_masked_select")),
    Mix("cat", "torch.cat([c, h])", generated("tensors", "cpu", "cuda:0", "cat")),
    Mix("stack", "torch.stack([c, h])", generated("tensors", "cpu", "cuda:0", "cat")),
    Mix(
        "layer_norm",
        "F.layer_norm(c, (2,), h[0])",
        generated("weight", "cpu", "cuda:0", "_native_layer_norm"),
    ),
    Mix(
        "cross_entropy, target",
        "F.cross_entropy(c, hi)",
        generated("target", "cpu", "cuda:0", "nll_loss_forward"),
    ),
    Mix(
        "cross_entropy, weight",
        "F.cross_entropy(c, ci, h[0])",
        generated("weight", "cpu", "cuda:0", "nll_loss_forward"),
    ),
    # words of their own
    Mix(
        "masked_fill",
        "c.masked_fill(hm, 0.0)",
        ("expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",),
    ),
    Mix("index of cuda on the CPU", "h[ci]", INDEX),
    Mix("mask of cuda on the CPU", "h[cm]", INDEX),
    Mix(
        "conv2d, input",
        "nn.Conv2d(1, 4, 5).cuda()(torch.ones(2, 1, 8, 8))",
        (
            "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input "
            "should be a MKLDNN tensor and weight is a dense tensor",
        ),
    ),
    Mix(
        "conv2d, module",
        "nn.Conv2d(1, 1, 1)(c[None, None])",
        ("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",),
    ),
    Mix(
        "attention",
        "F.scaled_dot_product_attention(c[None], h[None], h[None])",
        (
            "Expected query, key, and value to have the same device type, but got query.device: cuda:0 key.device: "
            "cpu and value.device: cpu instead.",
        ),
    ),
    Mix(
        "LSTM, input",
        "nn.LSTM(2, 2).cuda()(h)",
        (
            "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor "
            "at cuda:0",
        ),
    ),
    Mix(
        "LSTM, hidden",
        "nn.LSTM(2, 2).cuda()(c, (torch.zeros(1, 2), torch.zeros(1, 2)))",
        (
            "Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at "
            "cpu",
        ),
    ),
    Mix(
        "gradient",
        "p = c.clone().requires_grad_()\np.grad = h\np",
        (
            "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'cuda'. Please "
            "ensure that the gradient and the tensor are on the same device",
        ),
    ),
    Mix(
        "DataParallel",
        "nn.DataParallel(nn.Linear(2, 2), [0, 1])(c)",
        (
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
            "device: cpu",
        ),
        devices=2,
    ),
    # no mix, but a device that is not what is wanted
    Mix("numpy", "c.numpy()", NUMPY, "TypeError"),
    Mix("numpy.asarray", "import numpy\nnumpy.asarray(c)", NUMPY, "TypeError"),
    Mix("numpy of a scalar", "import numpy\nnumpy.mean([c0, c0])", NUMPY, "TypeError"),
    Mix(
        "pin", "c.pin_memory()", ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",)
    ),
    Mix(
        "generator of the CPU",
        "torch.randn(2, device='cuda', generator=torch.Generator())",
        ("Expected a 'cuda' device type for generator but found 'cpu'",),
    ),
    Mix(
        "generator of cuda",
        "torch.randperm(2, generator=torch.Generator('cuda'))",
        ("Expected a 'cpu' device type for generator but found 'cuda'",),
    ),
    Mix(
        "load of cuda:1",
        "torch.serialization.default_restore_location(h.untyped_storage(), 'cuda:1')",
        (
            "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. Please use "
            "torch.load with map_location to map your storages to an existing device.",
        ),
    ),
)

ALLOWED = (
    Mix("a scalar of the CPU with cuda", "c + h0", result="cuda:0 [[3.0, 4.0], [5.0, 6.0]]"),
    Mix("a scalar of the CPU first", "h0 * c", result="cuda:0 [[2.0, 4.0], [6.0, 8.0]]"),
    Mix("a scalar of the CPU in where", "torch.where(cm, c, h0)", result="cuda:0 [[1.0, 2.0], [2.0, 4.0]]"),
    Mix("a scalar of the CPU in place", "c.mul_(h0)", result="cuda:0 [[2.0, 4.0], [6.0, 8.0]]"),
    Mix("maximum with a scalar of the CPU", "torch.maximum(c, h0)", result="cuda:0 [[2.0, 2.0], [3.0, 4.0]]"),
    Mix("masked_fill by a scalar of the CPU", "c.masked_fill(cm, h0)", result="cuda:0 [[2.0, 2.0], [3.0, 2.0]]"),
    Mix("fill by a scalar of the CPU", "c.fill_(h0)", result="cuda:0 [[2.0, 2.0], [2.0, 2.0]]"),
    Mix("Python numbers", "c * 2 + True", result="cuda:0 [[3.0, 5.0], [7.0, 9.0]]"),
    Mix("index of the CPU", "c[hi]", result="cuda:0 [[1.0, 2.0], [3.0, 4.0]]"),
    Mix("mask of the CPU", "c[hm]", result="cuda:0 [1.0, 4.0]"),
    Mix("index of a list", "c[[1]]", result="cuda:0 [[3.0, 4.0]]"),
    Mix("assign a scalar of the CPU by a mask", "c[hm] = h0\nc", result="cuda:0 [[2.0, 2.0], [3.0, 2.0]]"),
    Mix("assign a row of the CPU", "c[0] = h[1]\nc", result="cuda:0 [[3.0, 4.0], [3.0, 4.0]]"),
    Mix("assign a slice of cuda", "h[:, 0] = c[:, 1]\nh", result="cpu [[2.0, 2.0], [4.0, 4.0]]"),
    Mix("copy to cuda", "torch.zeros(2, 2, device='cuda').copy_(h)", result="cuda:0 [[1.0, 2.0], [3.0, 4.0]]"),
    Mix("copy to the CPU", "torch.zeros(2, 2).copy_(c)", result="cpu [[1.0, 2.0], [3.0, 4.0]]"),
    Mix("to the other's device", "h.to(c) + c", result="cuda:0 [[2.0, 4.0], [6.0, 8.0]]"),
    Mix("item", "c0.item() + float(c[0, 1]) + int(c0)", result="6.0"),
    Mix("tolist", "c.tolist()", result="[[1.0, 2.0], [3.0, 4.0]]"),
    Mix("in an if", "1 if c0 > h0 - 1 else 0", result="1"),
    Mix("a tensor of cuda's numbers", "torch.tensor([c0, c0 + 1])", result="cpu [2.0, 3.0]"),
    Mix("shapes only", "c.expand_as(h.new_zeros(3, 2, 2)).shape == c.view_as(h).expand(3, 2, 2).shape", result="True"),
    Mix("load_state_dict", "m = nn.Linear(2, 2).cuda()\nm.load_state_dict({'weight': h, 'bias': h[0]})\nm.weight",
        result="cuda:0 [[1.0, 2.0], [3.0, 4.0]]"),
    Mix("split sizes of the CPU", "torch.tensor_split(c, torch.tensor(2))[0]", result="cuda:0 [[1.0, 2.0]]"),
    Mix("an optimizer's step counter", "p = nn.Parameter(c)\no = torch.optim.Adam([p], lr=0.0)\np.sum().backward()\n"
        "o.step()\nstr(o.state[p]['step'].device)", result="cpu"),
    Mix("peer copy", "(c.to('cuda:1') + 1).to('cuda:0')", result="cuda:0 [[2.0, 3.0], [4.0, 5.0]]", devices=2),
)  # fmt: skip
