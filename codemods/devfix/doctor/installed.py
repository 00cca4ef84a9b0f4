"""Versions: of devfix, of Python, and of the libraries that devfix and its extras want."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata

from devfix import __version__
from devfix.doctor.health import Line, Status, shown

_OLDEST = (3, 10)
# Where there is no metadata of an installed devfix, such as on a PYTHONPATH.
_REQUIRED = ("click>=8.1", "libcst>=1.5", "pebble>=5.0.7", "pyyaml>=6.0")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LEAST = re.compile(r">=\s*([0-9.]+)")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_PYTHON = re.compile(r"python_version\s*<\s*['\"](\d+)\.(\d+)['\"]")
_SILENT = frozenset({"dev"})  # for those who work on devfix itself


def own() -> Iterator[Line]:
    """devfix, and the Python that runs it."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield Line("version", f"{__version__} in {shown(os.path.dirname(home))}")
    recorded = _version("devfix")
    if recorded and recorded != __version__:
        yield Line(
            "installation",
            f"pip knows it as {recorded}",
            Status.PROBLEM,
            "two installations are mixed: pip uninstall devfix until it is gone, and install it again",
        )
    old = sys.version_info < _OLDEST
    yield Line(
        "Python",
        f"{platform.python_implementation()} {platform.python_version()} at {shown(sys.executable)}",
        Status.FAILURE if old else Status.OK,
        "devfix needs Python 3.10 or newer" if old else "",
    )
    yield Line("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    encoding = sys.getfilesystemencoding()
    plain = encoding.lower() not in ("utf-8", "utf8")
    yield Line(
        "encoding of paths",
        encoding,
        Status.PROBLEM if plain else Status.OK,
        "paths that are not ASCII may not be found: set PYTHONUTF8=1" if plain else "",
    )


def libraries() -> Iterator[Line]:
    """What must be there, and which extras are complete."""
    extras: dict[str, list[str]] = {}
    try:
        required = metadata.requires("devfix")
    except metadata.PackageNotFoundError:
        required = None
    for requirement in required or _REQUIRED:
        name = _name(requirement)
        extra = _EXTRA.search(requirement)
        if extra is not None:
            extras.setdefault(extra[1], []).append(requirement)
            continue
        python = _PYTHON.search(requirement)
        if python is not None and sys.version_info >= (int(python[1]), int(python[2])):
            continue
        found = _version(name)
        if not found:
            yield Line(
                name, "missing", Status.FAILURE, f"pip install '{requirement.partition(';')[0].strip()}'"
            )
        elif _older(found, requirement):
            yield Line(name, found, Status.FAILURE, f"too old: pip install -U '{name}'")
        else:
            yield Line(name, found)
    for extra_name in sorted(set(extras) - _SILENT):
        yield _extra(extra_name, extras[extra_name])


def _extra(extra: str, requirements: list[str]) -> Line:
    found = {_name(one): _version(_name(one)) for one in requirements}
    old = [_name(one) for one in requirements if found[_name(one)] and _older(found[_name(one)], one)]
    said = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    missing = [name for name, version in found.items() if not version]
    name, install = f"extra {extra}", f"pip install 'devfix[{extra}]'"
    if old:
        return Line(name, said, Status.PROBLEM, f"too old: {', '.join(old)}; {install}")
    if missing:
        return Line(name, f"not installed: {', '.join(missing)}", Status.NOTE, f"if you want it: {install}")
    return Line(name, said)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0] if found else requirement


def _older(version: str, requirement: str) -> bool:
    """Is a version below the least one of a requirement? Only the numbers at its start count."""
    least = _LEAST.search(requirement.partition(";")[0])
    return least is not None and _numbers(version) < _numbers(least[1])


def _numbers(version: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in version.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        found.append(int(digits[0]))
        if digits[0] != part:
            break
    while found and found[-1] == 0:
        found.pop()  # 2.4 and 2.4.0 are the same
    return tuple(found)
