"""What `devfix new` writes: a codemod that works, its tests, and a package around them."""

from __future__ import annotations

from devfix.config import ConfigError
from devfix.own.rules import ID

RULE = '''\
"""`{id}`: DESCRIBE IT IN A SENTENCE."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.api import Codemod, Example, Finding, Flow, Kind, ReplaceExpression, Safety

_BEFORE = """\\
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(3).to(torch.device(device))
print(x.sum().item())
"""
_AFTER = """\\
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(3).to(device)
print(x.sum().item())
"""
_LEFT_ALONE = """\\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.ones(3).to(device)
print(x.sum().item())
"""


@dataclass(frozen=True)
class {name}(Codemod):
    """Pass a device to `.to(...)` directly.

    ## What it does
    Finds `x.to(torch.device(device))` where `device` is known to be a device, and removes `torch.device`.

    ## Why is this bad?
    It is redundant. (This is an example: replace it by your own codemod.)

    ## Fix safety
    Safe: `.to` itself makes a torch.device of its argument.

    ## Options
    - `loud` (default false): add an exclamation mark to the message.
    """

    # The fields are the options: --option {id}.loud=true
    loud: bool = False

    id: ClassVar[str] = "{id}"
    # A file is only analysed if its text contains at least one word of each group.
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("torch.device",), (".to(",))
    # Complete programs that print numbers: both documentation and tests.
    examples: ClassVar[tuple[Example, ...]] = (
        Example("A device in a device", _BEFORE, _AFTER),
        Example("Trap: made where it is needed", _LEFT_ALONE),
    )

    def check(self, flow: Flow) -> Iterator[Finding]:
        source = flow.source
        for call in source.calls:
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "to" and call.args):
                continue
            argument = call.args[0]
            if not (isinstance(argument, ast.Call) and source.qualified(argument.func) == "torch.device"):
                continue
            if len(argument.args) != 1 or argument.keywords:
                continue
            device = argument.args[0]
            # What the device flow knows about the value: its kind and its place.
            if flow.value(device).kind is not Kind.DEVICE:
                continue
            yield self.finding(
                source.span(argument),
                f"`{{source.code(argument)}}` is `{{source.code(device)}}`{{'!' if self.loud else ''}}",
                title=f"use `{{source.code(device)}}`",
                edits=(ReplaceExpression(source.span(argument), source.code(device)),),
                safety=Safety.SAFE,
            )
'''

TESTS = '''\
"""The tests of devfix's own codemods, for `{id}`."""

from __future__ import annotations

from devfix.testing import CodemodTests

from {module} import {name}


class Test{name}(CodemodTests):
    codemod = {name}
    # True: also run the examples with torch, on the CPU and on CUDA, simulated if there is no GPU.
    cuda = False
'''

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{project}"
version = "0.1.0"
description = "Codemods for devfix"
requires-python = ">=3.10"
dependencies = ["devfix"]

[project.entry-points."devfix.codemods"]
{id} = "{module}:{name}"

[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""


def files(id: str, package: bool) -> dict[str, str]:
    """Name of a file -> its text, for a new codemod; raises ConfigError."""
    if not ID.match(id):
        raise ConfigError(f"an id is words of small letters and digits with - between them, not {id!r}")
    from devfix.codemod import registry

    if id in registry():
        raise ConfigError(f"devfix has a codemod {id!r} already; choose another id")
    module = id.replace("-", "_")
    name = "".join(word.capitalize() for word in id.split("-"))
    fill = {"id": id, "module": module, "name": name, "project": f"devfix-{id}"}
    found = {f"{module}.py": RULE.format(**fill), f"test_{module}.py": TESTS.format(**fill)}
    if package:
        found["pyproject.toml"] = PROJECT.format(**fill)
    return found
