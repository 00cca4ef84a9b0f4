"""The language server, spoken to by a real client over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_lsp
from devfix.cli import main
from devfix.lsp import translate
from devfix.reports.observed import At, Operand, Passed, Seen, as_json
from devfix.review.device_errors import as_json_text
from devfix.text.lines import lines_of
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

ROOT = Path(__file__).parent.parent.parent
BUG = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def run() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    model.to(device)
    model.head = nn.Linear(4, 2)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4)))
    for (x,) in loader:  # 😀
        print("😀", model(x))
"""


@pytest_lsp.fixture(
    scope="module", config=ClientServerConfig(server_command=[sys.executable, "-m", "devfix", "lsp"])
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """One server for all tests: each has documents of its own."""
    await lsp_client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
    )
    yield
    await lsp_client.shutdown_session()


async def opened(client: LanguageClient, path: Path, text: str) -> list[types.Diagnostic]:
    """Open a document; what the server says of it."""
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(path.as_uri(), "python", 1, text))
    )
    return await published(client, path)


async def published(client: LanguageClient, path: Path) -> list[types.Diagnostic]:
    client.diagnostics.pop(path.as_uri(), None)
    while path.as_uri() not in client.diagnostics:  # what is said may be of another document
        told = client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        await asyncio.wait_for(told, timeout=60)
    return list(client.diagnostics[path.as_uri()])


async def actions(
    client: LanguageClient, path: Path, lines: tuple[int, int], only: list[str] | None = None
) -> list[types.CodeAction]:
    where = types.Range(types.Position(lines[0], 0), types.Position(lines[1], 0))
    found = await client.text_document_code_action_async(
        types.CodeActionParams(
            types.TextDocumentIdentifier(path.as_uri()), where, types.CodeActionContext([], only=only)
        )
    )
    return [action for action in found or [] if isinstance(action, types.CodeAction)]


def edited(text: str, action: types.CodeAction, path: Path) -> str:
    """The text as an editor would have it after an action."""
    assert action.edit is not None and action.edit.changes is not None
    lines = lines_of(text)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(at: types.Position) -> int:
        return starts[at.line] + translate.column(lines, at)

    changes = action.edit.changes[path.as_uri()]
    for edit in sorted(changes, key=lambda edit: offset(edit.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


@pytest.mark.asyncio(loop_scope="module")
async def test_diagnostics(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "ä b.py"
    found = await opened(client, path, BUG)
    assert [(one.code, one.range.start.line) for one in found] == [("reorder-to", 9), ("move-inputs", 11)]
    assert found[0].source == "devfix" and "`model.head`" in found[0].message
    assert found[1].related_information
    links = [one.code_description and one.code_description.href for one in found]
    assert [(ROOT / str(link).partition("/blob/main/")[2]).is_file() for link in links] == [True, True]
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(2, path.as_uri()),
            [types.TextDocumentContentChangeWholeDocument("import torch\n")],
        )
    )
    assert await published(client, path) == []


@pytest.mark.asyncio(loop_scope="module")
async def test_quick_fix_and_fix_all_do_what_apply_does(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    await opened(client, path, BUG)
    (fix,) = await actions(client, path, (11, 11), [types.CodeActionKind.QuickFix])
    assert fix.title == "devfix: move `x` to `device`" and fix.is_preferred
    assert "x = x.to(device)" in edited(BUG, fix, path)
    (everything,) = await actions(client, path, (0, 0), ["source.fixAll.devfix"])
    path.write_text(BUG, encoding="utf-8")
    assert main(["apply", "-q", str(path)]) == 0
    assert edited(BUG, everything, path) == path.read_text(encoding="utf-8")


@pytest.mark.asyncio(loop_scope="module")
async def test_hover_says_where_a_value_lives(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    await opened(client, path, BUG)

    async def said(text: str, within: str) -> str:
        line = next(at for at, line in enumerate(BUG.split("\n")) if within in line)
        column = translate.units(BUG.split("\n")[line].partition(text)[0])
        hover = await client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), types.Position(line, column))
        )
        assert hover is None or isinstance(hover.contents, types.MarkupContent)
        return "" if hover is None else str(hover.contents.value)

    inner, outer = (await said("x)", "print(")).split("\n\n")
    assert inner == "`x`: a batch on the CPU: nothing moved it (line 12)"
    assert outer.startswith("`model(x)`: ")
    assert (await said("model(x)", "print(")).startswith("`model`: a module on device (line 9)")
    assert await said("import", "import torch") == ""


