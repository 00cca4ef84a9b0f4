"""Tests for codemods, devfix's own and yours: the same properties for all.

With pytest:

```python
from devfix.testing import CodemodTests
from my_rule import MyRule


class TestMyRule(CodemodTests):
    codemod = MyRule
```

With anything else, `check(MyRule)` raises an AssertionError that says what does not hold. Both run the examples
of the codemod. With `cuda` they are also run with torch, before and after, on the CPU and on CUDA, which is
simulated where there is no GPU (this needs `devfix[smoke]`).
"""

from __future__ import annotations

import ast
import difflib
import inspect
import io
import pickle
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from functools import partial
from typing import Any, ClassVar

from devfix.codemod import Codemod, Example
from devfix.config import ConfigError, make
from devfix.documents import Document
from devfix.findings import Safety
from devfix.pipeline.runner import process
from devfix.reports.report import FileResult

__all__ = ["LAYOUTS", "CodemodTests", "check", "properties"]

# The ways in which one program may be written down.
LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "LF": lambda text: text.encode(),
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "no newline at the end": lambda text: text.rstrip("\n").encode(),
    "BOM": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "latin-1": lambda text: ("# -*- coding: latin-1 -*-\n# \xe9t\xe9\n" + text).encode("latin-1"),
    "form feed": lambda text: ("\f\n" + text).encode(),
    "tabs": lambda text: text.replace("    ", "\t").encode(),
    "non-ASCII above": lambda text: ('"""Größe — 大きさ."""\n\n' + text).encode(),
}
_HEADINGS = ("What it does", "Why is this bad?", "Fix safety")

Property = Callable[[], None]


def check(codemod: type[Codemod], *, cuda: bool = False) -> None:
    """Raise an AssertionError if anything does not hold for a codemod and its examples."""
    for name, holds in properties(codemod, cuda=cuda).items():
        try:
            holds()
        except AssertionError as error:
            raise AssertionError(f"{codemod.__name__}: {name}: {error}") from None


def properties(codemod: type[Codemod], *, cuda: bool = False) -> Mapping[str, Property]:
    """Everything that must hold, by name; each raises an AssertionError if it does not."""
    found: dict[str, Property] = {
        "is documented": partial(_documented, codemod),
        "is plain data": partial(_plain_data, codemod),
        "has examples": partial(_shown, codemod),
    }
    for example in codemod.examples:
        if example.recipe:
            continue
        title = example.title
        found[f"does what the example says: {title}"] = partial(_does, codemod, example)
        found[f"a second run changes nothing: {title}"] = partial(_idempotent, codemod, example)
        if example.after is not None:
            found[f"comments survive: {title}"] = partial(_comments, codemod, example)
            found[f"other lines stay: {title}"] = partial(_lines, codemod, example)
            for layout in LAYOUTS:
                found[f"{layout}: {title}"] = partial(_layout, codemod, example, layout)
        if cuda:
            found[f"runs with torch: {title}"] = partial(_runs, codemod, example)
    return found


class CodemodTests:
    """For a class of tests: every property of `codemod` is a test of its own."""

    codemod: ClassVar[type[Codemod]]
    cuda: ClassVar[bool] = False  # also run the examples with torch

    @staticmethod
    def pytest_generate_tests(metafunc: Any) -> None:
        """For pytest, which looks for this name."""
        kind = getattr(metafunc.cls, "codemod", None)
        if "holds" in metafunc.fixturenames and kind is not None:
            found = properties(kind, cuda=metafunc.cls.cuda)
            metafunc.parametrize("holds", list(found.values()), ids=list(found))

    def test_codemod(self, holds: Property) -> None:
        holds()


# --- the class -----------------------------------------------------------------------------------


def _documented(kind: type[Codemod]) -> None:
    lines = [line.strip() for line in (inspect.getdoc(kind) or "").splitlines() if line.strip()]
    assert lines and lines[0].endswith("."), "the docstring begins with a sentence that ends in a full stop"
    headings = [f"## {heading}" for heading in _HEADINGS]
    found = [line for line in lines if line in headings]
    assert found == headings, f"the docstring has the headings {', '.join(headings)}, in this order"
    for heading in headings:
        at = lines.index(heading) + 1
        assert at < len(lines) and not lines[at].startswith("#"), f"nothing stands under {heading}"


def _plain_data(kind: type[Codemod]) -> None:
    try:
        made, other = make(kind, {}), make(kind, {})
    except (ConfigError, TypeError) as error:
        raise AssertionError(
            f"it cannot be made without options ({error}); give each field a default"
        ) from None
    assert made == other and hash(made) == hash(other), "two of them with the same options are equal"
    if made.origin is None and "<locals>" not in kind.__qualname__:  # as it is sent to worker processes
        assert pickle.loads(pickle.dumps(made)) == made, "it is the same after it has been pickled"
    try:
        made.id = "other"  # type: ignore[misc]
    except FrozenInstanceError:
        return
    raise AssertionError("the class is decorated with @dataclass(frozen=True)")


