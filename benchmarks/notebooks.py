"""Notebooks: nothing but the source of the cells that need it changes, and the result is a notebook.

    python benchmarks/notebooks.py FOLDER... [--planted N] [-v]      (needs nbformat and git)

Every `.ipynb` below the folders is looked at with the default codemods; nothing is written into them.

- *as it is*: what is found, and what the repair changes;
- *planted*: in a copy of each, one bug at a time, N of a kind at most: a cell at the end that replaces a layer after
  the notebook's own `model.to(device)`; one that does so with names of its own; a cell that writes a recipe, and one
  with the `Brain` that runs what the recipe does not list; and, in the cells that are there, the bugs of
  `mutation.py` that concern moves. "found": a finding that the notebook as it is has not; "fixed": the repair changes
  something; "elsewhere": of those, it also changes a cell that the bug is not in.

After each repair these must hold, and are counted where they do not: every byte outside of the `source` of changed
cells is the same, found by a reader of JSON that shares nothing with devfix; nbformat accepts the result, if it
accepted what was there; git applies the patch, with the same result; and a second run changes nothing.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import nbformat
from devfix.codemod import registry
from devfix.documents import DocumentError
from devfix.documents.notebook import Notebook
from devfix.findings import Safety
from devfix.pipeline.work import Task
from devfix.reports.report import FileResult
from devfix.review.patch import file_patch
from devfix.text.placing import dotted
from devfix.text.source import Source
from mutations import moves
from mutations.edits import module_names, move_statement

MAKERS = (moves.moved_before_surgery, moves.dropped_in_loops, moves.dropped_results, moves.unmoved_modules)
OWN = """\
import torch
planted_device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
planted_model = torch.nn.Linear(4, 8)
planted_model.to(planted_device)
planted_model.head = torch.nn.Linear(8, 2)
print(planted_model(torch.ones(1, 4).to(planted_device)))"""
RECIPE = """\
%%writefile planted.yaml
planted_enc: !new:torch.nn.Linear [4, 4]
planted_lin: !new:torch.nn.Linear [4, 2]

modules:
    planted_enc: !ref <planted_enc>
"""
BRAIN = """\
import torch
from hyperpyyaml import load_hyperpyyaml


class PlantedBase:
    def __init__(self, modules, hparams):
        self.hparams = hparams
        self.modules = torch.nn.ModuleDict(modules).to("cuda")


class PlantedBrain(PlantedBase):
    def compute_forward(self, batch):
        return self.hparams.planted_lin(self.modules.planted_enc(batch))


with open("planted.yaml") as planted_file:
    planted = load_hyperpyyaml(planted_file)
planted_brain = PlantedBrain(planted["modules"], planted)"""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(frozen=True)
class Planted:
    kind: str
    data: bytes
    cells: frozenset[int]  # indices of the cells that the bug is in


# --- a reader of JSON that knows only where things stand --------------------------------------------


def values(text: str) -> Iterator[tuple[tuple[str | int, ...], int, int]]:
    """Every value of a JSON text: the way to it, and where it starts and ends; inner ones first."""
    way: list[str | int] = []
    open_at: list[int] = []
    key = False
    for token in TOKEN.finditer(text):
        word = token[0]
        if word in ("{", "["):
            open_at.append(token.start())
            way.append("" if word == "{" else 0)
            key = word == "{"
        elif word in ("}", "]"):
            way.pop()
            yield tuple(way), open_at.pop(), token.end()
            key = False
        elif word == ",":
            last = way[-1]
            key = isinstance(last, str)
            if isinstance(last, int):
                way[-1] = last + 1
        elif word == ":":
            key = False
        elif key:
            way[-1] = json.loads(word)
        else:
            yield tuple(way), token.start(), token.end()


def parts(data: bytes) -> tuple[str, list[str]]:
    """The text without the cells' sources, and these as they are written."""
    text = data.decode("utf-8-sig")
    spans = [
        (start, end)
        for way, start, end in values(text)
        if len(way) == 3 and way[0] == "cells" and way[2] == "source"
    ]
    spans.sort()
    rest, at = [], 0
    for start, end in spans:
        rest.append(text[at:start])
        at = end
    return "<source>".join([*rest, text[at:]]), [text[start:end] for start, end in spans]


