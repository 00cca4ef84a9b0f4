"""What is said of an error whose source is not here: the operation, the stray operand, where to look."""

from __future__ import annotations

import pytest
from devfix.errors.messages import kind_of
from devfix.errors.operations import hint_for

NEW = "Expected all tensors to be on the same device, but got {argument} is on {device}, different from other tensors on {common} (when checking argument in method wrapper_{method})"
OLD = "Expected all tensors to be on the same device, but found at least two devices, {common} and {device}! (when checking argument for argument {argument} in method wrapper_{method})"


@pytest.mark.parametrize("wording", [NEW, OLD], ids=["new", "old"])
@pytest.mark.parametrize(
    "method, argument, device, operation, stray, look",
    [
        ("CUDA_addmm", "mat1", "cpu", "nn.Linear", "the input of the layer", "a batch"),
        ("addmm", "mat1", "cpu", "nn.Linear", "the input of the layer", "a batch"),  # torch 1.13
        ("CUDA_addmm", "mat1", "cuda:0", "nn.Linear", "on the CPU", "layers in a plain list"),
        ("CUDA__index_select", "index", "cpu", "nn.Embedding", "the ids", "a batch"),
        ("CUDA__index_select", "index", "cuda:0", "nn.Embedding", "on the CPU", "layers in a plain list"),
        ("CUDA_nll_loss_forward", "target", "cpu", "cross_entropy", "the labels", "labels"),
        ("CUDA_nll_loss_forward", "weight", "cpu", "cross_entropy", "the weights of the classes", "`torch.zeros`"),
        ("CUDA__native_layer_norm", "weight", "cpu", "nn.LayerNorm", "its weight", "layers in a plain list"),
        ("CUDA_cat", "tensors", "cpu", "torch.cat", "one of the tensors", "`torch.zeros`"),
        ("CUDA_scatter__value", "index", "cpu", "scatter", "the index", "`torch.zeros`"),
        ("CUDA___cdist_forward", "x2", "cpu", "torch.cdist", "the second set", "`torch.zeros`"),
        ("SparseCUDA__addmm", "mat1", "cpu", "nn.Linear", "the input", "a batch"),
    ],
)  # fmt: skip
def test_of_an_operation(
    wording: str, method: str, argument: str, device: str, operation: str, stray: str, look: str
) -> None:
    common = "cuda:0" if device == "cpu" else "cpu"
    text = wording.format(argument=argument, device=device, common=common, method=method)
    kind = kind_of(text)
    assert kind is not None
    hint = hint_for(text, kind)
    assert hint is not None
    assert operation in hint.operation and stray in hint.stray and hint.look.startswith(look)


@pytest.mark.parametrize(
    "text, look",
    [
        ("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", "`torch.zeros`"),
        ("indices should be either on cpu or on the same device as the indexed tensor (cpu)", "an index"),
        ("Expected a 'cuda' device type for generator but found 'cpu'", "`torch.Generator()`"),
        ("Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same", "a batch"),
        ("Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same", "layers in a plain list"),
        ("Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same", "layers in a plain list"),
        ("Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same", "layers in a plain list"),
        ("can't convert cuda:0 device type tensor to numpy.", "`.numpy()`"),
    ],
)  # fmt: skip
def test_of_a_kind(text: str, look: str) -> None:
    kind = kind_of(text)
    assert kind is not None
    hint = hint_for(text, kind)
    assert hint is not None and hint.look.startswith(look)


def test_an_operation_that_is_not_in_the_table() -> None:
    text = NEW.format(argument="self", device="cpu", common="cuda:0", method="CUDA__something_new")
    kind = kind_of(text)
    assert kind is not None and hint_for(text, kind) is None
