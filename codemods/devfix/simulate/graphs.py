"""CUDA graphs: a capture records the calls of kernels, and a replay makes them again on the same memory.

On a GPU nothing runs during a capture. Here the kernels do, since their results have shapes; what was in the
memory before is put back at the end, and the graph's own memory is zero until the first replay. Only one
capture is underway at a time (torch's own rule), and it records what all threads and streams launch.
`torch.cuda.graph` and `make_graphed_callables` are torch's own, on this `CUDAGraph`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from devfix.simulate.alias import cpu_alias
from devfix.simulate.errors import SimulationUnsupported
from devfix.simulate.machine import Numbers, cuda_error, current_device, machine, set_device
from devfix.simulate.memory import POOLS

Tensor = torch.Tensor


@dataclass(frozen=True)
class _Call:
    """One kernel; tensors are views of the memory that it got and gave, for theirs may change later."""

    kernel: Callable[..., Any]
    arguments: Sequence[Any]
    named: Mapping[str, Any]
    result: Any
    device: int
    numbers: Mapping[int, int]  # where generators stood, if it drew: their place in the capture


@dataclass
class Capture:
    """What is recorded between `capture_begin` and `capture_end`."""

    calls: list[_Call] = field(default_factory=list)
    before: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # address -> memory, what was in it
    made: dict[int, Any] = field(default_factory=dict)  # address -> memory that the capture has allocated
    offsets: dict[int, int] = field(default_factory=dict)  # of generators, before it began
    failed: bool = False
    inside: bool = False

    def call(self, kernel: Callable[..., Any], operation: Any, *arguments: Any, **named: Any) -> Any:
        """Run and record a kernel; those that it calls itself are part of it."""
        if self.inside:
            return kernel(*arguments, **named)
        written = list(_written(operation, arguments, named))
        for tensor in written:
            self._remember(tensor)
        stood = {key: numbers.offset for key, numbers in machine.generators.items()}
        self.inside = True
        try:
            result = kernel(*arguments, **named)
        finally:
            self.inside = False
        given = {_address(t) for value in (*arguments, *named.values()) for t in _tensors(value)}
        given.difference_update(map(_address, written))  # which may have new memory now
        for tensor in (*written, *_tensors(result)):
            if tensor.layout is not torch.strided:
                raise SimulationUnsupported("sparse tensors in CUDA graphs are not simulated")
            address = _address(tensor)
            if address and address not in given and address not in self.before:
                self.made[address] = _memory(tensor)
        drew = {key: at for key, at in stood.items() if machine.generators[key].offset != at}
        self.calls.append(
            _Call(
                kernel,
                [_frozen(value) for value in arguments],
                {name: _frozen(value) for name, value in named.items()},
                _frozen(result),
                current_device(),
                drew,
            )
        )
        return result

    def _remember(self, tensor: Any) -> None:
        address = _address(tensor)
        if tensor.layout is torch.strided and address not in self.before and address not in self.made:
            memory = _memory(tensor)
            self.before[address] = memory, memory.clone()

    def refuse(self) -> None:
        """Raise CUDA's error for what waits for the device; the capture is lost with it."""
        self.failed = True
        raise cuda_error(900, "operation not permitted when stream is capturing")

    def end(self) -> None:
        """Put back what was there."""
        for memory, content in self.before.values():
            memory.copy_(content)
        for memory in self.made.values():
            memory.zero_()
        self.before.clear()
        for key, offset in self.offsets.items():
            if key in machine.generators:
                numbers = machine.generators[key]
                self.offsets[key], numbers.offset = numbers.offset, offset  # now: how many the graph draws


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (item for item in value if isinstance(item, Tensor))


