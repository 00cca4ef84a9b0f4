"""Findings about the processes of a distributed program: whose device is whose.

- https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html: each process works on a
  device of its own, by `torch.cuda.set_device` or `CUDA_VISIBLE_DEVICES`
- https://pytorch.org/docs/stable/distributed.html: objects are gathered over the current device
- https://pytorch.org/docs/stable/elastic/run.html: `LOCAL_RANK` and `RANK`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_local_rank
from devfix.engine.facts import Step
from devfix.engine.places import LITERAL
from devfix.engine.steps import Steps, exclude, joins_accelerators, of_one_class
from devfix.engine.values import GLOBAL, LOCAL, MAKE, MODULE, NAME
from devfix.findings import (
    Edit,
    EnsureImport,
    Finding,
    InsertStatement,
    MoveStatement,
    Related,
    ReplaceExpression,
    told,
)
from devfix.text.loaded import last_name
from devfix.text.placing import bound_before


def findings(analysis: Analysis) -> Iterator[Finding]:
    """What is wrong with the processes of a program, in one file."""
    steps = Steps(analysis)
    if steps.is_owned:
        return
    program = Program(analysis, steps)
    yield from program.moved_too_early()
    yield from program.on_the_first()
    yield from program.without_device()
    yield from program.objects()
    yield from program.global_numbers()


class Program:
    """The findings of one file."""

    def __init__(self, analysis: Analysis, steps: Steps) -> None:
        self.analysis, self.source, self.steps = analysis, analysis.file.source, steps

    def without_device(self) -> Iterator[Finding]:
        """A process joins a group of an accelerator's backend and has a number, but uses the current device."""
        source = self.source
        for join in self.steps.here("joins"):
            if not joins_accelerators(join):
                continue
            every = [one for one in self.steps.joins if one.node is join.node]
            numbers = [use for one in every for use in self._numbers(one)]
            if not numbers or self.steps.is_set(join):
                continue
            if all(one.kind == "index" for one in numbers) and not self.steps.every("current"):
                continue  # all that is placed is placed by number
            text, edits = self._set_device(every, numbers)
            if not text:
                at = numbers[0].at
                text = source.code(at) if at is not None else min(numbers[0].local, key=len)
            yield told(
                "one-device",
                source.span(join.node),
                f"the process group uses the current GPU, and nothing sets it for process `{text}`: "
                "all processes use the first GPU",
                f"call `torch.cuda.set_device({text})`",
                edits,
                assumes=f"`{text}` is the number of its GPU",
            )

    def _numbers(self, join: Step) -> list[Step]:
        """The uses of the process's number as that of a device, in the same run or class as a join.

        Where the device is set on another way through the function, the number is enough.
        """
        found = []
        others = [one for one in self.steps.every("sets") if set(one.running) & set(join.running)]
        if join.local and any(exclude(one, join) for one in others):
            found.append(join)
        for one in (*self.steps.every("index"), *self.steps.every("bare")):
            if one.value.role != LOCAL and not (one.kind == "bare" and one.local):
                continue
            if one.file is not self.analysis.file or exclude(one, join):
                continue
            if not (set(one.running) & set(join.running)) and not of_one_class(one, join):
                continue
            by_name = any(assumed.kind == NAME for assumed in one.value.assumed)
            if by_name and isinstance(one.at, ast.Name) and None not in one.running:
                continue  # a parameter: its caller may have set the device
            found.append(one)
        return found

    def _set_device(self, joins: list[Step], numbers: list[Step]) -> tuple[str, tuple[Edit, ...]]:
        """The number of a process, and the call that sets its device: below the join, or where the number is."""
        source = self.source
        statement = source.statement(joins[0].node)
        if "torch" not in source.imports or not isinstance(statement, ast.Expr):
            return "", ()
        local = [text for one in joins for text in one.local]
        for text in sorted(local, key=lambda one: (one.count("."), len(one))):
            if bound_before(source, ast.parse(text, mode="eval").body, statement):
                return text, (InsertStatement(source.span(statement), f"torch.cuda.set_device({text})"),)
        for use in numbers:
            there = source.statement(use.node)
            if (
                use.at is None
                or use.function is not joins[0].function
                or there not in source.block(statement)
            ):
                continue
            text, is_later = source.code(use.at), there.lineno > statement.lineno
            if "\n" not in text and bound_before(source, use.at, there):
                anchor = source.span(there if is_later else statement)
                return text, (InsertStatement(anchor, f"torch.cuda.set_device({text})", before=is_later),)
        return "", ()

    def objects(self) -> Iterator[Finding]:
        """Objects are gathered over the current device, and nothing sets that."""
        source = self.source
        if not any(joins_accelerators(one) and one.file is self.analysis.file for one in self.steps.joins):
            return
        for one in self.steps.here("current"):
            if "group" in one.texts or self.steps.is_set(one):
                continue
            rank = min((text for text in one.local), key=len, default="")
            statement = source.statement(one.node)
            edits: tuple[Edit, ...] = ()
            if rank and "torch" in source.imports:
                edits = (
                    InsertStatement(source.span(statement), f"torch.cuda.set_device({rank})", before=True),
                )
            assert isinstance(one.node, ast.Call)
            yield told(
                "one-device",
                source.span(one.node),
                f"`{source.code(one.node.func)}` uses the current GPU, and nothing sets it for each process: "
                "call `torch.cuda.set_device` first",
                f"call `torch.cuda.set_device({rank})`" if rank else "",
                edits,
                assumes=f"`{rank}` is the number of its GPU",
            )
            return

    def on_the_first(self) -> Iterator[Finding]:
        """A module that gets `device_ids` is on the current device, which nothing sets, or on the CPU."""
        source = self.source
        for wrap in self.steps.here("wraps"):
            if wrap.at is None or isinstance(wrap.at, ast.Constant) or wrap.value.kind != MODULE:
                continue
            assert isinstance(wrap.node, ast.Call)
            text, name = source.code(wrap.at), source.code(wrap.node.args[0])
            place = wrap.place
            made = wrap.value.links and wrap.value.links[0].kind == MAKE
            if place.on_host and made and not wrap.value.assumed and not self._moved_elsewhere(wrap, name):
                statement = source.statement(wrap.node)
                if bound_before(source, wrap.node.args[0], statement) and isinstance(
                    wrap.node.args[0], ast.Name
                ):
                    yield told(
                        "one-device",
                        source.span(wrap.node),
                        f"`{name}` is on the CPU; DistributedDataParallel with `device_ids` needs it on `{text}`",
                        f"move `{name}` to `{text}` first",
                        (InsertStatement(source.span(statement), f"{name}.to({text})", before=True),),
                        assumes="nothing else has moved it",
                    )
            elif place.kind == LITERAL and place.key == "cuda":
                move = self._bare(wrap, name)
                if move is None or self.steps.is_set(wrap):
                    continue
                statement = source.statement(move)
                edits: tuple[Edit, ...] = ()
                if bound_before(source, wrap.at, statement) and "torch" in source.imports:
                    edits = (
                        InsertStatement(
                            source.span(statement), f"torch.cuda.set_device({text})", before=True
                        ),
                    )
                yield told(
                    "one-device",
                    source.span(move),
                    f"every process puts `{name}` on the first GPU: nothing sets the device of process `{text}`",
                    f"call `torch.cuda.set_device({text})` first",
                    edits,
                    related=(Related(source.span(wrap.at), f"`{text}` is the GPU of this process"),),
                    assumes="nothing sets it elsewhere",
                )

    def _bare(self, wrap: Step, name: str) -> ast.AST | None:
        """Where a module of that name, or what it was made of, was moved to the current device."""
        links = wrap.value.links
        for one in self.steps.here("bare"):
            if one.function is wrap.function and isinstance(one.node, ast.Call):
                func = one.node.func
                if isinstance(func, ast.Attribute) and self.source.code(func.value) == name:
                    return one.node
                if links and links[0].node is one.node:
                    return one.node
        return None

    def _moved_elsewhere(self, wrap: Step, name: str) -> bool:
        """Does anything else in the function move the module? Then it is an affair of the order."""
        root = wrap.function.node if wrap.function is not None else self.source.tree
        return any(
            isinstance(one.func, ast.Attribute)
            and one.func.attr in ("to", "cuda")
            and self.source.code(one.func.value).startswith(name)
            for one in self.source.of_kind(ast.Call, root)
        )

    def moved_too_early(self) -> Iterator[Finding]:
        """The device is set below something that went to the current one."""
        source = self.source
        for step in self.steps.here("sets"):
            call = step.node
            if not isinstance(call, ast.Call) or step.function is None or step.at is None:
                continue
            if isinstance(step.at, ast.Constant) or not isinstance(source.statement(call), ast.Expr):
                continue
            for bare in self.steps.here("bare"):
                statement = source.statement(bare.node)
                if bare.function is not step.function or statement not in source.block(
                    source.statement(call)
                ):
                    continue
                if source.span(bare.node).end <= source.span(call).start:
                    yield told(
                        "one-device",
                        source.span(call),
                        f"`{source.code(bare.node)}` runs before `{source.code(call)}`, "
                        "so every process puts it on the first GPU",
                        "set the device first",
                        self._first(call, statement),
                        related=(Related(source.span(bare.node), "it is moved here"),),
                        assumes="nothing in between needs the first GPU",
                    )
                    break

    def _first(self, call: ast.Call, before: ast.stmt) -> tuple[Edit, ...]:
        """The call put above a statement of its block."""
        source = self.source
        statement, block = source.statement(call), source.block(before)
        index = block.index(before)
        if index == 0 or not bound_before(source, call, before):
            return ()
        return (MoveStatement(source.span(statement), source.span(block[index - 1])),)

    def global_numbers(self) -> Iterator[Finding]:
        """The number among all processes, taken for that of a device of this machine."""
        source = self.source
        if self._is_one_machine():
            return
        found: dict[ast.AST, list[Step]] = {}
        for step in self._here_by_argument():
            found.setdefault(step.value.links[0].node if step.value.links else step.node, []).append(step)
        knows = any(one.kind == "local" or one.local for one in self.steps if one.file is self.analysis.file)
        for origin, steps in found.items():
            named = next(
                (one for one in steps if one.at is not None and is_local_rank(last_name(one.at))), None
            )
            if named is None and not knows:
                continue
            here = isinstance(origin, ast.expr) and steps[0].value.links[0].file is self.analysis.file
            edits: tuple[Edit, ...] = ()
            if named is not None and here and not isinstance(source.parents[origin], ast.FormattedValue):
                edits = self._from_environment(origin)
            else:
                edits = tuple(edit for one in steps for edit in self._local(one))
            at = steps[0].at or steps[0].node
            shown = origin if here and named is not None else at
            code = source.code(origin if here else at)
            yield told(
                "one-device",
                source.span(shown),
                f"`{code}` counts the processes of all machines, but is used as the index of a GPU on this one: "
                "a second machine has no such GPU",
                "use the local rank",
                edits,
                related=(Related(source.span(at), "it is used as an index here"),) if shown is not at else (),
                assumes="each process uses the GPU of its local rank",
            )

    def _here_by_argument(self) -> list[Step]:
        """Global numbers of devices in this file, each expression once; none that is a local one on other ways."""
        found: dict[ast.AST, Step] = {}
        local = {one.at for one in self.steps.every("index") if one.value.role == LOCAL}
        for one in self.steps.every("index"):
            if one.file is self.analysis.file and one.value.role == GLOBAL and one.at not in local:
                found.setdefault(one.at or one.node, one)
        return list(found.values())

    def _is_one_machine(self) -> bool:
        """Does the program start its processes on one machine, so that both numbers are the same?"""
        if any(one.value.role == LOCAL for one in self.steps.joins):
            return True
        if any({"RANK", "LOCAL_RANK"} & one.texts for one in self.steps.every("environ")):
            return True
        return bool(self.steps.starts) and not any(one.value.role == GLOBAL for one in self.steps.joins)

    def _from_environment(self, node: ast.AST) -> tuple[Edit, ...]:
        code = self.source.code(node)
        if "\n" in code:
            return ()
        new = f'int(os.environ.get("LOCAL_RANK", {code}))'
        return ReplaceExpression(self.source.span(node), new), EnsureImport("os")

    def _local(self, step: Step) -> tuple[Edit, ...]:
        """The local number in the place of a global one."""
        source, at = self.source, step.at
        if at is None or isinstance(source.parents[at], ast.FormattedValue):
            return ()
        statement = source.statement(at)
        for text in sorted(step.local, key=len):
            if bound_before(source, ast.parse(text, mode="eval").body, statement):
                return (ReplaceExpression(source.span(at), text),)
        return self._from_environment(at)
