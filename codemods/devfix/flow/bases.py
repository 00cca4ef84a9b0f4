"""What classes are by their bases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devfix.flow import frameworks, torch_api


@dataclass(frozen=True)
class Bases:
    """What the bases of a class make of it: see `ClassInfo`."""

    module: bool = False
    host: bool = False
    owned: bool = False


def judged(bases: Sequence[str], known: Mapping[str, Bases]) -> Bases:
    """What a class with these bases, by their qualified names, is; `known` are those in view."""
    module = host = owned = False
    for base in bases:
        parent = known.get(base)
        last = base.rpartition(".")[2]
        module = (
            module
            or base in torch_api.MODULE_BASES
            or last == "Module"
            or last.endswith(("PreTrainedModel", "ModelMixin"))
            or base.startswith("torch.nn.")
            or (parent is not None and parent.module)
        )
        host = host or last.endswith(frameworks.HOST_BASES) or (parent is not None and parent.host)
        # A class in view is judged by its own bases, whatever its name.
        owned = owned or (frameworks.owns_subclasses(base) if parent is None else parent.owned)
    return Bases(module, host, owned)
