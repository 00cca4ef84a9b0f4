"""Which versions of torch a project asks for, in the files that its root has for that."""

from __future__ import annotations

import re
from collections.abc import Iterable

FILES = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "environment.yml")
_VERSION = r"\d{1,4}(?:\.\d{1,4}){0,3}"
_ASKED = re.compile(
    r"(?<![\w.-])(?:py)?torch(?:\[[^\]\n]{0,50}\])?\s{0,3}\(?"
    rf"((?:[\s,]{{0,3}}(?:[=~]=?|[<>]=?|!=)\s{{0,3}}{_VERSION}(?:\.\*)?){{1,6}})"
)
_PART = re.compile(rf"([=~<>!]=?)\s{{0,3}}({_VERSION}(?:\.\*)?)")


def torch_before(texts: Iterable[str], version: tuple[int, int]) -> str:
    """What all requirements of torch in these texts keep below a version: the first of them, else nothing.

    By PEP 440; conda's `=2.1` stands for `==2.1.*`.
    """
    asked = [found for text in texts for found in _ASKED.finditer(text)]
    if asked and all(
        any(_excludes(op, number, version) for op, number in _PART.findall(one[1])) for one in asked
    ):
        return " ".join(asked[0][0].split())
    return ""


def _excludes(operator: str, text: str, version: tuple[int, int]) -> bool:
    parts = tuple(map(int, text.removesuffix(".*").split(".")))
    if operator == "=" or text.endswith(".*"):
        return operator in ("=", "==") and parts[:2] < version[: len(parts)]
    if operator in ("==", "<="):
        return parts[:2] < version
    if operator == "<":
        return parts <= version
    if operator == "~=":  # up to the next number of the last part but one
        return (parts[:-1] if len(parts) < 3 else parts[:2]) < version[: max(len(parts) - 1, 1)]
    return False
