"""The server: diagnostics as you type, quick fixes, fix-all, and where the value under the cursor lives."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from devfix import __version__, config
from devfix.documents import Document, DocumentError, digest_of, read_bytes, readable
from devfix.errors.values import under
from devfix.explain import page
from devfix.findings import Safety
from devfix.lsp import translate
from devfix.pipeline.parallel import TookTooLong, limited
from devfix.pipeline.work import Task
from devfix.reports.observed import ObservedError, read
from devfix.reports.report import FileResult, PlacedFinding
from devfix.review.seen import seen_at
from devfix.review.text import printable
from devfix.text.lines import lines_of

FIX_ALL = "source.fixAll.devfix"
_PAUSE = 0.3  # seconds without a change before a document is looked at
_SECONDS = 10.0  # for one look at a document: meanwhile no other one is answered for
_MOST = 1_000_000  # characters of a document that is looked at


@dataclass
class _Known:
    """What was last found in a document."""

    lines: list[str]
    findings: tuple[PlacedFinding, ...]
    diagnostics: list[types.Diagnostic]


@dataclass
class _State:
    known: dict[str, _Known] = field(default_factory=dict)
    waiting: dict[str, asyncio.Task[None]] = field(default_factory=dict)


def make(observed: str = "") -> LanguageServer:
    """The server, ready to be started; `observed` is a file with what a run has seen."""
    server = LanguageServer("devfix", __version__)
    state = _State()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(ls: LanguageServer, params: types.DidOpenTextDocumentParams) -> None:
        _look(ls, state, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(ls: LanguageServer, params: types.DidSaveTextDocumentParams) -> None:
        _look(ls, state, params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: LanguageServer, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if uri in state.waiting:
            state.waiting[uri].cancel()
        state.waiting[uri] = asyncio.ensure_future(_look_later(ls, state, uri))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(ls: LanguageServer, params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        state.known.pop(uri, None)
        if uri in state.waiting:
            state.waiting.pop(uri).cancel()
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL]),
    )
    def actions(ls: LanguageServer, params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        only = params.context.only or [types.CodeActionKind.QuickFix, FIX_ALL]
        found = []
        if any(types.CodeActionKind.QuickFix.value.startswith(kind) for kind in only):
            found += _quick_fixes(ls, state, uri, params.range)
        if any(FIX_ALL.startswith(kind) for kind in only):
            found += _fix_all(ls, uri)
        return found

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: LanguageServer, params: types.HoverParams) -> types.Hover | None:
        document = _document(ls, params.text_document.uri)
        if document is None:
            return None
        lines = lines_of(document.text)
        column = translate.column(lines, params.position)
        try:
            with limited(_SECONDS):
                known = under(document, params.position.line + 1, column)
        except (SyntaxError, ValueError, RecursionError, MemoryError, TookTooLong):
            return None
        said = [f"`{one.expression}`: {one.what}{f' (line {one.line})' if one.line else ''}" for one in known]
        said += _seen_in_run(observed, document, params.position.line + 1) if observed else []
        if not said:
            return None
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(said)))

    return server


def _seen_in_run(observed: str, document: Document, line: int) -> list[str]:
    """What a run has seen on a line of a document that has not changed since."""
    try:
        seen, files = read(read_bytes(observed).decode("utf-8", "replace"))
    except (DocumentError, ObservedError):
        return []  # not there yet, or being written
    path = os.path.realpath(document.path)
    if files.get(path) != digest_of(document.text.encode("utf-8", "surrogatepass")):
        return []
    return [printable(one) for one in seen_at(seen, path, line)]


async def _look_later(ls: LanguageServer, state: _State, uri: str) -> None:
    await asyncio.sleep(_PAUSE)
    _look(ls, state, uri)


def _look(ls: LanguageServer, state: _State, uri: str) -> None:
    """Analyse a document and publish what was found; one that does not parse keeps what was known."""
    looked = _result(ls, uri)
    if looked is None:
        return
    document, task, result = looked
    if result.error is not None:
        return
    lines = lines_of(document.text)
    pages = {codemod.id: page(type(codemod)) for codemod in task.codemods}
    shown = [
        translate.diagnostic(uri, lines, finding, _reader(ls), pages.get(finding.codemod, ""))
        for finding in result.findings
    ]
    state.known[uri] = _Known(lines, result.findings, shown)
    ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=shown))


def _quick_fixes(ls: LanguageServer, state: _State, uri: str, where: types.Range) -> list[types.CodeAction]:
    known = state.known.get(uri)
    document = _document(ls, uri)
    if known is None or document is None or lines_of(document.text) != known.lines:
        return []  # the edits are those of another text
    found = []
    for finding, shown in zip(known.findings, known.diagnostics, strict=True):
        if shown.range.start.line <= where.end.line and where.start.line <= shown.range.end.line:
            action = translate.quick_fix(uri, known.lines, finding, _reader(ls), shown)
            if action is not None:
                found.append(action)
    return found


def _fix_all(ls: LanguageServer, uri: str) -> list[types.CodeAction]:
    """Every safe repair of the document at once."""
    looked = _result(ls, uri, repair=True)
    if looked is None:
        return []
    document, _, result = looked
    if not result.changed:
        return []
    text = result.after.decode("utf-8")
    edit = types.TextEdit(translate.whole(lines_of(document.text)), text)
    title = "devfix: make all safe fixes"
    return [types.CodeAction(title=title, kind=FIX_ALL, edit=types.WorkspaceEdit(changes={uri: [edit]}))]


def _result(
    ls: LanguageServer, uri: str, *, repair: bool = False
) -> tuple[Document, Task, FileResult] | None:
    """A document, what it is looked at for, and what is found in it; None if it is not looked at."""
    document = _document(ls, uri)
    task = _task(ls, document.path, repair=repair) if document is not None else None
    if document is None or task is None:
        return None
    try:
        with limited(_SECONDS):
            return document, task, task.document(document)
    except TookTooLong as error:
        _say(ls, f"{document.path}: {error}")
        return None


def _document(ls: LanguageServer, uri: str) -> Document | None:
    """The document as the editor has it; one that it has not opened is not read, whatever it names."""
    opened = _opened(ls, uri)
    try:
        path = to_fs_path(uri) if opened is not None else None
    except ValueError:
        return None
    if opened is None or path is None or not path.endswith(".py") or "\0" in path:
        return None
    text = opened.source
    if len(text) > _MOST:
        _say(ls, f"{path}: has more than {_MOST} characters; it is not looked at")
        return None
    return Document(path, text.encode("utf-8", "surrogatepass"), text, "utf-8")


def _opened(ls: LanguageServer, uri: str) -> TextDocument | None:
    """What the editor has open; pygls keeps it under the name without `%20`."""
    documents = ls.workspace.text_documents
    found: TextDocument | None = documents.get(unquote(uri)) or documents.get(uri)
    return found


def _say(ls: LanguageServer, what: str) -> None:
    """Something that could not be done, in the editor's log."""
    message = f"devfix: {printable(what)}"
    ls.window_log_message(types.LogMessageParams(types.MessageType.Error, message))


def _task(ls: LanguageServer, path: str, *, repair: bool = False) -> Task | None:
    """What the configuration of the document's project asks for."""
    try:
        settings = config.load(path)
        codemods = tuple(config.choose(settings))
    except config.ConfigError as error:
        _say(ls, str(error))
        return None
    around = settings.around
    return Task(codemods, Safety.SAFE, repair, around.anew() if around is not None else None)


def _reader(ls: LanguageServer) -> Callable[[str], list[str]]:
    """What gives the lines of other files, as the editor has them or as they are on disk."""

    def read(path: str) -> list[str]:
        there = _opened(ls, translate.path_uri(path)) or readable(path)
        if there is None:
            return []
        return lines_of(there.source if isinstance(there, TextDocument) else there.text)

    return read
