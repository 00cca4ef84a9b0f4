"""`device-comparison`: comparisons of devices that are never true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.comparisons.candidates import candidates
from devfix.comparisons.effects import asserted, moves
from devfix.comparisons.examples import EXAMPLES
from devfix.comparisons.judge import Judge, Verdict
from devfix.comparisons.kinds import Kinds
from devfix.findings import Edit, EnsureImport, Finding, ReplaceExpression, Safety
from devfix.flow import Flow
from devfix.source import Source, walk


@dataclass(frozen=True)
class DeviceComparison(Codemod):
    """Compare devices in a way that can be true.

    ## What it does
    Finds comparisons that give the same result whatever the device is, or that raise:

    - a torch.device with a string (`x.device == "cpu"`, `device in ("cuda", "mps")`);
    - a tensor's device with one that has no index (`x.device == torch.device("cuda")`,
      `str(x.device) == "cuda"`);
    - a device type with an index (`device.type == "cuda:0"`);
    - `"cuda" in device` and `device.startswith("cuda")` on a torch.device, and `is` between devices;
    - names that torch does not know (`"gpu"`, -1).

    They become comparisons of types, `x.device.type == "cpu"`, or of devices where an index is named.

    devfix follows the forms that a device may have through annotations (each arm of a union),
    docstrings, helpers, attributes, elements and calls. One form that fails is enough for a finding: a
    string method on what may be a torch.device, `.type` of what may be a string,
    `torch.device(name) == torch.device("cuda")`, a device looked up in a dict of device types,
    `int(device)`, a name that nothing binds.

    It leaves alone comparisons of strings with strings and types with types, `x.device == y.device`,
    devices that may be strings, and code that checks which of the two it has.

    ## Why is this bad?
    A torch.device never equals a string, and `torch.device("cuda")` does not equal the `cuda:0` that
    every tensor has (https://pytorch.org/docs/stable/tensor_attributes.html#torch.device). No error is
    raised: the branch is never taken, its move never happens, and the failure comes later.

    ## Fix safety
    Usually unsafe, since code that never ran starts to run: read the branch. Safe where the comparison
    raised, where it is an assertion that could only fail, and where the branch only moves tensors to a
    device, which changes nothing on the CPU (but not if it is the branch that moved them to the CPU all along).
    Where an annotation or a use suggests a torch.device but a string is possible, the fix writes
    `torch.device(d).type`, which accepts both.
    """

    id: ClassVar[str] = "device-comparison"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("device", '"cpu', "'cpu", '"cuda', "'cuda"),
        ("torch",),
        ("==", "!=", " in ", " is ", "startswith", "[", ".get(", "match "),
    )
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        source = flow.source
        names = [local for local, what in source.imports.items() if what == "torch"]
        torch = "torch" if "torch" in names or not names else names[0]
        kinds = Kinds(flow)
        suspects = tuple(candidates(source))
        verdicts = sorted(
            Judge(kinds, torch).judge(suspects) if suspects else (),
            key=lambda verdict: source.span(verdict.node),
        )
        for verdict in verdicts:
            span = source.span(verdict.node)
            safety = self._safety(flow, verdict)
            if safety is None:
                continue
            edits: tuple[Edit, ...] = ()
            text = _in_its_quotes(source, verdict)
            if text:
                edits = (ReplaceExpression(span, text),)
                if not names and f"{torch}." in text:
                    edits = (*edits, EnsureImport("torch"))
            yield self.finding(span, verdict.why, title=f"compare with `{text}`", edits=edits, safety=safety)

    def _safety(self, flow: Flow, verdict: Verdict) -> Safety | None:
        """How sure the fix is; None where the comparison does no harm as it is."""
        node = verdict.node
        if verdict.raises:
            return Safety.SAFE
        negative = isinstance(node, ast.Compare) and isinstance(
            node.ops[0], (ast.NotEq, ast.NotIn, ast.IsNot)
        )
        target = moves(flow.source, node)
        if negative and target:
            # It moves whatever the device is, as it should: nothing fails, and on the CPU nothing moves.
            return Safety.UNSAFE if target == "cpu" and '"cpu"' in verdict.text else None
        if target == "device" and not negative:
            return Safety.SAFE
        if asserted(flow.source, node) and not negative:
            return Safety.SAFE
        return Safety.UNSAFE


def _in_its_quotes(source: Source, verdict: Verdict) -> str:
    """The replacement, with the quotes that the comparison has had."""
    for node in walk(verdict.node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if source.code(node).startswith("'"):
                return re.sub(r'"([\w:]+)"(\)?)$', r"'\1'\2", verdict.text)
    return verdict.text
