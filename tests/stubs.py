"""Stub codemods with simple rules, so that the way around the analysis is tested on its own."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from devfix.codemod import Codemod, Example
from devfix.findings import (
    DeleteStatement,
    Finding,
    InsertStatement,
    Related,
    ReplaceExpression,
    Safety,
)
from devfix.flow import Flow


def names(flow: Flow, name: str) -> Iterator[ast.Name]:
    for node in flow.source.walk():
        if isinstance(node, ast.Name) and node.id == name:
            yield node


@dataclass(frozen=True)
class Rename(Codemod):
    """Replace alpha by beta.

    What it does: for tests.
    """

    id = "rename-alpha"
    words = (("alpha",),)
    examples = (Example("a name", "alpha = 1\n", "beta = 1\n"), Example("none", "gamma = 1\n"))

    safety: Literal["safe", "unsafe", "manual"] = "safe"
    loud: bool = False
    to: str = "beta"
    times: int = 1

    def check(self, flow: Flow) -> Iterator[Finding]:
        for node in names(flow, "alpha"):
            span = flow.source.span(node)
            yield self.finding(
                span,
                "`alpha` is old" + ("!" if self.loud else ""),
                title=f"replace it by `{self.to}`",
                edits=(ReplaceExpression(span, self.to * self.times),),
                safety=Safety[self.safety.upper()],
                related=(Related(span, "right here"),),
            )


@dataclass(frozen=True)
class Insert(Codemod):
    """Put a call after every statement `anchor()`, and remove `old()`."""

    id = "insert-call"
    words = (("anchor", "old"),)
    examples = ()
    default = False

    def check(self, flow: Flow) -> Iterator[Finding]:
        source = flow.source
        for node in source.walk():
            if isinstance(node, ast.Expr) and source.code(node) == "anchor()":
                block = source.block(node)
                after = block[block.index(node) + 1 :]
                if not after or source.code(after[0]) != "placed()":
                    edit = InsertStatement(source.span(node), "placed()")
                    yield self.finding(source.span(node), "no call", title="add `placed()`", edits=(edit,))
            if isinstance(node, ast.Expr) and source.code(node) == "old()":
                span = source.span(node)
                yield self.finding(span, "old call", title="remove it", edits=(DeleteStatement(span),))


@dataclass(frozen=True)
class Flip(Codemod):
    """Never content: ping becomes pong, and pong ping."""

    id = "flip"
    words = (("ping", "pong"),)
    examples = ()
    default = False

    def check(self, flow: Flow) -> Iterator[Finding]:
        for old, new in (("ping", "pong"), ("pong", "ping")):
            for node in names(flow, old):
                span = flow.source.span(node)
                yield self.finding(span, old, title=new, edits=(ReplaceExpression(span, new),))


@dataclass(frozen=True)
class Grow(Codemod):
    """Never content: `grow` is always one short."""

    id = "grow"
    words = (("grow",),)
    examples = ()
    default = False

    def check(self, flow: Flow) -> Iterator[Finding]:
        for node in flow.source.walk():
            if isinstance(node, ast.Name) and node.id.startswith("grow"):
                span = flow.source.span(node)
                yield self.finding(
                    span, "short", title="grow", edits=(ReplaceExpression(span, node.id + "w"),)
                )


def nest() -> None:
    nest()


@dataclass(frozen=True)
class Trouble(Codemod):
    """Does what a name in the file says: crash, sleep, die, nest."""

    id = "trouble"
    words = (("_here",),)
    examples = ()
    default = False

    def check(self, flow: Flow) -> Iterator[Finding]:
        for node in flow.source.walk():
            if isinstance(node, ast.Name) and node.id == "crash_here":
                raise KeyError("oh")
            if isinstance(node, ast.Name) and node.id == "sleep_here":
                open("asleep", "w").close()  # for tests that wait until it is
                time.sleep(60)
            if isinstance(node, ast.Name) and node.id == "die_here":
                os._exit(3)
            if isinstance(node, ast.Name) and node.id == "nest_here":
                nest()
            if isinstance(node, ast.Name) and node.id == "memory_here":
                raise MemoryError
        yield from ()


STUBS: dict[str, type[Codemod]] = {kind.id: kind for kind in (Rename, Insert, Flip, Grow, Trouble)}


def stub_cli() -> int:
    """`devfix` with the stubs in the place of its own codemods."""
    take_their_place()
    from devfix.cli import main

    return main()


def take_their_place() -> None:
    import devfix.codemod
    import stubs  # by its name, so that worker processes find the classes

    devfix.codemod.registry = lambda: dict(stubs.STUBS)  # type: ignore[assignment]


def prepare() -> None:
    """Import what takes most of the time."""
    take_their_place()
    for name in ("checkers.besides", "commands.apply", "commands.check", "commands.diff", "pipeline.runner"):
        importlib.import_module(f"devfix.{name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        from forked import serve

        prepare()
        serve()
    sys.exit(stub_cli())
