"""The fixes of recipes inside a notebook: one after the other, each in the notebook that the last one left."""

from __future__ import annotations

from dataclasses import replace

from devfix.documents import DocumentError
from devfix.documents.notebook import Notebook
from devfix.pipeline.work import Task
from devfix.recipes.inserting import doubt
from devfix.recipes.notebooks import Reader, Said
from devfix.reports.report import Change, FileResult

_MOST = 50  # fixes


def with_recipes(result: FileResult, notebook: Notebook, task: Task) -> FileResult:
    """The result of a notebook's code with what is found and made of its recipes."""
    said = Reader(notebook).said(task.codemods)
    if not said:
        return result
    findings = (*result.findings, *(one.placed for one in said))
    kept: tuple[bool, ...] = (True,) * len(findings)
    if task.selection is not None:
        kept = task.selection.keep(notebook.path, findings)
    wanted = {_key(one): one for one, keep in zip(said, kept[len(result.findings) :], strict=True) if keep}
    now, changes = notebook, []
    if result.changed:
        now = Notebook.of(notebook.path, result.after)
    left = Reader(now).said(task.codemods)
    for _ in range(_MOST if task.repair else 0):
        for one in left:
            first = wanted.get(_key(one))
            made = _made(now, one, task) if first is not None else None
            if made is not None:
                break
        else:
            break
        assert first is not None
        del wanted[_key(one)]  # once
        changes.append(_change(first))
        now = made
        left = Reader(now).said(task.codemods)
    result = replace(result, findings=findings, remaining=(*result.remaining, *(one.placed for one in left)))
    if not changes:
        return result
    return replace(
        result,
        before=notebook.data,
        after=now.data,
        digest=notebook.digest,
        changes=(*result.changes, *changes),
    )


def _key(said: Said) -> tuple[object, ...]:
    """What names a finding in the notebook as it was and as it is now."""
    finding = said.finding
    title = finding.fix.title if finding.fix is not None else finding.message
    return said.text.cell.number, said.text.name, finding.codemod, title


def _made(notebook: Notebook, said: Said, task: Task) -> Notebook | None:
    """The notebook with a fix, or None where it is not wanted or comes out wrong."""
    from devfix.rewrite import CannotRewrite, apply, verify

    fix = said.placed.fix
    if fix is None or not task.applies(said.finding.codemod, fix.safety):
        return None
    cell = said.text.cell
    try:
        if said.in_code:
            text = apply(notebook.text, said.in_code)
            verify(notebook.text, said.in_code, text)
            notebook = Notebook.of(notebook.path, notebook.encode(text))
        if said.in_cell:
            source = apply(cell.source, said.in_cell)
            end = len(cell.source) - said.text.start - len(said.text.text)
            after = source[said.text.start : len(source) - end]
            if doubt(said.text.text, after):
                return None
            notebook = Notebook.of(notebook.path, notebook.with_source(cell.number, source))
    except (CannotRewrite, DocumentError):
        return None
    return notebook


def _change(said: Said) -> Change:
    fix, placed = said.placed.fix, said.placed
    assert fix is not None
    lines = tuple((edit.place.line - 1, edit.place.end_line - 1) for edit in fix.edits)
    at = placed.place
    return Change(
        placed.codemod, placed.message, fix.title, fix.safety, lines, cell=at.cell, cell_line=at.cell_line
    )