# --- bugs ------------------------------------------------------------------------------------------


def planted(path: str, data: bytes, notebook: Notebook, most: int) -> Iterator[Planted]:
    yield appended("a cell of its own", data, OWN)
    written = appended("a recipe and its Brain", data, RECIPE)
    run = appended(written.kind, written.data, BRAIN)
    yield Planted(run.kind, run.data, written.cells | run.cells)
    try:
        source = Source(notebook.text)
    except (SyntaxError, ValueError):
        return
    for statement in itertools.islice(own_moves(source), most):
        yield appended("a cell with the notebook's names", data, statement)
    before = parts(data)[1]
    for make in MAKERS:
        made = (mutant for mutant in make(path, source) if mutant is not None)
        for mutant in itertools.islice(made, most):
            try:
                after = notebook.encode(mutant.text)
            except DocumentError:
                continue  # across cells
            changed = differing(before, parts(after)[1])
            if changed:
                yield Planted(mutant.kind, after, changed)


def own_moves(source: Source) -> Iterator[str]:
    """For each module that the notebook's last word is a move of: a cell that replaces a layer of it."""
    modules = module_names(source)
    last: dict[str, tuple[str, str]] = {}
    for statement in source.tree.body:
        path = move_statement(statement)
        name = dotted(path) if path is not None else ""
        if name in modules and name.isidentifier():
            code = source.code(statement)
            device = re.search(r"\.to\(\s*(?:device\s*=\s*)?([\w.]+)\s*\)", code)
            last[name] = (device[1] if device else "'cuda'", name)
        else:
            for node in source.walk(statement):
                last.pop(getattr(node, "id", ""), None) if type(
                    getattr(node, "ctx", None)
                ).__name__ == "Store" else None
    for device, name in last.values():
        yield (
            f"import torch\n{name}.planted = torch.nn.Linear(4, 2)\n"
            f"print({name}.planted(torch.ones(1, 4).to({device})))"
        )


def appended(kind: str, data: bytes, source: str) -> Planted:
    """The notebook with one more cell, written after its last one; every byte before stays."""
    text = data.decode("utf-8-sig")
    notebook = json.loads(text)
    cell = {
        "cell_type": "code",
        "execution_count": 7,
        "metadata": {"planted": True},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": ["model.to(device)\n"]}],
        "source": source.splitlines(keepends=True),
    }
    if (notebook.get("nbformat"), notebook.get("nbformat_minor", 0)) >= (4, 5):
        cell["id"] = "planted"
    end = next(end for way, _, end in values(text) if way == ("cells",)) - 1
    comma = ", " if notebook["cells"] else ""
    text = f"{text[:end].rstrip()}{comma}{json.dumps(cell, indent=1)}{text[end:]}"
    bom = data[:3] if data.startswith(b"\xef\xbb\xbf") else b""
    return Planted(kind, bom + text.encode(), frozenset({len(notebook["cells"])}))


# --- what must hold --------------------------------------------------------------------------------


def differing(one: list[str], other: list[str]) -> frozenset[int]:
    return frozenset(index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])


def wrong(data: bytes, result: FileResult, task: Task) -> Iterator[str]:
    """What does not hold after a repair that changed a notebook."""
    (rest, before), (rest_after, after) = parts(data), parts(result.after)
    if rest != rest_after or len(before) != len(after):
        yield "bytes outside of the sources changed"
    elif any(
        json.loads(one) == json.loads(other) for one, other in zip(before, after, strict=True) if one != other
    ):
        yield "a source is written in another way"
    if valid(data) and not valid(result.after):
        yield "nbformat does not accept it"
    if task.data(result.path, result.after).changed:
        yield "a second run changes something"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, result.path)
        path.write_bytes(data)
        here = os.getcwd()
        os.chdir(folder)
        patch = file_patch(result, folder)
        os.chdir(here)
        done = subprocess.run(["git", "apply"], cwd=folder, input=patch, capture_output=True)
        if done.returncode or path.read_bytes() != result.after:
            yield f"git does not apply it: {done.stderr.decode()}"


