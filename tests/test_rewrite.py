"""The rewriter, case by case as text in and text out, and by properties over generated programs."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

import pytest
from devfix.findings import (
    AppendCall,
    DeleteStatement,
    Edit,
    EnsureImport,
    Fix,
    InsertGuard,
    InsertStatement,
    MoveStatement,
    ReplaceExpression,
    ReplaceText,
    SetArgument,
    Span,
    TextEdit,
    WrapExpression,
    WrapStatement,
)
from devfix.rewrite import CannotRewrite, apply, merge, select, text_edits, verify
from devfix.text.source import Source
from hypothesis import assume, given, settings
from hypothesis import strategies as st

Make = Callable[[str], Edit]


def at(text: str, code: str, nth: int = 0) -> Span:
    """Where the nth `code` stands in `text`."""
    start = -1
    for _ in range(nth + 1):
        start = text.index(code, start + 1)
    return Span(start, start + len(code))


def rewrite(text: str, *edits: Edit) -> str:
    found = text_edits(Source(text), Fix("try it", edits))
    assert list(found) == sorted(found, key=lambda edit: edit.span)
    result = apply(text, found)
    verify(text, found, result)
    return result


def body(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def indented(text: str) -> str:
    """Every line that has something on it four blanks further in; `textwrap` sees U+2028 as a line."""
    return "\n".join("    " + line if line.strip() else line for line in text.split("\n"))


# --- statements ------------------------------------------------------------------------------------


def move(code: str, after: str, nth: int = 0) -> Make:
    return lambda text: MoveStatement(at(text, code, nth), at(text, after))


def insert(anchor: str, new: str, before: bool = False) -> Make:
    return lambda text: InsertStatement(at(text, anchor), new, before)


def delete(code: str, nth: int = 0) -> Make:
    return lambda text: DeleteStatement(at(text, code, nth))


def wrap(code: str, header: str) -> Make:
    return lambda text: WrapStatement(at(text, code), header)


STATEMENTS: dict[str, tuple[str, list[Make], str]] = {
    "move": (
        """
        model.to(device)
        model.eval()
        model.out_head = Linear(2, 3)
        train(model)
        """,
        [move("model.to(device)", "model.out_head = Linear(2, 3)")],
        """
        model.eval()
        model.out_head = Linear(2, 3)
        model.to(device)
        train(model)
        """,
    ),
    "move: its comment travels where it stands alone": (
        """
        def f():
            a()

            # on the GPU
            model.to(device)  # now

            model.head = Linear()
            train()
        """,
        [move("model.to(device)", "model.head = Linear()")],
        """
        def f():
            a()

            model.head = Linear()
            # on the GPU
            model.to(device)  # now
            train()
        """,
    ),
    "move: the heading of a paragraph stays": (
        """
        # Prepare
        import os
        # Set up
        model.to(device)
        model.eval()
        model.head = Linear()  # new
        """,
        [move("model.to(device)", "model.head = Linear()")],
        """
        # Prepare
        import os
        # Set up
        model.eval()
        model.head = Linear()  # new
        model.to(device)
        """,
    ),
    "move: a cell marker stays": (
        """
        import os
        # %%
        model.to(device)

        model.head = Linear()
        """,
        [move("model.to(device)", "model.head = Linear()")],
        """
        import os
        # %%

        model.head = Linear()
        model.to(device)
        """,
    ),
    "move: out of both arms, one goes and one moves": (
        """
        if a:
            model.to(device)
        else:
            load()
            model.to(device)
        model.head = Linear()
        """,
        [delete("model.to(device)"), move("model.to(device)", "model.head = Linear()", 1)],
        """
        if a:
            pass
        else:
            load()
        model.head = Linear()
        model.to(device)
        """,
    ),
    "move: several lines into a deeper block, its string stays as it is": (
        '''
        x = f(a,
              """one
          two""",
              "b"  # why
              "c")
        if x:
            y = 1
        ''',
        [],
        "",
    ),
    "move: out of the body's end to behind the body": (
        """
        if a:
            b()
            model.to(device)
        c()
        """,
        [lambda text: MoveStatement(at(text, "model.to(device)"), Span(0, at(text, "device)").end))],
        """
        if a:
            b()
        model.to(device)
        c()
        """,
    ),
    "move: the only one of a body to behind the body": (
        """
        if a:
            model.to(device)  # now
        c()
        """,
        [lambda text: MoveStatement(at(text, "model.to(device)"), Span(0, at(text, "device)").end))],
        """
        if a:
            pass
        model.to(device)  # now
        c()
        """,
    ),
    "move: with an edit inside it": (
        """
        model.to(device)
        model.head = Linear()
        """,
        [
            move("model.to(device)", "model.head = Linear()"),
            lambda text: SetArgument(at(text, "model.to(device)"), "non_blocking", "True"),
            lambda text: SetArgument(at(text, "Linear()"), "bias", "False"),
        ],
        """
        model.head = Linear(bias=False)
        model.to(device, non_blocking=True)
        """,
    ),
    "move: two to one anchor, in the order given": (
        "a()\nb()\nc()\n",
        [move("b()", "c()"), move("a()", "c()")],
        "c()\nb()\na()\n",
    ),
    "move: behind a semicolon's neighbour": (
        "model.to(d); model.head = L()  # c\ntrain()\n",
        [move("model.to(d)", "model.head = L()")],
        "model.head = L()  # c\nmodel.to(d)\ntrain()\n",
    ),
    "delete: from a line of three": ("a(); b(); c()  # x\n", [delete("b()")], "a(); c()  # x\n"),
    "delete: first of a line": ("a(); b()\n", [delete("a()")], "b()\n"),
    "delete: last of a line": ("a(); b()  # x\n", [delete("b()")], "a()  # x\n"),
    "delete: all of a line": ("x()\na(); b()\ny()\n", [delete("a()"), delete("b()")], "x()\ny()\n"),
    "delete: one-line suite": ("if x: y.to(d)\nz()\n", [delete("y.to(d)")], "if x: pass\nz()\n"),
    "delete: one of a one-line suite": ("if x: a(); y.to(d)\n", [delete("y.to(d)")], "if x: a()\n"),
    "delete: comments stay": ("a()\n# why\nb()  # how\nc()\n", [delete("b()")], "a()\n# why\n# how\nc()\n"),
    "delete: one gap of two": ("a()\n\nb()\n\n\nc()\n", [delete("b()")], "a()\n\n\nc()\n"),
    "delete: the gap at the end": ("a()\n\nb()\n", [delete("b()")], "a()\n"),
    "delete: a gap under the header": (
        "def f():\n    a()\n\n    b()\n",
        [delete("a()")],
        "def f():\n    b()\n",
    ),
    "delete: a whole paragraph of two": (
        "a()\n\nb()\nc()\n\nd()\n",
        [delete("b()"), delete("c()")],
        "a()\n\nd()\n",
    ),
    "delete: a body of two": (
        "for x in y:\n    a()\n    b()  # c\nz()\n",
        [delete("a()"), delete("b()")],
        "for x in y:\n    pass\n    # c\nz()\n",
    ),
    "delete: decorated": (
        "a()\n@d(1)\n@e\ndef f():\n    pass\nb()\n",
        [delete("@d(1)\n@e\ndef f():\n    pass")],
        "a()\nb()\n",
    ),
    "delete and insert: replaced": (
        "def f():\n    a()\n",
        [delete("a()"), insert("a()", "b()"), insert("a()", "z()", before=True)],
        "def f():\n    z()\n    b()\n",
    ),
    **{
        f"move: {blank!r} behind a comment": (
            f"a()  # x{blank}\nb()  # y{blank}\n",
            [lambda text: MoveStatement(at(text, "a()"), at(text, "b()"))],
            f"b()  # y{blank}\na()  # x{blank}\n",
        )
        for blank in (" ", "\t", "\f", " \f\t ")
    },
    "insert: behind a comment on the line": (
        "a()  # x\nb()\n",
        [insert("a()", "n()")],
        "a()  # x\nn()\nb()\n",
    ),
    "insert: above the anchor's comment": (
        "def f():\n    a()\n    # about b\n    b()\n",
        [insert("b()", "n()", before=True)],
        "def f():\n    a()\n    n()\n    # about b\n    b()\n",
    ),
    "insert: below the file's header": (
        "#!/usr/bin/env python\n# Copyright\na()\n",
        [insert("a()", "n()", before=True)],
        "#!/usr/bin/env python\n# Copyright\nn()\na()\n",
    ),
    "insert: above decorators": (
        "a()\n@d\ndef f(): pass\n",
        [insert("@d\ndef f(): pass", "n()", before=True)],
        "a()\nn()\n@d\ndef f(): pass\n",
    ),
    "insert: behind a whole body and its last comment": (
        "with a:\n    b()\n    # end of b\n# about c\nc()\n",
        [lambda text: InsertStatement(Span(0, at(text, "b()").end), "n()")],
        "with a:\n    b()\n    # end of b\nn()\n# about c\nc()\n",
    ),
    "insert: behind a body and behind its last statement": (
        "if a:\n    b()\nc()\n",
        [lambda text: InsertStatement(Span(0, at(text, "b()").end), "n()"), insert("b()", "m()")],
        "if a:\n    b()\n    m()\nn()\nc()\n",
    ),
    "insert: several lines": (
        "def f():\n    a()\n",
        [insert("a()", 'if x:\n    y = """p\n  q"""\n\n    z(1,\n      2)')],
        'def f():\n    a()\n    if x:\n        y = """p\n  q"""\n\n        z(1,\n          2)\n',
    ),
    "insert: before, in a one-line suite": (
        "if x: a()  # c\nelse: b()\n",
        [insert("a()", "n()", before=True)],
        "if x:\n    n()\n    a()  # c\nelse: b()\n",
    ),
    "insert: after, in a one-line suite of two": (
        "while 1:\n    if x: a(); b()  # c\n",
        [insert("a()", "n()")],
        "while 1:\n    if x:\n        a()\n        n()\n        b()  # c\n",
    ),
    "insert: in a line of three": (
        "a(); b(); c()  # x\nd()\n",
        [insert("b()", "n()"), insert("c()", "m()"), insert("a()", "k()", before=True)],
        "k()\na(); b()\nn()\nc()  # x\nm()\nd()\n",
    ),
    "insert: behind an else on one line": (
        "if x: a()\nelse: b()\nc()\n",
        [lambda text: InsertStatement(Span(0, at(text, "b()").end), "n()")],
        "if x: a()\nelse: b()\nn()\nc()\n",
    ),
    "insert: first of an except body": (
        "try:\n    a()\nexcept E:\n    # hm\n    b()\n",
        [insert("b()", "n()", before=True)],
        "try:\n    a()\nexcept E:\n    n()\n    # hm\n    b()\n",
    ),
    "insert: in a case": (
        "match x:\n    case 1: a()\n    case _:\n        b()\n",
        [insert("a()", "n()"), insert("b()", "m()")],
        "match x:\n    case 1:\n        a()\n        n()\n    case _:\n        b()\n        m()\n",
    ),
    "insert: a guard": (
        "def f(x):\n    # y\n    return x\n",
        [lambda text: InsertGuard(at(text, "return x"), "x.is_cuda", "x = x.cpu()\nlog(x)")],
        "def f(x):\n    if x.is_cuda:\n        x = x.cpu()\n        log(x)\n    # y\n    return x\n",
    ),
    "wrap: with its comments and blank lines, and an edit inside": (
        "a()\n# above\nfor x in y:\n    b(x)  # one\n\n    # two\n    c()  # last\n\nd()\n",
        [
            lambda text: WrapStatement(
                Span(text.index("for x"), at(text, "c()").end), "with torch.no_grad():"
            ),
            lambda text: AppendCall(at(text, "x", 1), ".cpu()"),
            insert("d()", "e()"),
        ],
        "a()\n# above\nwith torch.no_grad():\n    for x in y:\n        b(x.cpu())  # one\n\n        # two\n"
        "        c()  # last\n\nd()\ne()\n",
    ),
    "wrap: and something above and below": (
        "if a:\n    b()  # c\n",
        [wrap("b()", "if x:"), insert("b()", "m()"), insert("b()", "k()", before=True)],
        "if a:\n    k()\n    if x:\n        b()  # c\n    m()\n",
    ),
    "wrap: a string stays as it is": (
        'x = f("""one\n  two""",\n      3)\ny()\n',
        [lambda text: WrapStatement(Span(0, at(text, "3)").end), "with z:")],
        'with z:\n    x = f("""one\n  two""",\n          3)\ny()\n',
    ),
    "insert: twice the same is meant": (
        "a()\n",
        [insert("a()", "n()"), insert("a()", "n()")],
        "a()\nn()\nn()\n",
    ),
    "insert: a line that ends in a semicolon": (
        "a();  # c\nb()\n",
        [insert("a()", "n()")],
        "a();  # c\nn()\nb()\n",
    ),
    "insert: continued lines": (
        "x = 1; \\\n    y = 2\nz()\n",
        [insert("x = 1", "n()")],
        "x = 1\nn()\ny = 2\nz()\n",
    ),
    "insert: continued header": (
        "if x: \\\n    y = 2\nz()\n",
        [insert("y = 2", "n()")],
        "if x:\n    y = 2\n    n()\nz()\n",
    ),
    "insert: behind a form feed": ("a()\n\fb()\n", [insert("b()", "n()", before=True)], "a()\n\fn()\nb()\n"),
    "insert: U+2028 and accents are no lines": (
        "x = 'é\u2028ß'; yé()\nz()\n",
        [insert("yé()", "n()")],
        "x = 'é\u2028ß'; yé()\nn()\nz()\n",
    ),
}
MULTILINE = 'x = f(a,\n      """one\n  two""",\n      "b"  # why\n      "c")\nif x:\n    y = 1\n'
STATEMENTS["move: several lines into a deeper block, its string stays as it is"] = (
    MULTILINE,
    [lambda text: MoveStatement(Span(0, at(text, '"c")').end), at(text, "y = 1"))],
    'if x:\n    y = 1\n    x = f(a,\n          """one\n  two""",\n          "b"  # why\n          "c")\n',
)


@pytest.mark.parametrize("form", ["lf", "crlf", "cr", "no final newline", "tabs", "inside"])
@pytest.mark.parametrize("title", STATEMENTS)
def test_statements(title: str, form: str) -> None:
    before, makes, after = STATEMENTS[title]
    before, after = body(before), body(after)

    def shaped(text: str) -> str:
        if form == "crlf":
            return text.replace("\n", "\r\n")
        if form == "cr":
            return text.replace("\n", "\r")
        if form == "no final newline":
            return text.removesuffix("\n")
        if form == "tabs":
            return text.replace("    ", "\t")
        return text

    spans = [make(before) for make in makes]
    if form in ("lf", "crlf", "cr", "no final newline"):
        text, wanted = shaped(before), shaped(after)
        edits = [_shift(edit, before, text, form) for edit in spans]
        result = rewrite(text, *edits)
        if form == "no final newline":
            result, wanted = result.rstrip("\n"), wanted.rstrip("\n")
        assert result == wanted
    elif form == "tabs":
        if "    " not in before or '"""' in before or "\\" in before or "(1,\n" in after:
            return  # alignment by blanks, which tabs do not keep
        text = shaped(before)
        assert rewrite(text, *[_shift(edit, before, text, form) for edit in spans]) == shaped(after)
    else:
        if '"""' in before or '"""' in after or "\f" in before:
            return
        text = "class C:\n" + indented(before)
        edits = [_shift(edit, before, text, form) for edit in spans]
        result = rewrite(text, *edits)
        if title not in ("delete: the gap at the end", "insert: below the file's header"):
            assert result == "class C:\n" + indented(after)


