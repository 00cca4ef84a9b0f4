"""Commands written for `libcst.codemod`, run by its own machinery on the text of a file."""

from __future__ import annotations

import argparse
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NoReturn

from libcst import MetadataDependent, parse_module
from libcst.codemod import Codemod as Command
from libcst.codemod import (
    CodemodCommand,
    CodemodContext,
    TransformExit,
    TransformFailure,
    TransformSkip,
    TransformSuccess,
    transform_module,
)
from libcst.helpers import calculate_module_and_package
from libcst.metadata import FullRepoManager, TypeInferenceProvider

from devfix.codemod import Codemod
from devfix.config import ConfigError, convert, suggest
from devfix.own.crashes import Trouble, said
from devfix.own.loading import Origin, module_of
from devfix.own.text_codemod import NewText, TextCodemod, split_options
from devfix.pipeline.listing import root_of

_WORD = re.compile(r"(?<=[^A-Z_-])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # before one in a name in camel case


def kinds(origin: Origin) -> Mapping[str, type[Codemod]]:
    """The one command that an origin names, by its id; raises ConfigError."""
    module, whole = module_of(origin)
    command = getattr(module, origin.name, None)
    if not isinstance(command, type) or not issubclass(command, Command):
        known = [
            name
            for name, item in vars(module).items()
            if isinstance(item, type) and issubclass(item, Command) and item.__module__ == module.__name__
        ]
        what = "does not derive from libcst.codemod.Codemod" if command is not None else "is not there"
        raise ConfigError(f"codemod {origin.spec}: {origin.name} {what}{suggest(origin.name, known)}")
    if TypeInferenceProvider in _providers(command):
        raise ConfigError(
            f"codemod {origin.spec}: {origin.name} asks for TypeInferenceProvider, which needs a running Pyre "
            "server; devfix starts none. Run it by `python -m libcst.tool codemod`"
        )
    id = "libcst-" + _kebab(command.__name__)
    parser = _parser(command)
    dests = {action.dest for action in parser._actions}
    others = [name for name in _others(command) if name not in dests]
    about = [_about(command), "", *_arguments(parser, others)]
    content = {
        "id": id,
        "origin": whole,
        "command": command,
        "__doc__": "\n".join(about),
        "__module__": __name__,
    }
    return {id: type(command.__name__, (LibcstCommand,), content)}


@dataclass(frozen=True)
class LibcstCommand(TextCodemod):
    """A LibCST command as a codemod of devfix."""

    command: ClassVar[type[Command]]

    arguments: tuple[tuple[str, Any], ...] = field(default=(), init=False)

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Codemod:
        safety, given = split_options(options)
        made = cls(safety)
        object.__setattr__(made, "arguments", tuple(_parsed(cls, given).items()))
        _, trouble = said(cls.origin, made._command)  # a missing argument is told before any file is read
        if trouble:
            raise ConfigError(
                f"codemod {cls.origin.spec} cannot be made: {trouble}; give arguments as --codemod-arg NAME=VALUE"
            )
        return made

    def new_text(self, path: str, text: str) -> NewText:
        command = self._command(_context(path, self.command))
        result = transform_module(command, text)
        remarks = tuple(result.warning_messages)
        if isinstance(result, TransformSuccess):
            return NewText(_as_it_was(text, result.code), remarks)
        if isinstance(result, TransformSkip):
            return NewText(text, remarks)
        if isinstance(result, TransformFailure):
            if type(result.error).__name__ == "ParserSyntaxError":
                line = getattr(result.error, "raw_line", 0)
                raise Trouble(f"LibCST cannot parse line {line}: {' '.join(str(result.error).split())}")
            raise result.error
        assert isinstance(result, TransformExit)
        raise KeyboardInterrupt

    def _command(self, context: CodemodContext | None = None) -> Command:
        return self.command(context or CodemodContext(), **dict(self.arguments))


def _as_it_was(text: str, made: str) -> str:
    """What a command made, without what LibCST alone makes of a text: it drops some first and last blanks."""
    if made == text:
        return text
    plain = parse_module(text).code
    if made == plain:
        return text
    at = text.find(plain)
    if at < 0:
        raise Trouble("LibCST does not give this file back as it was, so nothing of it is changed")
    return text[:at] + made + text[at + len(plain) :]


# --- what LibCST wants to know of a file ---------------------------------------------------------


def _context(path: str, command: type[Command]) -> CodemodContext:
    whole = os.path.abspath(path)
    root = root_of(whole)
    try:
        names = calculate_module_and_package(root, whole)
    except ValueError:  # not below the root
        return CodemodContext(filename=whole)
    manager = None
    if wanted := {provider for provider in _providers(command) if provider.gen_cache is not None}:
        manager = FullRepoManager(root, [whole], wanted)
    return CodemodContext(
        filename=whole, full_module_name=names.name, full_package_name=names.package, metadata_manager=manager
    )


def _providers(command: type[Command]) -> frozenset[Any]:
    found: set[Any] = set()
    todo: list[Any] = (
        [*command.get_inherited_dependencies()] if issubclass(command, MetadataDependent) else []
    )
    while todo:
        provider = todo.pop()
        if provider not in found:
            found.add(provider)
            todo.extend(provider.get_inherited_dependencies())
    return frozenset(found)


# --- arguments -------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


@cache
def _parser(command: type[Command]) -> argparse.ArgumentParser:
    parser = _Parser(prog=command.__name__, add_help=False, allow_abbrev=False, conflict_handler="resolve")
    add = getattr(command, "add_args", None)
    if add is not None:
        add(parser)
    return parser


def _about(command: type[Command]) -> str:
    """What a command says of itself, in a line."""
    said = getattr(command, "DESCRIPTION", "")
    if not said or said == CodemodCommand.DESCRIPTION:
        said = (vars(command).get("__doc__") or command.__name__).strip()
    return str(said.split("\n")[0].strip().rstrip("."))


def _arguments(parser: argparse.ArgumentParser, others: list[str]) -> list[str]:
    actions = [action for action in parser._actions if action.dest != "help"]
    if not actions and not others:
        return ["It takes no arguments."]
    return [
        "Arguments (--codemod-arg NAME=VALUE):",
        "",
        *(f"- `{a.dest}`{' (required)' if a.required else ''}: {a.help or ''}".rstrip(": ") for a in actions),
        *(f"- `{name}`" for name in others),
    ]


def _parsed(kind: type[LibcstCommand], given: Mapping[str, str]) -> dict[str, Any]:
    """The arguments as the command's own parser reads them; raises ConfigError."""
    parser = _parser(kind.command)
    known = {action.dest: action for action in parser._actions}
    spelled = {option.lstrip("-").replace("-", "_"): action.dest for action in parser._actions
               for option in action.option_strings}  # fmt: skip
    others, more = _others(kind.command), dict[str, Any]()
    flags: list[str] = []
    positional: dict[str, list[str]] = {}
    for name, value in given.items():
        dest = name.replace("-", "_")
        dest = dest if dest in known else spelled.get(dest, dest)
        action = known.get(dest)
        if action is None and dest in others:
            more[dest] = _as_annotated(value, others[dest], f"argument {kind.id}.{name}")
            continue
        if action is None:
            hint = suggest(name, [*known, *others]) if known or others else "; it takes no arguments"
            raise ConfigError(f"codemod {kind.id} has no argument {name!r}{hint}")
        values = value.split(",") if action.nargs in ("*", "+") or isinstance(action.nargs, int) else [value]
        if not action.option_strings:
            positional[dest] = values
        elif action.nargs == 0:
            wanted = convert(value or "true", bool, f"argument {kind.id}.{name}")
            flags += [action.option_strings[-1]] if wanted else []
        elif len(values) == 1 and action.nargs is None:
            flags.append(f"{action.option_strings[-1]}={values[0]}")
        else:
            flags += [action.option_strings[-1], *values]
    ordered = [value for action in parser._actions for value in positional.get(action.dest, ())]
    argv = [*flags, "--", *ordered] if ordered else flags
    parsed, trouble = said(kind.origin, lambda: parser.parse_args(argv))
    if parsed is None:
        raise ConfigError(f"codemod {kind.id}: {trouble}; give it as --codemod-arg NAME=VALUE")
    return {**vars(parsed), **more}


def _others(command: type[Command]) -> dict[str, inspect.Parameter]:
    """What the constructor takes besides the context; not all of it need be known to `add_args`."""
    found = list(inspect.signature(command).parameters.values())[1:]
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name: one for one in found if one.kind in plain}


def _as_annotated(value: str, parameter: inspect.Parameter, where: str) -> object:
    """A text as what the constructor says that it wants; as text where it says nothing."""
    wanted = parameter.annotation
    wanted = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "")
    if wanted == "bool" or isinstance(parameter.default, bool):
        return convert(value or "true", bool, where)
    return convert(value, int if wanted == "int" else str, where)


def _kebab(name: str) -> str:
    for end in ("Command", "Codemod", "Transformer"):
        if name.endswith(end) and name != end:
            name = name.removesuffix(end)
    return _WORD.sub("-", name).replace("_", "-").lower().strip("-")
