"""Calls one function or module of a repository with made-up inputs, and writes down what came of it.

The process of `synthetic.py`, a fork that has imported torch. Where the request has no plan, one is looked for:
constructor arguments and inputs with which the call runs. The other processes get the same plan.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from devfix.simulate import landlock
from devfix.simulate.ending import chain, program_files
from devfix.simulate.inputs import Unguessable, made, plans_for_function, plans_for_inputs, plans_to_construct
from devfix.simulate.processes import move_path

_VALUES = 2000  # of a result that are compared
_TEXT = 2000
_TRIES = 60


class _CannotCall(Exception):
    """To stand after "because"."""


def main(request: dict[str, Any]) -> None:
    """Answer one request, in its file `answer`: `why` it cannot be called, or `plan`, `calls` and imported `files`.

    This process can write below `scratch` only afterwards, where the kernel has Landlock.
    """
    os.environ.update(request["env"])
    move_path()
    os.chdir(request["cwd"])
    tempfile.tempdir, sys.dont_write_bytecode = request["scratch"], True
    if landlock.version():
        landlock.write_only_below([request["scratch"]])
    answer: dict[str, Any] = {"why": "", "dated": True, "plan": None, "calls": {}}
    try:
        _answer(request, answer)
    except _CannotCall as why:
        answer["why"] = str(why)
    except Unguessable as why:
        answer.update(why=str(why), dated=False)
    answer["files"] = program_files()
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


def _answer(request: dict[str, Any], answer: dict[str, Any]) -> None:
    sys.addaudithook(_no_network)
    file = os.path.join(request["root"], request["path"])
    module = _imported(request["root"], file)
    import torch

    thing = getattr(module, request["name"], None)
    device = "cpu" if request["cpu"] else "cuda"
    if inspect.isclass(thing) and issubclass(thing, torch.nn.Module):
        ways: dict[str, Callable[[Any], Any]] = {
            "eval": lambda plan: _run_module(thing, plan, device, train=False),
            "train": lambda plan: _run_module(thing, plan, device, train=True),
            "as made": lambda plan: _run_module(thing, plan, device, train=False, move=False),
        }
        plans = _module_plans(thing)
    elif inspect.isfunction(thing):
        if inspect.iscoroutinefunction(thing) or inspect.isgeneratorfunction(thing):
            raise Unguessable(f"{request['name']} is a generator or a coroutine")
        ways = {"call": lambda plan: thing(**{name: made(one, device) for name, one in plan["inputs"]})}
        plans = plans_for_function(thing)
    else:
        raise Unguessable(f"{request['name']} is neither a function nor an nn.Module")
    plan = request["plan"] or _search(request["name"], plans, next(iter(ways.values())))
    answer["plan"] = plan
    for name, way in ways.items():
        outcome = answer["calls"][name] = _outcome(partial(way, plan), file, compared=request["cpu"])
        fake = sys.modules.get("devfix.simulate.fake")  # loaded where there are no other devices
        if fake and outcome["errors"] and not any(map(fake.judged, outcome["errors"])):
            raise _CannotCall(f"fake tensors say nothing ({outcome['errors'][0].splitlines()[0]})")


def _imported(root: str, file: str) -> ModuleType:
    """The module of a file, as the programs beside it import it."""
    folder, name = os.path.dirname(file), os.path.splitext(os.path.basename(file))[0]
    parts = [] if name == "__init__" else [name]
    while os.path.isfile(os.path.join(folder, "__init__.py")) and folder != root:
        folder, parts = os.path.dirname(folder), [os.path.basename(folder), *parts]
    sys.path[0] = folder
    sys.path[1:1] = [path for path in (root, os.path.join(root, "src")) if os.path.isdir(path)]
    sys.argv = [file]
    try:
        if len(parts) > 1:
            importlib.import_module(".".join(parts[:-1]))
        dotted = ".".join(parts) or name
        module = sys.modules.get(dotted)
        if module is None:
            spec = importlib.util.spec_from_file_location(dotted, file)
            assert spec is not None and spec.loader is not None
            module = sys.modules[dotted] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    except SystemExit as error:
        raise _CannotCall(f"importing {name}.py ends the process (exit code {error.code})") from error
    except Exception as error:
        raise _CannotCall(f"importing {name}.py fails ({_text(error)})") from error
    if os.path.realpath(module.__file__ or "") != os.path.realpath(file):
        raise _CannotCall(f"the name {dotted} means another file, {module.__file__}")
    return module


def _no_network(event: str, arguments: tuple[Any, ...]) -> None:
    """A call that nobody asked for must not reach other machines. It holds for Python's own sockets."""
    if event == "socket.getaddrinfo" and arguments[0] not in (None, "", "localhost", "127.0.0.1", "::1"):
        raise PermissionError("devfix: no network in calls with synthetic inputs")
    if event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        if arguments[1][0] not in ("localhost", "127.0.0.1", "::1"):
            raise PermissionError("devfix: no network in calls with synthetic inputs")


