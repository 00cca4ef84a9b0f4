"""The words of the statistics: how a program names a device, and where that device comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class How(Enum):
    """The form of a placement. The values are what people read."""

    FACTORY = "factory with device="
    BARE = "factory without device"
    LIKE = "*_like and new_*"
    TO = ".to(...)"
    CUDA = ".cuda() and torch.cuda tensors"
    CPU = ".cpu()"
    LOAD = "map_location"
    AUTOCAST = "autocast and GradScaler"
    PROCESS = "set_device and environment"
    PASSED = "device= of other calls"


class Origin(Enum):
    """Where the device of a placement comes from."""

    VALUE = "another value's device"
    ARGUMENT = "an argument"
    CONFIG = "configuration"
    FRAMEWORK = "a framework"
    AVAILABLE = "what is available"
    NAMED = "an accelerator by name"
    CPU = "the CPU by name"
    DEFAULT = "nothing: torch's default"
    IMPORTED = "another file"
    UNKNOWN = "not known"


MEANING = {
    Origin.VALUE: "x.device, next(model.parameters()).device, zeros_like(x)",
    Origin.ARGUMENT: "a parameter, args.device, if args.cuda",
    Origin.CONFIG: "cfg.device, config['device'], an environment variable",
    Origin.FRAMEWORK: "accelerator.device, a Trainer's, a Brain's",
    Origin.AVAILABLE: "'cuda' if torch.cuda.is_available() else 'cpu'",
    Origin.NAMED: "'cuda', 'cuda:0', .cuda() without a condition",
    Origin.CPU: "'cpu', .cpu()",
    Origin.DEFAULT: "torch.zeros(3): the CPU, unless somebody set a default",
    Origin.IMPORTED: "from settings import DEVICE",
    Origin.UNKNOWN: "decided where this file does not show it",
}
# Where the device can change, and where it is one kind of accelerator.
OPEN = (Origin.VALUE, Origin.ARGUMENT, Origin.CONFIG, Origin.FRAMEWORK, Origin.AVAILABLE)
KINDS = ("open", "named", "cpu", "unknown")


def kind_of(origin: Origin) -> str:
    """The colour of an origin: one of KINDS."""
    if origin in OPEN:
        return "open"
    if origin is Origin.NAMED:
        return "named"
    return "unknown" if origin in (Origin.IMPORTED, Origin.UNKNOWN) else "cpu"


@dataclass(frozen=True)
class Site:
    """One placement; `line` counts from 1, in a notebook those of the cell."""

    line: int
    how: How
    origin: Origin
    code: str = ""
    cell: int = 0  # of a notebook, from 1

    @property
    def where(self) -> str:
        return f"cell {self.cell}, line {self.line}" if self.cell else f"line {self.line}"


@dataclass(frozen=True)
class FileStats:
    """What one file has; `error` says why it has nothing."""

    path: str
    sites: tuple[Site, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Share:
    """How many placements use a device that can change, of those that choose an accelerator or such a device."""

    open: int
    named: int

    @property
    def of(self) -> int:
        return self.open + self.named

    @property
    def percent(self) -> float | None:
        return 100 * self.open / self.of if self.of else None

    @property
    def text(self) -> str:
        if self.percent is None:
            return "-"
        text = f"{self.percent:.0f} %"
        if text == "100 %" and self.named:
            return f"{min(self.percent, 99.9):.1f} %"  # nearly all is not all
        return text


def share_of(origins: Iterable[Origin]) -> Share:
    counts = Counter(kind_of(origin) for origin in origins)
    return Share(counts["open"], counts["named"])