def _shown(kind: type[Codemod]) -> None:
    titles = [example.title for example in kind.examples]
    assert len(titles) == len(set(titles)), "two examples have the same title"
    assert any(example.after is not None for example in kind.examples), "no example shows what is fixed"
    assert any(example.after is None for example in kind.examples), "no example shows what is left alone"
    assert kind.words and all(group and all(group) for group in kind.words), "`words` are texts in groups"


# --- an example ------------------------------------------------------------------------------------


def _run(kind: type[Codemod], example: Example, data: bytes, level: Safety | None = None) -> FileResult:
    codemod = make(kind, dict(example.options))
    result = process(Document.of("example.py", data), [codemod], example.safety if level is None else level)
    assert result.error is None, result.error.message
    assert not result.troubles, result.troubles[0].message
    return result


def _does(kind: type[Codemod], example: Example) -> None:
    assert example.before.endswith("\n"), "`before` ends with a newline"
    result = _run(kind, example, example.before.encode())
    if example.after is None:
        found = [f"line {finding.place.line}: {finding.message}" for finding in result.findings]
        assert not found, f"should be left alone, but: {'; '.join(found)}"
        return
    assert {finding.codemod for finding in result.findings} == {kind.id}, "nothing is found in it"
    refused = [finding.refusal for finding in result.findings if finding.refusal]
    after = (result.after or result.before).decode()
    assert after == example.after, _difference(example.after, after, refused)
    if example.safety < Safety.SAFE:
        higher = _run(kind, example, example.before.encode(), Safety(example.safety + 1)).after.decode()
        assert higher != example.after, (
            f"the fix is safer than the example's `safety`, {example.safety.label}"
        )


def _idempotent(kind: type[Codemod], example: Example) -> None:
    data = (example.after or example.before).encode()
    result = _run(kind, example, data)
    assert not result.changed, _difference(data.decode(), result.after.decode(), [])
    left = [f for f in result.findings if f.fix is not None and f.fix.safety >= example.safety]
    assert not left, f"its own result has findings: {left[0].message}" if left else ""


def _comments(kind: type[Codemod], example: Example) -> None:
    """Also comments that the example does not have, behind and between its lines."""
    before = _commented(example.before)
    after = _run(kind, example, before.encode()).after
    if not after:  # a comment silences nothing, but may keep a statement from being moved
        return
    ast.parse(after)
    lost = set(_found_comments(before.encode())) - set(_found_comments(after))
    assert not lost or kind.once, f"a comment is lost: {min(lost)}" if lost else ""


def _commented(text: str) -> str:
    """A program with a comment behind each line that can have one."""
    lines = text.split("\n")
    last = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.NL, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT):
            last[token.end[0]] = token.type
    for number, kind in last.items():
        if kind == tokenize.NEWLINE and not lines[number - 1].rstrip().endswith("\\"):
            lines[number - 1] += f"  # comment {number}"
    return "\n".join(lines)


def _found_comments(data: bytes) -> list[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


def _lines(kind: type[Codemod], example: Example) -> None:
    """What no edit touches is the same to the byte, trailing blanks and odd spacing included."""
    odd = "_odd  =  { 1:2 ,3 :4 }   \n"
    before = odd + example.before + "\n\n" + odd
    if "from __future__" in example.before or example.before.lstrip().startswith(('"""', "'''")):
        before = example.before + "\n\n" + odd
    after = _run(kind, example, before.encode()).after.decode()
    if after:
        assert before.count(odd) == after.count(odd), "a line that has nothing to do with it is changed"
        assert after.endswith(odd), "what comes behind it is changed"


def _layout(kind: type[Codemod], example: Example, layout: str) -> None:
    assert example.after is not None
    written = LAYOUTS[layout]
    after = _run(kind, example, written(example.before)).after
    if layout == "tabs":  # what is inserted may be wrapped with spaces of its own
        same = after.replace(b"\t", b"    ") == example.after.encode()
    else:
        same = after == written(example.after)
    shown = written(example.after).decode("utf-8", "replace"), after.decode("utf-8", "replace")
    assert same, _difference(*shown, [])
    assert not _run(kind, example, after).changed, "a second run changes something"


def _runs(kind: type[Codemod], example: Example) -> None:
    from devfix.smoke import check_example, numbers

    verdicts = list(check_example(example))
    failed = [verdict.detail for verdict in verdicts if verdict.ok is False]
    assert not failed, "; ".join(failed)
    if all(verdict.ok for verdict in verdicts):
        ran = verdicts[1 if example.raises_on_cpu else 0].run
        assert numbers(ran.output), "an example prints numbers, or there is nothing to compare"


def _difference(wanted: str, found: str, refused: list[str]) -> str:
    one, other = wanted.splitlines(), found.splitlines()
    if one == other:  # what differs is not to be seen otherwise: newlines, blanks, a byte order mark
        one, other = ([ascii(line)[1:-1] for line in text.splitlines(True)] for text in (wanted, found))
    lines = difflib.unified_diff(one, other, "as the example says", "as it is", lineterm="")
    why = "".join(f"\nrefused: {reason}" for reason in refused)
    return "the text is another one\n" + "\n".join(lines) + why
