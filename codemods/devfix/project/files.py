"""The files of a project as far as somebody asks for them, and which file an import means.

Only regular files below the root are read, links that lead out of it are not followed, and whatever
cannot be read or parsed is as good as not there.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
import warnings
from collections import OrderedDict

from devfix.documents import Document, DocumentError
from devfix.pipeline import depends
from devfix.pipeline.depends import Needs
from devfix.pipeline.listing import kind_inside
from devfix.project import versions
from devfix.text.parsed import parsed
from devfix.text.source import Source

SIZE = 1_000_000  # bytes; larger files are data, mostly
SOURCES = 512  # parsed files that are kept
# Never looked for in a project: the models describe them.
_LIBRARIES = frozenset({"torch", "torchvision", "torchaudio", "numpy", "__future__"})
_INIT = "__init__.py"
_STAR = "\n*\n"
_STAR_IMPORT = re.compile(r"\bimport[\s\\]*\*")
_BODY = re.compile(
    r"^([ \t]*)(?:async[ \t]+def|def|class)[ \t]+(\w+).*\n?(?:(?:\1(?:[ \t]|[)\]}]).*|[ \t\f]*)(?:\n|\Z))*",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#.*")
_WORD = re.compile(r"\w+")
_APART = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) != "_"}
__all__ = ["SIZE", "Files"]


class Files:
    """The files below `root`, an absolute path without links."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._inside = root.rstrip(os.sep) + os.sep
        self._kinds: dict[str, str] = {}
        self._read: dict[str, Needs] = {}
        self._words: dict[str, str] = {}
        self._sources: OrderedDict[str, Source | None] = OrderedDict()

    # --- reading -------------------------------------------------------------------------

    def _kind(self, path: str) -> str:
        """'file', 'folder' or ''."""
        kind = self._kinds.get(path)
        if kind is None:
            kind = self._kinds[path] = kind_inside(path, self._inside)
        depends.note(f"?{path}", kind)
        return kind

    def is_file(self, path: str) -> bool:
        return self._kind(path) == "file"

    def text(self, path: str) -> str:
        """The text of a file; empty if it cannot be had."""
        known = self._sources.get(path)
        if known is not None:
            self.saw(path)
            return known.text
        try:
            return self._document(path) or ""
        except (OSError, DocumentError):
            return ""

    def _document(self, path: str) -> str | None:
        """The text of a file; None where it is too large. Raises OSError and DocumentError."""
        try:
            with depends.aside() as self._read[path]:
                try:
                    large = os.stat(path).st_size > SIZE
                except OSError:
                    depends.note_read(path, None)
                    raise
                if large:
                    depends.note(f"={path}", depends.LARGE)
                    return None
                return Document.read(path).text
        finally:
            self.saw(path)

    def saw(self, path: str) -> None:
        """What is told now comes from that file, which was read before."""
        depends.add(self._read.get(path, depends.UNKNOWN))

    def gave(self, path: str, text: str) -> None:
        """A file is known from elsewhere; who asks for it later has seen this text."""
        if path not in self._read and depends.active():
            with depends.aside() as self._read[path]:
                depends.note_read(path, text.encode("utf-8", "surrogatepass"))

    def torch_before(self, version: tuple[int, int]) -> str:
        """The requirement by which torch is below a version; empty where none says so."""
        paths = (os.path.join(self.root, name) for name in versions.FILES)
        return versions.torch_before((self.text(path) for path in paths if self.is_file(path)), version)

    def may_have(self, path: str, name: str) -> bool:
        """May a file bind a name, itself or by `from x import *`, as far as its text shows?"""
        words = self._words_of(path)
        return f"\n{name}\n" in words or _STAR in words

    def words(self, path: str) -> list[str]:
        """All that a file may bind; `*` if it imports everything from somewhere."""
        return self._words_of(path).split()

    def _words_of(self, path: str) -> str:
        words = self._words.get(path)
        if words is None:
            words = self._words[path] = _words(self.text(path))
        else:
            self.saw(path)
        return words

    def source(self, path: str) -> Source | None:
        """A file, parsed; None if that cannot be done."""
        if path in self._sources:
            self._sources.move_to_end(path)
            self.saw(path)
            return self._sources[path]
        source = self._parsed(path)
        self._sources[path] = source
        if len(self._sources) > SOURCES:
            self._sources.popitem(last=False)
        return source

    def glimpse(self, path: str) -> Source | None:
        """The same, for who asks once: a tree that is not kept yet is not kept then."""
        return self.source(path) if path in self._sources else self._parsed(path)

    def _parsed(self, path: str) -> Source | None:
        try:
            text = self._document(path)
            if text is None:
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarnings of the file are not ours
                return parsed(text)
        except (OSError, DocumentError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    # --- finding -------------------------------------------------------------------------

    def module(self, path: str, dotted: str) -> tuple[str, tuple[str, ...]] | None:
        """The file that holds what the file `path` imports as `dotted`, and the names to follow in it."""
        return self._find(os.path.dirname(path), dotted)

    def has(self, path: str, dotted: str) -> bool:
        """May the project have what the file `path` imports as `dotted`? Most imports are of libraries."""
        top = dotted.partition(".")[0]
        return not top or self._has(os.path.dirname(path), top)

    @depends.kept
    def _has(self, folder: str, top: str) -> bool:
        return not (top in _LIBRARIES or top in sys.stdlib_module_names) and any(
            self._kind(os.path.join(base, top)) == "folder"
            or self._kind(os.path.join(base, f"{top}.py")) == "file"
            for base in self._search(folder)
        )

    @depends.kept
    def _find(self, folder: str, dotted: str) -> tuple[str, tuple[str, ...]] | None:
        name = dotted.lstrip(".")
        parts = tuple(name.split(".")) if name else ()
        level = len(dotted) - len(name)
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            if not (folder + os.sep).startswith(self._inside):
                return None
            found = self._below(folder, parts)
            init = os.path.join(folder, _INIT)
            return found if found is not None or self._kind(init) != "file" else (init, parts)
        if not parts or parts[0] in _LIBRARIES or parts[0] in sys.stdlib_module_names:
            return None
        for base in self._search(folder):
            found = self._below(base, parts)
            if found is not None:
                return found
        return None

    def _below(self, folder: str, parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
        found = None
        for index, part in enumerate(parts):
            folder = os.path.join(folder, part)
            init = os.path.join(folder, _INIT)
            if self._kind(init) == "file":
                found = init, parts[index + 1 :]
            elif self._kind(folder + ".py") == "file":
                return folder + ".py", parts[index + 1 :]
            elif self._kind(folder) != "folder":
                break
        return found

    @depends.kept
    def _search(self, folder: str) -> tuple[str, ...]:
        """Where an absolute import may begin, nearest first; inside of packages, as for scripts, last."""
        outer: list[str] = []
        inner: list[str] = []
        up = folder
        while (up + os.sep).startswith(self._inside):
            if self._kind(os.path.join(up, _INIT)) == "file":
                inner.append(up)
            else:
                outer.append(up)
                source = os.path.join(up, "src")
                if self._kind(source) == "folder":
                    outer.append(source)
            parent = os.path.dirname(up)
            if parent == up:
                break
            up = parent
        return (*outer, *inner)


def _words(text: str) -> str:
    """What may be a name in a file, each on a line of its own; and `*` if it imports everything from somewhere.

    That is every word outside of comments and of what is indented below a `def` or `class`.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # as names are compared
    words = {header.group(2) for header in _BODY.finditer(text)}
    rest = _COMMENT.sub("", _BODY.sub("", text))
    words.update(rest.translate(_APART).split() if rest.isascii() else _WORD.findall(rest))
    if _STAR_IMPORT.search(rest):
        words.add("*")
    return "\n".join(("", *words, ""))
