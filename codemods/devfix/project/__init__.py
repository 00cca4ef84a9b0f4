"""The other files of a project, as far as a file imports them: what `flow.outside` asks for."""

from __future__ import annotations

from devfix.flow.outside import Outside
from devfix.pipeline.around import Around
from devfix.project.project import Projects
from devfix.text.source import Source

__all__ = ["Projects", "outside"]

_projects = Projects()
_around = Around()


def outside(around: Around, path: str, source: Source) -> Outside | None:
    """What a file sees of the others of its project; what was read of them is kept for the run."""
    global _projects, _around
    if around != _around:
        _projects, _around = Projects(around.root, around.folders), around
    return _projects.outside(path, source)
