"""Edits inside a statement: what is wrapped, replaced or handed to a call."""

from __future__ import annotations

import ast
import tokenize
from dataclasses import dataclass

from devfix.findings import Span, TextEdit
from devfix.rewrite.layout import CannotRewrite, Layout, comments, tokens

_HOLE = "_devfix_hole_"
_PRIMARY = 16
_EXPRESSION = 1  # strong enough for an argument or the right side of `=`
_STRENGTH: dict[type[ast.AST], int] = {
    ast.Starred: -1,
    ast.Slice: -1,
    ast.NamedExpr: 0,
    ast.Yield: 0,
    ast.YieldFrom: 0,
    ast.Tuple: 0,
    ast.Lambda: 1,
    ast.IfExp: 2,
    ast.Or: 3,
    ast.And: 4,
    ast.Not: 5,
    ast.Compare: 6,
    ast.BitOr: 7,
    ast.BitXor: 8,
    ast.BitAnd: 9,
    ast.LShift: 10,
    ast.RShift: 10,
    ast.Add: 11,
    ast.Sub: 11,
    ast.Mult: 12,
    ast.Div: 12,
    ast.FloorDiv: 12,
    ast.Mod: 12,
    ast.MatMult: 12,
    ast.USub: 13,
    ast.UAdd: 13,
    ast.Invert: 13,
    ast.Pow: 14,
    ast.Await: 15,
}
# Places that take any expression without parentheses.
_FREE = {
    (ast.Expr, "value"),
    (ast.Assign, "value"),
    (ast.AnnAssign, "value"),
    (ast.AugAssign, "value"),
    (ast.Return, "value"),
    (ast.Call, "args"),
    (ast.keyword, "value"),
    (ast.Subscript, "slice"),
    (ast.List, "elts"),
    (ast.Set, "elts"),
    (ast.Tuple, "elts"),
    (ast.Dict, "values"),
    (ast.If, "test"),
    (ast.While, "test"),
    (ast.For, "iter"),
    (ast.withitem, "context_expr"),
    (ast.ListComp, "elt"),
    (ast.SetComp, "elt"),
    (ast.GeneratorExp, "elt"),
    (ast.Lambda, "body"),
}


@dataclass(frozen=True)
class _Piece:
    edit: TextEdit
    key: tuple[int, ...]


