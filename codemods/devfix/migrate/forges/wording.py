"""Title and body of a pull request: those of the result, or from Jinja templates of the user's."""

from __future__ import annotations

from dataclasses import dataclass

from devfix.migrate.model import Job, MigrateError
from devfix.migrate.state import Row
from devfix.review.text import printable


@dataclass(frozen=True)
class Wording:
    """Texts of templates; empty: as devfix has it. They know `title`, `body`, `repository`, `campaign`, `branch`,
    `base`, `head`, `commit`, `files_changed` and `verified`."""

    title: str = ""
    body: str = ""

    def of(self, job: Job, row: Row, body: str) -> tuple[str, str]:
        """Title and body; raises MigrateError for a template that is wrong."""
        if not (self.title or self.body):
            return row.subject, body
        values = {
            "title": row.subject, "body": body, "repository": job.name, "campaign": job.settings.campaign,
            "branch": job.branch, "base": row.base_branch, "head": row.head, "commit": row.commit,
            "files_changed": row.files_changed, "verified": row.verified,
        }  # fmt: skip
        title = _filled(self.title, values) if self.title else row.subject
        return printable(" ".join(title.split())), _filled(self.body, values) if self.body else body


def _filled(template: str, values: dict[str, object]) -> str:
    try:
        from jinja2 import StrictUndefined, TemplateError
        from jinja2.sandbox import SandboxedEnvironment
    except ImportError as error:
        raise MigrateError("templates need Jinja: pip install 'devfix[forges]'") from error
    try:
        made = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        return made.from_string(template).render(values)
    except TemplateError as error:
        raise MigrateError(f"template: {error}") from error
