"""What goes to CUDA whatever there is: found in the texts of a file and of what it uses, block by block.

A block is a function or class at the top level of a file; what stands outside of them is a block without a
name. A block is used where its name stands in one that is used. So a file may import a module of which
some parts need CUDA, and use the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from devfix.project.marks import MATCHES, headers

_COMMENT = re.compile(rb"#[^\n]*")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_BLOCK = re.compile(rb"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
_GOES = re.compile(
    rb"\.cuda\([ \t]*(?:non_blocking[ \t]*=[ \t]*\w+|async[ \t]*=[ \t]*\w+)?[ \t]*\)|"
    rb"\btorch\.cuda\.(?:Float|Long|Half|Double|Int|Byte|Bool)Tensor\(|"
    rb"\.to\([ \t]*(?:torch\.device\()?[\"']cuda(?::0)?[\"'][ \t]*\)|"
    rb"\btorch\.device\([ \t]*[\"']cuda(?::0)?[\"'][ \t]*\)|"
    rb"[(,][ \t]*device[ \t]*=[ \t]*[\"']cuda(?::0)?[\"']"
)
_ASKS = re.compile(rb"cuda|gpu|device|cpu|available|\b(?:try|except)\b", re.IGNORECASE)
_OPENS = re.compile(rb"[ \t]*(?:if|elif|else|try|except|while|with)\b")
# Functions that are asked to go there, and headers that only name a default.
_ASKED = re.compile(
    rb"[ \t]*(?:async[ \t]+)?def[ \t]+\w*(?:cuda|gpu|device|to_var)\w*[ \t]*\(|[ \t]*(?:async[ \t]+)?def[ \t]+test_",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    rb"\bif\b|\belse\b|\band\b|\bor\b|\blambda\b|add_argument|^[ \t]*(?:async[ \t]+)?def\b|^[ \t]*@"
)
_RETURNS = re.compile(
    rb"^[ \t]*if\b[^\n]{0,200}(?:cuda|gpu|device|cpu)[^\n]{0,200}:\s*(?:return|continue)\b",
    re.IGNORECASE | re.MULTILINE,
)


_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_LEFT = re.compile(rb"\n(?=[^\s)\]}])")
_DOCUMENTED = re.compile(rb"([\"'])\1\1.*?\1\1\1", re.DOTALL)
_HOOKS = ("__", "forward", "step")  # methods that run without being named


@dataclass(frozen=True)
class Block:
    """A function, the methods of a class, or what stands outside of both: then the name is empty."""

    name: str
    owner: str  # the class of a method
    words: frozenset[str]
    bare: bool  # goes to CUDA

    def used(self, words: set[str]) -> bool:
        if self.owner and self.owner not in words:
            return False
        return self.name in words or (bool(self.owner) and self.name.startswith(_HOOKS))


def blocks_of(data: bytes) -> list[Block]:
    """The blocks of a file; of a class, each method is one, and what stands outside of them is of the class."""
    text = _DOCUMENTED.sub(rb'""', _COMMENT.sub(b"", data))
    found: list[Block] = []
    rest: list[tuple[int, int]] = []
    for name, start, end in _parts(text):
        if not name:
            rest.append((start, end))
        elif text.startswith(b"class", start):
            found.extend(_methods(text, name, start, end))
        else:
            found.append(Block(name, "", _words(text[start:end]), _goes(text, start, end)))
    words = frozenset().union(*(_words(text[start:end]) for start, end in rest))
    found.append(Block("", "", words, any(_goes(text, start, end) for start, end in rest)))
    return found


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


def _methods(text: bytes, name: str, start: int, end: int) -> Iterator[Block]:
    found = list(_METHOD.finditer(text, text.find(b"\n", start), end))
    depth = min((len(one.group().partition(b"def")[0]) for one in found), default=0)
    tops = [one for one in found if len(one.group().partition(b"def")[0]) == depth]
    ends = [*(one.start() for one in tops[1:]), end]
    first = tops[0].start() if tops else end
    yield Block(name, "", _words(text[start:first]), _goes(text, start, first))
    for header, stop in zip(tops, ends, strict=False):
        at = header.start()
        yield Block(header.group(1).decode(), name, _words(text[at:stop]), _goes(text, at, stop))


def _words(text: bytes) -> frozenset[str]:
    return frozenset(word.decode() for word in _WORD.findall(text))


def _goes(text: bytes, start: int, end: int) -> bool:
    for match in islice(_GOES.finditer(text, start, end), MATCHES):
        line = text[text.rfind(b"\n", 0, match.start()) + 1 : match.end()]
        whole = text.find(b"\n", match.end())
        if _CHOICE.search(line + text[match.end() : end if whole < 0 else whole]):
            continue
        above = headers(text, match.start())
        if any((_OPENS.match(one) and _ASKS.search(one)) or _ASKED.match(one) for one in above):
            continue
        function = text.rfind(b"def ", start, match.start())
        if _RETURNS.search(text, max(function, start), match.start()):
            continue
        return True
    return False


def goes_to_cuda(own: list[Block], others: Iterable[list[Block]], names: Iterable[str] = ()) -> bool:
    """Does a file, or what it uses of others, go to CUDA whatever there is?

    `names` are those of the function, and its class, of which that is asked, besides what runs as a file is loaded.
    """
    used = [block for block in own if not block.name]
    left = [block for block in own if block.name]
    left += [block for blocks in others for block in blocks if block.name]
    if not any(block.bare for block in (*used, *left)):
        return False
    words = set(names)
    while True:
        for block in used:
            if block.bare:
                return True
            words |= block.words
        used = [block for block in left if block.used(words)]
        if not used:
            return False
        left = [block for block in left if not block.used(words)]
