"""The state of a campaign and of a repository, as lines for people."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator

from devfix.migrate.forges import OPEN
from devfix.migrate.git import shown
from devfix.migrate.model import STATES, UNFINISHED, Job, Settings
from devfix.migrate.state import Row, Store
from devfix.review.text import plural, printable

_NOW = ("cloning", "analysing")


def status(store: Store, *, everything: bool = False) -> Iterator[str]:
    """Counts by state, findings by codemod, failures by reason."""
    settings, counts = store.settings(), store.counts()
    total = sum(counts.values())
    open_ = sum(counts.get(state, 0) for state in UNFINISHED)
    yield f"{settings.campaign}: {repositories(total)}, {total - open_} done, {open_} to do"
    yield ""
    for state in STATES:
        if counts.get(state):
            yield f"  {counts[state]:6}  {state}"
    asked = Counter(row.request for row in store.rows() if row.request)
    if asked:
        red = sum(1 for row in store.rows() if row.request in OPEN and row.checks == "failed")
        words = [f"{count} {state}" for state, count in sorted(asked.items())]
        yield f"  pull requests: {', '.join([*words, *([f'{red} with failed checks'] if red else [])])}"
    findings = store.findings()
    if findings:
        width = max(len(one.codemod) for one in findings)
        yield ""
        yield f"  {'codemod'.ljust(width)}   found  fixed  left"
        for one in findings:
            yield f"  {one.codemod.ljust(width)}  {one.found:6}  {one.fixed:5}  {one.left:4}"
    failures = store.failures()
    if failures:
        yield ""
        yield "failed:"
        for stage, reason, count, name in failures[: None if everything else 20]:
            names = printable(name) if count == 1 else f"{repositories(count)}, such as {printable(name)}"
            yield f"  {stage}: {printable(reason)} ({names})"
        if len(failures) > 20 and not everything:
            yield f"  and {len(failures) - 20} other reasons; --all shows them"
    rows = [
        row for row in store.rows() if everything or row.state in (*_NOW, "changed", "verified", "skipped")
    ]
    if rows:
        yield ""
        most = None if everything else 30
        for row in rows[:most]:
            yield f"  {line(row)}"
        if most is not None and len(rows) > most:
            yield f"  and {len(rows) - most} more; --all shows them"


def line(row: Row) -> str:
    """One repository on one line."""
    what = row.reason
    if row.state in ("changed", "verified", "pushed"):
        what = f"{plural(row.files_changed, 'file')} changed: {row.subject}"
        if row.decision:
            what += f" ({row.decision})"
        elif row.outdated:
            what += (
                f" ({row.outdated} before, but the change or lines next to it differ now: review it again)"
            )
        what += f" (pull request {row.asked})" if row.asked else ""
    return printable(f"{row.state:13}  {row.name}{f': {what}' if what else ''}")


def plan(store: Store) -> Iterator[str]:
    """What `run` will do, and with what."""
    settings, counts = store.settings(), store.counts()
    open_ = sum(counts.get(state, 0) for state in UNFINISHED)
    yield f"{settings.campaign}: {repositories(open_)} of {sum(counts.values())} to clone and analyse"
    yield from (f"  {words}" for words in _words(settings))
    for row in store.rows(UNFINISHED):
        job = store.job(row.id)
        source = job.source
        parts = [
            f"{plural(len(source.files), 'file')}" if source.files else "",
            f"ref {source.ref}" if source.ref else "",
        ]
        parts += [f"folder {source.subfolder}" if source.subfolder else "", row.reason]
        extra = ", ".join(part for part in parts if part)
        yield printable(f"  {row.name}: {shown(source.url)}{f' ({extra})' if extra else ''}")


def _words(settings: Settings) -> Iterator[str]:
    limits = settings.limits
    recipe = f"the recipe {settings.recipe}" if settings.recipe else ""
    asked = recipe or ", ".join(settings.codemods)
    yield f"codemods: {asked or 'those that are on by default, or that the repository names'}"
    yield f"fixes: {'safe and unsafe ones' if settings.unsafe else 'safe ones only'}"
    yield printable(f"branch: {settings.branch}; author: {settings.author}")
    yield (
        f"limits for each: {limits.seconds:g} s, {limits.size >> 20} MiB, {limits.files} files,"
        f" {limits.file_size >> 20} MiB for one file"
    )
    calls = "functions around each change" if settings.smoke else ""
    runs = [*settings.verify_kinds, settings.verify_cmd, settings.smoke_cmd, calls]
    said = "; ".join(one for one in runs if one)
    yield printable(f"code of the repositories that is run: {said or 'none, unless a list names some'}")


def show(store: Store, job: Job, row: Row, results: str) -> Iterator[str]:
    """All that is known of one repository."""
    yield line(row)
    yield f"  from      {shown(job.source.url)}"
    pairs = [
        (
            "head",
            f"{row.head} {f'({row.base_branch})' if row.base_branch else '(no branch)'}" if row.head else "",
        ),
        ("commit", row.commit),
        ("branch", job.branch if row.commit else ""),
        ("pushed", row.pushed),
        ("request", " ".join(part for part in (row.pull_request, row.asked) if part)),
        ("verified", row.verified),
        ("decision", row.decision or (f"{row.outdated}, of another change" if row.outdated else "")),
        (
            "files",
            f"{row.files_analysed} analysed, {row.files_changed} changed" if row.files_analysed else "",
        ),
        ("results", results if row.head or row.state == "failed" else ""),
    ]
    for name, value in pairs:
        if value:
            yield printable(f"  {name:8}  {value}")
    for one in store.findings(row.id):
        yield f"  {one.codemod}: {one.found} found, {one.fixed} fixed, {one.left} left"
    for note in row.notes:
        yield printable(f"  note: {note}")
    yield "  history:"
    for event in store.events(row.id):
        at = datetime.datetime.fromtimestamp(event.at).strftime("%Y-%m-%d %H:%M:%S")
        words = [event.step, event.what, f"-> {event.state}", event.head[:12], event.detail]
        took = f" ({event.seconds:.2f} s)" if event.seconds else ""
        yield printable(f"    {at}  {' '.join(word for word in words if word)}{took}")


def repositories(count: int) -> str:
    return f"{count} {'repository' if count == 1 else 'repositories'}"
