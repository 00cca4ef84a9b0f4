"""The names that functions and classes of a project have in the files that see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.flow.lattice import Kind, Value
from devfix.project.foreign import ForeignProgram

if TYPE_CHECKING:
    from devfix.project.project import Project


@dataclass(frozen=True)
class Definition:
    """Something at the top level of a file: "def", "class" or "value"."""

    path: str
    name: str
    what: str


PREFIX = "project:"  # no name of a library begins like that


class NameOf:
    """The project's name of what a value of another file stands for."""

    def __init__(self, project: Project, program: ForeignProgram) -> None:
        self.project = project
        self.program = program

    def __call__(self, value: Value) -> str | None:
        """Empty for what has none; None for a module that is of no class of the project."""
        program, kind = self.program, value.kind
        if value.name.startswith(PREFIX):
            return value.name
        if kind is Kind.MODULE:
            return self._name(value.name, "class") if value.name in program.top_classes else None
        if kind is Kind.FUNCTION:
            info = program.top.get(value.name)
            return self._name(value.name, "def") if info is not None and info.node is value.node else ""
        owner = program.top_classes.get(value.name)
        return self._name(value.name, "class") if owner is not None and owner.node is value.node else ""

    def _name(self, name: str, what: str) -> str:
        return self.project.name(Definition(self.program.path, name, what))
