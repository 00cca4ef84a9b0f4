"""The only readers and writers of files.

A document is bytes that were read once, and the Python text in them. What a document cannot do
(read, decode, encode, write) it says with a `DocumentError`: one clear line for the user.
"""

from devfix.documents.python import Document, DocumentError, read_bytes, replace_file

__all__ = ["Document", "DocumentError", "read_bytes", "replace_file"]
