"""Python files: bytes to text and back without losing one of them."""

from __future__ import annotations

import codecs
import io
import os
import stat
from dataclasses import dataclass
from functools import cached_property

from devfix.documents.overlay import instead_of
from devfix.pipeline import depends

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class DocumentError(Exception):
    """A file that cannot be read, decoded, encoded or written; the message is for the user.

    `stage` is "read" or "write".
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(stage, message)
        self.stage = stage
        self.message = message
        self.path = ""  # set where it is not plain which file is meant

    def __str__(self) -> str:
        return self.message


def digest_of(data: bytes) -> str:
    """SHA-256 of the bytes of a file."""
    import hashlib  # for the few files that are changed

    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Document:
    """A Python file as it was read.

    `text` has the newlines of the file and no byte order mark; `encode` puts the mark back.
    """

    path: str
    data: bytes
    text: str
    encoding: str
    bom: bytes = b""

    @classmethod
    def read(cls, path: str) -> Document:
        """Read and decode a file; raises DocumentError."""
        return cls.of(path, read_bytes(path))

    @classmethod
    def of(cls, path: str, data: bytes) -> Document:
        """The document that `data` is; `path` only names it. Raises DocumentError."""
        bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        encoding = _encoding(data)
        try:
            text = data[len(bom) :].decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, len(bom) + error.start) + 1
            byte = error.object[error.start]
            raise DocumentError(
                "read",
                f"line {line} is not valid {encoding} (byte 0x{byte:02x}); "
                "save the file as UTF-8 or name its encoding in a `# -*- coding: ... -*-` line",
            ) from error
        except (LookupError, ValueError, TypeError) as error:
            raise DocumentError("read", f"cannot decode the file as {encoding!r}: {error}") from error
        if not isinstance(text, str):  # a codec such as "hex" need not give text
            raise DocumentError("read", f"{encoding!r} is not text encoding; save the file as UTF-8")
        return cls(path, data, text, encoding, bom)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes that were read."""
        return digest_of(self.data)

    def encode(self, text: str) -> bytes:
        """`text` as bytes of this file, byte order mark included.

        Raises DocumentError where the encoding has no such characters, or is one that does not
        give the file's own bytes back.
        """
        try:
            if self.bom + self.text.encode(self.encoding) != self.data:
                raise DocumentError(
                    "write",
                    f"the file's encoding {self.encoding} does not give its own bytes back; save it as UTF-8",
                )
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            what = ascii(error.object[error.start : error.end])
            raise DocumentError(
                "write", f"{what} cannot be written in the file's encoding {self.encoding}; save it as UTF-8"
            ) from error

    def write(self, text: str) -> None:
        """Replace the file by `text`; raises DocumentError, and then the file is as it was."""
        from devfix.documents.replace import replace_files

        replace_files([(self.path, self.digest, self.encode(text))])


def read_bytes(path: str, stage: str = "read", most: int = 1 << 30) -> bytes:
    """The bytes of a regular file, which are not more than `most`; raises DocumentError."""
    if stage != "read":
        return _bytes(path, stage, most)
    data = instead_of(path)
    if data is not None:
        depends.add(depends.UNKNOWN)  # what is not on disk yet
        return data
    try:
        data = _bytes(path, stage, most)
    except DocumentError:
        depends.note_read(path, None)
        raise
    depends.note_read(path, data)
    return data


def _bytes(path: str, stage: str, most: int) -> bytes:
    try:
        # O_NONBLOCK: opening a FIFO without a writer must not hang.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb", buffering=0) as file:  # read at once: a buffer would only cost
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise DocumentError(stage, "is not a regular file; name a Python file or a folder")
            if status.st_size > most:
                raise DocumentError(stage, f"has more than {most:,} bytes; exclude it or make it smaller")
            return file.read()
    except FileNotFoundError as error:
        raise DocumentError(stage, "no such file; check the path") from error
    except PermissionError as error:
        raise DocumentError(stage, "permission denied; make it readable or exclude it") from error
    except IsADirectoryError as error:
        raise DocumentError(stage, "is a folder, not a file") from error
    except (OSError, ValueError) as error:
        raise DocumentError(stage, f"cannot be read: {reason(error)}") from error


def _encoding(data: bytes) -> str:
    """The encoding as Python finds it: byte order mark, PEP 263 cookie, else UTF-8."""
    if data.startswith(_UTF16):
        raise DocumentError("read", "is UTF-16, which Python does not read; save it as UTF-8")
    if b"\0" in data:
        raise DocumentError("read", "has NUL bytes, so it is no Python text; restore or exclude it")
    second = data.find(b"\n", data.find(b"\n") + 1)
    if b"coding" not in (data[:second] if second >= 0 else data):
        return "utf-8"
    import tokenize  # only the few files with a cookie pay for it

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise DocumentError("read", f"{error.msg}; correct the coding line") from error
    return "utf-8" if encoding == "utf-8-sig" else encoding


def reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error)