def _shift(edit: Edit, old: str, new: str, form: str) -> Edit:
    """The same edit in the same text of another shape."""

    def offset(at: int) -> int:
        head = old[:at]
        if form == "crlf":
            return len(head) + head.count("\n")
        if form == "tabs":
            return len(head.replace("    ", "\t"))
        if form == "inside":
            above = old.split("\n")[: head.count("\n") + 1]
            return at + len("class C:\n") + 4 * sum(bool(line.strip()) for line in above)
        return at

    changed = {
        name: Span(offset(value.start), offset(value.end))
        for name, value in vars(edit).items()
        if isinstance(value, Span)
    }
    for span in changed.values():
        assert span.end <= len(new)
    return type(edit)(**{**vars(edit), **changed})


def test_newlines_follow_the_neighbouring_line() -> None:
    text = "a()\r\nb()\nc()\r\n"
    got = rewrite(text, InsertStatement(at(text, "a()"), "m()\nn()"), InsertStatement(at(text, "b()"), "k()"))
    assert got == "a()\r\nm()\r\nn()\r\nb()\nk()\nc()\r\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a\r\nb\r\n", "c\r\nd\r\nb\r\n"),
        ("a\rb\r", "c\rd\rb\r"),
        ("a\nb\n", "c\nd\nb\n"),
        ("a\r\nb\n", "c\nd\r\nb\n"),  # mixed: as it was given
    ],
)
def test_replaced_text_has_the_newlines_of_the_file(text: str, after: str) -> None:
    assert rewrite(text, ReplaceText(at(text, "a"), "c\nd")) == after


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("if a:\n    b()\nelif c:\n    d()\n", insert("elif c:\n    d()", "n()")),
        ("a()\nb()\n", insert("a", "n()")),
        ("a()\nb()\n", insert("a()", "n(")),
        ("a()\nb()\n", insert("a()", "# only a comment")),
        ("f(  # one\n  2)\n", delete("f(  # one\n  2)")),
        ("if a:\n    b()  # one\nc()\n", delete("if a:\n    b()")),
        ("if a:\n    b()\n", lambda text: MoveStatement(Span(0, len(text) - 1), at(text, "b()"))),
        ("a() \\\n\nb()\n", insert("a()", "n()")),
        ("a(); b()\n", wrap("b()", "if x:")),
        ("a()\n", wrap("a()", "if x")),
        ("a()\n", wrap("a()", "if x: pass")),
        ("a()\n", wrap("a()", "b()\nif x:")),
        ("a()\n", lambda text: InsertGuard(at(text, "a()"), "x y", "b()")),
    ],
)
def test_unclear_statements_are_refused(text: str, make: Make) -> None:
    if "# one\nc" in text:
        text, make = text, lambda t: DeleteStatement(Span(0, at(t, "b()").end))
        assert rewrite(text, make(text)) == "# one\nc()\n"
        return
    with pytest.raises(CannotRewrite):
        rewrite(text, make(text))


