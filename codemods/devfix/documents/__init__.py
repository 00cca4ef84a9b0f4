"""The only readers and writers of files: Python files and notebooks.

A document is bytes that were read once, and the Python text in them. What a document cannot do
(read, decode, encode, write) it says with a `DocumentError`: one clear line for the user.
"""

from devfix.documents.overlay import overlaid
from devfix.documents.python import Document, DocumentError, digest_of, read_bytes
from devfix.documents.replace import replace_files, write_new

__all__ = [
    "RECIPES",
    "SUFFIXES",
    "Document",
    "DocumentError",
    "bytes_of",
    "digest_of",
    "document_of",
    "overlaid",
    "read_bytes",
    "read_document",
    "readable",
    "replace_files",
    "write_new",
]

# What a folder is searched for.
RECIPES = (".yaml", ".yml")
SUFFIXES = (".py", ".ipynb", *RECIPES)


def document_of(path: str, data: bytes) -> Document:
    """The document that `data` is, by the name of its file. Raises DocumentError."""
    if path.endswith(".ipynb"):
        from devfix.documents.notebook import Notebook

        return Notebook.of(path, data)
    return Document.of(path, data)


def read_document(path: str) -> Document:
    """The document that a file is. Raises DocumentError."""
    return document_of(path, read_bytes(path))


def readable(path: str) -> Document | None:
    """The document that a file is; None where it cannot be read."""
    try:
        return read_document(path)
    except DocumentError:
        return None


def bytes_of(path: str) -> bytes:
    """The bytes of a file; none where it cannot be read."""
    try:
        return read_bytes(path)
    except DocumentError:
        return b""
