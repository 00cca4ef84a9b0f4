"""One file: read, parsed, checked, rewritten until nothing applies. Catches every exception of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from devfix.codemod import Codemod, Together, wanting
from devfix.documents import RECIPES, Document, digest_of, document_of, read_bytes
from devfix.findings import Finding, Fix, Safety, TextEdit
from devfix.pipeline.around import Around
from devfix.pipeline.budget import CUT
from devfix.pipeline.doubt import impossible, together
from devfix.pipeline.selection import Selection
from devfix.pipeline.suppress import MARK, skips_file, unsuppressed, unused
from devfix.pipeline.trouble import BUG, Blamed, Impossible, Where, explained
from devfix.reports.place import back, git_lines, git_scopes, line_feeds, place_finding, placed_in
from devfix.reports.report import Change, FileError, FileResult, Joint, PlacedFinding, Scope
from devfix.text.parsed import parsed
from devfix.text.source import Source

if TYPE_CHECKING:
    from devfix.flow import Flow
    from devfix.pipeline.joint import Begin

PASSES = 10
Do = Callable[["Work"], FileResult]


@dataclass(frozen=True)
class Task(Together):
    """What is to be done with every file of a run; goes to the workers.

    With `repair`, fixes of at least `level` are applied, with a `selection` those of its findings only.
    With `around`, a file's flow sees the files that it imports.
    """

    codemods: tuple[Codemod, ...]
    level: Safety = Safety.SAFE
    repair: bool = True
    around: Around | None = None
    selection: Selection | None = None

    def file(self, path: str) -> FileResult:
        """The result of a file that is still to be read.

        This, `document` and `data` write nothing and raise nothing: whatever goes wrong is the
        result's `error`, and then the result changes nothing.
        """

        def do(work: Work) -> FileResult:
            data = read_bytes(path)
            if path.endswith(RECIPES):
                is_recipe = b"!new:" in data and b"modules" in data  # most YAML files are none
                return self.data(path, data) if is_recipe else FileResult(path)
            if path.endswith(".ipynb") and not work.may_want(data):
                return FileResult(path)  # taking a notebook apart costs more than a look at its bytes
            return work.document(document_of(path, data))

        return self._guarded(path, do, Work, {})

    def data(self, path: str, data: bytes) -> FileResult:
        """The result of a file's bytes; `path` only names it."""
        return self._guarded(path, lambda work: work.document(document_of(path, data)), _work_of(path), {})

    def document(self, document: Document, begin: Begin | None = None) -> FileResult:
        """The result of one document; with `begin` from the text that joint fixes have made of it."""

        def do(work: Work) -> FileResult:
            work.begin = begin
            return work.document(document)

        return self._guarded(document.path, do, _work_of(document.path), {})

    def _guarded(self, path: str, do: Do, kind: type[Work], refused: dict[Where, str]) -> FileResult:
        work = kind(self, path, refused=refused)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarnings of the analysed file are not ours
                result = do(work)
        except Blamed as blamed:
            others = tuple(codemod for codemod in self.codemods if codemod.id not in blamed.ids)
            result = replace(self, codemods=others)._guarded(path, do, kind, refused)
            work.troubles = {"": FileError(path, work.stage, str(blamed))}
        except Impossible as some:
            result = self._guarded(path, do, kind, {**refused, **some.why})
            work.troubles = {"": FileError(path, work.stage, str(some))}
        except Exception as error:
            stage, message = explained(error, work.stage)
            result = FileResult(path, work.findings, error=FileError(path, stage, message))
        for source in work.sources:
            source.forget()  # it may be asked for by other files
        troubles = (*work.troubles.values(), *result.troubles)
        return replace(result, seconds=time.perf_counter() - start, troubles=troubles)


def _work_of(path: str) -> type[Work]:
    if not path.endswith(RECIPES):
        return Work
    from devfix.recipes.work import RecipeWork

    return RecipeWork


