"""register-buffer: tensors that a constructor is given, and methods that a module is called by."""

from __future__ import annotations

import pytest
from applying import findings
from devfix.findings import Safety
from devfix.rules.register_buffer import RegisterBuffer

HEAD = "import torch\nfrom typing import Optional\nfrom torch import Tensor, nn\n\n\n"
CLASS = (
    "class Shift(nn.Module):\n    def __init__(self, table{annotation}):\n        super().__init__()\n"
    "        {store}\n\n    def {method}(self, x: Tensor):\n        return {use}\n"
)
FOUND = {
    "a tensor": {},
    "an optional tensor": {"annotation": ": Optional[Tensor] = None"},
    "a tensor or None": {"annotation": ": Tensor | None"},
    "of a class without a forward": {"method": "transform"},
    "made of a list": {"annotation": ": list[int]", "store": "self.table = torch.tensor(table)", "use": "x + self.table"},
    "made of a list that may be left out": {"annotation": ": Optional[list] = None", "store": "self.table = torch.as_tensor(table)", "use": "x + self.table"},
    "dimensions unknown": {"use": "x + self.table"},
    "handed to a static method": {"use": "Shift.add(x=x, y=self.table)\n    @staticmethod\n    def add(x, y):\n        return x + y[:2]"},
}  # fmt: skip
SILENT = {
    "not annotated": {"annotation": ""},
    "perhaps a parameter": {"annotation": ": Tensor | nn.Parameter"},
    "perhaps a number": {"annotation": ": Tensor | float"},
    "no dimensions": {"use": "x + self.table.reshape(())"},
    "perhaps one number": {"annotation": ": float", "store": "self.table = torch.tensor(table)", "use": "x + self.table"},
    "moved if it is made here": {
        "annotation": ": Optional[Tensor] = None, device=None",
        "store": "self.table = table if table is not None else torch.ones(4).to(device)",
    },
    "moved at its use": {"use": "x + self.table[:2].to(x.device)"},
    "a method that prepares data": {"method": "collate"},
}  # fmt: skip


def program(change: dict[str, str]) -> str:
    parts = {
        "annotation": ": Tensor",
        "store": "self.table = table",
        "method": "forward",
        "use": "x + self.table[:2]",
    }
    return HEAD + CLASS.format(**{**parts, **change})


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    found = findings(RegisterBuffer(), program(FOUND[name]))
    safety = Safety.SAFE if "made of a list" in name else Safety.UNSAFE
    assert [(f.codemod, f.fix.safety if f.fix else None) for f in found] == [("register-buffer", safety)]


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert not findings(RegisterBuffer(), program(SILENT[name]))


def test_what_two_modules_keep_is_registered_by_the_one_that_uses_it() -> None:
    """A buffer of the outer module is moved by a copy, of which the inner one knows nothing."""
    text = (
        f"{HEAD}class Inner(nn.Module):\n    def __init__(self, table):\n        super().__init__()\n"
        "        self.table = table\n\n    def forward(self, x: Tensor):\n        return x + self.table\n\n\n"
        "class Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.rows = torch.ones(4)\n        self.inner = Inner(self.rows)\n\n"
        "    def forward(self, x: Tensor):\n        return self.inner(x)\n"
    )
    (finding,) = findings(RegisterBuffer(), text)
    assert text[finding.span.start : finding.span.end] == "self.table = table"
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


def test_what_is_a_parameter_in_one_arm_is_no_buffer() -> None:
    store = "self.table = nn.Parameter(torch.ones(4)) if table else torch.ones(4)"
    (finding,) = findings(RegisterBuffer(), program({"annotation": ": bool", "store": store}))
    assert finding.fix is None


def test_a_base_of_the_file_is_not_judged_by_its_name() -> None:
    """`class Shift(InputTransform, nn.Module)` is a module, where the file shows what the first one is."""
    text = program({"method": "transform"}).replace("(nn.Module)", "(InputTransform, nn.Module)")
    base = "class InputTransform:\n    def equals(self, other):\n        return False\n\n\n"
    assert findings(RegisterBuffer(), text.replace(HEAD, HEAD + base))
    assert not findings(RegisterBuffer(), text)
