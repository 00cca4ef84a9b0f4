"""Device expressions as text that is right for each form that a device may have."""

from __future__ import annotations

import ast

from devfix.engine.analysis import Analysis
from devfix.engine.facts import DeviceUse
from devfix.engine.forms import ANY, NO_FORMS, Forms, is_object, of_text
from devfix.engine.values import Value
from devfix.findings import Edit, EnsureImport
from devfix.text.placing import dotted
from devfix.text.source import Source


class Writing:
    """Writes device expressions for one file, with the name that it has for torch."""

    def __init__(self, analysis: Analysis) -> None:
        self.source = analysis.file.source
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
        return code if is_object(forms) else f"{self.torch}.device({code})"

    def type_of(self, use: DeviceUse, node: ast.expr, forms: Forms | None = None) -> str:
        """The type of a device; by its string where it may be None, or a word that is no device."""
        forms = use.forms if forms is None else forms
        inner = printed(node, self.source)
        if inner is not None:
            return f"{self.device_of(use, node)}.type"
        code = self.source.code(node)
        if is_object(forms):
            return f"{code}.type"
        if self._may_be_no_device(use, node, forms):
            return f'str({code}).partition(":")[0]'
        return f"{self.torch}.device({code}).type"

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
