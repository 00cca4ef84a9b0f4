"""Findings about the processes of a distributed program: whose device is whose.

- https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html: each process works on a
  device of its own, by `torch.cuda.set_device` or `CUDA_VISIBLE_DEVICES`
- https://pytorch.org/docs/stable/distributed.html: which backend takes tensors of which device; objects, barriers
  and the like use the current device
- https://pytorch.org/docs/stable/elastic/run.html: `LOCAL_RANK` and `RANK`
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.engine.analysis import Analysis
from devfix.engine.evidence import about_devices, is_local_rank
from devfix.engine.facts import Step
from devfix.engine.files import Class
from devfix.engine.places import LITERAL, of_process
from devfix.engine.values import GLOBAL, LOCAL, MAKE, MODULE, NAME, TENSOR
from devfix.findings import (
    AppendCall,
    Edit,
    EnsureImport,
    InsertStatement,
    MoveStatement,
    Related,
    ReplaceExpression,
    Safety,
    SetArgument,
)
from devfix.flow import frameworks
from devfix.models.loader import models
from devfix.placing import bound_before
from devfix.remarks import Remark
from devfix.repair.expressible import expressible

VISIBLE = "CUDA_VISIBLE_DEVICES"


def remarks(analysis: Analysis) -> Iterator[Remark]:
    """What is wrong with the processes of a program, in one file."""
    program = Program(analysis)
    if not program.steps or program.is_owned:
        return
    yield from program.moved_too_early()
    yield from program.on_the_first()
    yield from program.without_device()
    yield from program.objects()
    yield from program.global_numbers()
    yield from program.of_the_host()


class Program:
    """What the steps of an analysis come to."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.source = analysis, analysis.file.source
        self.steps = analysis.steps
        self.joins = self._all("joins")
        self.starts = [*self._all("spawn"), *self._all("starts")]
        self.is_owned = any(frameworks.owns_processes(one) for one in self.source.imports.values())

    def _all(self, kind: str) -> list[Step]:
        return [one for one in self.steps if one.kind == kind]

    def _here(self, kind: str) -> list[Step]:
        """Steps in the file itself, each of its nodes once."""
        found: dict[ast.AST, Step] = {}
        for one in self._all(kind):
            if one.file is self.analysis.file:
                found.setdefault(one.node, one)
        return list(found.values())

    # --- is the device set? --------------------------------------------------------------

    def is_set(self, step: Step) -> bool:
        """May anything have set the device of the process that takes a step?"""
        here = [one for one in self.steps if one.node is step.node and one.kind == step.kind]
        by_node: dict[ast.AST, list[Step]] = {}
        for one in self._all("sets"):
            by_node.setdefault(one.node, []).append(one)
        for settings in by_node.values():
            # What is known of one run says more than two runs of which nothing else is known.
            together = [(a, b) for a in settings for b in here if a.running[-1] is b.running[-1]]
            if any(not _exclude(a, b) for a, b in together):
                return True
            if not together and any(_related(a, b) for a in settings for b in here):
                return True
        for one in self._all("environ"):
            if VISIBLE in one.texts and not (isinstance(one.value.const, str) and "," in one.value.const):
                return True
        return False

    # --- findings ------------------------------------------------------------------------

    def without_device(self) -> Iterator[Remark]:
        """A process joins a group of an accelerator's backend and has a number, but uses the current device."""
        source = self.source
        for join in self._here("joins"):
            if not _on_accelerators(join):
                continue
            every = [one for one in self.joins if one.node is join.node]
            numbers = [use for one in every for use in self._numbers(one)]
            if not numbers or self.is_set(join):
                continue
            if self.starts and all(one.kind == "index" for one in numbers) and not self._all("current"):
                continue  # started on one machine, and all that is placed is placed by number
            text, edits = self._set_device(every, numbers)
            if not text:
                at = numbers[0].at
                text = source.code(at) if at is not None else min(numbers[0].local, key=len)
            yield Remark(
                source.span(join.node),
                f"the group goes over the current GPU, and nothing sets that of process `{text}`: it is the first one",
                f"call `torch.cuda.set_device({text})`",
                edits,
            )

    def _numbers(self, join: Step) -> list[Step]:
        """The uses of the process's number as that of a device, in the same run or class as a join.

        Where the device is set on another way through the function, the number is enough.
        """
        found = []
        others = [one for one in self._all("sets") if set(one.running) & set(join.running)]
        if join.local and any(_exclude(one, join) for one in others):
            found.append(join)
        for one in (*self._all("index"), *self._all("bare")):
            if one.value.role != LOCAL and not (one.kind == "bare" and one.local):
                continue
            if one.file is not self.analysis.file or _exclude(one, join):
                continue
            if not (set(one.running) & set(join.running)) and not _one_class(one, join):
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

    def objects(self) -> Iterator[Remark]:
        """Objects are gathered over the current device, and nothing sets that."""
        source = self.source
        if not any(_on_accelerators(one) and one.file is self.analysis.file for one in self.joins):
            return
        for one in self._here("current"):
            if "group" in one.texts or self.is_set(one):
                continue
            rank = min((text for text in one.local), key=len, default="")
            statement = source.statement(one.node)
            edits: tuple[Edit, ...] = ()
            if rank and "torch" in source.imports:
                edits = (
                    InsertStatement(source.span(statement), f"torch.cuda.set_device({rank})", before=True),
                )
            assert isinstance(one.node, ast.Call)
            yield Remark(
                source.span(one.node),
                f"`{source.code(one.node.func)}` goes over the current GPU, and nothing sets that of a process: "
                "call `torch.cuda.set_device` first",
                f"call `torch.cuda.set_device({rank})`" if rank else "",
                edits,
            )
            return

    def on_the_first(self) -> Iterator[Remark]:
        """A module that gets `device_ids` is on the current device, which nothing sets, or on the CPU."""
        source = self.source
        for wrap in self._here("wraps"):
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
                    yield Remark(
                        source.span(wrap.node),
                        f"`{name}` is on the CPU, but DistributedDataParallel with `device_ids` wants it on `{text}`",
                        f"move `{name}` to `{text}` first",
                        (InsertStatement(source.span(statement), f"{name}.to({text})", before=True),),
                    )
            elif place.kind == LITERAL and place.key == "cuda":
                move = self._bare(wrap, name)
                if move is None or self.is_set(wrap):
                    continue
                statement = source.statement(move)
                edits: tuple[Edit, ...] = ()
                if bound_before(source, wrap.at, statement) and "torch" in source.imports:
                    edits = (
                        InsertStatement(
                            source.span(statement), f"torch.cuda.set_device({text})", before=True
                        ),
                    )
                yield Remark(
                    source.span(move),
                    f"every process puts `{name}` on the first GPU: nothing sets the device of process `{text}`",
                    f"call `torch.cuda.set_device({text})` first",
                    edits,
                    related=(Related(source.span(wrap.at), f"`{text}` is the GPU of this process"),),
                )

    def _bare(self, wrap: Step, name: str) -> ast.AST | None:
        """Where a module of that name, or what it was made of, was moved to the current device."""
        links = wrap.value.links
        for one in self._here("bare"):
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

    def moved_too_early(self) -> Iterator[Remark]:
        """The device is set below something that went to the current one."""
        source = self.source
        for step in self._here("sets"):
            call = step.node
            if not isinstance(call, ast.Call) or step.function is None or step.at is None:
                continue
            if isinstance(step.at, ast.Constant) or not isinstance(source.statement(call), ast.Expr):
                continue
            for bare in self._here("bare"):
                statement = source.statement(bare.node)
                if bare.function is not step.function or statement not in source.block(
                    source.statement(call)
                ):
                    continue
                if source.span(bare.node).end <= source.span(call).start:
                    yield Remark(
                        source.span(call),
                        f"`{source.code(bare.node)}` stands above `{source.code(call)}`, "
                        "so it is on the first GPU in every process",
                        "set the device first",
                        self._first(call, statement),
                        related=(Related(source.span(bare.node), "moved here already"),),
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

    def global_numbers(self) -> Iterator[Remark]:
        """The number among all processes, taken for that of a device of this machine."""
        source = self.source
        if self._is_one_machine():
            return
        found: dict[ast.AST, list[Step]] = {}
        for step in self._here_by_argument():
            found.setdefault(step.value.links[0].node if step.value.links else step.node, []).append(step)
        knows = bool(self._all("local")) or any(one.local for one in self.steps)
        for origin, steps in found.items():
            named = next((one for one in steps if one.at is not None and is_local_rank(_last(one.at))), None)
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
            yield Remark(
                source.span(shown),
                f"`{code}` counts the processes of all machines, and is used as the number of a GPU of this one",
                "use the number of the process on its machine",
                edits,
                Safety.UNSAFE,
                (Related(source.span(at), "used as a number here"),) if shown is not at else (),
            )

    def _here_by_argument(self) -> list[Step]:
        """Global numbers of devices in this file, each expression once; none that is a local one on other ways."""
        found: dict[ast.AST, Step] = {}
        local = {one.at for one in self._all("index") if one.value.role == LOCAL}
        for one in self._all("index"):
            if one.file is self.analysis.file and one.value.role == GLOBAL and one.at not in local:
                found.setdefault(one.at or one.node, one)
        return list(found.values())

    def _is_one_machine(self) -> bool:
        """Does the program start its processes on one machine, so that both numbers are the same?"""
        if any(one.value.role == LOCAL for one in self.joins):
            return True
        if any({"RANK", "LOCAL_RANK"} & one.texts for one in self._all("environ")):
            return True
        return bool(self.starts) and not any(one.value.role == GLOBAL for one in self.joins)

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

    def of_the_host(self) -> Iterator[Remark]:
        """A tensor on the CPU is given to a collective of a backend that works on accelerators only."""
        source = self.source
        known = [one for one in self.joins if one.texts and "?" not in one.texts]
        if not known or not all(_on_accelerators(one) for one in known):
            return
        seen: set[ast.AST] = set()
        for step in self._all("collective"):
            if step.file is not self.analysis.file or step.value.kind != TENSOR or not step.place.on_host:
                continue
            if any(about_devices(one) or _about_backends(one) for one, _ in step.path) or step.at is None:
                continue
            links = step.value.links
            if not links or step.value.assumed:
                continue
            made = links[0].node if links[0].kind == MAKE and links[0].file is self.analysis.file else None
            at = made if made is not None else step.at
            if at in seen or any(_exclude(step, one) for one in known):
                continue
            seen.add(at)
            device, edits = self._on_device(step, made, known)
            (operation,) = step.texts
            backend = next(one for join in known for one in sorted(join.texts) if _accelerator(one))
            yield Remark(
                source.span(at),
                f"this is on the CPU, but `{operation.rpartition('.')[2]}` is given it, and the backend `{backend}` "
                "takes tensors of accelerators only",
                f"make it on `{device}`",
                edits,
                related=()
                if at is step.at
                else (Related(source.span(step.at), "it is given to the others here"),),
            )

    def _on_device(self, step: Step, made: ast.AST | None, joins: list[Step]) -> tuple[str, tuple[Edit, ...]]:
        """`device=` for a tensor that is made here: the process's own, another in scope, or the current one."""
        source = self.source
        if not isinstance(made, ast.Call):
            return "", ()
        device = expressible(source, of_process(LOCAL), step.scopes, made)
        for _, terms in () if device else step.scopes:
            for term in terms:
                if not device and term.form == "device" and term.place.on_device:
                    device = expressible(source, term.place, step.scopes, made)
        if not device and self.is_set(step) and all(one.texts == {"nccl"} for one in joins):
            device = '"cuda"'
        if not device:
            return "", ()
        row = models().function(self.analysis.file.dotted(made.func))
        if row is not None and row.form in ("make", "data", "like"):
            return device, (SetArgument(source.span(made), "device", device),)
        return device, (AppendCall(source.span(made), f".to({device})"),)


def _accelerator(backend: str) -> bool:
    return models().process(f"backend.{backend}") == "accelerator"


def _on_accelerators(join: Step) -> bool:
    """Does a group work on accelerators only, at least where the program runs on one?"""
    return "?" not in join.texts and "" not in join.texts and any(_accelerator(one) for one in join.texts)


def _about_backends(condition: object) -> bool:
    if isinstance(condition, tuple):
        return any(_about_backends(one) for one in condition)
    return isinstance(condition, str) and (
        "backend" in condition or "gloo" in condition or "nccl" in condition
    )


def _exclude(a: Step, b: Step) -> bool:
    """Are two steps on ways of which a run takes one?"""
    return any((condition, not holds) in b.path for condition, holds in a.path)


def _related(a: Step, b: Step) -> bool:
    """May one process take both steps: not those of classes that have nothing to do with each other."""
    if any(one is not None for one in set(a.running) & set(b.running)):
        return True
    one, other = _owner(a), _owner(b)
    return one is None or other is None or one in other.lineage or other in one.lineage


def _one_class(a: Step, b: Step) -> bool:
    one, other = _owner(a), _owner(b)
    return one is not None and other is not None and (one in other.lineage or other in one.lineage)


def _owner(step: Step) -> Class | None:
    return step.function.owner if step.function is not None else None


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
