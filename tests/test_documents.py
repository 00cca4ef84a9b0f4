from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from devfix.documents import Document, DocumentError, replace_files

NOBODY = 65534
AS_NOBODY = (
    "import os, sys\n"
    "from devfix.documents import Document, DocumentError\n"
    "import hashlib, tempfile\n"  # Python itself may be out of reach for that user
    f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    "try:\n"
    "    Document.read(sys.argv[1]).write('new = 1\\n')\n"
    "except DocumentError as error:\n"
    "    print(error.stage, error)\n"
)


def as_nobody(path: Path) -> str:
    """What writing says to a user without rights; root has to step down for that."""
    code = AS_NOBODY if os.geteuid() == 0 else AS_NOBODY.replace("os.setgid", "id").replace("os.setuid", "id")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout


def open_to_all(path: Path) -> None:
    """pytest's folders are the user's own."""
    for folder in [path, *path.parents]:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)


LAYOUTS = {
    "lf": b"a = 1\nb = 2\n",
    "crlf": b"a = 1\r\nb = 2\r\n",
    "mixed": b"a = 1\r\nb = 2\nc = 3\r",
    "no newline": b"a = 1\nb = 2",
    "form feed": b"a = 1\n\x0c\nb = 2\n",
    "latin-1": b"# -*- coding: latin-1 -*-\na = '\xe4'\n",
    "cookie in line 2": b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\na = '\x80'\n",
    "bom": b"\xef\xbb\xbfa = '\xc3\xa4'\n",
    "bom and cookie": b"\xef\xbb\xbf# coding: utf-8\na = '\xc3\xa4'\n",
    "separator": "a = '\u2028'\n".encode(),
    "empty": b"",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_bytes_survive(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(LAYOUTS[name])
    document = Document.read(str(path))
    assert not document.text.startswith("\ufeff")
    assert document.encode(document.text) == LAYOUTS[name]
    document.write(document.text + "z = 1")
    assert path.read_bytes() == LAYOUTS[name] + b"z = 1"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = 1\nb = '\xe4'\n", "line 2 is not valid utf-8 (byte 0xe4)"),
        ("a = 1\n".encode("utf-16"), "UTF-16"),
        (b"a = 1\0\n", "NUL"),
        (b"# coding: klingon\n", "unknown encoding: klingon"),
        (b"# coding: hex\n", "hex"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding problem"),
    ],
)
def test_undecodable(data: bytes, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        Document.of("x.py", data)
    assert message in error.value.message
    assert error.value.stage == "read"
    assert "\n" not in error.value.message


def test_unencodable_text_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(LAYOUTS["latin-1"])
    with pytest.raises(DocumentError, match=r"'\\u20ac' cannot be written in the file's encoding"):
        Document.read(str(path)).write("a = '\u20ac'\n")
    assert path.read_bytes() == LAYOUTS["latin-1"]


def test_encoding_that_does_not_round_trip() -> None:
    document = Document.of("x.py", b"# coding: utf-7\na = '+AGE-'\n")
    with pytest.raises(DocumentError, match="own bytes back"):
        document.encode(document.text + "b = 1\n")


def test_changed_since_read(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    document = Document.read(str(path))
    path.write_text("a = 2\n")
    with pytest.raises(DocumentError, match="changed since it was read"):
        document.write("a = 3\n")
    assert path.read_text() == "a = 2\n"
    path.unlink()
    with pytest.raises(DocumentError, match="no such file"):
        document.write("a = 3\n")
    assert list(tmp_path.iterdir()) == []


def test_mode_and_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    has_attributes = True
    try:
        os.setxattr(path, "user.note", b"kept")
    except (OSError, AttributeError):
        has_attributes = False
    before = path.stat()
    Document.read(str(path)).write("a = 2\n")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert not has_attributes or os.getxattr(path, "user.note") == b"kept"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.py"]


def test_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "target.py"
    target.parent.mkdir()
    target.write_text("a = 1\n")
    link = tmp_path / "link.py"
    link.symlink_to("folder/target.py")
    Document.read(str(link)).write("a = 2\n")
    assert link.is_symlink()
    assert target.read_text() == "a = 2\n"


def test_hard_links_part(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("a = 1\n")
    os.link(one, two)
    Document.read(str(one)).write("a = 2\n")
    assert (one.read_text(), two.read_text()) == ("a = 2\n", "a = 1\n")


def test_crash_before_the_end_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.py"
    path.write_text("a = 1\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DocumentError, match="No space left"):
        replace_files([(str(path), hashlib.sha256(b"a = 1\n").hexdigest(), b"a = 2\n")])
    assert path.read_text() == "a = 1\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.py"]


def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "closed" / "x.py"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    open_to_all(path.parent)
    path.chmod(0o666)
    path.parent.chmod(0o555)
    assert as_nobody(path).startswith("write cannot create a file beside it (Permission denied)")
    path.chmod(0o444)
    assert as_nobody(path).startswith("write is read-only")
    path.chmod(0o000)
    assert as_nobody(path).startswith("read permission denied")
    path.parent.chmod(0o755)
    path.chmod(0o644)
    assert path.read_text() == "a = 1\n"


def test_odd_paths(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.py"
    os.mkfifo(fifo)
    for path, message in (
        (fifo, "not a regular file"),
        (tmp_path, "folder"),
        (tmp_path / "none.py", "no such file"),
        (tmp_path / ("x" * 300), "name too long"),
    ):
        with pytest.raises(DocumentError) as error:
            Document.read(str(path))
        assert message in error.value.message.lower()
