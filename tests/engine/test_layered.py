"""`Layered` is a dict whose copies cost little: it does what dicts do, and knows what two copies differ in."""

from __future__ import annotations

import random

import pytest
from devfix.engine.layered import Layered


@pytest.mark.parametrize("seed", range(8))
def test_it_does_what_dicts_do(seed: int) -> None:
    """Random writes, deletions and copies of copies, each against a dict; keys of one pool, so they meet."""
    rng = random.Random(seed)
    pairs: list[tuple[Layered[int, str], dict[int, str]]] = [(Layered(), {})]
    for step in range(1500):
        one, plain = rng.choice(pairs)
        key = rng.randrange(400)
        what = rng.random()
        if what < 0.7:
            one[key] = plain[key] = f"{step}"
        elif what < 0.8:
            assert one.pop(key, None) == plain.pop(key, None)
        elif what < 0.81:
            one.clear()
            plain.clear()
        elif what < 0.9:
            pairs = [*pairs[-7:], (one.copy(), plain.copy())]
        assert (key in one, one.get(key)) == (key in plain, plain.get(key))
    for one, plain in pairs:
        assert len(one) == len(plain) and dict(one) == dict(one.items()) == plain
        for other, plain_other in pairs:
            differ = {key for key in {*plain, *plain_other} if plain.get(key) != plain_other.get(key)}
            assert differ <= set(one.changed(other))


def test_the_order_is_that_of_insertion() -> None:
    one: Layered[int, int] = Layered()
    keys = random.Random(0).sample(range(10_000), 2000)
    for key in keys:
        one[key] = key
        one.copy()
    assert list(one) == keys


def test_copies_are_compared_by_what_was_changed_since() -> None:
    one: Layered[int, int] = Layered()
    for key in range(5000):
        one[key] = key
    other = one.copy()
    one[1], other[9999] = -1, 1
    assert set(one.changed(other)) == {1, 9999}
