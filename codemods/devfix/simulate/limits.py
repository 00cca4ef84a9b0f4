"""What a program may use and write, for the process that it is run in. Cannot be taken back, and holds for all that
this process starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from devfix.simulate import landlock


@dataclass(frozen=True)
class Limits:
    """`memory` in bytes, and the folders that it can write below; empty: wherever its user can."""

    memory: int
    folders: Sequence[str] = ()

    def apply(self) -> None:
        """To be called in a process of its own; raises OSError and ValueError."""
        limit_memory(self.memory)
        if self.folders:
            landlock.write_only_below(self.folders)


def limit_memory(memory: int) -> None:
    """A GPU's driver maps far more than it uses, and gets no limit."""
    if not os.path.exists("/dev/nvidiactl"):
        limit_data(memory)


def limit_data(memory: int) -> None:
    """RLIMIT_DATA: what is written to. RLIMIT_AS would count torch's mapped libraries as well."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
