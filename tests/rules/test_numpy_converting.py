"""numpy-of-device: the functions of numpy that make arrays of tensors, tried on those of the installed numpy."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from devfix.models.loader import models
from later import torch

READERS = models().readers
OF_NUMPY = {
    name.removeprefix("numpy."): at for name, at in READERS.reads.items() if name.startswith("numpy.")
}
LISTS = {name.removeprefix("numpy.") for name in READERS.lists}
REFUSED = "can't convert cuda:0 device type tensor to numpy"


@cache
def tensors() -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors of the host, and the same ones that numpy cannot read, as on CUDA, with all other methods."""

    class Placed(torch.Tensor):  # type: ignore[misc]
        def __array__(self, *given: object, **named: object) -> Any:
            raise TypeError(REFUSED)

        def numpy(self, *given: object, **named: object) -> Any:
            raise TypeError(REFUSED)

    host = {
        "matrix": torch.rand(3, 3) + 0.1,
        "vector": torch.rand(3) + 0.1,
        "integers": torch.tensor([0, 1, 2]),
        "number": torch.tensor(1.0),
        "booleans": torch.tensor([True, False, True]),
    }
    return host, {name: torch.Tensor._make_subclass(Placed, value) for name, value in host.items()}


OTHERS: list[Any] = [0, [0], [0.5, 1.0, 2.0], np.ones((3, 3)), np.arange(3), 50]


def function(name: str) -> Callable[..., object] | None:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found  # type: ignore[no-any-return]


def calls(values: dict[str, Any], at: int, many: bool) -> Iterator[list[Any]]:
    for value in values.values():
        it: Any = [value, value] if many else value
        if at == 0:
            yield [it]
            yield [it, it]
            yield [it, it, it]
        for other in OTHERS:
            for position in range(at, at + 2):
                before = [other] * at
                if position == at:
                    yield [*before, it]
                    yield [*before, it, other]


def outcome(call: Callable[..., object], given: list[Any]) -> str:
    try:
        call(*given)
    except Exception as error:  # whatever numpy says
        return "refused" if REFUSED in str(error) else "failed"
    return "ran"


CASES = [
    *((name, at, False) for name in sorted(OF_NUMPY) if OF_NUMPY[name] is None for at in (0, 1)),
    *((name, 0, False) for name in sorted(OF_NUMPY) if OF_NUMPY[name] == (0, "")),
    *((name, 0, True) for name in sorted(LISTS)),
]


@pytest.mark.parametrize("many", [False, True])
def test_each_raises_where_the_tensor_is_on_a_device_and_runs_where_it_is_not(many: bool) -> None:
    wrong: list[str] = []
    on_host, on_device = tensors()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, at, several in CASES:
            call = function(name)
            if several is not many or call is None:  # of another version of numpy
                continue
            pairs = zip(calls(on_host, at, many), calls(on_device, at, many), strict=True)
            found = {outcome(call, placed) for host, placed in pairs if outcome(call, host) == "ran"}
            one_argument = at and "failed" not in found and not found
            if found != {"refused"} and not one_argument:
                wrong.append(f"{name} {at} {sorted(found)}")
    assert not wrong


def test_what_is_written_to_a_file() -> None:
    second = sorted(name for name, at in OF_NUMPY.items() if at == (1, ""))
    assert second
    on_host, on_device = tensors()
    for name in second:
        call = function(name)
        assert call is not None
        assert outcome(call, [io.BytesIO(), on_host["vector"]]) == "ran"
        assert outcome(call, [io.BytesIO(), on_device["vector"]]) == "refused"


def test_what_writes_several_arrays_reads_them_all() -> None:
    several = sorted(name for name, at in OF_NUMPY.items() if at == (1, "*"))
    assert several
    on_host, on_device = tensors()
    for name in several:
        call = function(name)
        assert call is not None
        for values, told in ((on_host, "ran"), (on_device, "refused")):
            one = values["vector"]
            assert outcome(call, [io.BytesIO(), one]) == told
            assert outcome(call, [io.BytesIO(), 1.0, one]) == told
            assert outcome(partial(call, x=one), [io.BytesIO()]) == told


@pytest.mark.parametrize(
    "name", ["take_along_axis", "squeeze", "real", "nonzero", "split", "array_split", "shape"]
)
def test_what_gives_a_tensor_back_is_not_among_them(name: str) -> None:
    assert not READERS.argument(f"numpy.{name}", 0)


def test_take_along_axis_only_indexes() -> None:
    given = torch.tensor([[0, 1, 2]])
    on_host, on_device = tensors()
    assert outcome(np.take_along_axis, [on_device["matrix"], given.numpy(), 0]) == "ran"
    assert (
        outcome(np.mean, [on_host["matrix"]]) == "failed" or outcome(np.mean, [on_device["matrix"]]) == "ran"
    )