def test_edits_that_contradict_each_other_are_refused() -> None:
    text = "x = f(a)\ny = 2\nz = 3\n"
    first, second, third = at(text, "x = f(a)"), at(text, "y = 2"), at(text, "z = 3")
    for edits in (
        (DeleteStatement(first), AppendCall(at(text, "a"), ".b")),
        (DeleteStatement(first), MoveStatement(first, second)),
        (MoveStatement(first, second), MoveStatement(first, third)),
        (MoveStatement(first, third), InsertStatement(first, "n()")),
        (MoveStatement(first, third), WrapStatement(first, "if a:")),
        (WrapStatement(first, "if a:"), WrapStatement(first, "if b:")),
        (ReplaceExpression(at(text, "f(a)"), "g"), AppendCall(at(text, "a"), ".b")),
        (SetArgument(at(text, "f(a)"), "k", "1"), SetArgument(at(text, "f(a)"), "k", "2")),
    ):
        with pytest.raises(CannotRewrite):
            rewrite(text, *edits)


# --- expressions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "after"),
    [
        ("y = x", "x", "y = x.to(d)"),
        ("y = a + b", "a + b", "y = (a + b).to(d)"),
        ("y = (a + b) * c", "a + b", "y = (a + b).to(d) * c"),
        ("y = f(a + b)", "a + b", "y = f((a + b).to(d))"),
        ("y = -x", "x", "y = -x.to(d)"),
        ("y = -x", "-x", "y = (-x).to(d)"),
        ("y = await x", "await x", "y = (await x).to(d)"),
        ("f(lambda: x)", "lambda: x", "f((lambda: x).to(d))"),
        ("f(a if b else c)", "a if b else c", "f((a if b else c).to(d))"),
        ("y = yield x", "yield x", "y = (yield x).to(d)"),
        ("y = 1", "1", "y = (1).to(d)"),
        ("y = 'a' 'b'", "'a' 'b'", "y = ('a' 'b').to(d)"),
        ("y = 'ab'", "'ab'", "y = 'ab'.to(d)"),
        ("y = a, b", "a, b", "y = (a, b).to(d)"),
        ("y = (a), (b)", "(a), (b)", "y = ((a), (b)).to(d)"),
        ("y = (a, b)", "(a, b)", "y = (a, b).to(d)"),
        ("y = q[a, b]", "a, b", "y = q[(a, b).to(d)]"),
        ("f(x for x in y)", "(x for x in y)", "f((x for x in y).to(d))"),
        ("f((x for x in y))", "(x for x in y)", "f((x for x in y).to(d))"),
        ("if (n := f()): pass", "n := f()", "if (n := f()).to(d): pass"),
        ("y = (a\n     + b)", "a\n     + b", "y = (a\n     + b).to(d)"),
        ("y = (  # c\n  a + b)", "a + b", "y = (  # c\n  (a + b).to(d))"),
        ("y = a + \\\n  b", "a + \\\n  b", "y = (a + \\\n  b).to(d)"),
        ("y = [x]if c else e", "[x]", "y = [x].to(d)if c else e"),
        ("return(x)", "x", "return(x.to(d))"),
        ("f(é, ß(x), *z)", "ß(x)", "f(é, ß(x).to(d), *z)"),
        ("f(*z)", "z", "f(*z.to(d))"),
        ("f(k=not x)", "not x", "f(k=(not x).to(d))"),
        ("x = {**a}", "a", "x = {**a.to(d)}"),
        ("@a.b\ndef f(): pass", "a.b", "@a.b.to(d)\ndef f(): pass"),
        ("y = f'{x}'", "f'{x}'", "y = f'{x}'.to(d)"),
    ],
)
def test_append(text: str, code: str, after: str) -> None:
    assert rewrite(text, AppendCall(at(text, code), ".to(d)")) == after