class Expressions:
    """Collects the expression edits of one fix; `pieces` gives them in order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._source = layout.source
        self._pieces: list[_Piece] = []
        self._arguments: dict[ast.Call, dict[str, str]] = {}

    def pieces(self) -> list[TextEdit]:
        """Every edit so far, sorted: at one point inner ends first, outer beginnings first."""
        from devfix.rewrite.arguments import add_arguments

        found = list(self._pieces)
        for call, values in self._arguments.items():
            span = self._source.span(call)
            for edit in add_arguments(self._layout, call, values):
                opens = edit.text == "("  # before a generator that was the only argument
                side = (1, -span.end) if opens else (0, -span.start)
                found.append(_Piece(edit, (edit.span.start, edit.span.end, *side, 0)))
        return [piece.edit for piece in sorted(found, key=lambda piece: piece.key)]

    # --- edits ---------------------------------------------------------------------------------

    def wrap(self, span: Span, before: str, after: str) -> None:
        node = self._readable(span)
        form = _parse(before + _HOLE + after, f"{before}...{after}")
        if isinstance(form, ast.Name) and form.id == _HOLE:
            return
        needed = _needed(form, f"{before}...{after}")
        weak = self._strength(node) < needed or (needed == _PRIMARY and self._brittle(node))
        outer = _text_strength(form, before + _HOLE + after)
        target, own = span, self._strength(node)
        if weak and (grouped := self._layout.grouped(span)):
            target, own, weak = grouped, _PRIMARY, False
        if weak:
            before, after = before + "(", ")" + after
        if self._sole(node) or not self._fits(node, outer, own):
            before, after = "(" + before, after + ")"
        self._around(target, before, after)

    def assign(self, span: Span, target: str) -> None:
        node = self._readable(span)
        statement = self._source.parents[node]
        if not isinstance(statement, ast.Expr):
            raise CannotRewrite(f"{self._layout.describe(span)} is not a statement of its own")
        if not isinstance(_parse(target, target), (ast.Name, ast.Attribute, ast.Subscript)):
            raise CannotRewrite(f"`{target}` cannot be assigned to")
        start = self._source.span(statement).start
        grouped = self._layout.grouped(span)
        self._around(Span(min(start, grouped.start) if grouped else start, span.end), f"{target} = ", "")

    def replace(self, span: Span, text: str) -> None:
        node = self._layout.expression(span)
        text = text.strip()
        new = _parse(text, text)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not isinstance(
            new, (ast.Name, ast.Attribute, ast.Subscript)
        ):
            raise CannotRewrite(f"{self._layout.describe(span)} is assigned to; `{text}` cannot be")
        self._refuse_odd(node, span)
        if ast.dump(new) == ast.dump(node):
            return
        if comments("(" + self._layout.text[span.start : span.end] + "\n)"):
            raise CannotRewrite(f"{self._layout.describe(span)} has a comment that would be lost")
        strength = _text_strength(new, text)
        fits = self._fits(node, strength, self._strength(node))
        dotted = isinstance(self._source.parents[node], ast.Attribute) and self._brittle_text(new, text)
        if self._sole(node) or dotted or (not fits and self._layout.grouped(span) is None):
            text = f"({text})"
        if isinstance(new, ast.Tuple) and isinstance(self._source.parents[node], ast.withitem):
            text = f"({text})"  # `with (a, b):` has two items
        text = self._spaced_left(span.start, text)
        text = self._spaced_right(span.end, text)
        self._pieces.append(_Piece(TextEdit(span, text), (span.start, span.end, 2, 0, len(self._pieces))))

    def set_argument(self, span: Span, name: str, value: str) -> None:
        node = self._layout.expression(span)
        if not isinstance(node, ast.Call):
            raise CannotRewrite(f"{self._layout.describe(span)} is not a call")
        value = value.strip()
        if not name.isidentifier():
            raise CannotRewrite(f"`{name}` cannot name an argument")
        if _text_strength(_parse(value, value), value) < _EXPRESSION:
            value = f"({value})"
        for keyword in node.keywords:
            if keyword.arg == name:
                self.replace(self._source.span(keyword.value), value)
                return
        known = self._arguments.setdefault(node, {})
        if known.setdefault(name, value) != value:
            raise CannotRewrite(f"{self._layout.describe(span)}: `{name}` would get two values")

    # --- judgement -----------------------------------------------------------------------------

    def _around(self, span: Span, before: str, after: str) -> None:
        number = len(self._pieces)
        if before:
            text = self._spaced_left(span.start, before)
            edit = TextEdit(Span(span.start, span.start), text)
            self._pieces.append(_Piece(edit, (span.start, span.start, 1, -span.end, -number)))
        if after:
            text = self._spaced_right(span.end, after)
            edit = TextEdit(Span(span.end, span.end), text)
            self._pieces.append(_Piece(edit, (span.end, span.end, 0, -span.start, number)))

    def _spaced_left(self, at: int, text: str) -> str:
        """`return[x]` must not become `returnfoo`."""
        before = self._layout.text[at - 1 : at] if at else ""
        glued = (before.isalnum() or before == "_") and (text[:1].isalnum() or text[:1] in "_\"'")
        return " " + text if glued else text

    def _spaced_right(self, at: int, text: str) -> str:
        after = self._layout.text[at : at + 1]
        glued = (after.isalnum() or after == "_") and (text[-1:].isalnum() or text[-1:] == "_")
        return text + " " if glued else text

    def _readable(self, span: Span) -> ast.expr:
        node = self._layout.expression(span)
        self._refuse_odd(node, span)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            raise CannotRewrite(f"{self._layout.describe(span)} is assigned to or deleted")
        return node

    def _refuse_odd(self, node: ast.expr, span: Span) -> None:
        inner = node.elts if isinstance(node, ast.Tuple) else [node]
        if isinstance(node, (ast.Starred, ast.Slice)) or any(isinstance(e, ast.Slice) for e in inner):
            raise CannotRewrite(f"{self._layout.describe(span)} is not an expression of its own")
        parent = self._source.parents[node]
        if isinstance(parent, ast.Subscript) and any(isinstance(e, ast.Starred) for e in inner):
            raise CannotRewrite(f"{self._layout.describe(span)} is not an expression of its own")
        if isinstance(self._source.enclosing(node, ast.pattern, ast.stmt), ast.pattern):
            raise CannotRewrite(f"{self._layout.describe(span)} is part of a `case` pattern")
        if isinstance(parent, (ast.Global, ast.Nonlocal, ast.alias)):
            raise CannotRewrite(f"{self._layout.describe(span)} is not an expression")

    def _strength(self, node: ast.expr) -> int:
        return _node_strength(node, self._source.code(node))

    def _sole(self, node: ast.expr) -> bool:
        """Whether node is the generator of `f(x for x in y)`, whose parentheses are the call's."""
        parent = self._source.parents[node]
        return (
            isinstance(node, ast.GeneratorExp)
            and isinstance(parent, ast.Call)
            and len(parent.args) == 1
            and self._source.span(node).end == self._source.span(parent).end
        )

    def _fits(self, node: ast.expr, strength: int, own: int) -> bool:
        """Whether an expression of this strength can take node's place without parentheses."""
        if strength >= max(own, _EXPRESSION):
            return True
        parent = self._source.parents[node]
        if (
            isinstance(parent, ast.Dict)
            and None in parent.keys
            and parent.keys[parent.values.index(node)] is None
        ):
            return False  # {**x}
        return strength >= _EXPRESSION and any(
            type(parent) is kind and (value is node or (isinstance(value, list) and node in value))
            for kind, field in _FREE
            if (value := getattr(parent, field, None)) is not None
        )

    def _brittle(self, node: ast.expr) -> bool:
        return self._brittle_text(node, self._source.code(node))

    @staticmethod
    def _brittle_text(node: ast.expr, code: str) -> bool:
        """Literals that read or parse differently with a `.name` behind them: `1`, `"a" "b"`."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex)):
            return not isinstance(node.value, bool)
        if isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), (str, bytes)):
            if isinstance(node, (ast.Constant, ast.JoinedStr)):
                depth = count = 0
                for token in tokens(f"({code}\n)"):
                    name = tokenize.tok_name[token.type]
                    count += depth == 0 and (name == "STRING" or name.endswith("STRING_START"))
                    depth += name.endswith("STRING_START") - name.endswith("STRING_END")
                return count > 1
        return False


def _parse(text: str, shown: str) -> ast.expr:
    """The expression that `text` is, on one line or inside brackets; raises CannotRewrite."""
    try:
        ast.parse(f"({text})", mode="eval")  # no comment and no newline may leak out
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CannotRewrite(f"`{shown}` is not an expression") from None


def _needed(form: ast.expr, shown: str) -> int:
    """How strong an expression must be to fill the hole of a form without parentheses."""
    enclosed = {(ast.Call, "args"), (ast.keyword, "value"), (ast.List, "elts"), (ast.Set, "elts")}
    enclosed.add((ast.Subscript, "slice"))
    for parent in ast.walk(form):
        for field, value in ast.iter_fields(parent):
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.Name) and node.id == _HOLE:
                    return _EXPRESSION if (type(parent), field) in enclosed else _PRIMARY
    raise CannotRewrite(f"`{shown}` has no place for the expression")


def _node_strength(node: ast.expr, code: str) -> int:
    """How tightly the outermost operator binds; higher can stand in more places unparenthesised."""
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp)):
        return _STRENGTH[type(node.op)]
    if isinstance(node, ast.Tuple) and code.startswith("("):
        try:
            whole = ast.parse(f"[{code[1:-1]}\n]", mode="eval").body
        except SyntaxError:
            return 0
        same = isinstance(whole, ast.List) and len(whole.elts) == len(node.elts)
        return _PRIMARY if same else 0
    return _STRENGTH.get(type(node), _PRIMARY)


def _text_strength(form: ast.expr, text: str) -> int:
    """The same for a text of its own, which may be in parentheses as a whole."""
    whole = text.startswith("(") and (form.lineno, form.col_offset) > (1, 0)
    return _PRIMARY if whole else _node_strength(form, text)
