"""A mapping whose copies cost little: they share what neither has changed since, and only the rest is compared."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, MutableMapping
from typing import Any, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
L = TypeVar("L", bound="Layered[Any, Any]")

_SMALL = 32  # so much is copied
_GONE = object()  # what a key has that was deleted here, and is still there below


class _Items(ItemsView[K, V]):
    _mapping: Layered[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        own, below = self._mapping._own, self._mapping._flattened()
        for key, value in below.items():
            value = own.get(key, value)
            if value is not _GONE:
                yield key, value
        for key, value in own.items():
            if key not in below and value is not _GONE:
                yield key, value


class Layered(MutableMapping[K, V]):
    """In the order of insertion, as a dict; None is no value.

    `_below` is shared with copies and never changed: the newest layer first, each about twice as large as the one
    that was frozen after it, so there are few. A key counts in the newest layer that has it.
    """

    __slots__ = ("_below", "_flat", "_is_shared", "_notes", "_own")

    def __init__(self) -> None:
        self._own: dict[K, V] = {}
        self._is_shared = False  # is `_own` that of a copy as well? Whoever changes it copies it first
        self._below: tuple[dict[K, V], ...] = ()
        self._flat: dict[K, V] | None = None  # the layers below as one
        self._notes: Any = None  # of a subclass; all copies share them

    def copy(self: L) -> L:
        if len(self._own) > _SMALL:
            self._freeze()
        new = self.__class__.__new__(self.__class__)
        new._own, new._below, new._flat, new._notes = self._own, self._below, self._flat, self._notes
        new._is_shared = self._is_shared = True
        return new

    def _freeze(self) -> None:
        layer, below = self._own, self._below
        while below and len(below[0]) < 2 * len(layer):
            layer, below = {**below[0], **layer}, below[1:]
        self._own, self._below, self._flat, self._is_shared = {}, (layer, *below), None, False

    def _flattened(self) -> dict[K, V]:
        if self._flat is None:
            flat: dict[K, V] = {}
            for layer in reversed(self._below):
                flat.update(layer)
            self._flat = {key: value for key, value in flat.items() if value is not _GONE}
        return self._flat

    def changed(self, other: Layered[K, V]) -> Iterable[K]:
        """All keys whose values may differ, in the order of `other`; all others have the same values."""
        own, others = self._own, other._own
        if self._below is other._below:
            if own is others or own == others:
                return ()
            found = [key for key, value in others.items() if own.get(key) is not value]
            return found + [key for key in own if key not in others]
        keys: dict[K, V] = {}
        mine, theirs = list(self._below), list(other._below)
        while mine and theirs and mine[-1] is theirs[-1]:
            mine.pop()
            theirs.pop()
        for layer in (*reversed(theirs), *reversed(mine)):
            keys.update(layer)
        keys.update(others)
        keys.update(own)
        return keys

    @overload
    def get(self, key: K, default: None = None) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D) -> V | D: ...

    def get(self, key: K, default: V | D | None = None) -> V | D | None:
        found = self._own.get(key)
        if found is None and self._below:
            for layer in self._below:
                found = layer.get(key)
                if found is not None:
                    break
        return default if found is None or found is _GONE else found

    def __contains__(self, key: object) -> bool:
        return self.get(cast(K, key)) is not None

    def __getitem__(self, key: K) -> V:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        if self._is_shared:
            self._own, self._is_shared = self._own.copy(), False
        self._own[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        Layered.__setitem__(self, key, cast(V, _GONE))
        if not self._below:
            del self._own[key]

    def clear(self) -> None:
        self._own, self._below, self._flat, self._is_shared = {}, (), None, False

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.items())

    def items(self) -> _Items[K, V]:
        """As of a dict."""
        return _Items(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
