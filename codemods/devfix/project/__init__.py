"""The other files of a project, as far as a file imports them: what `flow.outside` asks for."""

from devfix.project.project import Projects

__all__ = ["Projects"]
