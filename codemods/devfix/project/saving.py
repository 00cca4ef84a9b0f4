"""Does a file copy its checkpoints to the CPU before it saves them? Told from its text, line by line."""

from __future__ import annotations

import re

MATCHES = 500  # lines with the word that are looked at
LINES = 80  # how far below a copy it may be saved

_ITEM = rb"\w+(?:\.\w+)*(?:\[[\w.]+\])?"
_CPU = rb"(?:\.cpu\(\)|\.to\([ \t]*(?:device[ \t]*=[ \t]*)?(?:torch\.device\()?[\"']cpu[\"']\){0,9})"
_TO_CPU = rb"(?:\.data|\.detach\(\)|\.clone\(\)){0,9}" + _CPU
# Each entry on its own, or the module in the very expression.
_AT_ONCE = re.compile(
    _TO_CPU + rb"(?:[ \t]*\)){0,9}\s*\.state_dict\(\)|"
    rb"\w\[[\w.]+\][ \t]*=[ \t]*" + _ITEM + _TO_CPU + rb"|"
    rb"[:,]\s*" + _ITEM + _TO_CPU + rb"[])]{0,9}\s+for\b"
)
# The module itself, as a statement: `model.cpu()`, `model = model.cpu()`.
_MODULE = re.compile(
    rb"^([ \t]*)(?:\w+(?:\.\w+)*[ \t]*=[ \t]*)?(\w+(?:\.\w+)*?)(?:\.module)?" + _CPU + rb"[ \t]*\r?$",
    re.MULTILINE,
)


_IMPORTED = re.compile(rb"^[ \t]*from[ \t]+torch[ \t]+import\b[^\n]*\bsave\b", re.MULTILINE)


def saves(data: bytes) -> bool:
    """Does a file call `torch.save`, also where it has imported that by its name?"""
    return b"torch.save(" in data or (b"save(" in data and _IMPORTED.search(data) is not None)


def saves_from_cpu(data: bytes) -> bool:
    """Does a file save something whose state was copied to the CPU before?"""
    if b"cpu" not in data or b"state_dict" not in data or not saves(data):
        return False
    at, left = data.find(b"cpu"), MATCHES
    while at >= 0 and left:
        left -= 1
        start, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        end = len(data) if end < 0 else end
        # What stands in front of it, or behind, may be in another line.
        before, after = data.rfind(b"\n", 0, max(start - 1, 0)) + 1, data.find(b"\n", end + 1)
        if _AT_ONCE.search(data, before, len(data) if after < 0 else after):
            return True
        moved = _MODULE.match(data, start, end)
        if moved is not None and _saved_below(data, end, len(moved.group(1)), moved.group(2)):
            return True
        at = data.find(b"cpu", end)
    return False


def _saved_below(data: bytes, at: int, depth: int, name: bytes) -> bool:
    """Is the state of a module asked for below, in the same function and before it goes back?"""
    owner = rb"(?<![\w.])" + re.escape(name)
    asked = re.compile(owner + rb"(?:\.module)?\.state_dict\(\)")
    back = re.compile(owner + rb"(?:\.module)?\.(?:cuda|to)\(")
    for line in data[at + 1 : at + 1 + LINES * 100].split(b"\n", LINES)[:LINES]:
        written = line.lstrip()
        if not written or written.startswith(b"#"):
            continue
        if len(line) - len(written) < depth and written.startswith((b"def ", b"class ", b"async ")):
            return False
        if asked.search(line):
            return True
        if back.search(line):
            return False
    return False