@pytest.mark.parametrize(
    ("text", "code", "before", "behind", "after"),
    [
        ("f(self.device)", "self.device", "torch.device(", ").type", "f(torch.device(self.device).type)"),
        ("f(a, b)", "a, b", "", "", None),
        ("y = a, b", "a, b", "g(", ")", "y = g((a, b))"),
        ("y = a + b", "a + b", "g(", ")", "y = g(a + b)"),
        ("y = a + b", "a", "g(", ")", "y = g(a) + b"),
        ("y = a ** b", "b", "-", "", "y = a ** (-b)"),
        ("y = a + b", "b", "not ", "", "y = a + (not b)"),
        ("return[a]", "[a]", "g(", ")", "return g([a])"),
        ("f(a for a in b)", "(a for a in b)", "g(", ")", "f(g((a for a in b)))"),
        ("f(y := 1)", "y := 1", "g(", ")", "f(g((y := 1)))"),
    ],
)
def test_wrap(text: str, code: str, before: str, behind: str, after: str | None) -> None:
    edit = WrapExpression(at(text, code), before, behind)
    if after is None:
        with pytest.raises(CannotRewrite):
            rewrite(text, edit)
    else:
        assert rewrite(text, edit) == after


@pytest.mark.parametrize(
    ("text", "code", "new", "after"),
    [
        ("f(device[-1])", "device[-1]", "torch.device(device).type", "f(torch.device(device).type)"),
        ("y = a * b", "b", "c + d", "y = a * (c + d)"),
        ("y = a * (b)", "b", "c + d", "y = a * (c + d)"),
        ("y = a * b", "a * b", "c + d", "y = c + d"),
        ("y = a * b + c", "a * b", "c + d", "y = (c + d) + c"),
        ("return(a, b)", "(a, b)", "c", "return c"),
        ("y = [1]if c else d", "[1]", "e", "y = e if c else d"),
        ("f(x for x in y)", "(x for x in y)", "z", "f(z)"),
        ("y = x.real", "x", "1", "y = (1).real"),
        ("with a: pass", "a", "b, c", "with ((b, c)): pass"),
        ("y = -x", "x", "(a + b)", "y = -(a + b)"),
        ("y = {**x, 1: z}", "x", "a or b", "y = {**(a or b), 1: z}"),
        ("y = {**x, 1: z}", "z", "a or b", "y = {**x, 1: a or b}"),
        ("y = -x", "x", "(a) + (b)", "y = -((a) + (b))"),
        ("x.device = y", "x.device", "x.place", "x.place = y"),
        ("y = 'cuda:0' # why", "'cuda:0'", '"cuda"', 'y = "cuda" # why'),
    ],
)
def test_replace(text: str, code: str, new: str, after: str) -> None:
    assert rewrite(text, ReplaceExpression(at(text, code), new)) == after


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = y", "x"),
        ("f(*z)", "*z"),
        ("a[1:2]", "1:2"),
        ("a[1:2, 3]", "1:2, 3"),
        ("f'{x}'", "x"),
        ("del x", "x"),
        ("match x:\n  case a.b: pass", "a.b"),
        ("(a + b)", "(a + b)"),
        ("f(x=1)", "x=1"),
        ("import torch", "torch"),
    ],
)
def test_unclear_expressions_are_refused(text: str, code: str) -> None:
    with pytest.raises(CannotRewrite):
        rewrite(text, AppendCall(at(text, code), ".to(d)"))


