"""All ways in which a module is left behind of which the text of a file tells, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from devfix.bindings import Bindings
from devfix.flow import Flow
from devfix.unmoved.beside import beside
from devfix.unmoved.builders import built_for_device
from devfix.unmoved.foreign import made_elsewhere
from devfix.unmoved.others import Left, handed_over, made_per_call, one_armed
from devfix.unmoved.per_call import made_in_function


def left_behind(flow: Flow, bindings: Callable[[], Bindings]) -> Iterator[Left]:
    """What `module-never-moved` reports besides modules that flow itself sees run on moved tensors."""
    yield from one_armed(flow, bindings)
    yield from handed_over(flow, bindings)
    yield from made_per_call(flow)
    yield from made_in_function(flow, bindings)
    yield from made_elsewhere(flow, bindings)
    yield from beside(flow.source)
    yield from built_for_device(flow, bindings)
