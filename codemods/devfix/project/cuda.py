"""What goes to CUDA whatever there is, as the text of a file tells: by blocks, and as a whole.

A block is a function or class at the top level of a file; what stands outside of them is a block without a
name. A block is used where its name stands in one that is used. So a file may import a module of which
some parts need CUDA, and use the others. That reading is strict: what it says goes to CUDA, does.

`needs`, `goes_to_current` and `names_other` ask the same of a whole text, and are loose: they tell which ways
through a project `runs.py` goes, where it is enough that something may need CUDA.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from devfix.models import torch_api
from devfix.project.marks import COMMENT, GOES_ON, MATCHES, headers, spelled_out

_WORD = re.compile(rb"\.?[A-Za-z_]\w*")
_BLOCK = re.compile(rb"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
# A GPU that is written down: a number that is an option may be that of a GPU which is not there elsewhere.
_CUDA = (
    rb"(?:[\"']cuda[\"'](?:[ \t]*,[ \t]*(?:index[ \t]*=[ \t]*)?\d+)?|f?[\"']cuda:(?:\d+|\{\d+\})[\"']|"
    rb"[\"']cuda:(?:\{0?\}[\"']\.format\([ \t]*\d+[ \t]*\)|%[ds][\"'][ \t]*%[ \t]*\d+))"
)
_GOES = re.compile(
    rb"\.cuda\([ \t]*(?:(?:non_blocking[ \t]*=[ \t]*\w+|async[ \t]*=[ \t]*\w+|(?:device[ \t]*=[ \t]*)?\d+)[ \t]*)?\)|"
    rb"\btorch\.cuda\.(?:Float|Long|Half|Double|Int|Byte|Bool)Tensor\(|"
    rb"\.to\([ \t]*(?:torch\.device\([ \t]*)?" + _CUDA + rb"[ \t]*\)|"
    rb"\btorch\.device\([ \t]*" + _CUDA + rb"[ \t]*\)|"
    rb"[(,][ \t]*device[ \t]*=[ \t]*" + _CUDA + rb"|"
    rb"^[ \t]*(?P<name>\w*device)[ \t]*=[ \t]*" + _CUDA + rb"[ \t]*$|"
    # raises without a GPU, as the memory's statistics, caches and seeds do not
    rb"(?P<raises>\btorch\.cuda\.(?:synchronize|current_device|get_device_(?:name|properties|capability)|mem_get_info|"
    rb"Stream|Event|(?:current|default)_stream|set_device)\()",
    re.MULTILINE,
)
_ASKS = re.compile(rb"cuda|gpu|device|cpu|available|\b(?:try|except)\b", re.IGNORECASE)
_OPENS = re.compile(rb"[ \t]*(?:if|elif|else|try|except|while|with)\b")
# Where a tensor is says nothing of the machine: what is not on CUDA is moved there.
_WHERE = re.compile(
    rb"[ \t]*if[ \t]+(?:not[ \t]+[\w.]+\.is_cuda|[\w.]+\.device\.type[ \t]*==[ \t]*[\"']cpu[\"']|"
    rb"[\w.]+\.device(?:\.type)?[ \t]*!=[ \t]*(?:torch\.device\([ \t]*)?[\"']cuda(?::\d+)?[\"'](?:[ \t]*\))?)[ \t]*:"
)
# Whether something is wanted at all: a profile, a part of the network.
_WANTED = re.compile(
    rb"[ \t]*(?:if|elif)[ \t]+(?:not[ \t]+)?[a-z][\w.]*(?:[ \t]+is[ \t]+(?:not[ \t]+)?None)?[ \t]*:"
)
# Functions that are asked to go there, and headers that only name a default.
_ASKED = re.compile(
    rb"[ \t]*(?:async[ \t]+)?def[ \t]+\w*(?:cuda|gpu|device|to_var)\w*[ \t]*\(|[ \t]*(?:async[ \t]+)?def[ \t]+test_",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    rb"\bif\b|\belse\b|\band\b|\bor\b|\blambda\b|add_argument|^[ \t]*(?:async[ \t]+)?def\b|^[ \t]*@"
)
_PARAMETERS = re.compile(rb"def[ \t]+\w+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*")
_RETURNS = re.compile(
    rb"^[ \t]*if\b[^\n]{0,200}(?:cuda|gpu|device|cpu)[^\n]{0,200}:\s*(?:return|continue)\b",
    re.IGNORECASE | re.MULTILINE,
)

# The loose readings: to the current GPU, or to one by number; and what raises where there is none.
_MAY_MOVE = re.compile(
    rb"\.cuda\(|\.to\([ \t]*(?:torch\.device\([ \t]*)?[\"']cuda|\bcuda\.\w*Tensor\(|"
    rb"\bdevice[ \t]*=[ \t]*[\"']cuda[\"':]|"
    rb"\bcuda\.(?:current_device|get_device_(?:name|properties)|set_device|synchronize|Stream)\("
)
_TO_CURRENT = re.compile(
    rb"\.cuda\([ \t]*(?:\)|non_blocking|async)|\.to\([ \t]*[\"']cuda[\"']|\bcuda\.\w*Tensor\b|\bset_device\("
)
_MAY_ASK = re.compile(
    rb"(?:if|while|with|elif|else|try|except|assert)\b.{0,400}(?:cuda|gpu|device|cpu|is_available|rank|distributed)"
    rb"|try[ \t]*:|except\b"
    rb"|def[ \t]+\w{0,99}(?:cuda|gpu)\w{0,99}\(",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(rb"\bis_cuda\b|device\.type\b")
_OTHER = re.compile(
    rb"[\"']cuda:(?:[1-9]|[{%\"'])|"
    rb"\.cuda\((?![ \t\r\n]*(?:\)|(?:device[ \t]*=[ \t]*)?0[ \t]*\)|non_blocking|async))(\w*)|"
    rb"\.device\([ \t]*[\"']cuda[\"'][ \t]*,(?![ \t]*0[ \t]*\))|"
    # an option for the number of a GPU
    rb"--device\b(?!-)(?:(?!add_argument)[^\0]){0,300}?(?:\bint\b|cuda:)"
)

_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_LEFT = re.compile(rb"\n(?=[^\s)\]}])")
_DOCUMENTED = re.compile(rb"([\"'])\1\1.*?\1\1\1", re.DOTALL)
# Methods that objects of any other kind have, too.
_COMMON = torch_api.TENSOR_ONLY.union(
    *(dir(kind) for kind in (dict, list, set, str, bytes)),
    ("cuda", "cpu", "to", "eval", "train", "fit", "run", "start", "stop", "close", "open", "read", "write"),
    ("save", "load", "parameters", "zero_grad", "backward", "log", "plot", "main", "reset", "test", "sample"),
    ("size", "forward", "step", "state_dict", "load_state_dict", "apply", "linear"),
)
_HOOKS = ("__", "forward", "step")  # methods that run without being named


@dataclass(frozen=True)
class Block:
    """A function, the methods of a class, or what stands outside of both: then the name is empty."""

    name: str
    owner: str  # the class of a method
    words: frozenset[str]  # ".name" for an attribute as well
    bare: bool  # goes to CUDA

    def used(self, words: set[str], alone: set[str]) -> bool:
        """`alone`: methods that only one class has, so that any object they are called on is of that one."""
        if self.owner and self.owner not in words:
            return self.name in alone and f".{self.name}" in words
        if self.owner and self.name.startswith(_HOOKS):
            return True
        return (f".{self.name}" if self.owner else self.name) in words


def plain(data: bytes) -> bytes:
    """A text without its comments and documentation."""
    return _DOCUMENTED.sub(rb'""', COMMENT.sub(b"", spelled_out(data)))


def blocks_of(data: bytes) -> list[Block]:
    """The blocks of a file; of a class, each method is one, and what stands outside of them is of the class."""
    text = plain(data)
    found: list[Block] = []
    rest: list[tuple[int, int]] = []
    for name, owner, start, end in spans(text):
        if name:
            found.append(Block(name, owner, _words(text[start:end]), goes(text, start, end)))
        else:
            rest.append((start, end))
    words = frozenset().union(*(_words(text[start:end]) for start, end in rest))
    if b"fire.Fire()" in text:  # any function, by its name on the command line
        words |= {block.name for block in found}
    found.append(Block("", "", words, any(goes(text, start, end) for start, end in rest)))
    return found


def spans(text: bytes) -> Iterator[tuple[str, str, int, int]]:
    """The name, class, start and end of each block of a plain text."""
    for name, start, end in _parts(text):
        if name and text.startswith(b"class", start):
            yield from _methods(text, name, start, end)
        else:
            yield name, "", start, end


def _parts(text: bytes) -> Iterator[tuple[str, int, int]]:
    at = 0
    for match in _BLOCK.finditer(text):
        if match.start() < at:
            continue
        yield "", at, match.start()
        left = _LEFT.search(text, match.end())
        end = len(text) if left is None else left.end()
        yield match.group(1).decode(), match.start(), end
        at = end
    yield "", at, len(text)


def _methods(text: bytes, name: str, start: int, end: int) -> Iterator[tuple[str, str, int, int]]:
    found = list(_METHOD.finditer(text, text.find(b"\n", start), end))
    depth = min((len(one.group().partition(b"def")[0]) for one in found), default=0)
    tops = [one for one in found if len(one.group().partition(b"def")[0]) == depth]
    ends = [*(one.start() for one in tops[1:]), end]
    first = tops[0].start() if tops else end
    yield name, "", start, first
    for header, stop in zip(tops, ends, strict=False):
        yield header.group(1).decode(), name, header.start(), stop


def _words(text: bytes) -> frozenset[str]:
    found = {word.decode() for word in _WORD.findall(text)}
    return frozenset(found | {word[1:] for word in found if word.startswith(".")})


def goes(text: bytes, start: int, end: int) -> bool:
    """Does a part of a plain text go to CUDA under no condition that asks?"""
    for match in islice(_GOES.finditer(text, start, end), MATCHES):
        line = text[text.rfind(b"\n", 0, match.start()) + 1 : match.end()]
        whole = text.find(b"\n", match.end())
        if _CHOICE.search(line + text[match.end() : end if whole < 0 else whole]):
            continue
        above = headers(text, match.start())
        if _asked(above) or (match["raises"] and any(map(_WANTED.match, above))):
            continue
        if match["name"] and not _is_only(text, match["name"]):
            continue
        function = max(text.rfind(b"def ", start, match.start()), start)
        parameters = _PARAMETERS.match(text, function)
        if parameters and parameters.end() > match.start():
            continue  # a default
        if _RETURNS.search(text, function, match.start()):
            continue
        return True
    return False


def _is_only(text: bytes, name: bytes) -> bool:
    """Is a device bound once in a text, and anything moved there?"""
    bound = re.findall(rb"^[ \t]*%s[ \t]*=(?!=|[ \t]*%s\b)" % (name, name), text, re.MULTILINE)
    return (
        len(bound) == 1
        and re.search(rb"\.to\([ \t]*(?:device[ \t]*=[ \t]*)?%s[ \t]*[,)]" % name, text) is not None
    )


def _asked(above: list[bytes]) -> bool:
    """Does one of these headers, innermost first, ask what there is?"""
    inner = b""
    for one in above:
        if _ASKED.match(one):
            return True
        if _OPENS.match(one) and _ASKS.search(one):
            if not _WHERE.match(one) or GOES_ON.match(inner):
                return True
        inner = one
    return False


def goes_to_cuda(
    own: list[Block], others: Iterable[list[Block]], names: Iterable[str] = (), steps: int = sys.maxsize
) -> bool:
    """Does a file, or what it uses of others, go to CUDA whatever there is?

    `names` are those of the function, and its class, of which that is asked, besides what runs as a file is loaded.
    `steps`: how many times what is named by what is used is used, too.
    """
    used = [block for block in own if not block.name]
    left = [block for block in own if block.name]
    left += [block for blocks in others for block in blocks if block.name]
    if not any(block.bare for block in (*used, *left)):
        return False
    methods = Counter(block.name for block in (*used, *left) if block.owner)
    alone = {name for name, count in methods.items() if count == 1} - _COMMON
    words = {*names, *(f".{name}" for name in names)}
    while True:
        for block in used:
            if block.bare:
                return True
            words |= block.words
        used = [block for block in left if block.used(words, alone)]
        if not used or not steps:
            return False
        steps -= 1
        left = [block for block in left if not block.used(words, alone)]


# --- a whole text, loosely ---------------------------------------------------------------------


def needs(code: bytes) -> bool:
    """May a text need CUDA, as it goes there under no condition that asks?"""
    return _unasked(code, _MAY_MOVE, _MAY_ASK)


def goes_to_current(code: bytes) -> bool:
    """Does a text go to the current GPU, other than where a tensor is on one?"""
    return _unasked(code, _TO_CURRENT, _FOLLOWS)


def _unasked(code: bytes, move: re.Pattern[bytes], asks: re.Pattern[bytes]) -> bool:
    """Is something moved under no condition that asks?"""
    for match in move.finditer(code):
        start = code.rfind(b"\n", 0, match.start()) + 1
        end = code.find(b"\n", start)
        line = code[start : end if end >= 0 else len(code)]
        if not asks.search(line) and not any(asks.search(one) for one in headers(code, match.start())):
            return True
    return False


def names_other(code: bytes) -> bool:
    """Is a GPU named that need not be the current one, other than that of a tensor at hand?"""
    for match in _OTHER.finditer(code):
        name = match.group(1)
        if not name or not re.search(rb"\b%s[ \t]*=[^\n]*\bget_device\(\)" % name, code):
            return True
    return False
