"""What the flow of one file may ask about the other files of its project.

The answers are values like any other, whose nodes are those of the asking file: nothing of another
file's tree gets into a flow. `devfix.project` gives them; without it, nothing is known.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devfix.findings import Related, Span
from devfix.flow import frameworks, torch_api
from devfix.flow.lattice import Value

if TYPE_CHECKING:
    from devfix.engine.files import Resolver
    from devfix.flow.frame import Arguments, Frame
    from devfix.source import Source

# `Value.form` of functions, classes and instances of other files; `Value.name` says which.
OUTSIDE = "outside"


class Elsewhere(ast.expr):
    """Stands for an expression of another file; where it has a position, that is the call that led there."""

    path = ""  # of the other file
    line = 0
    column = 0


def came_from(node: ast.AST | None, message: str) -> tuple[Related, ...]:
    """Where in another file something is that `node` stands for; nothing for a node of this file."""
    if isinstance(node, Elsewhere) and node.line:
        return (Related(Span(0, 0), message, node.path, node.line, node.column),)
    return ()


@dataclass(frozen=True)
class Bases:
    """What the bases of a class make of it: see `ClassInfo`."""

    module: bool = False
    host: bool = False
    owned: bool = False


def judged(bases: Sequence[str], known: Mapping[str, Bases]) -> Bases:
    """What a class with these bases, by their qualified names, is; `known` are those in view."""
    module = host = owned = False
    for base in bases:
        parent = known.get(base)
        last = base.rpartition(".")[2]
        module = (
            module
            or base in torch_api.MODULE_BASES
            or last == "Module"
            or last.endswith(("PreTrainedModel", "ModelMixin"))
            or base.startswith("torch.nn.")
            or (parent is not None and parent.module)
        )
        host = host or last.endswith(frameworks.HOST_BASES) or (parent is not None and parent.host)
        # A class in view is judged by its own bases, whatever its name.
        owned = owned or (frameworks.owns_subclasses(base) if parent is None else parent.owned)
    return Bases(module, host, owned)


class Outside(ABC):
    """The other files of the project, as one file sees them through its imports."""

    @abstractmethod
    def named(self, path: str) -> Value | None:
        """What an imported name stands for, or a path below one, as it is written; None if not known."""

    @abstractmethod
    def call(
        self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments, receiver: Value | None
    ) -> Value | None:
        """Apply a function or method to arguments; None if nothing is known of it after all."""

    @abstractmethod
    def construct(self, caller: Frame, node: ast.Call, callee: Value, arguments: Arguments) -> Value | None:
        """Make an instance of a class; None if nothing is known of it after all."""

    @abstractmethod
    def method(self, base: Value, name: str) -> Value | None:
        """A method of an instance of a class that is no module."""

    @abstractmethod
    def surgery(self, base: Value, name: str) -> Value | None:
        """A method of a module, if it attaches or moves something of the module."""

    @abstractmethod
    def settles(self, base: Value, name: str) -> bool:
        """Does a method of a module move what it is given by itself?"""

    @abstractmethod
    def attribute(self, base: Value, name: str, node: ast.expr) -> Value | None:
        """An attribute of an instance, as `__init__` leaves it."""

    @abstractmethod
    def calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[Value, ...]]:
        """What calls in other files pass for the parameters of a function of the asking file.

        Nothing if not all of them are known.
        """

    @abstractmethod
    def bases(self, dotted: str) -> Bases | None:
        """What a class hands down to those derived from it; leading dots mark a relative import."""

    def written(self, name: str, path: str = "") -> tuple[str, Source, ast.ClassDef] | None:
        """A class of the project, its file and that file's source, by its name as `Value.name` or imports give it.

        `path` is the file that imports it, the asking one where it is empty.
        """
        return None

    def resolver(self) -> Resolver | None:
        """How the engine finds what the names of a file are in other files of the project; None if it cannot."""
        return None

    @abstractmethod
    def sets_default(self) -> bool:
        """Is the default device set by a program that the asking file seems to be a part of?"""

    def default_is_other(self) -> bool:
        """Does a program that makes another device than the CPU the default load the asking file?"""
        return False

    @abstractmethod
    def saves_from_cpu(self) -> bool:
        """Does the project copy its checkpoints to the CPU before it saves them?"""

    def chooses(self) -> bool | None:
        """Does any file of the project show a choice between CUDA and something else? None: not known."""
        return None

    def needs_cuda(self) -> bool | None:
        """Does the asking file, what it imports, or all who import it run on CUDA only? None: not known."""
        return None

    def other_gpu(self) -> bool | None:
        """Does any file of the project show a GPU besides the current one? None: not known."""
        return None

    def runs_without_cuda(self, name: str, itself: bool) -> bool | None:
        """Does a program of the project that can do without CUDA get to a function or class of the asking file?

        An empty name stands for what is done as the file is loaded. `itself`: the asking file counts if it is
        a program. None: not known.
        """
        return None

    def runs_chosen(self, name: str) -> bool | None:
        """Does a program that chooses its device, or whoever installs the project, get to a function or class?

        None: no program gets to it, or it is not known.
        """
        return None

    def runs_elsewhere(self, name: str) -> bool | None:
        """Does a program whose tensors are on another GPU than the current one get to a function or class?"""
        return None

    def goes_to_cuda(self, names: Sequence[str]) -> bool | None:
        """Does the asking file, or what it uses of others, go to CUDA without asking? None: not known.

        `names`: of the function that asks, and its class, besides what runs as the file is loaded.
        """
        return None

    def called_after(self, name: str, before: str) -> bool:
        """Do all who call a function of the asking file call another one of it first, in the same place?"""
        return False

    def called_after_download(self, name: str) -> bool:
        """Do all who call a function, or make an object of a class, of the asking file download something first?"""
        return False

    def saved_without_cuda(self, name: str) -> bool:
        """Is a file of that name written by scripts that say nothing of CUDA, and by nobody else?"""
        return False

    def writes(self) -> bool | None:
        """Does any file of the project write checkpoints? None: not known."""
        return None

    def runs_moved(self, name: str) -> bool | None:
        """Does what gets to a function or class of the asking file move anything at all? None: not known."""
        return None

    def used(self, name: str) -> bool | None:
        """Is a function or method of the asking file mentioned anywhere but in its `def`? None: not known."""
        return None
