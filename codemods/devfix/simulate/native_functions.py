"""Which operations a CUDA build of torch has kernels for, from torchgen's native_functions.yaml.

The file ships in the wheel. It is regular enough to be read line by line, without a YAML library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from devfix.simulate.errors import CannotSimulate

_KEY = re.compile(r"^( +)(\S[^:]*):\s*(.*)$")


@dataclass
class NativeFunction:
    """One entry of the file."""

    name: str
    overload: str
    schema: str
    device_check: bool = True  # does the generated CUDA wrapper compare devices?
    structured: bool = False
    iterates: bool = False  # through TensorIterator, which has checks of its own
    delegate: str = ""
    there: bool = False  # do the devices have it?
    key: str = "CUDA"
    dispatch: dict[str, str] = field(default_factory=dict)  # dispatch key -> C++ function

    @property
    def method(self) -> str:
        """The name of the wrapper in RegisterCUDA.cpp, which is part of error messages."""
        # Is an argument by keyword written to?
        out = "!)" in self.schema.split("->")[0].partition("*, ")[2]
        name = f"{self.name}_out" if out else self.name
        if self.structured:
            return f"wrapper_{self.key}_{name}" + (f"_{self.overload}" if self.overload else "")
        return f"wrapper_{self.key}_{self.overload}_{name}"

    def sparse_method(self, key: str) -> str:
        """The name of the wrapper in RegisterSparseCUDA.cpp or RegisterSparseCsrCUDA.cpp."""
        name = self.method.removeprefix(f"wrapper_{self.key}_")
        if self.structured:
            name = f"{self.overload}_{name.removesuffix(f'_{self.overload}') if self.overload else name}"
        return f"wrapper_{key}_{name}"


def load(key: str = "CUDA", own: str = "") -> dict[str, NativeFunction]:
    """Every native function by `name.overload`, for devices with a dispatch key.

    They have what the table says of it, and what it says of `own`, by which messages name them.

    Raises CannotSimulate without the file.
    """
    import torchgen

    path = Path(torchgen.__path__[0]) / "packaged/ATen/native/native_functions.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CannotSimulate(f"cannot read {path}: {error}") from error
    functions = _parse(text)
    for function in functions.values():
        origin = functions[function.delegate] if function.delegate else function
        function.there = not {key, own}.isdisjoint((*origin.dispatch, *function.dispatch))
        function.key = own or key
        function.iterates = origin.iterates
        function.structured = function.structured or bool(function.delegate)
        function.device_check = function.device_check and key != "MPS"  # torchgen writes none for it
    return functions


def _parse(text: str) -> dict[str, NativeFunction]:
    functions: dict[str, NativeFunction] = {}
    current: NativeFunction | None = None
    in_dispatch = False
    for line in text.splitlines():
        if line.startswith("- func:"):
            schema = line[len("- func:") :].strip()
            full = schema.split("(", 1)[0]
            name, _, overload = full.partition(".")
            current = functions[full] = NativeFunction(name, overload, schema)
            in_dispatch = False
            continue
        if current is None or not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line)
        if not found:
            continue
        depth, key, value = len(found.group(1)), found.group(2), found.group(3).split("#")[0].strip()
        if depth == 2:
            in_dispatch = key == "dispatch"
            if key == "device_check" and value == "NoCheck":
                current.device_check = False
            elif key == "structured":
                current.structured = value.lower() == "true"
            elif key == "structured_inherits":
                current.iterates = value == "TensorIteratorBase"
            elif key == "structured_delegate":
                current.delegate = value
            elif key == "ufunc_inner_loop":
                current.dispatch["CPU"] = current.dispatch["CUDA"] = "ufunc"
        elif in_dispatch and depth == 4:
            for part in key.split(","):
                current.dispatch[part.strip()] = value
    return functions