def valid(data: bytes) -> bool:
    try:
        nbformat.validate(nbformat.reads(data.decode("utf-8-sig"), as_version=nbformat.NO_CONVERT))
    except Exception:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path, nargs="+")
    parser.add_argument("--planted", type=int, default=2, metavar="N")
    parser.add_argument("-v", action="store_true", help="each planted bug that is not found or not fixed")
    options = parser.parse_args()
    task = Task(tuple(kind() for kind in registry().values() if kind.default), Safety.UNSAFE)
    count: collections.Counter[str] = collections.Counter()
    table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for path in sorted(path for folder in options.folder for path in folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        data, shown = path.read_bytes(), str(path)
        count["notebooks"] += 1
        try:
            notebook = Notebook.of(path.name, data)
        except DocumentError as error:
            count["notebooks that are none"] += 1
            print(f"{shown}: {error}")
            continue
        count["cells of code"] += len(notebook.cells)
        count["cells that do not parse"] += len(notebook.problems)
        for problem in notebook.problems if options.v else ():
            print(f"    {shown}: {problem}")
        as_it_is = task.data(path.name, data)
        count["errors"] += as_it_is.error is not None
        if as_it_is.error is not None:
            print(f"{shown}: {as_it_is.error}")
        for finding in as_it_is.findings:
            count["findings"] += 1
            place = f"cell {finding.place.cell}, line {finding.place.cell_line}"
            print(f"{shown}: {place}: {finding.codemod}: {finding.message}")
        count["notebooks with a finding"] += bool(as_it_is.findings)
        count["notebooks that are changed"] += as_it_is.changed
        changed_anyway: frozenset[int] = frozenset()
        if as_it_is.changed:
            changed_anyway = differing(parts(data)[1], parts(as_it_is.after)[1])
            for problem in wrong(data, as_it_is, task):
                count["WRONG"] += 1
                print(f"WRONG: {shown}: {problem}")
        known = collections.Counter(finding.message for finding in as_it_is.findings)
        for bug in planted(path.name, data, notebook, options.planted):
            row = table[bug.kind]
            row["planted"] += 1
            result = task.data(path.name, bug.data)
            now = collections.Counter(finding.message for finding in result.findings)
            row["found"] += bool(now - known)
            if result.error is not None:
                row["WRONG"] += 1
                print(f"WRONG: {shown}: {bug.kind}: {result.error}")
            if options.v and not now - known:
                print(
                    f"    not found: {shown}: {bug.kind} in cell {sorted(index + 1 for index in bug.cells)}"
                )
            if not result.changed:
                continue
            changed = differing(parts(bug.data)[1], parts(result.after)[1])
            row["fixed"] += bool(now - known) and bool(changed & bug.cells or changed - changed_anyway)
            row["elsewhere"] += bool(changed - changed_anyway - bug.cells)
            if options.v and changed - changed_anyway - bug.cells:
                print(f"    elsewhere: {shown}: {bug.kind}: cells {sorted(index + 1 for index in changed)}")
            for problem in wrong(bug.data, result, task):
                row["WRONG"] += 1
                print(f"WRONG: {shown}: {bug.kind}: {problem}")
    for name, number in count.items():
        print(f"{number:6} {name}")
    columns = ("planted", "found", "fixed", "elsewhere", "WRONG")
    print("".join(f"{column:>10}" for column in columns))
    for kind, row in table.items():
        print("".join(f"{row[column]:10}" for column in columns) + f"  {kind}")
    return 1 if count["WRONG"] or any(row["WRONG"] for row in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
