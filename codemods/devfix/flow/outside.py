"""What a file may ask about the other files of its project; without a project, nothing is known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis
    from devfix.engine.callers import Call
    from devfix.engine.files import File, Function, Resolver
    from devfix.findings import Finding
    from devfix.project.project import Project
    from devfix.text.source import Source


class Outside:
    """The other files of a project, as one file sees them: none, where it has no project."""

    def __init__(self, project: Project | None, path: str, source: Source) -> None:
        self.project, self.path, self.source = project, path, source

    def resolver(self) -> Resolver | None:
        """How the engine finds what the names of a file are in other files of the project; None if it cannot."""
        project = self.project

        def resolve(path: str, dotted: str) -> tuple[File, str] | None:
            assert project is not None
            return project.resolve(path if project.is_file(path) else self.path, dotted)

        return resolve if project is not None else None

    def calls(
        self, function: Function, tests: bool = True, *, alike: bool = False, of_objects: bool = False
    ) -> list[Call]:
        """What calls in other files pass to a function: see `engine.callers.Callers`."""
        made, owner = function.owner if function.name == "__init__" else None, function.owner
        if of_objects and owner is not None and made is None and self.project is not None:
            return self.project.callers.given_by_objects(self.path, owner.name, function.name)
        name, what = (function.name, "def") if made is None else (made.name, "class")
        if self.project is None or function.outer is not None or self._defined.get(name) != what:
            return []
        return self.project.callers.given(self.path, name, what, tests, alike)

    @cached_property
    def _defined(self) -> dict[str, str]:
        return self.project.outline_of(self.path, self.source).names if self.project else {}

    def sets_default(self) -> bool:
        """Is the default device set by a program that the asking file seems to be a part of?"""
        return self.project is not None and self.project.callers.sets_default(self.path)

    def default_is_other(self) -> bool:
        """Does a program that makes another device than the CPU the default load the asking file?"""
        return self.project is not None and self.project.callers.default_is_other(self.path)

    def saves_from_cpu(self) -> bool:
        """Does the project copy its checkpoints to the CPU before it saves them?"""
        return self.project is not None and self.project.callers.saves_from_cpu()

    def chooses(self) -> bool | None:
        """Does any file of the project show a choice between CUDA and something else? None: not known."""
        return self.project.facts.chooses() if self.project else None

    def moves(self) -> bool | None:
        """Does any file of the project put anything on a device, or leave that to a framework? None: not known."""
        return self.project.facts.moves(self.source.text) if self.project else None

    def moves_nothing(self) -> bool:
        """Do the asking file, those that get to it, some program among them, and all that these use, move nothing?"""
        return self.project is not None and self.project.runs.moves_nothing(self.path)

    def torch_before(self, version: tuple[int, int]) -> str:
        """The requirement that keeps the project's torch below a version; empty if none does, or it is not known."""
        return self.project.files.torch_before(version) if self.project else ""

    def needs_cuda(self) -> bool | None:
        """Does the asking file, what it imports, or all who import it run on CUDA only? None: not known."""
        return self.project.facts.needs_cuda(self.path) if self.project else None

    def other_gpu(self) -> bool | None:
        """Does any file of the project show a GPU besides the current one? None: not known."""
        return self.project.facts.other_gpu() if self.project else None

    def runs_without_cuda(self, name: str, itself: bool) -> bool | None:
        """Does a program of the project that can do without CUDA get to a function or class of the asking file?

        An empty name stands for what is done as the file is loaded. `itself`: the asking file counts if it is
        a program. None: not known.
        """
        if self.project is None:
            return None
        return self.project.runs.without_cuda(self.path, self.source.text, name, itself)

    def runs_chosen(self, name: str, itself: bool = True) -> bool | None:
        """Does a program that chooses its device, or whoever installs the project, get to a function or class?

        `itself`: does the asking file count where it is a program that shows a choice?
        None: no program gets to it, or it is not known.
        """
        return self.project.runs.chosen(self.path, self.source.text, name, itself) if self.project else None

    def runs_on_cuda(self, name: str) -> bool | None:
        """Do only programs that go to the current GPU in any case get to a function or class? None: not known."""
        return self.project.runs.on_cuda(self.path, self.source.text, name) if self.project else None

    def is_in_view(self) -> bool:
        """Does the project show programs, or another file that uses the asking one?"""
        if self.project is None:
            return False
        return bool(self._importers()) or self.project.runs.all_on_cuda() is not None

    def _importers(self) -> list[str]:
        """The files that import something of the asking file, without tests."""
        if self.project is None:
            return []
        found, runs = self.project.imports.importers(self.path), self.project.runs
        return [one for one in found if not runs.is_test(one)]

    def loads_by_name(self) -> bool:
        """Does any file of the project get functions by names that stand in a recipe or a setting?"""
        return self.project is not None and self.project.facts.loads_by_name()

    def is_one_of_several(self) -> bool:
        """Do other files of the project use torch?"""
        return self.project is not None and len(self.project.callers.importing("torch")) > 1

    def is_uncalled(self, name: str) -> bool:
        """Does nothing call a function or method of the asking file, which is a program or used by other files?"""
        facts = self.project.facts if self.project else None
        if facts is None or ("__main__" not in self.source.text and not self._importers()):
            return False
        return not facts.loads_by_name() and self.used(name) is False

    def is_unused(self, name: str) -> bool:
        """Does nothing name a class of the asking file, of which other files use something else?"""
        facts = self.project.facts if self.project else None
        return (
            facts is not None
            and bool(self._importers())
            and not facts.loads_by_name()
            and self.used(name) is False
        )

    def all_on_cuda(self) -> bool | None:
        """Do the programs of the project that show a choice go to CUDA all the same? None: none is known."""
        return self.project.runs.all_on_cuda() if self.project else None

    def runs_elsewhere(self, name: str) -> bool | None:
        """Does a program whose tensors are on another GPU than the current one get to a function or class?"""
        return self.project.runs.elsewhere(self.path, self.source.text, name) if self.project else None

    def goes_to_cuda(self, names: Sequence[str], steps: int = sys.maxsize) -> bool | None:
        """Does the asking file, or what it uses of others, go to CUDA without asking? None: not known.

        `names`: of the function that asks, and its class, besides what runs as the file is loaded. `steps`: how many
        times what is used counts as using what it names; there may be a choice among what is far away.
        """
        return self.project.facts.goes_to_cuda(self.path, self.source, names, steps) if self.project else None

    def uses_cuda(self) -> bool:
        """Does anything that the asking file uses of other files go to CUDA without asking?"""
        return self.project is not None and self.project.facts.uses_cuda(self.path, self.source)

    def called_after(self, name: str, before: str) -> bool:
        """Do all who call a function of the asking file call another one of it first, in the same place?"""
        facts = self.project.facts if self.project else None
        return facts is not None and facts.called_after(self.path, self.source, name, before)

    def called_after_download(self, name: str) -> bool:
        """Do all who call a function, or make an object of a class, of the asking file download something first?"""
        facts = self.project.facts if self.project else None
        return facts is not None and facts.called_after_download(self.path, self.source, name)

    def saved_without_cuda(self, name: str) -> bool:
        """Is a file of that name written by scripts that say nothing of CUDA, and by nobody else?"""
        return self.project is not None and self.project.facts.saved_without_cuda(name)

    def is_run(self, name: str) -> bool:
        """Do programs of the project, and nobody who installs it, get to a function or class of the asking file?"""
        return self.project is not None and self.project.runs.reached(self.path, self.source.text, name)

    def is_unreached(self, name: str) -> bool:
        """Do programs or tests get to the asking file, but none to a function or class of it?

        Or do packages pass that on to nobody, or is it for tests?
        """
        return self.project is not None and self.project.runs.unreached(self.path, self.source.text, name)

    def writes_optimizers(self) -> bool:
        """Does any checkpoint of the project hold the state of an optimizer?"""
        return self.project is not None and self.project.facts.writes_optimizers()

    def writes_from_cpu(self) -> bool:
        """Does the project write checkpoints, and all of them from the CPU?"""
        return self.project is not None and self.project.facts.writes_from_cpu()

    def writes(self) -> bool | None:
        """Does any file of the project write checkpoints? None: not known."""
        return self.project.facts.writes() if self.project else None

    def runs_moved(self, name: str) -> bool | None:
        """Does what gets to a function or class of the asking file move anything at all? None: not known."""
        return self.project.runs.moved(self.path, self.source.text, name) if self.project else None

    def used(self, name: str) -> bool | None:
        """Is a function or method of the asking file mentioned anywhere but in its `def`? None: not known."""
        return self.project.facts.used(self.path, self.source, name) if self.project else None

    def told(
        self, check: Callable[[Analysis], list[tuple[Finding, set[int]]]]
    ) -> list[tuple[Finding, set[int]]]:
        """What `check` finds in the asking file, each with its lines, where programs that load it are followed."""
        return self.project.callers.told(self.path, self.source.text, check) if self.project else []
