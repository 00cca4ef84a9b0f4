"""How two places relate."""

from __future__ import annotations

import pytest
from devfix.engine.places import (
    APART,
    AT_DEFAULT,
    DIFFERENT,
    FIXED,
    NOWHERE,
    ON_CPU,
    OPEN,
    SAME,
    VAR,
    Place,
    literal,
    relate,
)

CHOSEN = Place(VAR, "device")
RELATIONS = [
    ("cuda", "cuda", SAME),
    ("cuda:1", "cuda:1", SAME),
    ("cuda:0", "cuda:1", APART),
    ("cuda", "cuda:1", APART),
    ("cuda", "cuda:0", OPEN),  # the first one, unless the file sets another
    ("cuda:1", "mps", DIFFERENT),
    ("cuda", "cpu", DIFFERENT),
    ("cpu", AT_DEFAULT, SAME),
    ("cuda", CHOSEN, FIXED),
    ("cpu", CHOSEN, DIFFERENT),
    (CHOSEN, CHOSEN, SAME),
    (CHOSEN, Place(VAR, "other"), OPEN),
    ("cuda", NOWHERE, OPEN),
    (NOWHERE, NOWHERE, OPEN),
    (ON_CPU, NOWHERE, OPEN),
]


@pytest.mark.parametrize("one, other, relation", RELATIONS)
def test_relation(one: Place | str, other: Place | str, relation: str) -> None:
    a, b = (literal(each) if isinstance(each, str) else each for each in (one, other))
    assert a is not None and b is not None
    assert relate(a, b) == relate(b, a) == relation