# --- calls -------------------------------------------------------------------------------------


def _module_plans(kind: type[Any]) -> Iterator[dict[str, Any]]:
    """Every way to construct it that works, with every guess at its inputs."""
    last = ""
    for constructor in plans_to_construct(kind):
        try:
            _seed()
            inputs = list(plans_for_inputs(_constructed(kind, constructor, "cpu")))
        except Unguessable:
            raise
        except Exception as error:
            last = last or _text(error)
            continue
        last = ""
        yield from ({"constructor": constructor, "inputs": one} for one in inputs)
    if last:
        raise Unguessable(f"{kind.__name__} cannot be constructed with made-up arguments ({last})")


def _constructed(kind: type[Any], plan: list[Any], device: str) -> Any:
    return kind(**{name: made(one, device) for name, one in plan})


def _run_module(kind: type[Any], plan: dict[str, Any], device: str, *, train: bool, move: bool = True) -> Any:
    module = _constructed(kind, plan["constructor"], device)
    if move:
        module.to(device)
    module.train(train)
    return module(**{name: made(one, device) for name, one in plan["inputs"]})


def _search(name: str, plans: Iterator[dict[str, Any]], way: Callable[[Any], Any]) -> dict[str, Any]:
    first = ""
    for number, plan in enumerate(plans):
        if number == _TRIES:
            break
        try:
            _seed()
            way(plan)
        except Exception as error:
            first = first or _text(error)
        else:
            return plan
    raise Unguessable(f"no synthetic inputs were found with which {name} runs on the CPU ({first})")


def _outcome(call: Callable[[], Any], file: str, *, compared: bool) -> dict[str, Any]:
    """How a call ends; `lines` of the file that it comes to; `steady`: a second one gives the same."""
    lines: set[int] = set()
    path = os.path.realpath(file)
    known: dict[str, bool] = {}

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        lines.add(frame.f_lineno)
        return line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in known:
            known[name] = os.path.realpath(name) == path
        return line if known[name] else None

    outcome: dict[str, Any] = {"errors": [], "result": None, "lines": [], "steady": True}
    try:
        _seed()
        sys.settrace(trace)
        try:
            result = call()
        finally:
            sys.settrace(None)
        if compared:
            outcome["result"] = described(result)
            _seed()
            outcome["steady"] = json.dumps(described(call())) == json.dumps(outcome["result"])
    except (Exception, SystemExit) as error:
        outcome["errors"] = [_text(one) for one in chain(error)]
    outcome["lines"] = sorted(lines)
    return outcome


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_TEXT]


def _seed() -> None:
    import torch

    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(0)


def described(value: Any, depth: int = 0) -> Any:
    """A result as JSON that can be compared; what cannot be described is its type."""
    import torch

    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().reshape(-1)
        if flat.is_complex():
            flat = torch.view_as_real(flat).reshape(-1)
        step = max(1, flat.numel() // _VALUES)
        return ["tensor", str(value.dtype), list(value.shape), flat[::step].tolist()]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth < 6 and isinstance(value, dict):
        return ["dict", [[str(key), described(one, depth + 1)] for key, one in value.items()]]
    if depth < 6 and isinstance(value, (list, tuple)):
        return [described(one, depth + 1) for one in value]
    if depth < 6 and isinstance(value, torch.nn.Module):
        return ["module", [[name, described(one, depth + 1)] for name, one in value.state_dict().items()]]
    if depth < 3 and hasattr(value, "__dict__"):
        return [type(value).__name__, described(vars(value), depth + 1)]
    return ["object", type(value).__name__]
