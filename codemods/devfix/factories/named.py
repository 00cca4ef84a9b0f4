"""The names of a function that is followed, and what they stand for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from devfix.factories.values import Anchor, Fact, Form


class Names(dict[str, Fact]):
    """Names and paths; those that tell of devices, and those below others, are found without a look at all."""

    def __setitem__(self, name: str, fact: Fact) -> None:
        if "_index" in self.__dict__:
            at, telling, strays = self._index
            at.setdefault(name, len(at) and next(reversed(at.values())) + 1)
            telling.pop(name, None)
            strays.pop(name, None)
            if (wanted := self._wanted(name, fact, telling, strays)) is not None:
                wanted[name] = fact
        if "_above" in self.__dict__:
            self._above.update(_prefixes(name))
        super().__setitem__(name, fact)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if "_index" in self.__dict__:
            for one in self._index:
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
    def _above(self) -> set[str]:
        return {prefix for name in self for prefix in _prefixes(name)}

    @cached_property
    def _index(self) -> tuple[dict[str, int], dict[str, Fact], dict[str, Fact]]:
        """The order of the names, and of the two kinds that tell what they stand for."""
        telling: dict[str, Fact] = {}
        strays: dict[str, Fact] = {}
        for name, fact in self.items():
            if (wanted := self._wanted(name, fact, telling, strays)) is not None:
                wanted[name] = fact
        return {name: number for number, name in enumerate(self)}, telling, strays

    def _wanted(
        self, name: str, fact: Fact, telling: dict[str, Fact], strays: dict[str, Fact]
    ) -> dict[str, Fact] | None:
        if (
            fact.form is Form.DEVICE
            or fact.placed
            or (fact.form is Form.MAYBE and "." not in name)
            or (fact.form is Form.LIST and any(item.placed for item in fact.items))
            or (fact.form is Form.OTHER and fact.anchor is not None)
        ):
            return telling
        return strays if fact.stray and fact.anchor is not None and name.isidentifier() else None


def _prefixes(path: str) -> set[str]:
    return {path[:at] for at, character in enumerate(path) if character in ".["}
