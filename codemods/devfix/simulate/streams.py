"""torch.cuda's streams and events on devices where everything has happened at once."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import torch

from devfix.simulate.devices import device_index
from devfix.simulate.errors import SimulationUnsupported


class Stream:
    """torch.cuda.Stream; all streams of a device are equal."""

    def __init__(self, device: Any = None, priority: int = 0, **named: Any) -> None:
        self.device = torch.device("cuda", device_index(device))
        self.device_index = self.device.index
        self.device_type = 1
        self.priority = priority
        self.cuda_stream = 0
        self.stream_id = 0

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and bool(other.device == self.device)

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream=0x0>"


class Event:
    """torch.cuda.Event; the times between them are the CPU's."""

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return max((end.time - self.time) * 1e3, 1e-3)


class StreamContext:
    """torch.cuda.stream(...): of a stream's context only the device is left."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.device = (
            torch.cuda.device(stream.device) if hasattr(stream, "device") else contextlib.nullcontext()
        )

    def __enter__(self) -> Any:
        return self.device.__enter__()

    def __exit__(self, *error: object) -> Any:
        return self.device.__exit__(*error)


class CUDAGraph:
    """torch.cuda.CUDAGraph: refused."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise SimulationUnsupported("CUDA graphs are not simulated")


class graph(CUDAGraph):
    """torch.cuda.graph: refused."""


def install() -> None:
    cuda = torch.cuda
    bases = getattr(torch, "_streambase", None)
    if bases is not None:  # torch 2.4: dynamo wants classes that derive from these
        bases._StreamBase.register(Stream)
        bases._EventBase.register(Event)
    # Classes stay classes: programs annotate with them and ask isinstance.
    cuda.Stream = cuda.streams.Stream = Stream
    cuda.ExternalStream = cuda.streams.ExternalStream = Stream
    cuda.Event = cuda.streams.Event = Event
    cuda.current_stream = lambda device=None: Stream(device)
    cuda.default_stream = lambda device=None: Stream(device)
    cuda.StreamContext = StreamContext
    cuda.stream = lambda stream: StreamContext(stream)
    cuda.set_stream = lambda stream: None
    torch.Tensor.record_stream = lambda self, stream: None
    cuda.is_current_stream_capturing = lambda: False
    cuda.graphs.is_current_stream_capturing = lambda: False
    cuda.CUDAGraph = cuda.graphs.CUDAGraph = CUDAGraph
    cuda.graph = cuda.graphs.graph = graph
    cuda.make_graphed_callables = lambda function, *arguments, **named: function