def test_text_that_is_no_expression_is_refused() -> None:
    for edit in (
        AppendCall(Span(0, 1), ".to("),
        AppendCall(Span(0, 1), ".to(d)  # on the GPU"),
        AppendCall(Span(0, 1), ".to(d); y"),
        WrapExpression(Span(0, 1), "torch.device(", ""),
        ReplaceExpression(Span(0, 1), "y = 2"),
        ReplaceExpression(Span(0, 1), "y\n+ 2"),
    ):
        with pytest.raises(CannotRewrite):
            rewrite("x.y", edit)


def test_replacing_keeps_comments_or_refuses() -> None:
    text = "y = f(a,  # one\n      b)\n"
    with pytest.raises(CannotRewrite, match="comment"):
        rewrite(text, ReplaceExpression(at(text, "f(a,  # one\n      b)"), "z"))


def test_nested_edits_of_one_fix_compose_whatever_their_order() -> None:
    text = "y = a + b\n"
    inner = WrapExpression(at(text, "a"), "f(", ")")
    outer = WrapExpression(at(text, "a + b"), "g(", ")")
    assert rewrite(text, inner, outer) == rewrite(text, outer, inner) == "y = g(f(a) + b)\n"
    same = at(text, "a")
    assert rewrite(text, AppendCall(same, ".b()"), AppendCall(same, ".c()")) == "y = a.b().c() + b\n"
    assert rewrite(text, inner, WrapExpression(same, "h(", ")")) == "y = h(f(a)) + b\n"
    text = "f(x)\n"
    both = SetArgument(at(text, "f(x)"), "k", "1"), AppendCall(at(text, "x"), ".y")
    assert rewrite(text, *both) == rewrite(text, *reversed(both)) == "f(x.y, k=1)\n"


# --- arguments -------------------------------------------------------------------------------------

ARGUMENTS = [
    ("f()", "f(device=d)"),
    ("f( )", "f(device=d)"),
    ("f(a)", "f(a, device=d)"),
    ("f(a, b,)", "f(a, b, device=d,)"),
    ("f(a, device=c, b=1)", "f(a, device=d, b=1)"),
    ("f(a, device = (c))", "f(a, device = (d))"),
    ("f(a, b = 1)", "f(a, b = 1, device = d)"),
    ("f(*a)", "f(*a, device=d)"),
    ("f(a, **k)", "f(a, **k, device=d)"),
    ("f(x for x in y)", "f((x for x in y), device=d)"),
    ("f((x for x in y))", "f((x for x in y), device=d)"),
    ("(f)(a)(b)", "(f)(a)(b, device=d)"),
    ("f(a  # one\n)", "f(a, device=d  # one\n)"),
    ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    device=d\n)"),
    ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    device=d,\n)"),
    ("f(\n    a,  # one\n    b  # two\n)", "f(\n    a,  # one\n    b,  # two\n    device=d\n)"),
    ("f(\n    a,  # one\n    b,  # two\n)", "f(\n    a,  # one\n    b,  # two\n    device=d,\n)"),
    ("f(\n    a,\n    # b,\n)", "f(\n    a,\n    device=d,\n    # b,\n)"),
    ("f(a,\n  b)", "f(a,\n  b,\n  device=d)"),
    ("f(\n    a, b\n)", "f(\n    a, b, device=d\n)"),
    ("f('é', \"ß\" 'x')", "f('é', \"ß\" 'x', device=d)"),
    ("f(# none\n)", "f(# none\ndevice=d)"),
    ("x = (a\n     .b(c))", "x = (a\n     .b(c, device=d))"),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("text", "after"), ARGUMENTS)
def test_set_argument(text: str, after: str, newline: str) -> None:
    text, after = text.replace("\n", newline), after.replace("\n", newline)
    call = max(
        (n for n in ast.walk(Source(text).tree) if isinstance(n, ast.Call)),
        key=lambda n: n.end_col_offset or 0,
    )
    calls = [n for n in ast.walk(Source(text).tree) if isinstance(n, ast.Call)]
    call = calls[0]
    source = Source(text)
    edit = SetArgument(source.span(call), "device", "d")
    assert rewrite(text, edit) == after
    again = next(n for n in ast.walk(Source(after).tree) if isinstance(n, ast.Call))
    assert rewrite(after, SetArgument(Source(after).span(again), "device", "d")) == after