@dataclass
class Work:
    """The work on one file; `stage` and `findings` outlive an exception."""

    task: Task
    path: str
    stage: str = "read"
    findings: tuple[PlacedFinding, ...] = ()
    history: list[tuple[TextEdit, ...]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    scopes: tuple[Scope, ...] = ()
    feeds: list[int] = field(default_factory=list)
    begin: Begin | None = None
    joint: list[Joint] = field(default_factory=list)
    unused: tuple[tuple[int, str], ...] = ()
    selected: set[Where] | None = None
    asked: tuple[str, tuple[Codemod, ...]] = ("", ())  # a text, and which codemods want it
    sources: list[Source] = field(default_factory=list)
    troubles: dict[str, FileError] = field(default_factory=dict)  # by codemod
    done: set[str] = field(default_factory=set)  # codemods that rewrite a file once, and have
    lossy: bool = False  # may the fixes at hand drop comments?
    last: frozenset[str] = frozenset()  # codemods whose fixes went in last
    refused: dict[Where, str] = field(default_factory=dict)  # fixes that cannot be made, and why

    def may_want(self, data: bytes) -> bool:
        """Has a notebook the words of a codemod at all? JSON writes them as Python does."""
        return bool(self.wanting(data.decode("utf-8", "replace")))

    def wanting(self, text: str) -> tuple[Codemod, ...]:
        return wanting(self.task.codemods, text)

    def skips(self, text: str) -> bool:
        return skips_file(text)

    def verify(self, before: str, edits: Sequence[TextEdit], after: str) -> None:
        from devfix.rewrite import verify

        verify(before, edits, after, comments_stay=not self.lossy)

    def document(self, document: Document) -> FileResult:
        """The result of one document; that of a notebook in the lines and cells of its file."""
        result = self.python(document)
        if not document.path.endswith(".ipynb"):
            return result
        from devfix.documents.notebook import Notebook
        from devfix.reports.place import result_in_notebook

        assert isinstance(document, Notebook)
        result = result_in_notebook(result, document, ())
        if "!new:" in document.json_text and not self.skips(document.text):
            from devfix.recipes.notebook_fixes import with_recipes

            result = with_recipes(result, document, self.task)
        self.findings = result.findings
        return result

    def python(self, document: Document) -> FileResult:
        path, text = document.path, document.text
        if self.begin is None:
            self.asked = (text, self.wanting(text))
            if not self.asked[1] and MARK not in text:
                return FileResult(path)
            if self.skips(text):
                return FileResult(path, skipped="devfix: skip-file")
            source = self.parse(text)
        else:
            source = self.continued(document, self.begin)
        seen = {text, source.text}
        for number in range(PASSES + 1):
            found, edits = self.check(source)
            placed = tuple(place_finding(source, *pair) for pair in zip(found, edits, strict=True))
            if number == 0:
                self.select(document, source, found, edits)
                placed = self.with_joint(document, found, edits, placed)
                self.findings = placed
            after = self.rewrite(source, found, edits) if self.task.repair else None
            if after is None:
                break
            if after.text in seen or number == PASSES:
                self.stage = "rewrite"
                ids = ", ".join(sorted({change.codemod for change in self.changes}))
                message = f"the fixes of {ids} never come to an end, so none was applied"
                self.blame(self.last, message)
                raise Impossible({(id, -1): message for id in self.last}, f"{message}; {BUG}")
            seen.add(after.text)
            source = after
        if source.text == text:
            return FileResult(path, self.findings, placed, joint=tuple(self.joint), unused=self.unused)
        self.stage = "write"
        return FileResult(
            path,
            self.findings,
            placed,
            before=document.data,
            after=document.encode(source.text),
            digest=document.digest,
            changes=tuple(self.changes),
            scopes=self.scopes,
            joint=tuple(self.joint),
            unused=self.unused,
        )

    def continued(self, document: Document, begin: Begin) -> Source:
        """The source that fixes over several files have made of a document."""
        original = self.parse(document.text)
        self.scopes, self.feeds = git_scopes(original), line_feeds(document.text)
        if self.task.selection is not None:
            self.select(document, original, *self.check(original))
        self.history.extend(begin.history)
        self.changes.extend(begin.changes)
        return self.parse(begin.text)

    def with_joint(
        self,
        document: Document,
        found: list[Finding],
        edits: list[tuple[TextEdit, ...] | str],
        placed: tuple[PlacedFinding, ...],
    ) -> tuple[PlacedFinding, ...]:
        """The findings with what their fixes do in other files; those fixes are kept for later."""
        if not any(finding.fix is not None and finding.fix.elsewhere for finding in found):
            return placed
        from devfix.pipeline.joint import placed_joint

        digest = digest_of(document.encode(self.begin.text)) if self.begin else document.digest
        return tuple(
            placed_joint(
                one, finding, document.path, digest, edit, self.joint if self.is_selected(finding) else []
            )
            for one, finding, edit in zip(placed, found, edits, strict=True)
        )

    def select(
        self,
        document: Document,
        source: Source,
        found: list[Finding],
        edits: list[tuple[TextEdit, ...] | str],
    ) -> None:
        """Note which findings of a document are to be repaired; later ones stem from those places."""
        if self.task.selection is None or self.selected is not None:
            return
        keep = self.task.selection.keep(document.path, placed_in(document, source, found, edits))
        self.selected = {
            (finding.codemod, finding.span.start) for finding, kept in zip(found, keep, strict=True) if kept
        }

    def is_selected(self, finding: Finding) -> bool:
        return self.selected is None or self.raises or self.where(finding) in self.selected

    @property
    def raises(self) -> bool:
        return self.task.selection is not None and self.task.selection.raises

    def is_wanted(self, finding: Finding, fix: Fix) -> bool:
        if self.raises and self.selected is not None and self.where(finding) in self.selected:
            return True
        return self.is_selected(finding) and self.task.applies(finding.codemod, fix.safety)

    def parse(self, text: str) -> Source:
        self.stage = "parse"
        source = parsed(text)
        self.sources.append(source)
        return source

    def check(self, source: Source) -> tuple[list[Finding], list[tuple[TextEdit, ...] | str]]:
        """What the codemods say, in order, and the text edits of each fix (or why there are none)."""
        from devfix.checkers.besides import besides, said
        from devfix.flow import analyse

        self.stage = "check"
        known, wanted = self.asked
        wanted = wanted if known is source.text else self.wanting(source.text)
        ids = frozenset(codemod.id for codemod in self.task.codemods)
        if not wanted:
            self.unused = self.unused if self.history else unused(source, (), ids)
            return [], []
        outside = None
        if self.task.around is not None:
            from devfix.project import outside as outside_of

            outside = outside_of(self.task.around, self.path, source)
        flow = analyse(source, outside)
        flow.path = self.path
        unique = dict.fromkeys(
            finding
            for codemod in wanted
            if codemod.id not in self.done
            for finding in (said(codemod, flow) if codemod.origin is None else self.ask(codemod, flow))
        )
        # What the file lacks the words for may be done in another one.
        everything = (*unique, *besides(flow, ids - self.done, tuple(unique)))
        if flow.is_cut:
            self.troubles["is cut"] = FileError(self.path, self.stage, CUT)
        if not self.history:
            self.unused = unused(source, everything, ids)
        found = sorted(
            unsuppressed(source, everything),
            key=lambda finding: (finding.span, finding.codemod, finding.message),
        )
        flow.release()
        self.stage = "rewrite"
        return found, [self.edits(source, finding) for finding in found]

    def ask(self, codemod: Codemod, flow: Flow) -> Iterable[Finding]:
        from devfix.own.crashes import asked

        return asked(codemod, flow, self.troubles)

    def edits(self, source: Source, finding: Finding) -> tuple[TextEdit, ...] | str:
        if finding.fix is None:
            return ()
        if why := self.why_not(finding):
            return why
        from devfix.rewrite import CannotRewrite, text_edits  # libcst: only if there is a fix

        try:
            if finding.codemod in self.task.own:
                from devfix.own.crashes import edits_of

                return edits_of(source, finding.fix)
            return text_edits(source, finding.fix)
        except CannotRewrite as error:
            return str(error) or "the code around it cannot be rewritten"

    def why_not(self, finding: Finding) -> str:
        """Why the fix of a finding is not made, if that was found out before."""
        return self.refused.get((finding.codemod, -1)) or self.refused.get(self.where(finding), "")

    def where(self, finding: Finding) -> Where:
        return finding.codemod, back(finding.span, self.history).start

    def rewrite(
        self, source: Source, found: list[Finding], edits: list[tuple[TextEdit, ...] | str]
    ) -> Source | None:
        """The source with the fixes of this pass, or None if there is nothing to apply."""
        wanted: list[tuple[Finding, tuple[TextEdit, ...]]] = [
            (finding, edit)
            for finding, edit in zip(found, edits, strict=True)
            if finding.fix is not None
            and not finding.fix.elsewhere
            and self.is_wanted(finding, finding.fix)
            and not isinstance(edit, str)
            and edit
        ]
        if not wanted:
            return None
        from devfix import rewrite

        if not self.history:
            self.scopes, self.feeds = git_scopes(source), line_feeds(source.text)
        chosen = [wanted[index] for index in rewrite.select([edit for _, edit in wanted], source)]
        if self.task.once:
            chosen = rewrite.whole(wanted, chosen, self.task.once)
            self.lossy = any(finding.codemod in self.task.once for finding, _ in chosen)
        self.stage = "verify"
        try:
            merged, text = together(source, [edit for _, edit in chosen], self.verify)
        except rewrite.CannotRewrite as error:
            if self.task.own:
                from devfix.own.crashes import guilty

                ids = ", ".join(sorted({finding.codemod for finding, _ in chosen}))
                message = f"the fixes of {ids} were not applied: {error}"
                self.blame(guilty(source, chosen, self.verify), message)
            raise impossible(source, chosen, self.verify, self.where) from error
        after = self.parse(text)
        self.changes.extend(self.change(*pair) for pair in chosen)
        self.history.append(merged)
        self.last = frozenset(finding.codemod for finding, _ in chosen)
        self.done |= self.last & self.task.once
        return after

    def blame(self, ids: frozenset[str], message: str) -> None:
        """Go on without those of the codemods that are somebody's own, if there are any."""
        if mine := ids & self.task.own:
            raise Blamed(
                tuple(sorted(mine)), f"{message}; nothing else of {', '.join(sorted(mine))} was done"
            )

    def change(self, finding: Finding, edits: tuple[TextEdit, ...]) -> Change:
        """A fix of this pass in the git lines of the file as it was read."""
        assert finding.fix is not None
        return Change(
            finding.codemod,
            finding.message,
            finding.fix.title,
            finding.fix.safety,
            tuple(git_lines(self.feeds, back(edit.span, self.history)) for edit in edits),
        )
