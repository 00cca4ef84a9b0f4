"""The tree of a YAML text: positions, tags, and nothing that a hostile file could do."""

from __future__ import annotations

import time

import pytest
from devfix.documents.yaml import LONGEST, YamlError, compose
from devfix.recipes.constants import OBJECT, scalar
from devfix.recipes.recipe import Recipe

TEXT = """\
seed: 1986 # é😀
rate: !ref <seed> * 2
path: !ref <seed>/a_<rate>.txt
net: !new:a.Net
  size: !ref <seed>
  shape: !tuple (1, 2)
  parts: [!ref <enc>, !copy <enc>]
enc: &enc !new:b.Enc
  - 3
  - yes
same: *enc
other: !ref <enc>
later: !PLACEHOLDER
run: !apply:os.system [echo no]
loss: !name:c.loss
  weight: !ref <net[size]>
more: !include:other.yaml
modules:
  net: !ref <net>
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_positions_are_characters_of_the_text(newline: str) -> None:
    text = TEXT.replace("\n", newline)
    root = compose(text)
    assert [text[key.start : key.end] for key, _ in root.pairs] == [key.value for key, _ in root.pairs]
    for node in root.walk():
        if node.kind == "scalar" and not node.tag:
            assert text[node.start : node.end] == node.value
    modules = root.get("modules")
    assert modules is not None and text[modules.start : modules.end] == "net: !ref <net>"


def test_what_refers_to_what() -> None:
    recipe = Recipe("x.yaml", TEXT)
    assert recipe.made("net") == "a.Net" and recipe.made("later") == "" and recipe.made("run") == ""
    assert recipe.target("other") == "enc"
    assert set(recipe.references(recipe.entries["net"])) == {"seed", "enc"}
    assert set(recipe.references(recipe.entries["path"])) == {"seed", "rate"}
    assert set(recipe.references(recipe.entries["loss"])) == {"net"}
    assert recipe.constant("seed") == 1986 and recipe.constant("rate") is OBJECT
    assert recipe.arguments(recipe.entries["enc"]) == {"0": 3, "1": True}
    assert [held.entry for held in recipe.holders["enc"]] == ["net", "net"]
    assert recipe.listed == {"net"} and recipe.clear  # what is included stands below `more`


@pytest.mark.parametrize(
    "text",
    ["a: &a [*a]", "a: *b", "a: [", "a: 1\n---\nb: 2", "", "a: \x00", "\t- a", "x" * (LONGEST + 1)],
    ids=["in itself", "no anchor", "open", "two", "empty", "NUL", "tab", "long"],
)
def test_refused(text: str) -> None:
    with pytest.raises(YamlError):
        compose(text)


def test_many_laughs_and_deep_nests_cost_nothing() -> None:
    laughs = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    start = time.perf_counter()
    recipe = Recipe("x.yaml", "\n".join(laughs) + "\nn: !new:a.B [*a39]\nmodules:\n  n: !ref <n>\n")
    assert recipe.holders and len(list(recipe.references(recipe.root))) < 1000
    with pytest.raises(YamlError):
        compose("[" * 200_000 + "]" * 200_000)
    assert time.perf_counter() - start < 60


def test_nothing_is_constructed() -> None:
    root = compose("a: !!python/object/apply:os._exit [1]\nb: !apply:os._exit [1]\nc: !new:os._exit [1]\n")
    assert [value.kind for _, value in root.pairs] == ["sequence"] * 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e-3", 0.001),
        ("yes", True),
        ("'yes'", "yes"),
        ("~", None),
        ("", None),
        (".", "."),
        ("a", "a"),
    ],
)
def test_constants(text: str, value: object) -> None:
    node = compose(f"a: {text}").get("a")
    assert node is not None and scalar(node) == value