def test_set_argument_with_mixed_newlines() -> None:
    text = "f(\r\n    a,\n    b,\r\n)\n"
    assert (
        rewrite(text, SetArgument(Span(0, len(text) - 1), "k", "1"))
        == "f(\r\n    a,\n    b,\r\n    k=1,\n)\n"
    )


def test_set_two_arguments_in_one_fix() -> None:
    text = "f(a)"
    edits = SetArgument(Span(0, 4), "k", "1"), SetArgument(Span(0, 4), "l", "x if y else z")
    assert rewrite(text, *edits) == "f(a, k=1, l=x if y else z)"
    assert rewrite(text, SetArgument(Span(0, 4), "k", "x, y")) == "f(a, k=(x, y))"


# --- imports ---------------------------------------------------------------------------------------

TORCH = EnsureImport("torch")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import os\nimport sys\n\nx()\n", "import os\nimport sys\nimport torch\n\nx()\n"),
        ("import os\r\nx()\r\n", "import os\r\nimport torch\r\nx()\r\n"),
        ("import os", "import os\nimport torch"),
        ("import os; import sys; x()\ny()\n", "import os; import sys; x()\nimport torch\ny()\n"),
        (
            "from a import (\n    b,  # c\n)  # d\nx()\n",
            "from a import (\n    b,  # c\n)  # d\nimport torch\nx()\n",
        ),
        ('"""Doc."""\n\nx()\n', '"""Doc."""\n\nimport torch\n\nx()\n'),
        (
            '"""Doc."""\nfrom __future__ import annotations\n\nx()\n',
            '"""Doc."""\nfrom __future__ import annotations\n\nimport torch\n\nx()\n',
        ),
        (
            "#!/usr/bin/python\n# coding: utf-8\nx()\n",
            "#!/usr/bin/python\n# coding: utf-8\nimport torch\n\nx()\n",
        ),
        ("x()\nimport os\n", "import torch\n\nx()\nimport os\n"),
        (
            "import os\ntry:\n    import b\nexcept E: b = None\n",
            "import os\nimport torch\ntry:\n    import b\nexcept E: b = None\n",
        ),
        ("import torch as th\nx()\n", "import torch as th\nimport torch\nx()\n"),
        ("def f():\n    import torch\n", "import torch\n\n\ndef f():\n    import torch\n"),
        (
            "from t import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
            "from t import TYPE_CHECKING\nimport torch\nif TYPE_CHECKING:\n    import torch\n",
        ),
        ("", "import torch\n"),
        ("# only\n", "# only\nimport torch\n"),
    ],
)
def test_import_is_added(text: str, after: str) -> None:
    assert rewrite(text, TORCH, TORCH) == after
    assert rewrite(after, TORCH) == after


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n",
        "import os, torch\n",
        "import torch.nn\n",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
        "if available():\n    import torch\n",
    ],
)
def test_import_is_there(text: str) -> None:
    assert rewrite(text, TORCH) == text


def test_import_of_a_name() -> None:
    chain = EnsureImport("itertools", "chain")
    assert rewrite("from itertools import chain, count\n", chain) == "from itertools import chain, count\n"
    text = "from itertools import chain as c\n"
    assert rewrite(text, chain) == text + "from itertools import chain\n"
    assert rewrite("import torch\n", EnsureImport("torch.nn")) == "import torch\nimport torch.nn\n"
    for text in ("from os import chain\n", "def chain(): pass\n", "import x as chain\n"):
        with pytest.raises(CannotRewrite, match="something else"):
            rewrite(text, chain)


# --- several fixes ---------------------------------------------------------------------------------


def chosen(text: str, *fixes: tuple[Edit, ...]) -> tuple[tuple[int, ...], str]:
    source = Source(text)
    edits = [text_edits(source, Fix("f", fix)) for fix in fixes]
    picked = select(edits, source)
    merged = merge([edits[index] for index in picked])
    result = apply(text, merged)
    verify(text, merged, result)
    return picked, result


def test_the_same_import_of_two_fixes_is_added_once() -> None:
    text = "import os\nf(a)\ng(b)\n"
    picked, result = chosen(
        text, (TORCH, AppendCall(at(text, "a"), ".x")), (TORCH, AppendCall(at(text, "b"), ".x"))
    )
    assert picked == (0, 1)
    assert result == "import os\nimport torch\nf(a.x)\ng(b.x)\n"


def test_equal_fixes_become_one_but_one_fix_may_say_a_thing_twice() -> None:
    text = "a()\n"
    one = InsertStatement(at(text, "a()"), "n()")
    assert chosen(text, (one,), (one,)) == ((0, 1), "a()\nn()\n")
    assert chosen(text, (one, one), (one,)) == ((0, 1), "a()\nn()\nn()\n")
    append = AppendCall(at(text, "a"), ".x")
    assert chosen(text, (append,), (append,)) == ((0, 1), "a.x()\n")


def test_lines_of_several_fixes_stand_side_by_side_in_the_order_given() -> None:
    text = "if a:\n    b()\nc()\n"
    body_end = Span(0, at(text, "b()").end)
    picked, result = chosen(
        text,
        (InsertStatement(body_end, "one()"),),
        (InsertStatement(at(text, "b()"), "deep()"),),
        (InsertStatement(body_end, "two()"),),
        (AppendCall(at(text, "b()"), ".x"),),
    )
    assert picked == (0, 1, 2, 3)
    assert result == "if a:\n    b().x\n    deep()\none()\ntwo()\nc()\n"


