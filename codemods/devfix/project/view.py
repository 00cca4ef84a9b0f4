"""What one file sees of the others: the answers to what is asked of its project."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cached_property

from devfix.engine.callers import Call
from devfix.engine.files import File, Function, Resolver
from devfix.flow.outside import Outside
from devfix.project import versions
from devfix.project.callers import Check, Told
from devfix.project.outline import Definition, Outline
from devfix.project.project import Project
from devfix.text.source import Source


class View(Outside):
    """See `Outside`."""

    def __init__(self, project: Project, path: str, source: Source) -> None:
        self.project = project
        self.path = path
        self.source = source

    @cached_property
    def _outline(self) -> Outline:
        return self.project.outline_of(self.path, self.source)

    def resolver(self) -> Resolver:
        def resolve(path: str, dotted: str) -> tuple[File, str] | None:
            return self.project.resolve(path if self.project.is_file(path) else self.path, dotted)

        return resolve

    def sets_default(self) -> bool:
        return self.project.callers.sets_default(self.path)

    def default_is_other(self) -> bool:
        return self.project.callers.default_is_other(self.path)

    def saves_from_cpu(self) -> bool:
        return self.project.callers.saves_from_cpu()

    def chooses(self) -> bool | None:
        return self.project.facts.chooses()

    def torch_before(self, version: tuple[int, int]) -> str:
        files = self.project.files
        paths = (os.path.join(files.root, name) for name in versions.FILES)
        return versions.torch_before((files.text(path) for path in paths if files.is_file(path)), version)

    def needs_cuda(self) -> bool | None:
        return self.project.facts.needs_cuda(self.path)

    def other_gpu(self) -> bool | None:
        return self.project.facts.other_gpu()

    def goes_to_cuda(self, names: Sequence[str], steps: int = sys.maxsize) -> bool | None:
        return self.project.facts.goes_to_cuda(self.path, self.source, names, steps)

    def called_after(self, name: str, before: str) -> bool:
        return self.project.facts.called_after(self.path, self.source, name, before)

    def called_after_download(self, name: str) -> bool:
        return self.project.facts.called_after_download(self.path, self.source, name)

    def saved_without_cuda(self, name: str) -> bool:
        return self.project.facts.saved_without_cuda(name)

    def is_unreached(self, name: str) -> bool:
        return self.project.runs.unreached(self.path, self.source.text, name)

    def writes_from_cpu(self) -> bool:
        return self.project.facts.writes_from_cpu()

    def writes(self) -> bool | None:
        return self.project.facts.writes()

    def runs_without_cuda(self, name: str, itself: bool) -> bool | None:
        return self.project.runs.without_cuda(self.path, self.source.text, name, itself)

    def runs_chosen(self, name: str, itself: bool = True) -> bool | None:
        return self.project.runs.chosen(self.path, self.source.text, name, itself)

    def runs_on_cuda(self, name: str) -> bool | None:
        return self.project.runs.on_cuda(self.path, self.source.text, name)

    def is_in_view(self) -> bool:
        return bool(self.project.facts.importers(self.path)) or self.project.runs.all_on_cuda() is not None

    def is_uncalled(self, name: str) -> bool:
        facts = self.project.facts
        if "__main__" not in self.source.text and not facts.importers(self.path):
            return False
        return not facts.loads_by_name() and self.used(name) is False

    def all_on_cuda(self) -> bool | None:
        return self.project.runs.all_on_cuda()

    def runs_elsewhere(self, name: str) -> bool | None:
        return self.project.runs.elsewhere(self.path, self.source.text, name)

    def runs_moved(self, name: str) -> bool | None:
        return self.project.runs.moved(self.path, self.source.text, name)

    def used(self, name: str) -> bool | None:
        return self.project.facts.used(self.path, self.source, name)

    def calls(self, function: Function, tests: bool = True) -> list[Call]:
        made = function.owner if function.name == "__init__" else None
        name, what = (function.name, "def") if made is None else (made.name, "class")
        if function.outer is not None or self._outline.names.get(name) != what:
            return []
        return self.project.callers.given(Definition(self.path, name, what), tests)

    def told(self, check: Check) -> list[Told]:
        return self.project.callers.told(self.path, self.source.text, check)