def _written(operation: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Iterator[Any]:
    """The tensors that a call writes to."""
    for number, argument in enumerate(operation._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = named.get(argument.name, arguments[number] if number < len(arguments) else None)
            yield from _tensors(value)


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0


def _memory(tensor: Any) -> Any:
    """All of a tensor's memory, as bytes of the CPU."""
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return cpu_alias(whole) if tensor.is_cuda else whole


def _frozen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (list, tuple)):
        return [_frozen(item) for item in value]
    return value


@contextmanager
def _below_autograd() -> Iterator[None]:
    """As kernels are called: no autograd, no autocast, no function modes."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._AutoDispatchBelowAutograd(),
        torch.autocast("cuda", enabled=False),
        torch.autocast("cpu", enabled=False),
    ):
        yield


class Graph:
    """What torch.cuda.CUDAGraph derives from."""

    def __new__(cls, keep_graph: bool = False) -> Graph:
        return super().__new__(cls)

    def __init__(self, keep_graph: bool = False) -> None:
        self._keep = keep_graph
        self._stream: Any = None
        self._pool = (0, 0)
        self._captured: Capture | None = None
        self._ending = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        if self._captured is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        if machine.capture is not None:
            machine.capture.refuse()
        self._stream = stream
        self._pool = tuple(pool) if pool is not None else (next(POOLS), 0)
        machine.capture = Capture(offsets={key: at.offset for key, at in machine.generators.items()})
        for numbers in machine.generators.values():
            numbers.offset = 0

    def capture_end(self) -> None:
        self.capture_end_pre()
        self.capture_end_post()

    def capture_end_pre(self) -> None:  # torch 2.14 calls this, `instantiate` and then `capture_end_post`
        if torch.cuda.current_stream() != self._stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        capture, machine.capture = machine.capture, None
        if capture is None:
            raise RuntimeError("capture_end() called before capture_begin().")
        with _below_autograd():
            capture.end()
        if capture.failed:
            raise cuda_error(901, "operation failed due to a previous error during capture")
        if not capture.calls:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=4,
            )
        self._captured, self._ending = capture, True

    def capture_end_post(self) -> None:
        self._ending = False

    @property
    def _has_graph_exec(self) -> bool:
        return self._captured is not None

    def instantiate(self) -> None:
        if self._captured is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if not self._keep and not self._ending:
            raise RuntimeError("instantiate() is intended to be called by the user only when keep_graph=true")

    def replay(self) -> None:
        captured = self._captured
        if captured is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if machine.capture is not None:
            machine.capture.refuse()
        before = current_device()
        generators = {
            key: (machine.generators[key], machine.generators[key].offset) for key in _living(captured)
        }
        try:
            with _below_autograd():
                for call in captured.calls:
                    _make(call, generators)
        finally:
            set_device(before)
            for key, (numbers, start) in generators.items():
                numbers.offset = start + captured.offsets[key]

    def reset(self) -> None:
        self._captured = None

    def pool(self) -> Any:
        if self._captured is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: Any) -> None:
        pass  # generators are found when they draw

    def enable_debug_mode(self) -> None:
        pass

    def debug_dump(self, debug_path: str) -> None:
        raise SimulationUnsupported("CUDAGraph.debug_dump is not simulated")

    def raw_cuda_graph(self) -> int:
        raise SimulationUnsupported("CUDAGraph.raw_cuda_graph is not simulated")

    def raw_cuda_graph_exec(self) -> int:
        raise SimulationUnsupported("CUDAGraph.raw_cuda_graph_exec is not simulated")


def _living(captured: Capture) -> list[int]:
    return [key for key in captured.offsets if key in machine.generators]


def _make(call: _Call, generators: Mapping[int, tuple[Numbers, int]]) -> None:
    set_device(call.device)
    for key, at in call.numbers.items():
        if key in generators:
            numbers, start = generators[key]
            numbers.offset = start + at
    result = call.kernel(*call.arguments, **call.named)
    for old, new in zip(_tensors(call.result), _tensors(result), strict=True):
        if _address(old) != _address(new):
            cpu_alias(old).copy_(cpu_alias(new))


def install() -> None:
    graphs: Any = torch.cuda.graphs
    try:
        graphs.CUDAGraph.__bases__ = (Graph,)
    except TypeError:  # in a build for GPUs, it is made of a class of C++
        _make_again(graphs)
    graphs._graph_pool_handle = lambda: (0, next(POOLS))
    if not hasattr(torch._C, "_host_emptyCache"):
        torch._C._host_emptyCache = lambda: None
    graphs._cuda_isCurrentStreamCapturing = lambda: machine.capture is not None


def _make_again(graphs: Any) -> None:
    """torch.cuda.graphs, with its own classes and functions around Graph."""
    torch._C._CUDAGraph = Graph
    importlib.reload(graphs)
    for name, value in vars(torch.cuda).items():
        if getattr(value, "__module__", None) == graphs.__name__:
            setattr(torch.cuda, name, getattr(graphs, name))