def test_fixes_that_touch_inside_a_line_wait() -> None:
    text = "y = a + b\n"
    inner = (WrapExpression(at(text, "a"), "f(", ")"),)
    outer = (WrapExpression(at(text, "a + b"), "g(", ")"),)
    assert chosen(text, inner, outer) == ((0,), "y = f(a) + b\n")
    assert chosen(text, outer, inner) == ((0,), "y = g(a + b)\n")
    text = "f(a)\n"
    fixes = [(SetArgument(at(text, "f(a)"), name, "1"),) for name in "kl"]
    assert chosen(text, *fixes) == ((0,), "f(a, k=1)\n")
    replaced = (ReplaceExpression(at(text, "f(a)"), "g(b)"),)
    assert chosen(text, replaced, *fixes)[0] == (0,)


def test_what_touches_a_replaced_range_waits() -> None:
    text = "y = f(a)\n"
    replaced = (ReplaceExpression(at(text, "f(a)"), "g(b)"),)
    assert chosen(text, replaced, (AppendCall(at(text, "f(a)"), ".x"),))[0] == (0,)
    assert chosen(text, replaced, (WrapExpression(at(text, "f(a)"), "[", "]"),))[0] == (0,)


def test_edits_are_small() -> None:
    text = "aaa(); bbb()  # c\n"
    (edit,) = text_edits(Source(text), Fix("f", (InsertStatement(at(text, "aaa()"), "n()"),)))
    assert edit == TextEdit(Span(5, 7), "\nn()\n")
    text = "f(\n    a,\n    b,\n)\n"
    (edit,) = text_edits(Source(text), Fix("f", (SetArgument(Span(0, len(text) - 1), "k", "1"),)))
    assert edit.span.start == edit.span.end and edit.text == "    k=1,\n"


def test_a_fix_waits_whole() -> None:
    text = "a()\nb()\nc()\n"
    first = (MoveStatement(at(text, "a()"), at(text, "c()")),)
    second = (InsertStatement(at(text, "a()"), "n()"), AppendCall(at(text, "b"), ".x"))
    third = (AppendCall(at(text, "c"), ".x"),)
    assert chosen(text, first, second, third) == ((0, 2), "b()\nc.x()\na()\n")
    again = (MoveStatement(at(text, "a()"), at(text, "b()")),)
    assert chosen(text, again, first)[0] == (0,)


def test_two_fixes_never_empty_a_block_together() -> None:
    text = "def f():\n    a()\n    # x\n    b()\nc()\n"
    picked, result = chosen(text, (DeleteStatement(at(text, "a()")),), (DeleteStatement(at(text, "b()")),))
    assert picked == (0,)
    assert result == "def f():\n    # x\n    b()\nc()\n"


def test_nothing_is_put_beside_a_statement_that_another_fix_moves() -> None:
    text = "if q:\n    for a in b:\n        c()\nelse:\n    d()\n"
    loop = Span(at(text, "for").start, at(text, "c()").end)
    away = (MoveStatement(loop, at(text, "d()")),)
    beside = (InsertStatement(at(text, "c()"), "n()"),)
    assert chosen(text, away, beside) == (
        (0,),
        "if q:\n    pass\nelse:\n    d()\n    for a in b:\n        c()\n",
    )
    assert chosen(text, beside, away)[0] == (0,)


def test_what_is_nested_too_deeply_is_refused() -> None:
    text = "f(" + "-" * 700 + "x)"
    with pytest.raises(CannotRewrite):
        rewrite(text, SetArgument(Span(0, len(text)), "k", "1"))


# --- verify and apply ------------------------------------------------------------------------------


def test_verify_names_what_is_wrong() -> None:
    text = "a()  # one\nb()\n"
    edit = TextEdit(Span(0, 3), "z()")
    verify(text, [edit], "z()  # one\nb()\n")
    for after, edits, message in (
        ("z(  # one\nb()\n", [TextEdit(Span(0, 3), "z(")], "does not parse"),
        ("z()  # one\nc()\n", [edit], "outside the edits"),
        ("z()  # one\nb()\nc()\n", [edit], "outside the edits"),
        ("z()  # one\n", [edit], "outside the edits"),
        ("y()  # one\nb()\n", [edit], "does not contain an edit"),
        ("z()\nb()\n", [TextEdit(Span(0, 10), "z()")], "comment was lost: # one"),
    ):
        with pytest.raises(CannotRewrite, match=message):
            verify(text, edits, after)


def test_apply_refuses_overlap() -> None:
    with pytest.raises(CannotRewrite):
        apply("abcdef", [TextEdit(Span(0, 3), "x"), TextEdit(Span(2, 4), "y")])
    with pytest.raises(CannotRewrite):
        apply("abcdef", [TextEdit(Span(0, 3), "x"), TextEdit(Span(2, 2), "y")])
    assert apply("abcdef", [TextEdit(Span(3, 3), "y"), TextEdit(Span(0, 3), "x")]) == "xydef"


# --- properties ------------------------------------------------------------------------------------

EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["x", "1", "'é' 'b'", "None", "x.y", "f(z for z in q)", "(yield)", "a[1:2, 3]", "f'{x} {y}'"]
    ),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("f({}, k={})".format, inner, inner),
        st.builds("f(\n  {},  # ü\n)".format, inner),
        st.builds("(not {})".format, inner),
        st.builds("[{}, *{}]".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("(lambda: {})".format, inner),
        st.builds("({}, {})".format, inner, inner),
    ),
    max_leaves=5,
)
SIMPLE = st.one_of(
    EXPRESSIONS.map("y = {}".format),
    EXPRESSIONS.map("g({})".format),
    st.sampled_from(["pass", "x = '''a\n  b\u2028'''", "y = 1 + \\\n    2", "import os"]),
)


def _block(parts: list[str]) -> str:
    return "\n".join(parts)


