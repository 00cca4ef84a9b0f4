"""Many small programs, run on simulated CUDA in one forked process: the run is the judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from devfix.smoke import DeviceKind, Runner

MAIN = "main.py"
AT_ONCE = 40  # programs for one process
SECONDS = 240.0  # for these
# What raises only where values are in the wrong place; a program that raises anything else judges nothing.
DEVICE_ERRORS = (
    "Expected all tensors to be on the same device",
    "can't convert cuda",
    "should be the same",  # input and weight type
    "indices should be either on cpu",
    "must be on the CPU",
    "must be located on CPU",
    "should be a 1D CPU",
    "should be on the same device",
    "on the same device",
    "is on cpu",
    "but got tensor for argument",
    "is not on the expected device",
    "expected a CUDA device but found cpu",
    "CPU Scalar support for",
    "legacy constructor expects device type",
    "expected TensorOptions(",
)


@dataclass(frozen=True)
class Program:
    """A program: its text, and those of the modules beside it."""

    text: str
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What a name held when a line had been executed: the kind, and where it was."""

    line: int
    name: str
    kind: str
    device: str


@dataclass(frozen=True)
class Ended:
    """How a program ended: `error` is empty if it ran through, `lines` are those of the traceback.

    `printed` is its output, `values` what its global names held then: a digest for each tensor and module.
    """

    error: str = ""
    lines: tuple[int, ...] = ()
    seen: tuple[Seen, ...] = ()
    printed: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def raises(self) -> bool:
        """Did it raise because values were in the wrong place?"""
        return any(one in self.error for one in DEVICE_ERRORS)

    @property
    def judges(self) -> bool:
        """Did it run through or raise because of devices?"""
        return not self.error or self.raises


def run(
    runner: Runner, programs: Sequence[Program], device: DeviceKind = "cuda", *, trace: bool = False
) -> Iterator[Ended]:
    """How each of the programs ends on a device, in their order.

    With `trace` also what the local names held. Raises RuntimeError if the simulation does not run here.
    """
    for start in range(0, len(programs), AT_ONCE):
        some = [(one.text, dict(one.modules)) for one in programs[start : start + AT_ONCE]]
        made = runner.run(_DRIVER.format(programs=some, trace=trace, main=MAIN), device, timeout=SECONDS)
        replies = [json.loads(line[1:]) for line in made.output.splitlines() if line.startswith("\x01")]
        if len(replies) != len(some):
            raise RuntimeError(f"{len(replies)} of {len(some)} programs ran: {made.status}: {made.error}")
        for error, lines, seen, printed, values in replies:
            yield Ended(error, tuple(lines), tuple(Seen(*one) for one in seen), printed, values)


_DRIVER = """\
import hashlib, json, sys, types, io, contextlib, warnings
import torch
warnings.simplefilter("ignore")
TRACE = {trace!r}
def where(value):
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.device)
    if isinstance(value, torch.nn.Module):
        places = {{str(one.device) for one in (*value.parameters(), *value.buffers())}}
        return ("module", places.pop()) if len(places) == 1 else None
    return None
def tracer(seen, main):
    def local(frame, event, argument):
        if event == "exception":  # the line was not executed to its end
            lines.pop(frame, None)
        elif event == "line" or event == "return":
            line = lines.get(frame)
            if line is not None:
                for name, value in list(frame.f_locals.items()):
                    found = where(value)
                    if found is not None:
                        seen[(line, name, *found)] = None
            lines[frame] = frame.f_lineno
            if event == "return":
                lines.pop(frame, None)
        return local
    lines = {{}}
    def start(frame, event, argument):
        return local if frame.f_code.co_filename == main else None
    return start
def digest(value):
    if isinstance(value, torch.nn.Module):
        return " ".join(name + digest(one) for name, one in sorted(value.state_dict().items()))
    data = value.detach().cpu()
    return hashlib.sha256(repr((value.dtype, data.shape, data.tolist())).encode()).hexdigest()
def held(main):
    found = {{}}
    for name, value in vars(main).items():
        if isinstance(value, (torch.Tensor, torch.nn.Module)):
            with contextlib.suppress(Exception):
                found[name] = digest(value)
    return found
def one(text, modules):
    seen, error, lines, printed, main = {{}}, "", [], io.StringIO(), None
    made = dict()
    try:
        for name, code in modules.items():
            made[name] = sys.modules[name] = types.ModuleType(name)
        for name, code in modules.items():
            exec(compile(code, name + ".py", "exec"), made[name].__dict__)
        torch.manual_seed(0)
        code = compile(text, {main!r}, "exec")
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        with contextlib.redirect_stdout(printed):
            if TRACE:
                sys.settrace(tracer(seen, {main!r}))
            try:
                exec(code, main.__dict__)
            finally:
                sys.settrace(None)
    except BaseException as raised:
        error = type(raised).__name__ + ": " + str(raised)[:300]
        step = raised.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == {main!r}:
                lines.append(step.tb_lineno)
            step = step.tb_next
    for name in modules:
        sys.modules.pop(name, None)
    return error, lines, [list(key) for key in seen], printed.getvalue(), held(main) if main else {{}}
for text, modules in {programs!r}:
    print("\\x01" + json.dumps(one(text, modules)), flush=True)
"""
