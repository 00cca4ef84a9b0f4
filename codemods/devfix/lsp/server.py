"""The server: diagnostics as you type, quick fixes, fix-all, and where the value under the cursor lives."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from devfix import __version__, config
from devfix.around import Around
from devfix.documents import Document, DocumentError, document_of, read_bytes
from devfix.errors.values import under
from devfix.explain import page
from devfix.findings import Safety
from devfix.lsp import translate
from devfix.report import PlacedFinding
from devfix.source import lines_of
from devfix.work import Task

FIX_ALL = "source.fixAll.devfix"
_PAUSE = 0.3  # seconds without a change before a document is looked at


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


def make() -> LanguageServer:
    """The server, ready to be started."""
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
            known = under(document, params.position.line + 1, column)
        except (SyntaxError, ValueError, RecursionError):
            return None
        if not known:
            return None
        said = [f"`{one.expression}`: {one.what}{f' (line {one.line})' if one.line else ''}" for one in known]
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(said)))

    return server


async def _look_later(ls: LanguageServer, state: _State, uri: str) -> None:
    await asyncio.sleep(_PAUSE)
    _look(ls, state, uri)


def _look(ls: LanguageServer, state: _State, uri: str) -> None:
    """Analyse a document and publish what was found; one that does not parse keeps what was known."""
    document = _document(ls, uri)
    if document is None:
        return
    task = _task(ls, document.path)
    if task is None:
        return
    result = task.document(document)
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
    document = _document(ls, uri)
    task = _task(ls, document.path, repair=True) if document is not None else None
    if document is None or task is None:
        return []
    result = task.document(document)
    if not result.changed:
        return []
    text = result.after.decode("utf-8")
    edit = types.TextEdit(translate.whole(lines_of(document.text)), text)
    title = "devfix: make all safe fixes"
    return [types.CodeAction(title=title, kind=FIX_ALL, edit=types.WorkspaceEdit(changes={uri: [edit]}))]


def _document(ls: LanguageServer, uri: str) -> Document | None:
    """The document as the editor has it."""
    path = to_fs_path(uri)
    if path is None or not path.endswith(".py"):
        return None
    text = ls.workspace.get_text_document(uri).source
    return Document(path, text.encode("utf-8", "surrogatepass"), text, "utf-8")


def _task(ls: LanguageServer, path: str, *, repair: bool = False) -> Task | None:
    """What the configuration of the document's project asks for."""
    try:
        settings = config.load(path)
        codemods = tuple(config.choose(settings))
    except config.ConfigError as error:
        message = types.LogMessageParams(types.MessageType.Error, f"devfix: {error}")
        ls.window_log_message(message)
        return None
    around = Around(settings.project_root).anew() if settings.project else None
    return Task(codemods, Safety.SAFE, repair, around)


class _reader:
    """Lines of other files, as the editor has them or as they are on disk."""

    def __init__(self, ls: LanguageServer) -> None:
        self.ls = ls

    def __call__(self, path: str) -> list[str]:
        uri = translate.path_uri(path)
        if uri in self.ls.workspace.text_documents:
            return lines_of(str(self.ls.workspace.text_documents[uri].source))
        try:
            return lines_of(document_of(path, read_bytes(path)).text)
        except DocumentError:
            return []
