"""What was found where, as rows of bars: by codemod and by folder, each by safety."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

KINDS = ("safe", "unsafe", "manual", "none")
_MOST = 9
_LONG = 32


@dataclass(frozen=True)
class Bar:
    """One kind's part of a row; `at` and `width` in thousandths of the longest row."""

    kind: str
    count: int
    at: int
    width: int


@dataclass(frozen=True)
class Row:
    """One codemod or folder; `key` is what a filter on it looks for, empty where there is none."""

    label: str
    whole: str
    key: str
    count: int
    bars: tuple[Bar, ...]
    numbers: tuple[int, ...]


def rows(found: Iterable[tuple[str, str, str]]) -> list[Row]:
    """Rows of (key, label, safety), the longest first; the last ones together."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for key, label, safety in found:
        counts.setdefault((key, label), Counter())[safety] += 1
    ranked = sorted(counts.items(), key=lambda pair: (-sum(pair[1].values()), pair[0]))
    rest = ranked[_MOST:] if len(ranked) > _MOST + 1 else []
    if rest:
        other: Counter[str] = Counter()
        for _, counter in rest:
            other.update(counter)
        ranked = [*ranked[:_MOST], (("", f"{len(rest)} others"), other)]
    most = max((sum(counter.values()) for _, counter in ranked), default=1)
    short = _shortened([label for (_, label), _ in ranked])
    return [_row(key, short[label], label, counter, most) for (key, label), counter in ranked]


def _shortened(labels: list[str]) -> dict[str, str]:
    """Long paths by their first folder and as many of the last ones as tell them apart."""
    return {label: next(text for text in _shorter(label) if _is_of_one(text, labels)) for label in labels}


def _shorter(label: str) -> Iterator[str]:
    parts = label.split("/")
    if len(label) > _LONG:
        for kept in range(1, len(parts) - 1):
            yield "/".join((parts[0], "…", *parts[-kept:]))
    yield label


def _is_of_one(text: str, labels: list[str]) -> bool:
    start, dots, end = text.partition("…")
    return not dots or sum(1 for label in labels if label.startswith(start) and label.endswith(end)) == 1


def _row(key: str, label: str, whole: str, counter: Counter[str], most: int) -> Row:
    numbers = tuple(counter[kind] for kind in KINDS)
    return Row(label, whole, key, sum(numbers), bars(dict(zip(KINDS, numbers, strict=True)), most), numbers)


def bars(counts: Mapping[str, int], most: int) -> tuple[Bar, ...]:
    """The parts of a row, side by side, of those that are not 0; `most` is the length of the longest one."""
    found, done = [], 0
    for kind, count in counts.items():
        if count:
            start = round(1000 * done / most)
            done += count
            found.append(Bar(kind, count, start, max(round(1000 * done / most) - start, 4)))
    return tuple(found)