LINES = st.one_of(
    SIMPLE,
    st.builds("{}  # c".format, SIMPLE),
    st.builds("{}; {}".format, SIMPLE, SIMPLE),
    st.builds("# own\n{}".format, SIMPLE),
    st.builds("{}\n".format, SIMPLE),
    st.builds("if x: {}".format, SIMPLE),
)
BLOCKS = st.recursive(
    st.lists(LINES, min_size=1, max_size=4).map(_block),
    lambda inner: st.lists(
        st.one_of(
            LINES,
            st.builds("if x:\n{}\nelif y:\n{}\nelse:\n{}".format, *[inner.map(indented)] * 3),
            st.builds("try:\n{}\nexcept E:\n{}".format, *[inner.map(indented)] * 2),
            st.builds("@d\ndef f(a):\n{}".format, inner.map(indented)),
            st.builds("with a as b:\n{}".format, inner.map(indented)),
            st.builds("match a:\n    case 1:\n{}".format, inner.map(indented).map(indented)),
        ),
        min_size=1,
        max_size=3,
    ).map(_block),
    max_leaves=4,
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    text = draw(BLOCKS) + draw(st.sampled_from(["\n", ""]))
    if draw(st.booleans()):
        text = text.replace("    ", "\t")
    text = draw(st.sampled_from(["", "", "\f", "#!/bin/python\n", "z = 0\n\f"])) + text
    newline = draw(st.sampled_from(["\n", "\r\n", "\r", "mixed"]))
    if newline == "mixed":
        kinds = draw(
            st.lists(st.sampled_from(["\n", "\r\n"]), min_size=text.count("\n"), max_size=text.count("\n"))
        )
        parts = text.split("\n")
        text = parts[0] + "".join(kind + part for kind, part in zip(kinds, parts[1:], strict=True))
    else:
        text = text.replace("\n", newline)
    try:
        ast.parse(text)
    except SyntaxError:
        assume(False)
    return text


def _pick(data: st.DataObject, source: Source, kind: type[ast.AST]) -> ast.AST:
    nodes = [node for node in source.walk() if isinstance(node, kind)]
    nodes = [node for node in nodes if source.enclosing(node, ast.JoinedStr) is None]
    assume(nodes)
    nested = [
        node for node in nodes if isinstance(source.enclosing(source.statement(node), ast.AST), ast.stmt)
    ]
    if nested:
        nodes = data.draw(st.sampled_from([nested, nested, nested, nodes]))
    return data.draw(st.sampled_from(nodes))


@settings(max_examples=300, deadline=None)
@given(programs(), st.data())
def test_any_statement_edit_changes_that_statement_only(text: str, data: st.DataObject) -> None:
    source = Source(text)
    node = _pick(data, source, ast.stmt)
    assert isinstance(node, ast.stmt)
    edit = data.draw(st.sampled_from(["delete", "before", "after", "move"]))
    span = source.span(node)
    structural: Edit
    if edit == "delete":
        structural = DeleteStatement(span)
    elif edit == "move":
        anchor = _pick(data, source, ast.stmt)
        structural = MoveStatement(span, source.span(anchor))
    else:
        structural = InsertStatement(span, "NEW = 1", edit == "before")
    try:
        result = rewrite(text, structural)  # verify: parses, other text identical, comments kept
    except CannotRewrite as refused:
        assert not any(word in str(refused) for word in ("parse", "outside", "overlap", "tokens")), text
        return
    block = source.block(node)
    place = block.index(node)
    block.remove(node)
    if not block and not isinstance(source.parents[node], ast.Module):
        block.append(ast.Pass())
    if edit == "move":
        target = source.block(anchor) if anchor is not node else block  # type: ignore[arg-type]
        target.insert(target.index(anchor) + 1, node)  # type: ignore[arg-type]
    elif edit != "delete":
        new = ast.parse("NEW = 1").body
        block[:] = [
            each for each in block if not (isinstance(each, ast.Pass) and not hasattr(each, "lineno"))
        ]
        block[place:place] = [*new, node] if edit == "before" else [node, *new]
    assert ast.dump(ast.parse(result)) == ast.dump(source.tree)


@settings(max_examples=150, deadline=None)
@given(programs(), st.data())
def test_any_argument_set_is_set_and_stays(text: str, data: st.DataObject) -> None:
    source = Source(text)
    call = _pick(data, source, ast.Call)
    assert isinstance(call, ast.Call)
    try:
        result = rewrite(text, SetArgument(source.span(call), "k", "v"))
    except CannotRewrite as refused:
        assert "comment" in str(refused)
        return
    for keyword in call.keywords:
        if keyword.arg == "k":
            keyword.value = ast.Name("v", ast.Load())
            break
    else:
        call.keywords.append(ast.keyword("k", ast.Name("v", ast.Load())))
    assert ast.dump(ast.parse(result)) == ast.dump(source.tree)
    again = Source(result)
    for other in again.walk():
        if isinstance(other, ast.Call) and any(keyword.arg == "k" for keyword in other.keywords):
            wanted = next(keyword.value for keyword in other.keywords if keyword.arg == "k")
            if ast.dump(wanted) == ast.dump(ast.Name("v", ast.Load())):
                assert text_edits(again, Fix("f", (SetArgument(again.span(other), "k", "v"),))) == ()


@settings(max_examples=150, deadline=None)
@given(programs(), st.data())
def test_any_expression_appended_to_is_exactly_that_expression(text: str, data: st.DataObject) -> None:
    source = Source(text)
    node = _pick(data, source, ast.expr)
    assert isinstance(node, ast.expr)
    suffix = data.draw(st.sampled_from([".to(d)", "[0]", " + z"]))
    try:
        result = rewrite(text, AppendCall(source.span(node), suffix))
    except CannotRewrite as refused:
        assert not any(word in str(refused) for word in ("parse", "outside", "overlap", "lost")), text
        return
    parent = source.parents[node]
    form = ast.parse("HOLE" + suffix, mode="eval").body
    for holder in ast.walk(form):
        for name, value in ast.iter_fields(holder):
            if isinstance(value, ast.Name) and value.id == "HOLE":
                setattr(holder, name, node)
    for name, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, name, form)
        elif isinstance(value, list):
            value[:] = [form if each is node else each for each in value]
    assert ast.dump(ast.parse(result)) == ast.dump(source.tree)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_any_import_is_added_once(text: str) -> None:
    result = rewrite(text, TORCH)
    assert any(ast.dump(s) == ast.dump(ast.parse("import torch").body[0]) for s in ast.parse(result).body)
    assert rewrite(result, TORCH) == result
