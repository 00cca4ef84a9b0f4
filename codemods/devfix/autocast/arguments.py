"""Is the device type of a call one, whatever the device: the form of the argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.autocast.calls import Api, AutocastCall, names_a_type
from devfix.autocast.file import File
from devfix.device_forms import OPEN, STRINGS, Form, Forms, leading_text
from devfix.engine import forms as engine_forms
from devfix.findings import AppendCall, Edit, Finding, Related, ReplaceExpression, Safety, WrapExpression
from devfix.flow.evidence import looks_like_device
from devfix.flow.frame import path_of
from devfix.flow.torch_api import ACCELERATORS, device_literal


class Arguments:
    """Judges the device types that a file hands to autocast."""

    def __init__(self, file: File) -> None:
        self.file = file

    # --- the form of the argument --------------------------------------------------------

    def check(self, call: AutocastCall, node: ast.expr) -> Iterator[Finding]:
        """What is wrong with a device type expression, or with one arm of it."""
        if self._compared(node):
            return
        if isinstance(node, ast.IfExp):
            for arm in (node.body, node.orelse):
                yield from self.check(call, arm)
        elif path_of(node) and self.file.told_apart(node, path_of(node)):
            return  # told apart by isinstance
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) or leading_text(node):
            yield from self._literal(call, node)
        elif isinstance(node, ast.Attribute) and node.attr == "type":
            yield from self._type_of(call, node)
        else:
            device = self._cut_down(node) or node
            forms = self._forms(device, call)
            if device is node and not self._may_be_wrong(node, forms, call):
                return
            if device is not node and not self._cut_wrongly(node, device, forms):
                return
            yield self._normalized(call, node, device, forms)

    def _compared(self, node: ast.expr) -> bool:
        """Is it below `if str(device) == "cpu":`, so that it is just that?"""
        source, text = self.file.source, self.file.source.code(node)
        child: ast.AST = node
        up = source.parents.get(node)
        while up is not None and not isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)):
            test = up.test if isinstance(up, ast.If) and child in up.body else None
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and len(test.ops) == 1:
                value = test.comparators[0]
                told = isinstance(value, ast.Constant) and isinstance(value.value, str)
                if told and ":" not in ast.unparse(value) and source.code(test.left) == text:
                    return True
            child, up = up, source.parents.get(up)
        return False

    def _forms(self, node: ast.expr, call: AutocastCall) -> Forms:
        """The forms of a device; of the argument itself also what the engine knows of it, over classes and files."""
        found = self.file.forms.of(node)
        argument = call.argument
        if found != OPEN or argument is None:
            return found
        if node is not argument and not _is_text(argument) and not isinstance(argument, ast.JoinedStr):
            return found
        known = self.file.flow.facts().autocasts.get(call.node)
        given = known.device_type.forms if known is not None and known.device_type is not None else ()
        return frozenset(_form(one) for one in given) or OPEN

    def _may_be_wrong(self, node: ast.expr, forms: Forms, call: AutocastCall) -> bool:
        if call.api is Api.SCALER:  # takes anything, and keeps it: only what is certainly no type counts
            return forms <= {Form.OBJECT, Form.INDEXED} and bool(forms)
        if not forms or forms == {Form.TYPE}:
            return False
        if call.api is Api.ASKING:  # reads "cuda:0" as "cuda", and rejects a torch.device
            return forms == {Form.OBJECT}
        path = path_of(node)
        if names_a_type(path):
            bindings = self.file.forms.bindings.of(path, node)
            if bindings and all(binding.parameter for binding in bindings):
                return False  # it wants a type itself: its callers are judged
        if Form.OBJECT in forms or Form.INDEXED in forms:
            return True
        if isinstance(node, ast.Call) or names_a_type(path):
            return False
        parts = node.values if isinstance(node, ast.BoolOp) else [node]
        return any(looks_like_device(_plain(path_of(part))) and not self._elsewhere(part) for part in parts)

    def _elsewhere(self, node: ast.expr) -> bool:
        """Is it decided in another file that is not in view, which may well know what autocast wants?"""
        path, imports = path_of(node), self.file.source.imports
        bindings = self.file.forms.bindings.of(path, node)
        if self.file.forms.of(node) != OPEN or any(binding.parameter for binding in bindings):
            return False
        calls = [binding.value.func for binding in bindings if isinstance(binding.value, ast.Call)]
        if len(calls) < len(bindings):
            return False
        roots = [path_of(called).partition(".")[0] for called in calls] or [path.partition(".")[0]]
        return all(root in imports for root in roots)

    def _cut_down(self, node: ast.expr) -> ast.expr | None:
        """The device that is cut down to a type by hand: `str(d)`, `d[-1]`, `d.split(":")[0]`."""
        if isinstance(node, ast.Call):
            if path_of(node.func) == "str" and len(node.args) == 1:
                return self._cut_down(node.args[0]) or node.args[0]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
                return self._inner(node.func.value)
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                if node.value.func.attr in ("split", "partition", "rsplit"):
                    return node.value.func.value
            index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
            number = isinstance(index, ast.Constant) and isinstance(index.value, int)
            if isinstance(node.slice, ast.Slice) or number:
                inner = self._inner(node.value)
                return inner if looks_like_device(_plain(path_of(inner))) else None
        return None

    def _inner(self, node: ast.expr) -> ast.expr:
        return node.args[0] if isinstance(node, ast.Call) and _is_text(node) else node

    def _cut_wrongly(self, node: ast.expr, device: ast.expr, forms: Forms) -> bool:
        if forms == {Form.TYPE} or (isinstance(device, ast.Attribute) and device.attr == "type"):
            return False
        if isinstance(node, ast.Subscript) and node.value is not device and not _is_text(node.value):
            return forms == {Form.OBJECT}  # split: right for strings, and only for them
        known = bool(forms & {Form.OBJECT, Form.INDEXED})
        return known or looks_like_device(_plain(path_of(device)))

    def _code(self, device: ast.expr, node: ast.expr) -> str:
        """The text of a device inside of `node`; positions inside of f-strings cannot be relied on."""
        return ast.unparse(device) if isinstance(node, ast.JoinedStr) else self.file.source.code(device)

    def _normalized(self, call: AutocastCall, node: ast.expr, device: ast.expr, forms: Forms) -> Finding:
        exact = forms == {Form.OBJECT}
        span = self.file.source.span(node)
        code = self._code(device, node)
        edit: Edit
        if device is not node:
            short = exact and isinstance(device, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
            edit = ReplaceExpression(
                span, f"{code}.type" if short else f"{self.file.torch}.device({code}).type"
            )
        elif exact:
            edit = AppendCall(span, ".type")
        else:
            edit = WrapExpression(span, f"{self.file.torch}.device(", ").type")
        shown = code if len(code) <= 40 else "the device"
        title = f"use the type of `{shown}`"
        edits = (edit,) if exact else (edit, *self.file.imports)
        related = self._origin(device)
        # What a test is parametrized with is mostly a type.
        around = self.file.source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        tested = isinstance(around, ast.FunctionDef) and around.name.startswith("test")
        sure = Form.OBJECT in forms or Form.INDEXED in forms or not tested
        sure = sure and call.api is not Api.SCALER  # which runs with any of them
        return self.file.finding(span, self._message(call, node, device, forms, related), title=title,
                                    edits=edits, related=related,
                                    safety=Safety.SAFE if sure else Safety.UNSAFE)  # fmt: skip

    def _message(
        self, call: AutocastCall, node: ast.expr, device: ast.expr, forms: Forms, related: tuple[Related, ...]
    ) -> str:
        wants = f'`{call.name.rpartition(".")[2]}` expects a device type such as "cuda"'
        code = self._code(device, node)
        shown = f"`{code}`" if len(code) <= 60 else "this device"
        where = f" (set on line {self.file.source.position(related[0].span.start)[0]})" if related else ""
        if device is not node and isinstance(node, ast.Subscript):
            if Form.OBJECT in forms:
                return f"{wants}; {shown}{where} is a torch.device, which cannot be sliced like a string"
            return f"{wants}; a part of {shown}{where} is a device type for some devices only"
        if device is not node and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return f'{wants}; this is right for "cuda:0" only, and {shown}{where} can be "cuda:1"'
        if device is not node:
            return f'{wants}; {shown}{where} as a string can be "cuda:0"'
        if forms == {Form.OBJECT}:
            return f"{wants}; {shown}{where} is a torch.device"
        if forms & STRINGS and not forms & {Form.OPEN, Form.OBJECT}:
            return f'{wants}; {shown}{where} can be "cuda:0"'
        return f'{wants}; {shown}{where} can be "cuda:0" or a torch.device'

    def _origin(self, device: ast.expr) -> tuple[Related, ...]:
        """Where the device gets the value that is wrong here, else where it gets any."""
        path = path_of(device)
        best = sorted(
            self.file.forms.bindings.of(path, device) if path else (),
            key=lambda b: b.value is None or self.file.forms.of(b.value) <= {Form.TYPE} or b.parameter,
        )
        if not best:
            return ()
        node = best[0].node
        if isinstance(node, ast.withitem):
            return ()
        what = "comes in" if best[0].parameter else "is set"
        return (Related(self.file.source.span(node), f"`{path}` {what} here"),)

    def _literal(self, call: AutocastCall, node: ast.expr) -> Iterator[Finding]:
        """ "cuda:0" and f"cuda:{rank}" -> "cuda"; f"{device}" is the string of a device."""
        if isinstance(node, ast.JoinedStr) and len(node.values) == 1:
            head = node.values[0]
            if isinstance(head, ast.FormattedValue):
                forms = self._forms(head.value, call)
                if self._may_be_wrong(head.value, forms, call):
                    yield self._normalized(call, node, head.value, forms)
                return
        kind, colon, _ = leading_text(node).partition(":")
        if not colon or not device_literal(kind):
            return
        quote = '"' if '"' in self.file.source.code(node) else "'"
        yield self.file.finding(
            self.file.source.span(node),
            f'`{call.name.rpartition(".")[2]}` expects a device type such as "{kind}", without an index',
            title=f'say "{kind}"',
            edits=(ReplaceExpression(self.file.source.span(node), f"{quote}{kind}{quote}"),),
        )

    # --- `.type` of the wrong thing --------------------------------------------------------

    def _type_of(self, call: AutocastCall, node: ast.Attribute) -> Iterator[Finding]:
        device = node.value
        if path_of(device) == "self.device" and self.file.nearby.lacks_device(device):
            near = self.file.nearby.tensor(call)
            message = "`self` is an nn.Module without a `device`: `self.device` raises AttributeError"
            if near is None:
                yield self.file.finding(self.file.source.span(device), message)
            else:
                yield self.file.finding(
                    self.file.source.span(device), f"{message}; `{near.text}` is where the data is",
                    title=f"use the device of `{near.text.rpartition('.')[0]}`",
                    edits=(ReplaceExpression(self.file.source.span(device), near.text),),
                )  # fmt: skip
            return
        forms = self.file.forms.of(device)
        if forms and forms <= {Form.TYPE, Form.INDEXED} and isinstance(device, (ast.Name, ast.Attribute)):
            if isinstance(device, ast.Attribute) and device.attr == "type":
                return
            code = self.file.source.code(device)
            edit = WrapExpression(self.file.source.span(device), f"{self.file.torch}.device(", ")")
            yield self.file.finding(
                self.file.source.span(node),
                f"`{code}` is a string, and has no `type`",
                title=f"use `torch.device({code}).type`",
                edits=(edit, *self.file.imports),
                related=self._origin(device),
            )

    # --- "cuda" in device ------------------------------------------------------------------------

    def membership(self) -> Iterator[Finding]:
        """`"cuda" in self.device` where that decides on the device type and may be a torch.device."""
        wanted = {path_of(call.argument) for call in self.file.calls if call.argument is not None} - {""}
        if not self.file.calls:
            return
        for node in self.file.source.walk():
            if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In):
                continue
            device, text = node.comparators[0], node.left
            if not isinstance(text, ast.Constant) or text.value not in ACCELERATORS:
                continue
            path = path_of(device)
            if not looks_like_device(_plain(path)) or not self._decides(node, wanted):
                continue
            forms = self.file.forms.of(device)
            if (
                (forms and forms <= STRINGS - {Form.DECLARED})
                or self._used_as_string(path)
                or self.file.told_apart(node, path)
            ):
                continue
            if self._is_no_device(path, device):
                continue
            exact = forms == {Form.OBJECT}
            code = self.file.source.code(device)
            kind = f"{code}.type" if exact else f"{self.file.torch}.device({code}).type"
            quoted = self.file.source.code(text)
            yield self.file.finding(
                self.file.source.span(node),
                f"`{code}` {'is' if exact else 'can be'} a torch.device, for which "
                f"`{self.file.source.code(node)}` raises TypeError",
                title=f"ask for the type of `{code}`",
                edits=(ReplaceExpression(self.file.source.span(node), f"{kind} == {quoted}"),
                       *(() if exact else self.file.imports)),
                related=self._origin(device),
            )  # fmt: skip

    def _is_no_device(self, path: str, node: ast.expr) -> bool:
        """Can it be "auto", "" or a list, of which torch.device makes nothing?"""
        for binding in self.file.forms.bindings.of(path, node):
            value = binding.value
            if isinstance(value, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
                return True
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                if not device_literal(value.value):
                    return True
        return False

    def _decides(self, node: ast.Compare, wanted: set[str]) -> bool:
        """Does the answer choose between types that reach an autocast?"""
        parent = self.file.source.parents[node]
        if isinstance(parent, ast.IfExp) and parent.test is node:
            target = self.file.source.statement(parent)
            targets = target.targets if isinstance(target, ast.Assign) else []
            return parent in {c.argument for c in self.file.calls} or any(
                path_of(t) in wanted for t in targets
            )
        if isinstance(parent, ast.If) and parent.test is node:
            return any(
                isinstance(inner, ast.Assign) and any(path_of(target) in wanted for target in inner.targets)
                for inner in parent.body
            )
        return False

    def _used_as_string(self, path: str) -> bool:
        """Is the same name cut or asked like a string somewhere in the file?"""
        text = self.file.source.text
        return any(f"{path}{use}" in text for use in ("[", ".split(", ".startswith(", ".replace(", ".lower("))


def _is_text(node: ast.expr) -> bool:
    """`str(x)`"""
    return isinstance(node, ast.Call) and path_of(node.func) == "str" and len(node.args) == 1


def _plain(path: str) -> str:
    """`config['device']` as `config.device`, to be judged by its name."""
    return path.replace("['", ".").replace("']", "")


def _form(form: engine_forms.Form) -> Form:
    if form.kind == engine_forms.OBJECT:
        return Form.OBJECT
    if form.kind != engine_forms.TEXT:
        return Form.OPEN
    return Form.TEXT if form.numbered is None else Form.INDEXED if form.numbered else Form.TYPE
