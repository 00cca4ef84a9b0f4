"""Everything that an author of codemods needs, under stable names.

```python
from collections.abc import Iterator
from dataclasses import dataclass

from devfix.api import Codemod, Example, Finding, Flow, ReplaceExpression, Safety
```

- A codemod: `Codemod` (or `TextCodemod`, which rewrites a whole text, or `RecipeCodemod`, which gets a `Recipe`
  made of `Node`s), `Example`.
- What it gets: `Flow`, which knows the devices of values, with `flow.source` (`Source`: the text, its `ast` and
  positions), `flow.path`, `flow.value(node)` (`Value`: `Kind` and `Place`, which is somewhere in `Where`),
  `flow.events(What.MOVE, ...)` (`Event`) and `flow.scopes` (`Scope`).
- What it can query: `facts(flow, node)` (`Fact`) and `mismatches(flow)` (`Mismatch`), from the engine of devfix's own
  checkers, and `scripts(recipe)` for the programs that run a recipe, each as a `Flow`.
- What it yields: `Finding` with `Span`, `Related`, `Fix`, `Safety` and edits.

All other names may change in any version.
"""

from devfix.codemod import Codemod, Example, RecipeCodemod
from devfix.documents.yaml import Node
from devfix.findings import (
    AppendCall,
    AssignResult,
    DeleteStatement,
    Edit,
    EnsureImport,
    Finding,
    Fix,
    InsertGuard,
    InsertStatement,
    MoveStatement,
    Related,
    ReplaceExpression,
    ReplaceText,
    Safety,
    SetArgument,
    Span,
    WrapExpression,
    WrapStatement,
)
from devfix.flow import Flow
from devfix.flow.events import Event, Meeting, Named, Scope, What
from devfix.flow.values import UNKNOWN, Kind, Place, Value, Where
from devfix.own.asking import Fact, Mismatch, facts, mismatches, scripts
from devfix.own.text_codemod import NewText, TextCodemod
from devfix.recipes.recipe import Recipe
from devfix.text.source import Source

__all__ = [
    "UNKNOWN",
    "AppendCall",
    "AssignResult",
    "Codemod",
    "DeleteStatement",
    "Edit",
    "EnsureImport",
    "Event",
    "Example",
    "Fact",
    "Finding",
    "Fix",
    "Flow",
    "InsertGuard",
    "InsertStatement",
    "Kind",
    "Meeting",
    "Mismatch",
    "MoveStatement",
    "Named",
    "NewText",
    "Node",
    "Place",
    "Recipe",
    "RecipeCodemod",
    "Related",
    "ReplaceExpression",
    "ReplaceText",
    "Safety",
    "Scope",
    "SetArgument",
    "Source",
    "Span",
    "TextCodemod",
    "Value",
    "What",
    "Where",
    "WrapExpression",
    "WrapStatement",
    "facts",
    "mismatches",
    "scripts",
]
