"""What all pages have in common: one file each that loads nothing, under a policy that allows nothing else.

A template begins with a `title` and includes `head.html`, whose Content-Security-Policy allows the styles and
the scripts that stand in the page, by their hashes. What comes from analysed files is escaped, or is JSON.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import pkgutil
from collections.abc import Sequence
from typing import Any

from devfix import __version__


class MissingLibraries(Exception):
    """jinja2 or pygments is not installed; the message says how to get them."""


def need_libraries() -> None:
    """Raise MissingLibraries if a page cannot be made."""
    for name in ("jinja2", "pygments"):
        if importlib.util.find_spec(name) is None:
            raise MissingLibraries(
                f"--format html needs {name}, which is not installed: pip install 'devfix[html]'"
            )


def asset(name: str) -> str:
    """The text of a file beside this one."""
    data = pkgutil.get_data(__name__, name)
    assert data is not None
    return data.decode("utf-8").replace("\r\n", "\n")


def made(template: str, styles: Sequence[str], script: str = "", **values: Any) -> bytes:
    """The page of a template with these style sheets, UTF-8; `script` is the text of its script.

    The libraries must be there (`need_libraries`).
    """
    import jinja2
    from markupsafe import Markup, escape

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = lambda label: escape(label).replace("/", Markup("/<wbr>"))
    style = "".join(map(asset, styles))
    text = environment.get_template(template).render(
        version=__version__,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script) if script else "",
        **values,
    )
    return text.encode("utf-8", "replace")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
