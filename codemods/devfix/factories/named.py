"""The names of a function that is followed, and what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from devfix.factories.values import Anchor, Fact, Form


class _Index(NamedTuple):
    """The order of the names, and of the two kinds that tell of devices what they stand for."""

    at: dict[str, int]
    telling: dict[str, Fact]
    strays: dict[str, Fact]

    def put(self, name: str, fact: Fact) -> None:
        self.telling.pop(name, None)
        self.strays.pop(name, None)
        if (
            fact.form is Form.DEVICE
            or fact.placed
            or (fact.form is Form.MAYBE and "." not in name)
            or (fact.form is Form.LIST and any(item.placed for item in fact.items))
            or (fact.form is Form.OTHER and fact.anchor is not None)
        ):
            self.telling[name] = fact
        elif fact.stray and fact.anchor is not None and name.isidentifier():
            self.strays[name] = fact


class Names(dict[str, Fact]):
    """Names and paths; those that tell of devices, and those below others, are found without a look at all."""

    def __init__(self, given: Mapping[str, Fact]) -> None:
        super().__init__(given)
        # Paths that may have others below them; shared by all copies, never shrinks.
        self._above: set[str] = given._above if isinstance(given, Names) else set()
        if not isinstance(given, Names):
            for name in given:
                self._note(name)
        else:
            at, telling, strays = given._index
            self._index = _Index(at.copy(), telling.copy(), strays.copy())

    def _note(self, name: str) -> None:
        if "." in name or "[" in name:
            self._above.update(name[:at] for at, character in enumerate(name) if character in ".[")

    def __setitem__(self, name: str, fact: Fact) -> None:
        self._note(name)
        if "_index" in self.__dict__:
            at = self._index.at
            if name not in at:
                at[name] = next(reversed(at.values()), 0) + 1
            self._index.put(name, fact)
        super().__setitem__(name, fact)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        for one in self._index if "_index" in self.__dict__ else ():
            one.pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:
        """As of a dict."""
        if name not in self:
            return super().pop(name, *default)
        fact = self[name]
        del self[name]
        return fact

    def update(self, *given: Any, **named: Any) -> None:
        """As of a dict."""
        for name, fact in dict(*given, **named).items():
            self[name] = fact

    def copy(self) -> Names:
        """As of a dict."""
        return Names(self)

    def below(self, path: str) -> list[str]:
        """The paths that go through one: `x.y` and `x["z"]` for `x`."""
        if path not in self._above:
            return []
        return [name for name in self if name.startswith((f"{path}.", f"{path}["))]

    def telling(self) -> dict[str, Fact]:
        """What tells of devices: first what does in any case, then tensors that may be on one."""
        at, telling, strays = self._index
        found = {name: telling[name] for name in sorted(telling, key=at.__getitem__)}
        for name in sorted(strays, key=at.__getitem__):
            found[name] = Fact(Form.TENSOR, anchor=Anchor(f"{name}.device", False))
        return found

    @cached_property
    def _index(self) -> _Index:
        made = _Index({name: number for number, name in enumerate(self)}, {}, {})
        for name, fact in self.items():
            made.put(name, fact)
        return made
