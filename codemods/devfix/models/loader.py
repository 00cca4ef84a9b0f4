"""Reads the library models: dotted name -> row."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from typing import Any, NamedTuple

from devfix.documents.installed import data

TENSOR_METHOD = "Tensor."
_OF_FILE = re.compile(r"^torch\.nn\.(?:modules\.|(parallel\.))\w+\.(?=[A-Z])")
_CALLS = frozenset(
    {
        "make",
        "data",
        "legacy",
        "cuda",
        "array",
        "like",
        "same",
        "elems",
        "follow",
        "number",
        "load",
        "samples",
    }
)
_FLAGS = frozenset(
    {"into", "strict", "numbers", "reduce", "many", "whole", "nodevice", "pairs", "packs", "answer"}
)
_ARGUMENTS = frozenset({"free", "host", "place", "beside"})
_WITHOUT_DEVICE = frozenset({"same", "elems", "follow", "samples"})
_LAYERS = frozenset(
    {
        "bare", "loss", "container", "wrapper", "scatters", "owner", "copies", "runs", "unseen", "several", "record",
        "bundle", "copied_bundle", "compares",
    }
)  # fmt: skip
_CLASSES = ("module", "items", "pairs", "explains", "not")  # rows with patterns
_PLAIN = (
    "readers",
    "keywords",
    "draws",
    "learns",
    "rows",
    "tokens",
    "gathers",
    "keeps_shape",
    "owners_of_device",
    "like_torch",
    "scalars",
)  # words
_LISTED = ("lists", "shaped", "filled", "extents", "sized", "is_device")  # names behind a prefix
BUILDING = (".from_pretrained", ".from_config")
_PROCESSES = frozenset(
    {"joins", "sets", "current", "collective", "spawn", "starts", "local", "global", "devices", "accelerator"}
)


def public(dotted: str) -> str:
    """The name of a layer of torch as the models have it: also of one that is imported from the file it stands in."""
    return _OF_FILE.sub(lambda found: f"torch.nn.{found[1] or ''}", dotted)


class Row(NamedTuple):
    """What one function, method or class does; the fields are those that the model file explains."""

    form: str
    rank: int | None = None
    strict: bool = False
    numbers: bool = False
    reduce: bool = False
    many: bool = False
    nodevice: bool = False
    host: tuple[int, str] | None = None
    free: tuple[int, str] | None = None
    host_result: int | None = None
    type: tuple[int, str] | None = None
    whole: bool = False
    place: tuple[int, str] | None = None
    beside: tuple[int, str] | None = None
    into: bool = False
    pairs: bool = False
    packs: bool = False
    answer: bool = False
    gives: tuple[str, ...] = ()
    likely: bool = False


SAME = Row("same")
LIKELY = Row("same", likely=True)


class Readers(NamedTuple):
    """What reads arguments as arrays: functions with the argument that they read; methods; packages.

    None stands for any argument; (1, "*") for all from the second on, and all keywords.
    """

    reads: dict[str, tuple[int, str] | None]
    lists: frozenset[str]
    packages: tuple[str, ...]
    keywords: frozenset[str]
    draws: frozenset[str]
    learns: frozenset[str]
    rows: frozenset[str]

    def argument(self, dotted: str, at: int | str, *, many: bool = False) -> bool:
        """Does a function surely make an array of its argument `at`: a tensor, or a list of tensors if `many`?"""
        if many and dotted.startswith("numpy."):
            return at == 0 and dotted in self.lists
        if dotted in self.reads:
            only = self.reads[dotted]
            if only is not None and only[1] == "*":
                return isinstance(at, str) or at >= only[0]
            return at in (0, 1, *self.keywords) if only is None else at in only and at != ""
        if not dotted.startswith(self.packages):
            return False
        return at in self.keywords if isinstance(at, str) else True


class Models(NamedTuple):
    """All rows, and the prefixes of names that belong together."""

    rows: dict[str, Row]
    methods: tuple[tuple[str, Row], ...]  # those of the rows whose names are patterns
    tensor_spaces: tuple[str, ...]
    likely_spaces: tuple[str, ...]  # the same, but some of their functions convert what they are given
    other_spaces: tuple[str, ...]
    array_spaces: tuple[str, ...]
    readers: Readers
    shaped: frozenset[str]
    filled: frozenset[str]
    extents: dict[str, int]  # functions -> which argument has the sizes of the array
    sized: frozenset[str]  # layers whose first two arguments are sizes
    tokens: frozenset[str]
    gathers: frozenset[str]
    keeps_shape: frozenset[str]  # methods of arrays
    owners_of_device: tuple[str, ...]
    devices: frozenset[str]
    like_torch: tuple[str, ...]
    scalars: frozenset[str]
    tensors: dict[str, frozenset[str]]  # function -> keywords that take a tensor, or None
    dtypes: dict[str, str]  # type of the tensors of the CPU that have a dtype -> that
    takers: dict[str, tuple[str, str]]  # what takes a device: the keyword, and what it does without
    converters: dict[str, str]  # what makes a function -> the function it is like
    makers: tuple[tuple[str, str], ...]  # the same, by a pattern of the name
    modules: tuple[tuple[str, str, str], ...]  # prefix, pattern of the last name, one of _CLASSES
    known: dict[str, str]  # what `layer` has found so far
    likened: dict[str, str]  # what `converter` has found so far

    def function(self, dotted: str) -> Row | None:
        """The row of a function of torch; an unlisted one takes tensors that must be in one place."""
        row = self.rows.get(dotted)
        if row is not None:
            return row if row.form in _CALLS else None
        if not dotted.rpartition(".")[2][:1].isupper():
            if dotted.startswith(self.tensor_spaces):
                return SAME
            if dotted.startswith(self.likely_spaces):
                return LIKELY
        if dotted.startswith("torch.") and not dotted.startswith(self.other_spaces):
            if dotted.count(".") == 1 and dotted[6:7].islower() and dotted != "torch.device":
                return SAME
        return None

    def makes(self, dotted: str) -> bool:
        """Does a function make a tensor, on the CPU unless it is given a device?"""
        row = self.function(dotted)
        return row is not None and row.form in ("make", "data", "legacy", "array")

    def refuses_device(self, dotted: str) -> bool:
        """Has a function of torch no `device=`? Only of those with a row of their own that is known."""
        row = self.rows.get(dotted)
        return row is not None and (row.nodevice or row.form in _WITHOUT_DEVICE)

    def method(self, name: str) -> Row:
        """The row of a method of tensors; of an unlisted one the tensors must be in one place."""
        return self.rows.get(TENSOR_METHOD + name, SAME)

    def of_instance(self, dotted: str) -> Row | None:
        """The row of a method of what a class of another package makes, by a pattern of their names."""
        return next((row for name, row in self.methods if fnmatch.fnmatchcase(dotted, name)), None)

    def converter(self, dotted: str) -> str:
        """What the result of a call does the same as, when it is called in turn; empty if that is not known."""
        if dotted not in self.likened:
            found = (one for name, one in self.makers if fnmatch.fnmatchcase(dotted, name))
            self.likened[dotted] = self.converters.get(dotted) or next(found, "")
        return self.likened[dotted]

    def layer(self, dotted: str) -> str:
        """What a class is to its data: one of _LAYERS or of _CLASSES, or an empty string for any other."""
        row = self.rows.get(dotted)
        if row is not None:
            return row.form if row.form in _LAYERS else ""
        if dotted not in self.known:
            path = dotted
            for suffix in BUILDING:
                path = path.removesuffix(suffix)
            last = path.rpartition(".")[2]
            rows = [
                row for row in self.modules if path.startswith(row[0]) and fnmatch.fnmatchcase(last, row[1])
            ]
            forms = {form for _, _, form in rows}
            self.known[dotted] = forms.pop() if len(forms) == 1 and "not" not in forms else ""
        return self.known[dotted]

    def process(self, dotted: str) -> str:
        """What a function or variable is to the processes of a distributed program; an empty string if nothing."""
        row = self.rows.get(dotted)
        return row.form if row is not None and row.form in _PROCESSES else ""


@cache
def models() -> Models:
    """The models of this package. Raises ValueError on a row that is none."""
    rows: dict[str, Row] = {}
    plain: dict[str, list[str]] = {name: [] for name in _PLAIN}
    listed: dict[str, list[str]] = {name: [] for name in _LISTED}
    reads: dict[str, tuple[int, str] | None] = {}
    converters: dict[str, str] = {}
    takers: dict[str, tuple[str, str]] = {}
    tensors: dict[str, frozenset[str]] = {}
    dtypes: dict[str, str] = {}
    modules: list[tuple[str, str, str]] = []
    spaces: dict[str, list[str]] = {"tensor": [], "likely": [], "other": [], "array": []}
    for line in (data("models/torch.model") + "\n" + data("models/libraries.model")).splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "spaces":
            spaces[words[1]] += words[2:]
            continue
        if words[0] == "calls":
            converters.update(dict.fromkeys(words[2:], words[1]))
            continue
        if words[0] == "tensors":
            tensors[words[1]] = frozenset(words[2:])
            continue
        if words[0] == "dtypes":
            pairs = (one.partition("=") for one in words[2:])
            dtypes.update((words[1] + name, words[1] + dtype) for name, _, dtype in pairs)
            continue
        if words[0] == "takes":
            takers.update(dict.fromkeys(words[3:], (words[2], words[1])))
            continue
        if words[0] in plain:
            plain[words[0]] += words[1:]
            continue
        if words[0] == "reads":
            only = [one.removeprefix("at=").partition(":") for one in words[2:] if one.startswith("at=")]
            at = (int(only[0][0]), only[0][2]) if only else None
            reads.update((words[1] + name, at) for name in words[2:] if not name.startswith("at="))
            continue
        if words[0] in listed:
            listed[words[0]] += [words[1] + name for name in words[2:]]
            continue
        form, prefix, *rest = words
        if form in _CLASSES:
            modules += [(prefix, name, form) for name in rest]
            continue
        if form not in _CALLS | _LAYERS | _PROCESSES | {"context"}:
            raise ValueError(f"{line!r} is no row of a model")
        row = Row(form)
        names = []
        if form in _PROCESSES:  # `torch.distributed.reduce` is a name
            rows.update((prefix + name, row) for name in rest)
            continue
        for word in rest:
            key, _, value = word.partition("=")
            if key in _ARGUMENTS and value:
                position, _, name = value.partition(":")
                argument: dict[str, Any] = {key: (int(position), name)}
                row = row._replace(**argument)
            elif key == "rank" and value:
                row = row._replace(rank=int(value))
            elif key == "gives" and value:
                row = row._replace(gives=tuple(value.split(",")))
            elif key == "type" and value:
                position, _, name = value.partition(":")
                row = row._replace(type=(int(position or -1), name))
            elif key == "gives_host" and value:
                row = row._replace(host_result=int(value))
            elif word in _FLAGS:
                flag: dict[str, Any] = {word: True}
                row = row._replace(**flag)
            else:
                names.append(word)
        for name in names:
            rows[prefix + name] = row
    tensor, likely, other, array = (tuple(spaces[kind]) for kind in spaces)
    readers = Readers(
        reads,
        frozenset(listed["lists"]),
        tuple(plain["readers"]),
        *(frozenset(plain[name]) for name in ("keywords", "draws", "learns", "rows")),
    )
    shaped, filled, sized = (frozenset(listed[name]) for name in ("shaped", "filled", "sized"))
    extents = {name: int(at) for name, _, at in (one.rpartition(":") for one in listed["extents"])}
    return Models(
        rows, tuple(one for one in rows.items() if "*" in one[0]), tensor, likely, other, array, readers,
        shaped, filled, extents, sized, frozenset(plain["tokens"]), frozenset(plain["gathers"]),
        frozenset(plain["keeps_shape"]),
        tuple(plain["owners_of_device"]), frozenset(listed["is_device"]), tuple(plain["like_torch"]),
        frozenset(plain["scalars"]), tensors,
        dtypes, takers, converters, tuple(one for one in converters.items() if "*" in one[0]), tuple(modules), {}, {},
    )  # fmt: skip


@cache
def tensor_attributes() -> frozenset[str]:
    """The public attributes and methods that tensors have."""
    return _words("models/tensor.attributes")


@cache
def module_attributes() -> frozenset[str]:
    """The attributes and methods that every torch.nn.Module has."""
    return _words("models/module.attributes")


def _words(name: str) -> frozenset[str]:
    lines = data(name).splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