@pytest.mark.asyncio(loop_scope="module")
async def test_hover_says_what_a_run_has_seen(tmp_path: Path) -> None:
    """As long as the document is what was run."""
    path, run = tmp_path / "a.py", tmp_path / "run.json"
    path.write_text(BUG, encoding="utf-8")
    line = next(at for at, line in enumerate(BUG.split("\n")) if "print(" in line)
    place = At(os.path.realpath(path), line + 1, line + 1, function="<module>")
    stray = Operand("cpu", (2,), stray=True)
    seen = Seen("linear", "RuntimeError: Expected", "cuda:0", (stray,), (Passed(place),), 3)
    run.write_text(as_json_text([as_json(seen)], 1, [place.path]), encoding="utf-8")
    client = make_test_lsp_client()
    await client.start_io(sys.executable, "-m", "devfix", "lsp", "--observed", str(run))
    await client.initialize_session(
        types.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
    )
    for text, told in ((BUG, True), (BUG.replace("zeros", "ones"), False)):
        await opened(client, path, text)
        at = types.Position(line, translate.units(BUG.split("\n")[line].partition("model")[0]))
        hover = await client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(path.as_uri()), at)
        )
        assert hover is not None and isinstance(hover.contents, types.MarkupContent)
        words = "seen on cpu, needed on cuda:0: `linear` raised RuntimeError, 3 times"
        assert (words in hover.contents.value) == told
        client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(path.as_uri()))
        )
    await client.shutdown_session()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_that_does_not_parse_keeps_what_was_known(
    client: LanguageClient, tmp_path: Path
) -> None:
    path = tmp_path / "a.py"
    found = await opened(client, path, BUG)
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(2, path.as_uri()),
            [types.TextDocumentContentChangeWholeDocument(BUG + "if")],
        )
    )
    await asyncio.sleep(1)
    assert len(client.diagnostics[path.as_uri()]) == len(found)
    # But an edit that was meant for the old text is not offered.
    assert await actions(client, path, (11, 11), [types.CodeActionKind.QuickFix]) == []


def test_columns_are_utf_16() -> None:
    lines = ["a😀b"]
    assert translate.position(lines, 1, 4) == types.Position(0, 4)
    assert translate.column(lines, types.Position(0, 3)) == 2
    assert lines_of("a\fb\r\nc\u2028d\re") == ["a\fb", "c\u2028d", "e"]


URIS = (
    "file://host/x.py", "file:///a/%2e%2e/%2e%2e/etc/x.py", "file:///%00.py", "file:///x%0A.py", "http://x/y.py",
    "untitled:x.py", "", "file:", "file://[::1/x.py", "file:///%ff.py", "data:text/plain,x.py",
    f"file:{'/a' * 9000}.py",
)  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
async def test_what_python_cannot_parse_has_no_hover(client: LanguageClient, tmp_path: Path) -> None:
    """Its parser says of deep nesting that there is no memory."""
    uri = (tmp_path / "deep.py").as_uri()
    text = f"{BUG}x = {'-' * 100_000}1\n"
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text))
    )
    where = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(4, 0))
    assert await client.text_document_hover_async(where) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_open_is_not_read(client: LanguageClient, tmp_path: Path) -> None:
    """Whatever a URI names: a FIFO would hang the server. And what is open needs no file."""
    os.mkfifo(tmp_path / "fifo.py")
    where = types.Range(types.Position(0, 0), types.Position(2**31 - 1, 2**31 - 1))
    for uri in (*URIS, (tmp_path / "fifo.py").as_uri()):
        name = types.TextDocumentIdentifier(uri)
        for open_first in (False, True):
            if open_first:
                client.text_document_did_open(
                    types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, BUG))
                )
            action = types.CodeActionParams(name, where, types.CodeActionContext([]))
            found = await asyncio.wait_for(client.text_document_code_action_async(action), timeout=60)
            assert open_first or not found
            hover = client.text_document_hover_async(types.HoverParams(name, types.Position(9**9, 9**9)))
            assert await asyncio.wait_for(hover, timeout=60) is None
        client.text_document_did_close(types.DidCloseTextDocumentParams(name))
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(
            types.TextDocumentItem((tmp_path / "a.py").as_uri(), "python", 1, BUG)
        )
    )
    assert await actions(client, tmp_path / "a.py", (0, 99))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_document_that_is_too_large_is_named(client: LanguageClient, tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    text = BUG + "x = 1\n" * 200_000
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(path.as_uri(), "python", 1, text))
    )
    assert await actions(client, path, (0, 99)) == []
    said = f"devfix: {path}: has more than 1000000 characters"
    assert any(said in one.message for one in client.log_messages)
    await opened(client, tmp_path / "a.py", BUG)
    assert await actions(client, tmp_path / "a.py", (0, 99))


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 18])
def test_a_header_that_no_memory_is_enough_for(length: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devfix", "lsp"],
        input=f"Content-Length: {length}\r\n\r\n{{}}".encode(), capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and b"a message's header cannot be served" in done.stderr
    assert b"own bug" not in done.stderr
