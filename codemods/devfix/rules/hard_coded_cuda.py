"""`hard-coded-cuda`: CUDA by name is replaced by the device that the code already knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from devfix.checkers import unasked
from devfix.checkers.literal_examples import EXAMPLES
from devfix.checkers.literal_programs import Verdict
from devfix.checkers.literals import verdicts
from devfix.codemod import Codemod
from devfix.findings import Finding, Related, Span
from devfix.flow import Flow
from devfix.repair.literals import module_name

if TYPE_CHECKING:
    from devfix.recipes.recipe import Recipe


@dataclass(frozen=True)
class HardCodedCuda(Codemod):
    """Replace hard-coded CUDA by the device that the value belongs on.

    ## What it does
    Finds `.cuda()`, `.cuda(0)`, `.to("cuda")`, `device="cuda"` of tensor factories and
    `torch.cuda.FloatTensor(..)` where the code shows a better device, and writes that one:

    - `if x.is_cuda: y = y.cuda()` becomes `y = y.to(x.device)`, which also works if `x` is on the second GPU;
    - a tensor that is combined with another one goes to `x.device`; an input of a module, of its methods, or
      of a function that runs it, to `next(model.parameters()).device`;
    - otherwise the device in scope: `device`, `self.device`, `args.device`, `config["device"]`,
      `accelerator.device`, `package.device`, or the number of a GPU, `self.gpu`;
    - `if use_cuda: y = y.cuda()` next to a tensor `x` of the caller becomes `y = y.to(x.device)`, and so does
      the result of `Tensor = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor`;
    - `"cuda" if torch.cuda.is_available() else "cpu"` in a method of a module becomes the device of its input,
      or of the module;
    - a table that a module's `__init__` makes by `self.table = make().cuda()` becomes a buffer; in
      `self.w = nn.Parameter(..).cuda()`, which is a plain tensor and no parameter, the move is dropped;
    - `def f(x, device="cuda")` whose `device` has to be that of `x` is reported without a fix;
    - `torch.cuda.is_available` that is tested but not called, which is always true, is called;
    - `torch.device("cuda:1")` becomes `torch.device("cuda")` if the file names no other accelerator;
    - `device = "cuda"`, if a script asks for an accelerator nowhere else, becomes CUDA if there is any, else the
      CPU; likewise `"cuda:1"`, `torch.device(0)` and `"mps"`.

    In a HyperPyYAML recipe with its script, `device: cuda:0` and `run_opts: {device: cuda}`, which override
    the command line's default, are reported without a fix.

    Where there is no such device, a function that uses CUDA by name, or always asks for
    `torch.cuda.current_device()`, is reported if others may call it without CUDA: a program of the project
    that chooses its device, whoever installs the project, or, where no program is in sight, whoever imports
    the file. There `x.cuda()` becomes `x.to("cuda" if torch.cuda.is_available() else "cpu")`, which changes
    nothing where there is CUDA.

    It leaves alone scripts that use CUDA throughout, functions that no program in view gets to without going to
    CUDA in another place, or gets to at all where programs use the rest of the file, branches that the user chooses
    (`if use_cuda:`), tests, kernels and benchmarks. Autocast belongs to `normalize-device-type`.

    ## Why is this bad?
    `.cuda()` raises on a machine without CUDA, and where there are several GPUs it moves to the *current*
    one: combined with a tensor on `cuda:1`, that raises "Expected all tensors to be on the same
    device" (https://pytorch.org/docs/stable/notes/cuda.html).

    ## Fix safety
    Safe under `if x.is_cuda:`; where the value is certainly combined with `x`, since any device but `x.device`
    raises there; and where the device in scope is `"cuda" if torch.cuda.is_available() else "cpu"`. All three
    require that the project shows a run that fails today: a program that chooses its device and needs CUDA
    nowhere else or, under `if x.is_cuda:`, a program whose tensors are on another GPU than the current one. Then
    the fix only turns an error into a run. So does a call of `torch.cuda.is_available` that decides between an
    accelerator and the CPU, where the next statements move something to what it decides on.

    Unsafe for a device variable that its user may set to something else; where the operation is not on every
    path; where nothing else in the file asks for a device; for flags, and for devices chosen by what is
    available; where the same function or class still needs CUDA elsewhere; where no program shows such a run, or
    no device is known; and for buffers.
    Changed defaults are shown, never applied.

    ## Options
    - `all` (default false): also report CUDA without a replacement in programs that use CUDA throughout, fixes
      that make no difference in programs that need CUDA in any case, and functions that nothing calls.
    - `declare` (`no`, `cuda` or `accelerator`, default `no`): fix those by declaring one `device`
      below the imports: CUDA or any accelerator if there is one, else the CPU. `accelerator` writes
      `torch.accelerator`, which torch has since 2.6; where the project asks for an older torch
      (`torch<2.6` or `torch==2.1.2` in its pyproject.toml, setup.cfg, setup.py, requirements.txt or
      environment.yml), nothing is written.
    - `module` (a path such as `pkg/device.py`, default none): let one module of the program own the device.
      It is written if it does not exist, and every file with such a literal, or with a `device` of its own,
      imports the device from it. The path is relative to the folder that the program is started in; a
      leading `src/` is not part of the import.
    """

    all: bool = False
    declare: Literal["no", "cuda", "accelerator"] = "no"
    module: str = ""

    id = "hard-coded-cuda"
    words = (("cuda", "mps", "device("), ("torch",))
    examples = EXAMPLES
    recipes = True

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
        yield from unasked.found(flow.facts())

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
        if verdict.node is not None and verdict.node in flow.source.parents:
            related = (Related(flow.source.span(verdict.node), "the device is known here"),)
        belongs = f"it belongs on `{verdict.device}`" if verdict.device and not verdict.title else ""
        found = self.finding(
            verdict.span,
            f"`{code}` {verdict.why}",
            title=verdict.title or (f"use `{verdict.device}`" if verdict.device else "drop the move to CUDA"),
            edits=verdict.edits,
            safety=verdict.safety,
            related=related,
            assumes=verdict.assumes or belongs or "the program should run without CUDA, too",
        )
        if found.fix is None or not verdict.elsewhere:
            return found
        return replace(found, fix=replace(found.fix, elsewhere=verdict.elsewhere))
