"""Device expressions as text that is right for each form that a device may have."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.facts import DeviceUse
from devfix.engine.files import Function
from devfix.engine.forms import ANY, NO_FORMS, Forms, is_object, may_be_text, of_text
from devfix.engine.values import TEXT, Value
from devfix.findings import Edit, EnsureImport
from devfix.text.names import stores
from devfix.text.placing import dotted
from devfix.text.source import Source


class Writing:
    """Writes device expressions for one file, with the name that it has for torch."""

    def __init__(self, analysis: Analysis) -> None:
        self.source, self._analysis = analysis.file.source, analysis
        names = [local for local, what in self.source.imports.items() if what == "torch"]
        self.torch = "torch" if "torch" in names or not names else names[0]
        self.is_imported = bool(names)

    def imports(self, text: str) -> tuple[Edit, ...]:
        """The import that a text needs."""
        return (EnsureImport("torch"),) if f"{self.torch}." in text and not self.is_imported else ()

    def device_of(self, use: DeviceUse, node: ast.expr, forms: Forms | None = None) -> str:
        """A device as a torch.device."""
        inner = printed(node, self.source)
        code = self.source.code(inner or node)
        forms = self._of_printed(use, node) if inner is not None else use.forms if forms is None else forms
        return code if self._is_object(use, node, forms) else f"{self.torch}.device({code})"

    def type_of(self, use: DeviceUse, node: ast.expr, forms: Forms | None = None) -> str:
        """The type of a device; by its string where it may be None, or a word that is no device."""
        forms = use.forms if forms is None else forms
        inner = printed(node, self.source)
        if inner is not None:
            return f"{self.device_of(use, node)}.type"
        code = self.source.code(node)
        if self._is_object(use, node, forms):
            return f"{code}.type"
        if self._may_be_no_device(use, node, forms):
            return f'str({code}).partition(":")[0]'
        return f"{self.torch}.device({code}).type"

    def _is_object(self, use: DeviceUse, node: ast.expr, forms: Forms) -> bool:
        """Is a device a torch.device, whoever passes it?"""
        function, name = use.function, node.id if isinstance(node, ast.Name) else ""
        if not is_object(forms) or function is None or name not in {one.arg for one in function.parameters}:
            return is_object(forms)
        if stores(self.source, function.node, name):
            return True
        return not may_be_text(function, name) and not self._is_passed_text(function, name)

    def _is_passed_text(self, function: Function, name: str) -> bool:
        """Does a call in view pass a string for a parameter?"""
        made = function.owner if function.name == "__init__" else None
        at = function.positional.index(name) if name in function.positional else None
        for call in self.source.calls_by_name.get(made.name if made is not None else function.name, ()):
            given = [one.value for one in call.keywords if one.arg == name]
            if at is not None:
                at_call = at - (function.owner is not None and not function.static)
                given += call.args[at_call : at_call + 1]
            if any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in given):
                return True
        elsewhere = self._analysis.callers(function) if self._analysis.callers is not None else []
        return any(call[name].kind == TEXT for call in elsewhere if name in call)

    def _of_printed(self, use: DeviceUse, node: ast.expr) -> Forms:
        """The forms of x, of `str(x)`."""
        inner = use.value.bound
        return inner.forms if isinstance(inner, Value) and node is use.value_node else NO_FORMS

    def _may_be_no_device(self, use: DeviceUse, node: ast.expr, forms: Forms) -> bool:
        function = use.function
        if any(form.kind == ANY for form in forms):
            return not isinstance(node, ast.Attribute) or node.attr != "device"
        if not isinstance(node, ast.Name) or function is None:
            return False
        default = function.defaults.get(node.id)
        values = [default.value] if isinstance(default, ast.Constant) else []
        for one in self.source.of_kind(ast.Compare, function.node):
            if isinstance(one.left, ast.Name) and one.left.id == node.id:
                values += [other.value for other in one.comparators if isinstance(other, ast.Constant)]
        return any(not isinstance(value, str) or of_text(value) is None for value in values if value != ":")


def printed(node: ast.expr, source: Source) -> ast.expr | None:
    """The x of `str(x)` and f"{x}"; None of anything else."""
    if isinstance(node, ast.Call) and source.code(node.func) == "str" and len(node.args) == 1:
        return node.args[0]
    if isinstance(node, ast.JoinedStr) and len(node.values) == 1:
        part = node.values[0]
        return part.value if isinstance(part, ast.FormattedValue) else None
    return None


def is_written(node: ast.expr) -> bool:
    """A device that is written down: `"cuda"`, `torch.device("cuda")`."""
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "device":
        return len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Constant)
    return isinstance(node, ast.Constant)
