"""Reads the small part of HyperPyYAML that hyperparams.yaml needs, so that nothing has to be installed."""

import ast
import functools
import importlib
import re

_ENTRY = re.compile(r"(?P<indent> *)(?:(?P<key>\w+):|-) *(?P<value>.*)")
_REFERENCE = re.compile(r"!ref <(\w+)>")


def _find(dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _value(text, known):
    """`3`, `True`, `!ref <name>` or a flat list of these."""
    if text.startswith("["):
        return [_value(item.strip(), known) for item in text[1:-1].split(",")]
    reference = _REFERENCE.fullmatch(text)
    return known[reference[1]] if reference else ast.literal_eval(text)


def _finish(tag, positional, named):
    if tag.startswith("!new:"):
        return _find(tag[len("!new:") :])(*positional, **named)
    if tag.startswith("!name:"):
        return functools.partial(_find(tag[len("!name:") :]), *positional, **named)
    return named


def load_hyperpyyaml(path):
    """What the file describes, by key: top-level entries in order, each with at most one level below it."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].rstrip() for line in file]
    entries = [_ENTRY.fullmatch(line) for line in lines if line]
    known = {}
    position = 0
    while position < len(entries):
        head = entries[position]
        position += 1
        positional, named = [], {}
        while position < len(entries) and entries[position]["indent"]:
            below = entries[position]
            position += 1
            value = _value(below["value"], known)
            if below["key"]:
                named[below["key"]] = value
            else:
                positional.append(value)
        is_plain = head["value"] and not head["value"].startswith(("!new:", "!name:"))
        known[head["key"]] = (
            _value(head["value"], known) if is_plain else _finish(head["value"], positional, named)
        )
    return known
