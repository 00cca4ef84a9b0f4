"""Insertions under `modules:`: the form of the file stays, and the meaning is what it was and one entry more."""

from __future__ import annotations

import pytest
from devfix.recipes.inserting import doubt, listing
from devfix.recipes.recipe import Recipe

TOP = "a: !new:torch.nn.ReLU\nb: !new:torch.nn.ReLU\n"
FORMS = {
    "four": ("modules:\n    a: !ref <a>\n", "modules:\n    a: !ref <a>\n    b: !ref <b>\n"),
    "three": ("modules:\n   a: !ref <a>\nc: 1\n", "modules:\n   a: !ref <a>\n   b: !ref <b>\nc: 1\n"),
    "two": ("modules:\n  a: !ref <a>\n\n\nc: 1\n", "modules:\n  a: !ref <a>\n  b: !ref <b>\n\n\nc: 1\n"),
    "comments": (
        "modules: # on\n    # first\n\n    a: !ref <a> # one\n    # b: !ref <b>\n\n# next\nc: 1\n",
        "modules: # on\n    # first\n\n    a: !ref <a> # one\n    b: !ref <b>\n    # b: !ref <b>\n\n# next\nc: 1\n",
    ),
    "windows": (
        "modules:\r\n    a: !ref <a>\r\nc: 1\r\n",
        "modules:\r\n    a: !ref <a>\r\n    b: !ref <b>\r\nc: 1\r\n",
    ),
    "no last newline": ("modules:\n    a: !ref <a>", "modules:\n    a: !ref <a>\n    b: !ref <b>"),
    "made inside": (
        "modules:\n  a: !new:x.Y\n    n: [1,\n      2]\n    m: |\n      text\n\nc: 1\n",
        "modules:\n  a: !new:x.Y\n    n: [1,\n      2]\n    m: |\n      text\n  b: !ref <b>\n\nc: 1\n",
    ),
    "nothing listed": (
        "c:\n  d: 1\nmodules: # none\nf: 2\n",
        "c:\n  d: 1\nmodules: # none\n  b: !ref <b>\nf: 2\n",
    ),
    "braces": ("modules: {a: !ref <a>}\n", "modules: {a: !ref <a>, b: !ref <b>}\n"),
    "braces over lines": (
        "modules: {\n  a: !ref <a>, # one\n}\n",
        "modules: {\n  a: !ref <a>, b: !ref <b>, # one\n}\n",
    ),
    "empty braces": ("modules: {}\n", "modules: {b: !ref <b>}\n"),
    "by reference": (
        "all:\n    a: !ref <a>\nmodules: !ref <all>\n",
        "all:\n    a: !ref <a>\n    b: !ref <b>\nmodules: !ref <all>\n",
    ),
    "quoted": ('modules:\n    "a": !ref <a>\n', 'modules:\n    "a": !ref <a>\n    b: !ref <b>\n'),
    "not ASCII": (
        "# größer 😀\nmodules:\n    a: !ref <a>\n",
        "# größer 😀\nmodules:\n    a: !ref <a>\n    b: !ref <b>\n",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    before, expected = (TOP + text for text in FORMS[name])
    edit = listing(Recipe("x.yaml", before), "b", "b")
    assert edit is not None
    after = before[: edit.span.start] + edit.text + before[edit.span.end :]
    assert after == expected
    assert doubt(before, after) == ""
    assert Recipe("x.yaml", after).listed == Recipe("x.yaml", before).listed | {"b"}


@pytest.mark.parametrize(
    "text", ["modules: ~\n", "modules: null\n", "modules:\n  ? a\n  : !ref <a>\n", "modules: [a]\n"]
)
def test_unusual_forms_are_left_alone(text: str) -> None:
    recipe = Recipe("x.yaml", TOP + text)
    assert not recipe.clear or listing(recipe, "b", "b") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    a: !ref <a>\n", ""),
        ("<a>\n", "<b>\n"),
        ("<a>\n", "<a>\n    b: !ref <nothing>\n"),
        ("<a>\n", "<a>\n    b: !new:torch.nn.ReLU\n"),
        ("<a>\n", "<a>\nc: 1\n"),
        ("<a>\n", "<a>\n  b: !ref <b>\n"),
        ("ReLU\nb", "ReLU\n    b: 1\nb"),
    ],
)
def test_anything_else_is_doubted(old: str, new: str) -> None:
    before = TOP + "modules:\n    a: !ref <a>\n"
    assert old in before
    assert doubt(before, before.replace(old, new, 1)) != ""
