"""`hard-coded-cuda`: CUDA by name gives way to the device that the code already knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from devfix.codemod import Codemod, Example
from devfix.findings import Finding, Related, Span
from devfix.flow import Flow
from devfix.literals.examples import EXAMPLES
from devfix.literals.judge import verdicts
from devfix.literals.owner import module_name
from devfix.literals.verdict import Verdict

if TYPE_CHECKING:
    from devfix.recipes.recipe import Recipe


@dataclass(frozen=True)
class HardCodedCuda(Codemod):
    """Hard-coded CUDA becomes the device that the value belongs on.

    ## What it does
    Finds `.cuda()`, `.cuda(0)`, `.to("cuda")`, `device="cuda"` of tensor factories and
    `torch.cuda.FloatTensor(..)` where the code itself tells a better device, and writes that:

    - `if x.is_cuda: y = y.cuda()` is `y = y.to(x.device)`, also where `x` is on the second GPU;
    - a tensor that meets another one in an operation goes to `x.device`, an input of a module, of its
      methods, or of a function that runs it, to `next(model.parameters()).device`;
    - else the device that is in scope: `device`, `self.device`, `args.device`, `config["device"]`,
      `accelerator.device`, `package.device`, or the number of a GPU, `self.gpu`;
    - `if use_cuda: y = y.cuda()` next to a tensor `x` of the caller is `y = y.to(x.device)`, and so is what
      `Tensor = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor` makes;
    - `"cuda" if torch.cuda.is_available() else "cpu"` in a method of a module is where its input is, or itself;
    - a table made in a module's `__init__` by `self.table = make().cuda()` becomes a buffer, and of
      `self.w = nn.Parameter(..).cuda()` the move is dropped, which makes a plain tensor of it;
    - `def f(x, device="cuda")` whose `device` has to be that of `x` is shown;
    - `torch.device("cuda:1")`, where the file names no other accelerator, is `torch.device("cuda")`.

    In a HyperPyYAML recipe with its script, `device: cuda:0` and `run_opts: {device: cuda}` are shown, which decide
    over the command line's default; they have no fix.

    Where there is no such device, a function that goes to CUDA by name, or asks for
    `torch.cuda.current_device()` whatever happens, is shown without a fix if others may call it without CUDA:
    a program of the project that chooses its device, whoever installs the project, or, where no program is
    in view, whoever imports the file.

    Nothing is said in scripts that are CUDA throughout, in branches that the user chooses (`if use_cuda:`), in
    tests, kernels and benchmarks. Autocast and GradScaler belong to `normalize-device-type`.

    ## Why is this bad?
    `.cuda()` raises on a machine without CUDA, and where there are several GPUs it goes to the
    *current* one: next to a tensor on `cuda:1` that raises "Expected all tensors to be on the same
    device" (https://pytorch.org/docs/stable/notes/cuda.html).

    ## Fix safety
    Safe under `if x.is_cuda:`; where the value certainly meets `x`, since anything but `x.device`
    raises there; and where the device in scope is `"cuda" if torch.cuda.is_available() else "cpu"` -
    provided that the project shows a run that fails as the code stands: a program that chooses its
    device and needs CUDA nowhere else, or, under `if x.is_cuda:`, one whose tensors are on another GPU
    than the current one. Then the only change is that an error becomes a run. Unsafe for a device
    variable that its user may set to something else, where the meeting is not on every path, where nothing
    else in the file asks for a device, for flags and for what is chosen by what there is, where the same
    function or class goes on needing CUDA elsewhere, where no program shows such a run, and for buffers.
    Changed defaults are shown, never applied.

    ## Options
    - `all` (default false): report also what has no device to go to in programs that are CUDA throughout,
      and fixes that make no difference in programs that need CUDA in any case.
    - `declare` (`no`, `cuda` or `accelerator`, default `no`): fix those by declaring one `device`
      below the imports, CUDA or any accelerator where there is one, else the CPU.
    - `module` (a path such as `pkg/device.py`, default none): one module of the program owns the device.
      It is written where it is not there yet, and every file with such a literal, or with a `device` of
      its own, imports the device from it. The path is relative to the folder that the program is
      started in; a leading `src/` is no part of the import.
    """

    all: bool = False
    declare: Literal["no", "cuda", "accelerator"] = "no"
    module: str = ""

    id: ClassVar[str] = "hard-coded-cuda"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (("cuda",), ("torch",))
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES
    recipes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.module and not module_name(self.module):
            from devfix.config import ConfigError

            raise ConfigError(
                f"option {self.id}.module must be the path of a Python file that can be imported, "
                f"such as pkg/device.py, not {self.module!r}"
            )

    def check(self, flow: Flow) -> Iterator[Finding]:
        for verdict in verdicts(flow, self.all, self.declare, self.module):
            yield self._report(flow, verdict)

    def check_recipe(self, recipe: Recipe) -> Iterator[Finding]:
        from devfix.recipes.devices import named_devices

        for found in named_devices(recipe):
            span = Span(found.key.start, found.value.end)
            code = recipe.text[span.start : span.end]
            yield Finding(self.id, span, f"`{code}` {found.why}")

    def _report(self, flow: Flow, verdict: Verdict) -> Finding:
        first = verdict.code.partition("\n")[0]
        code = f"{first[:57]}..." if len(first) > 60 or "\n" in verdict.code else first
        related: tuple[Related, ...] = ()
        if verdict.node is not None and hasattr(verdict.node, "lineno"):
            related = (Related(flow.source.span(verdict.node), "the device is known here"),)
        found = self.finding(
            verdict.span,
            f"`{code}` {verdict.why}",
            title=verdict.title or (f"use `{verdict.device}`" if verdict.device else "drop the move to CUDA"),
            edits=verdict.edits,
            safety=verdict.safety,
            related=related,
        )
        if found.fix is None or not verdict.elsewhere:
            return found
        return replace(found, fix=replace(found.fix, elsewhere=verdict.elsewhere))
