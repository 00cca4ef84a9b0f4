"""torch.cuda's streams and events on devices where everything has happened at once."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import Any

import torch

from devfix.simulate.devices import device_index
from devfix.simulate.errors import lacks
from devfix.simulate.machine import check_ordinal, current_device, machine, not_capturing

_numbers = itertools.count(1)
_current = threading.local()


class Stream(torch.Stream):  # type: ignore[misc]  # torch is Any to mypy
    """torch.cuda.Stream; 0 is the number of a device's default stream."""

    def __new__(cls, device: Any = None, priority: int = 0, **named: Any) -> Any:
        return cls._numbered(
            named.get("device_index", device), named.get("stream_id", next(_numbers)), priority
        )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    @classmethod
    def _numbered(cls, device: Any, number: int, priority: int = 0) -> Any:
        index = device_index(device)
        check_ordinal(index)
        kind = machine.torch_kind.number
        self = torch.Stream.__new__(cls, stream_id=number, device_index=index, device_type=kind)
        self.priority, self.cuda_stream = priority, number
        return self

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        not_capturing()

    def query(self) -> bool:
        not_capturing()
        return True

    def is_capturing(self) -> bool:
        return machine.capture is not None

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and bool(torch.Stream.__eq__(self, other))

    __hash__ = torch.Stream.__hash__

    def __repr__(self) -> str:
        return f"<torch.{machine.kind}.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """torch.cuda.ExternalStream, of a stream's number."""

    def __new__(cls, stream_ptr: int, device: Any = None, **named: Any) -> Any:
        return cls._numbered(device, stream_ptr)


def _default_stream(device: Any = None) -> Stream:
    stream: Stream = machine.module.Stream._numbered(device, 0)
    return stream


def _current_stream(device: Any = None) -> Stream:
    found: Stream | None = getattr(_current, "streams", {}).get(device_index(device))
    return found if found is not None else _default_stream(device)


def _of_accelerator(device: Any = None) -> Any:
    """torch.accelerator's current stream, which is a torch.Stream."""
    stream = _current_stream(device)
    if type(stream) is torch.Stream:
        return stream
    return torch.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )


def _set_stream(stream: Any) -> None:
    if stream is not None:
        index = stream.device_index if stream.device_index >= 0 else current_device()
        _current.streams = {**getattr(_current, "streams", {}), index: stream}


class Event(torch.Event):  # type: ignore[misc]  # torch is Any to mypy
    """torch.cuda.Event; the times between them are the CPU's."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return torch.Event.__new__(cls, torch.device(machine.kind))

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        self.timing = enable_timing
        self.time: float | None = None

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        not_capturing()
        return True

    def synchronize(self) -> None:
        not_capturing()

    def elapsed_time(self, end: Event) -> float:
        if not (self.timing and end.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.time is None or end.time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return max((end.time - self.time) * 1e3, 1e-3)

    def __repr__(self) -> str:
        return (
            "<torch.cuda.Event uninitialized>" if self.time is None else f"<torch.cuda.Event {id(self):#x}>"
        )


class StreamContext:
    """torch.cuda.stream(...): the current stream and device."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.device = (
            machine.module.device(stream.device) if hasattr(stream, "device") else contextlib.nullcontext()
        )
        self.before: Stream | None = None

    def __enter__(self) -> Any:
        entered = self.device.__enter__()
        if isinstance(self.stream, Stream):
            self.before = _current_stream(self.stream.device)
            _set_stream(self.stream)
        return entered

    def __exit__(self, *error: object) -> Any:
        _set_stream(self.before)
        return self.device.__exit__(*error)


def _record_stream(self: Any, stream: Any) -> None:
    if not machine.here(self):
        raise lacks("aten::record_stream", "CPU")


def _set_sync_debug_mode(mode: int | str) -> None:
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(mode, str) and mode not in names:
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    machine.sync_debug = names[mode] if isinstance(mode, str) else mode


def install() -> None:
    module = machine.module
    bases = getattr(torch, "_streambase", None)
    if bases is not None:  # torch 2.4: dynamo wants classes that derive from these
        bases._StreamBase.register(Stream)
        bases._EventBase.register(Event)
    # Classes stay classes: programs annotate with them and ask isinstance.
    for kind in (Stream, ExternalStream, Event):
        setattr(module, kind.__name__, kind)
        if hasattr(module, "streams"):
            setattr(module.streams, kind.__name__, kind)
    module.current_stream = lambda device=None: _current_stream(device)
    module.default_stream = lambda device=None: _default_stream(device)
    module.StreamContext = StreamContext
    module.stream = lambda stream: StreamContext(stream)
    module.set_stream = lambda stream: _set_stream(stream)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.current_stream = lambda device=None: _of_accelerator(device)
        accelerator.set_stream = lambda stream: _set_stream(stream)
    torch.Tensor.record_stream = lambda self, stream: _record_stream(self, stream)
    module.set_sync_debug_mode = lambda mode: _set_sync_debug_mode(mode)
    module.get_sync_debug_mode = lambda: machine.sync_debug
