"""One recipe, as `Work` does one Python file: checked, changed by insertions, and doubted."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devfix.codemod import Codemod
from devfix.documents.yaml import YamlError, YamlTooLarge
from devfix.findings import Finding, ReplaceText, TextEdit
from devfix.pipeline.suppress import IGNORE
from devfix.pipeline.trouble import Refused
from devfix.pipeline.work import Work
from devfix.recipes.inserting import doubt
from devfix.recipes.recipe import Recipe
from devfix.text.lines import lines_of
from devfix.text.source import Source

if TYPE_CHECKING:
    from devfix.documents import Document
    from devfix.pipeline.joint import Begin

_SKIP = re.compile(r"^[^\"'\n]*#\s*devfix:\s*skip-file\b", re.MULTILINE)


class Lines(Source):
    """A text that is not Python, with the positions of a `Source` and an empty tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.Module([], [])


class RecipeWork(Work):
    """The work on one recipe."""

    def wanting(self, text: str) -> tuple[Codemod, ...]:
        return tuple(codemod for codemod in super().wanting(text) if codemod.recipes)

    def skips(self, text: str) -> bool:
        return "devfix:" in text and _SKIP.search(text) is not None

    def parse(self, text: str) -> Source:
        self.stage = "parse"
        return Lines(text)

    def continued(self, document: Document, begin: Begin) -> Source:
        if why := doubt(document.text, begin.text):
            raise Refused(f"the fixes were not applied: {why}")
        return super().continued(document, begin)

    def check(self, source: Source) -> tuple[list[Finding], list[tuple[TextEdit, ...] | str]]:
        self.stage = "check"
        try:
            recipe = Recipe(self.path, source.text)
        except YamlTooLarge:
            raise
        except YamlError:
            return [], []  # no recipe, whatever else it is
        found = [finding for codemod in self.wanting(source.text) for finding in codemod.check_recipe(recipe)]
        found = sorted(unsuppressed(source, dict.fromkeys(found)), key=lambda item: (item.span, item.message))
        self.stage = "rewrite"
        return found, [self.edits(source, finding) for finding in found]

    def edits(self, source: Source, finding: Finding) -> tuple[TextEdit, ...] | str:
        if finding.fix is None:
            return ()
        if why := self.why_not(finding):
            return why
        edits = [edit for edit in finding.fix.edits if isinstance(edit, ReplaceText)]
        return tuple(TextEdit(edit.span, edit.text) for edit in edits)

    def verify(self, before: str, edits: Sequence[TextEdit], after: str) -> None:
        from devfix.rewrite import CannotRewrite

        if why := doubt(before, after):
            raise CannotRewrite(why)


def unsuppressed(source: Source, findings: dict[Finding, None]) -> list[Finding]:
    """The findings that no comment silences, on their line or on that of a related place."""
    if "devfix:" not in source.text:
        return list(findings)
    lines = lines_of(source.text)

    def silenced(finding: Finding) -> bool:
        spans = [finding.span, *(other.span for other in finding.related if not other.path)]
        for line in {source.position(span.start)[0] for span in spans}:
            for match in IGNORE.finditer(lines[line - 1]):
                if match[1] is None or finding.codemod in [word.strip() for word in match[1].split(",")]:
                    return True
        return False

    return [finding for finding in findings if not silenced(finding)]
