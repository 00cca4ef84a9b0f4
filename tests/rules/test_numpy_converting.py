"""numpy-of-device: the functions of numpy that make arrays of tensors, tried on those of the installed numpy."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from devfix.models.loader import models

READERS = models().readers
OF_NUMPY = {
    name.removeprefix("numpy."): at for name, at in READERS.reads.items() if name.startswith("numpy.")
}
LISTS = {name.removeprefix("numpy.") for name in READERS.lists}
REFUSED = "can't convert cuda:0 device type tensor to numpy"


class Placed(torch.Tensor):
    """A tensor that numpy cannot read, as one on CUDA, with all other methods."""

    def __array__(self, *given: object, **named: object) -> Any:
        raise TypeError(REFUSED)

    def numpy(self, *given: object, **named: object) -> Any:
        raise TypeError(REFUSED)


HOST = {
    "matrix": torch.rand(3, 3) + 0.1,
    "vector": torch.rand(3) + 0.1,
    "integers": torch.tensor([0, 1, 2]),
    "number": torch.tensor(1.0),
    "booleans": torch.tensor([True, False, True]),
}
PLACED = {name: torch.Tensor._make_subclass(Placed, value) for name, value in HOST.items()}
OTHERS: list[Any] = [0, [0], [0.5, 1.0, 2.0], np.ones((3, 3)), np.arange(3), 50]


def function(name: str) -> Callable[..., object] | None:
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found  # type: ignore[no-any-return]


def calls(name: str, values: dict[str, torch.Tensor], at: int, many: bool) -> Iterator[list[Any]]:
    for key in HOST:
        it: Any = [values[key], values[key]] if many else values[key]
        if at == 0:
            yield [it]
            yield [it, it]
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, at, several in CASES:
            call = function(name)
            if several is not many or call is None:  # of another version of numpy
                continue
            pairs = zip(calls(name, HOST, at, many), calls(name, PLACED, at, many), strict=True)
            found = {outcome(call, placed) for host, placed in pairs if outcome(call, host) == "ran"}
            one_argument = at and "failed" not in found and not found
            if found != {"refused"} and not one_argument:
                wrong.append(f"{name} {at} {sorted(found)}")
    assert not wrong


def test_what_is_written_to_a_file() -> None:
    second = sorted(name for name, at in OF_NUMPY.items() if at == (1, ""))
    assert second
    for name in second:
        call = function(name)
        assert call is not None
        assert outcome(call, [io.BytesIO(), HOST["vector"]]) == "ran"
        assert outcome(call, [io.BytesIO(), PLACED["vector"]]) == "refused"


@pytest.mark.parametrize(
    "name", ["take_along_axis", "squeeze", "real", "nonzero", "split", "array_split", "shape"]
)
def test_what_gives_a_tensor_back_is_not_among_them(name: str) -> None:
    assert not READERS.argument(f"numpy.{name}", 0)


def test_take_along_axis_only_indexes() -> None:
    given = torch.tensor([[0, 1, 2]])
    assert outcome(np.take_along_axis, [PLACED["matrix"], given.numpy(), 0]) == "ran"
    assert outcome(np.mean, [HOST["matrix"]]) == "failed" or outcome(np.mean, [PLACED["matrix"]]) == "ran"
