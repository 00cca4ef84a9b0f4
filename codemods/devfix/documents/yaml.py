"""YAML texts as trees of nodes that know where they stand. No tag is ever constructed.

Made from parser events and not by recursion, so neither depth nor aliases can do harm: an alias is the
node that it names, once more, and what is walked is walked by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from devfix.pipeline.budget import TooLarge, said

LONGEST = 1_000_000  # characters; recipes have some ten thousand
MOST = 100_000  # nodes
DEEPEST = 200  # collections in each other


class YamlError(ValueError):
    """No YAML, more than one document of it, or too much of it."""


class YamlTooLarge(YamlError, TooLarge):
    """Too much of it; the message is for the report."""


@dataclass(frozen=True, eq=False)
class Node:
    """A scalar, a sequence or a mapping, with its tag as it is written (empty without one).

    `start` and `end` are characters of the text. A block collection ends where its last leaf ends.
    """

    kind: str
    """"scalar", "sequence" or "mapping"."""
    tag: str
    """Such as "!new:torch.nn.Linear"."""
    start: int
    end: int
    value: str = ""
    """The text of a scalar."""
    plain: bool = True
    """It is written without quotes."""
    flow: bool = False
    """It is written as `[a, b]` or `{a: b}`."""
    items: tuple[Node, ...] = ()
    """The elements of a sequence."""
    pairs: tuple[tuple[Node, Node], ...] = ()
    """The keys and values of a mapping."""

    def get(self, key: str) -> Node | None:
        """The value of a key of a mapping."""
        return next((value for name, value in self.pairs if name.value == key), None)

    @property
    def children(self) -> tuple[Node, ...]:
        """The elements of a sequence, or the keys and values of a mapping."""
        return self.items or tuple(node for pair in self.pairs for node in pair)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each once."""
        seen = {id(self)}
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            for child in reversed(node.children):
                if id(child) not in seen:
                    seen.add(id(child))
                    todo.append(child)


def compose(text: str) -> Node:
    """The one document of a text. Raises YamlError."""
    import yaml

    if len(text) > LONGEST:
        raise YamlTooLarge(said(f"the file has {len(text):,} characters", LONGEST))
    root: list[Node] = []
    try:
        _compose(yaml, yaml.parse(text, Loader=_loader()), root)
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(str(error)) from None
    if len(root) != 1:
        raise YamlError("not one document")
    return root[0]


@cache
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _compose(yaml: Any, events: Any, root: list[Node]) -> None:
    open_: list[
        tuple[Any, list[Node]]
    ] = []  # collections whose end has not come yet: the event, what is in them
    anchors: dict[str, Node] = {}
    count = 0
    for event in events:
        node: Node | None = None
        if isinstance(event, yaml.ScalarEvent):
            node = Node(
                "scalar",
                event.tag or "",
                event.start_mark.index,
                event.end_mark.index,
                event.value,
                event.style in (None, ""),
            )
            name = event.anchor
        elif isinstance(event, yaml.AliasEvent):
            node, name = anchors.get(event.anchor), None
            if node is None:
                raise YamlError("an alias without its anchor")
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event, []))
            if len(open_) > DEEPEST:
                raise YamlError("too deeply nested")
        elif isinstance(event, yaml.CollectionEndEvent):
            begin, children = open_.pop()
            node = _closed(begin, children, event, isinstance(begin, yaml.MappingStartEvent))
            name = begin.anchor
        if node is None:
            continue
        count += 1
        if count > MOST:
            raise YamlTooLarge(said("the file has too many keys and values", MOST))
        if name:
            anchors[name] = node
        (open_[-1][1] if open_ else root).append(node)


def _closed(begin: Any, children: list[Node], end: Any, mapping: bool) -> Node:
    start = begin.start_mark.index
    if begin.flow_style:
        last = end.end_mark.index
    else:  # libyaml's block ends where the next token starts; an alias' node may stand further up
        last = max([begin.end_mark.index, *(child.end for child in children if child.start >= start)])
    if not mapping:
        return Node("sequence", begin.tag or "", start, last, flow=begin.flow_style, items=tuple(children))
    pairs = tuple(zip(children[::2], children[1::2], strict=True))
    return Node("mapping", begin.tag or "", start, last, flow=begin.flow_style, pairs=pairs)
