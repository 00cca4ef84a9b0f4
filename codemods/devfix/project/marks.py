"""What the text of a file says about the devices of the project it is in: marks for the index, by patterns.

Every file of a project is looked at, so most of them must be done with after a search for one word. The
patterns do not know Python; who needs certainty looks at what stands around a match, as `headers` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from devfix.project.saving import saves

CHOOSES = "!chooses"  # no name: files that show a choice between CUDA and something else
OTHER = "!other"  # no name: files that show a GPU besides the current one
ONLY = "!only"  # no name: files that cannot be imported, or used, without CUDA, whatever is chosen
INSISTS = "!insists"  # no name: files whose programs insist on CUDA
MOVES = "!moves"  # no name: files that put anything on a device, or leave that to a framework
WRITES = "!writes"  # no name: files that write checkpoints of their own
BUILDS = "!builds"  # no name: files that compile CUDA extensions for others to import

MATCHES = 200  # of a pattern in one file whose surroundings are looked at
COMMENT = re.compile(rb"#[^\n]*")
_ALIAS = re.compile(rb"^[ \t]*import[ \t]+torch[ \t]+as[ \t]+(\w+)", re.MULTILINE)
_GPU = rb"(?:cuda|gpus?|gpu_?ids?)"
# A device is chosen by what there is, by an option, or by whoever calls.
_CHOICES = re.compile(
    # asked what there is, other than to insist on it or to seed it
    rb"cuda\.is_available(?<!assert torch\.cuda\.is_available)"
    rb"(?!\(\)\s*:\s*torch\.(?:cuda|backends)\.|\(\)\s*,\s*[\"'f])|"
    rb"--(?:device|no[-_]?(?:cuda|gpu)|use[-_]?(?:cuda|gpu)|cuda|cpu)\b|"  # an option
    rb"\b(?:use|no|with|enable|is|on|has)_?(?:cuda|gpu)\b|"  # a flag
    rb"\b(?:if|and|or)[ \t]+(?:not[ \t]+)?[\w.]*\b(?:use_)?"
    + _GPU
    + rb"\b[ \t]*(?::|and\b|or\b|else\b|>=?[ \t]*0|<[ \t]*0)|"
    rb"[\"']cuda[^\"'\n]{0,20}[\"'][^\n]{0,200}\belse\b|\belse\b[^\n]{0,200}[\"']cuda|"  # "cuda" if ... else "cpu"
    rb"map_location[ \t]*=[^\n]{0,200}(?:cpu|storage)|"
    rb"\baccelerat(?:or|e)\b|"
    rb"\b(?:args|opts?|cfg|config|conf|params|hparams|options|flags|settings)\.device\b",
    re.IGNORECASE,
)
_MOVES = (b".cuda(", b".to(", b"accelerat", b"lightning", b"dataparallel", b"default_device")  # in any case
_TRAINER = re.compile(rb"\btrainer\(")
# A device that something is made on, other than one that was handed over; or an accelerator by name.
_MAKES = re.compile(
    rb"[(,]\s*device\s*=\s*(?!None|[\"']cpu|device\b|torch\.device\([\"']cpu)|default_tensor_type\(|"
    rb"(?:=|\(|\bif\b)[^#\n]{0,100}[\"'](?:cuda|mps|xpu)\b"
)
_MADE_WITH = (
    b"device",
    b"default_tensor_type(",
    b"cuda",
    b"mps",
    b"xpu",
)  # one of these is in each such text
# A GPU that is insisted on is no choice.
# What is said before, such as a line to a log, changes nothing.
_LEAVES = (
    rb"^([ \t]*)if[ \t]+not[ \t]+(?:\w+\.)*cuda\.is_available\(\)[ \t]*:[ \t]*"
    rb"(?:\n(?:\1[ \t]+[^\s][^\n]*[^:\n]\n){0,3}\1[ \t]+)?(?:raise|(?:sys\.|os\.|_)*exit|quit)\b"
)
_INSISTS = re.compile(
    _LEAVES + rb"|if[ \t]+not[ \t]+(?:\w+\.)*cuda\.is_available\(\)[ \t]*:\s*assert\b|"
    rb"^([ \t]*)if (?:\w+\.)*cuda\.is_available\(\)[^\n]*:\n"
    rb"(?:\2[ \t]+[^\s][^\n]*\n|[ \t]*\n)+\2else:[^\n]*\n\s*raise\b",
    re.MULTILINE,
)
# A parameter that is a device, or one that is handed on, where nothing else says CUDA.
_HANDED = re.compile(rb"device(?<![\w.]device)[ \t]*(?::[ \t]*\w|=[ \t]*(?:device\b|None\b))")
# What is written down is no choice, however far it is handed on.
_WRITTEN = re.compile(
    rb"^[ \t]*device[ \t]*=[ \t]*(?:torch\.device\([ \t]*)?[\"']cuda[^\"'\n]*[\"']", re.MULTILINE
)
_HANDS_ON = re.compile(rb"\bdevice[ \t]*=[ \t]*device\b")
_OTHERS = re.compile(
    rb"[\"']cuda:(?:[1-9]|[{%\"'])|"  # "cuda:1", f"cuda:{rank}", "cuda:" + ..., "cuda:%d"
    rb"\.cuda\((?![ \t\r\n]*(?:\)|(?:device[ \t]*=[ \t]*)?0[ \t]*\)|non_blocking|async))|"  # .cuda(rank)
    rb"\.device\([ \t]*[\"']cuda[\"'][ \t]*,(?![ \t]*0[ \t]*\))|cuda\.device\((?![ \t]*(?:0[ \t]*)?\))|"
    rb"\bdevice_ids[ \t]*=[ \t]*\[[ \t]*[1-9]|"  # those from 0 gather on the current one
    rb"--(?:device|gpu[-_]?id|device[-_]?id)s?\b",
)
# Without a GPU these raise wherever they stand ...
_GPU_CALLS = re.compile(
    rb"\bfaiss\.(?:Gpu\w+|StandardGpuResources|index_cpu_to_(?:all_)?gpus?\w*)\(|"
    rb"(?<!torch\.)(?<!json\.)\b(?:load|load_inline)\("
    rb"(?:[^()]|\([^()]{0,200}\)){0,400}(?:\([^()]{0,200})?(?:\.cu[\"']|cuda_sources)"
)
# ... and these when the program or function runs that they stand in.
_INSISTENCE = re.compile(
    _LEAVES + rb"|^[ \t]*assert[ \t]+(?:\w+\.)*cuda\.is_available\(\)|"
    rb"\bset_default_tensor_type\([ \t]*(?:[\"']torch\.cuda|torch\.cuda)|\bset_default_device\([ \t]*[\"']cuda|"
    rb"\binit_process_group\([^()]{0,400}[\"']nccl[\"']",
    re.MULTILINE,
)
_PROGRAM = re.compile(rb"[ \t]*(?:def[ \t]+(?:main|train|run|worker|start|launch)\w*\b|if[ \t]+__name__\b)")
_EXTENSION = re.compile(rb"\bCUDAExtension\(|\bcreate_extension\([^()]{0,400}with_cuda[ \t]*=[ \t]*True")
_NAMED = re.compile(
    rb"(?:\bCUDAExtension|\bcreate_extension)\([ \t\r\n]*(?:name[ \t]*=[ \t]*)?[\"']([\w.]+)[\"']"
)
# What is imported runs on CUDA only: libraries, and extensions that PyTorch < 1.0 compiled.
_LIBRARIES = frozenset(
    {b"cupy", b"cuml", b"cudf", b"cugraph", b"tensorrt", b"torch2trt", b"apex", b"amp_C", b"flash_attn"}
    | {b"dcn_v2", b"pycuda", b"numba.cuda", b"nvidia.dali"}
)
_TELLING = (
    b"cu",
    b"trt",
    b"apex",
    b"amp_C",
    b"flash_attn",
    b"dcn_v2",
    b"tensorrt",
    b"dali",
    b"_ext",
    b"ffi",
    b"faiss",
)
_COMPILED = re.compile(rb"(?:^|\.)_ext(?:\.|$)|^torch\.utils\.ffi$")
_CUDA_MODULE = re.compile(rb"[ \t]*\w+_cuda[ \t]*(?:$|,|as\b|[ \t;])")
# A condition that has to do with where things run, or with something that may be missing.
_ASKS = re.compile(rb"cuda|gpu|device|cpu|is_available|distributed|^\s*(?:try|except)\b", re.IGNORECASE)
_OPENS = re.compile(rb"[ \t]*(?:if|elif|else|try|except|for|while)\b")
GOES_ON = re.compile(rb"[ \t]*(?:elif|else|except|finally)\b")


_FETCHES = (b"load_url(", b"model_zoo", b"urlretrieve(", b"from_url(")


def spelled_out(data: bytes) -> bytes:
    """A text with torch under its own name, where it is imported `as th`."""
    other = _ALIAS.search(data) if b"torch as" in data else None
    return data if other is None else re.sub(rb"(?<![\w.])%s\." % other.group(1), b"torch.", data)


def moves(data: bytes) -> bool:
    """May a file move anything to a device?"""
    low = data.lower()  # ten times as fast as to search for words in any case
    return any(map(low.__contains__, _MOVES)) or (b"trainer(" in low and _TRAINER.search(low) is not None)


def places(data: bytes) -> bool:
    """May a file put anything on a device, other than one that it is given?"""
    return moves(data) or (any(map(data.__contains__, _MADE_WITH)) and _MAKES.search(data) is not None)


def writes(data: bytes) -> bool:
    """Does a file write a checkpoint, and not what it has fetched?"""
    if not saves(data):
        return False
    return b"state_dict()" in data or not any(map(data.__contains__, _FETCHES))


def marks_in(data: bytes, imports: Sequence[tuple[bytes, bytes, bytes, bool]]) -> set[str]:
    """The marks of a file: `imports` are its import statements, the last one says whether it stands at the left."""
    found: set[str] = set()
    data = spelled_out(data)
    compiles = searches = False
    every = b" ".join([module or modules for module, _, modules, _ in imports])
    lines = _lines_with(data, b"cuda")
    if lines or any(map(every.__contains__, _TELLING)):
        for module, names, modules, outermost in imports:
            named = module or modules
            if outermost and _only_cuda(module, names, modules):
                found.add(ONLY)
            compiles = compiles or b"cpp_extension" in named or b"torch.utils.ffi" in named
            searches = searches or b"faiss" in named
    if compiles or searches:
        text = COMMENT.sub(b"", data)
        if any(_sure(text, match) for match in islice(_GPU_CALLS.finditer(text), MATCHES)):
            found.add(ONLY)
        if compiles and _EXTENSION.search(text) and b"is_available" not in text:
            found.add(BUILDS)
    if not lines:
        if _HANDED.search(data):
            found.add(CHOOSES)
        return found
    if _chooses(data, lines):
        found.add(CHOOSES)
    if _OTHERS.search(lines) or _OTHERS.search(_lines_with(data, b"device_ids", b"--device", b"--gpu")):
        found.add(OTHER)
    asked = b"is_available" in lines or (b"nccl" in data and b"init_process_group(" in data)
    if asked or _INSISTENCE.search(lines):
        found |= _insists(COMMENT.sub(b"", data))
    return found


def uninsisting(data: bytes) -> bytes:
    """A text without what leaves where there is no CUDA: that is no choice."""
    return _INSISTS.sub(b"", data)


def _chooses(data: bytes, lines: bytes) -> bool:
    if b"is_available" in lines and (b"raise" in data or b"exit(" in data or b"assert" in data):
        lines = _lines_with(uninsisting(data), b"cuda")
    if _CHOICES.search(lines):
        return True
    if _HANDED.search(_HANDS_ON.sub(b"", data) if _WRITTEN.search(lines) else data):
        return True
    more = _lines_with(data, b"gpu", b"map_location", b"accelerat", b".device")
    return _CHOICES.search(more) is not None


def _lines_with(data: bytes, *words: bytes) -> bytes:
    """The lines with a word, without their comments; and the first one of a block that such a line opens."""
    found: list[bytes] = []
    for word in words:
        at = data.find(word)
        while at >= 0:
            start, end = data.rfind(b"\n", 0, at) + 1, _end(data, at)
            comment = data.find(b"#", start, end)
            if comment < 0 and data[end - 1 : end] == b":":
                end = _end(data, end + 1)
            found.append(data[start : end if comment < 0 else comment])
            at = data.find(word, end)
    return b"\n".join(found)


def _only_cuda(module: bytes, names: bytes, modules: bytes) -> bool:
    if module:
        top = module.partition(b".")[0]
        if top in _LIBRARIES or module in _LIBRARIES or _COMPILED.search(module):
            return True
        return module.startswith(b".") and _CUDA_MODULE.match(names.lstrip(b"( \t\r\n")) is not None
    for one in modules.split(b","):
        word = one.split()[:1]
        if word and (
            word[0] in _LIBRARIES
            or word[0].partition(b".")[0] in _LIBRARIES
            or word[0].endswith(b"_cuda")
            or _COMPILED.search(word[0])
        ):
            return True
    return False


def _sure(text: bytes, match: re.Match[bytes]) -> bool:
    return not any(_OPENS.match(one) and _ASKS.search(one) for one in headers(text, match.start()))


def _insists(text: bytes) -> set[str]:
    found = set()
    for match in islice(_INSISTENCE.finditer(text), MATCHES):
        if b"nccl" in match.group() and b"gloo" in text:
            continue
        above = headers(text, match.start())
        if not above:
            return {ONLY, INSISTS}
        if all(_PROGRAM.match(one) for one in above):
            found.add(INSISTS)
    return found


def headers(text: bytes, at: int) -> list[bytes]:
    """The headers of the blocks that a place stands in, by indentation, innermost first; with an `else` its `if`."""
    start = text.rfind(b"\n", 0, at) + 1
    depth = _depth(text[start : _end(text, start)])
    found: list[bytes] = []
    below = False  # an `else` waits for its `if`
    while start and (depth or below):
        end = start - 1
        start = text.rfind(b"\n", 0, end) + 1
        line = text[start:end]
        if not line.strip():
            continue
        if _depth(line) < depth or (below and _depth(line) == depth and _OPENS.match(line)):
            depth = _depth(line)
            below = GOES_ON.match(line) is not None
            found.append(line)
    return found


def _end(text: bytes, start: int) -> int:
    end = text.find(b"\n", start)
    return len(text) if end < 0 else end


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def extensions_in(text: str) -> set[str]:
    """The names under which a setup script's CUDA extensions are imported."""
    return {name.decode().rpartition(".")[2] for name in _NAMED.findall(text.encode("utf-8", "replace"))}
