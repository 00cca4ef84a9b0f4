"""What the steps of the processes of a program come to: which exclude each other, and whether a device is set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from devfix.engine.facts import Step
from devfix.engine.files import Class
from devfix.engine.visible import VISIBLE
from devfix.models import frameworks
from devfix.models.loader import models

if TYPE_CHECKING:
    from devfix.engine.analysis import Analysis


class Steps:
    """The steps of an analysis.

    - `joins`: where a process becomes a member of a group; `starts`: where the program starts processes itself.
    - `is_owned`: does a framework start the processes, or set their devices?
    """

    def __init__(self, analysis: Analysis) -> None:
        self._file, self._steps = analysis.file, analysis.steps
        self.joins = self.every("joins")
        self.starts = [*self.every("spawn"), *self.every("starts")]
        self.is_owned = any(frameworks.owns_processes(one) for one in self._file.source.imports.values())

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def every(self, *kinds: str) -> list[Step]:
        """The steps of these kinds, in all files and on all ways."""
        return [one for one in self._steps if one.kind in kinds]

    def here(self, kind: str) -> list[Step]:
        """The steps of a kind in the file itself, each of its nodes once."""
        found: dict[ast.AST, Step] = {}
        for one in self.every(kind):
            if one.file is self._file:
                found.setdefault(one.node, one)
        return list(found.values())

    def is_set(self, step: Step) -> bool:
        """May anything have set the device of the process that takes a step?"""
        same = [one for one in self._steps if one.node is step.node and one.kind == step.kind]
        by_node: dict[ast.AST, list[Step]] = {}
        for one in self.every("sets"):
            by_node.setdefault(one.node, []).append(one)
        for settings in by_node.values():
            # What is known of one run says more than two runs of which nothing else is known.
            together = [(a, b) for a in settings for b in same if a.running[-1] is b.running[-1]]
            if any(not exclude(a, b) for a, b in together):
                return True
            if not together and any(related(a, b) for a in settings for b in same):
                return True
        return any(
            VISIBLE in one.texts and not (isinstance(one.value.const, str) and "," in one.value.const)
            for one in self.every("environ")
        )


def for_accelerators(backend: str) -> bool:
    """Does a backend take tensors of accelerators only?"""
    return models().process(f"backend.{backend}") == "accelerator"


def joins_accelerators(join: Step) -> bool:
    """Does a group work on accelerators only, at least where the program runs on one?"""
    return "?" not in join.texts and "" not in join.texts and any(for_accelerators(one) for one in join.texts)


def exclude(a: Step, b: Step) -> bool:
    """Are two steps on ways of which a run takes one?"""
    return any((condition, not holds) in b.path for condition, holds in a.path)


def related(a: Step, b: Step) -> bool:
    """May one process take both steps? Not those of classes that have nothing to do with each other."""
    if any(one is not None for one in set(a.running) & set(b.running)):
        return True
    return _owner(a) is None or _owner(b) is None or of_one_class(a, b)


def of_one_class(a: Step, b: Step) -> bool:
    """Are two steps in methods of one class, or of a class and its base?"""
    one, other = _owner(a), _owner(b)
    return one is not None and other is not None and (one in other.lineage or other in one.lineage)


def _owner(step: Step) -> Class | None:
    return step.function.owner if step.function is not None else None
