"""What speaks against a place for what is loaded: it comes from where it goes, or the program runs nowhere else."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence

from devfix.checkers.loads import is_fetched, without_place
from devfix.engine.analysis import Analysis
from devfix.engine.evidence import is_for_tests
from devfix.engine.evidence_of_loads import says
from devfix.engine.facts import Load
from devfix.flow import Flow
from devfix.project.cuda import goes, plain
from devfix.project.marks import uninsisting
from devfix.project.saving import saves_from_cpu
from devfix.text.placing import about_devices, around, dotted, guards_of
from devfix.text.source import FUNCTIONS, Source, remembered

_NO_FORMAT = re.compile(r"%[ds]|%\.\d")
_OPTION = re.compile(
    r"is_available\(|--device|--(?:no-|use-)?(?:cuda|gpu)|args\.(?:cuda|device)", re.IGNORECASE
)
_DEFAULT_CUDA = re.compile(
    r"set_default_tensor_type\(\s*(?:[\"']torch\.cuda|torch\.cuda)|set_default_device\(\s*[\"']cuda"
)
# The program has a choice of devices ...
_CHOICE = re.compile(
    r"(?<!assert torch\.cuda\.)is_available\(|[\"']--device\b|\bdef [^\n]*\bdevice\b|"
    r"^[ \t]+device\b[^\n=]*[,:=]|\b(?:use_|no_|args\.|opt\.|opts\.)(?:cuda|gpu|gpus|gpu_ids?)\b|"
    r"\b(?:args|opts?|cfg|config|params|hparams|options|self|accelerator|fabric|training_args)\.device\b|"
    r"--(?:no-|use-)?(?:cuda|gpu)|accelerat|map_location",
    re.IGNORECASE | re.MULTILINE,
)
# ... or none: one that is written down, or an option that is the number of a GPU.
_FIXED = re.compile(r"\bdevice\s*=\s*(?:torch\.device\(\s*)?[\"']cuda[^\"'\n]*[\"']\s*\)?")
_NUMBERED = re.compile(
    r"add_argument\((?![^()]{0,500}-1)[^()]{0,80}[\"']--device[\"'][^()]{0,200}?\btype\s*=\s*int\b[^()]{0,400}\)"
)
_NUMBER = re.compile(r"\b(?:args|opts?|cfg|config|params|hparams|options)\.device\b")
_FETCHER = re.compile(r"\b(?:wget|curl|gdown|aria2c|gsutil|s3 (?:cp|sync)|huggingface-cli)\b")
# The names in a state are made to agree, or need not agree.
_RENAMES = re.compile(r"[\"']module\.|\[7:\]|\bstrict\s*=\s*False|\.module\.(?:state_dict|load_state_dict)\(")
_COUNTS = re.compile(r"count|>|\blen\(|parallel|distributed|multi|gpus\b|_ids\b", re.IGNORECASE)


# --- nothing is to be said --------------------------------------------------------------------


def is_excused(load: Load, analysis: Analysis) -> bool:
    """Is it of a test or of data, does the code see to it that there is a GPU, or has it just been written?"""
    source, call = analysis.file.source, load.node
    if is_for_tests(source) or "torch.load =" in source.text:
        return True  # or somebody gives it other defaults
    for up in source.ancestors(call):
        if isinstance(up, ast.ClassDef) and any(
            says("apart", one) for one in (up.name, *map(source.code, up.bases))
        ):
            return True
        if isinstance(up, FUNCTIONS):
            calls = source.calls_by_name.get(up.name, ())
            if up.name.lstrip("_").startswith("test") and not any(one.args or one.keywords for one in calls):
                return True  # run by a test runner, not by the program
            if any("fixture" in source.code(one) for one in up.decorator_list):
                return True
    saved = [text for _, text in _saved_above(load, source)]
    # Statements of a file may be cells, run on different days.
    alone = load.function is None and source.parents[source.statement(call)] is source.tree
    just = load.path is not None and source.code(load.path) in saved and not alone
    return just or _is_guarded(load, analysis)


def _is_guarded(load: Load, analysis: Analysis) -> bool:
    """Is there a GPU where it is run, or is there another load, which says where to, before or after it?"""
    source, placed = analysis.file.source, analysis.loaded.placed
    child: ast.AST = load.node
    for up in source.ancestors(load.node):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, (ast.If, ast.IfExp)) and child is not up.test and about_devices(up.test):
            inside = child in up.body if isinstance(up, ast.If) else child is up.body
            if inside and says("gpu", ast.unparse(up.test)):
                return True
            if not placed.isdisjoint(source.of_kind(ast.Call, up)):
                return True
        if isinstance(up, ast.Try):
            others = up.handlers if child in up.body else up.body if child in up.handlers else ()
            for call in placed.intersection(call for one in others for call in source.of_kind(ast.Call, one)):
                if child in up.body or without_place(call) == without_place(load.node):
                    return True
        child = up
    return False


def matters(load: Load, source: Source) -> bool:
    """Can what is loaded come from a device that is not there, as the text shows?"""
    path = load.path
    if is_fetched(load):
        return False
    if path is not None:
        if isinstance(path, ast.Constant) and _NO_FORMAT.search(str(path.value)):
            return False  # there is no such file
        if says("elsewhere", source.code(path)) or _is_published(load, path, source):
            return False
        kept = _saves(source) or re.search(r"\b(?:Model)?Checkpoint\b", source.text)
        texts = [load.function.name if load.function is not None else "", source.code(path)]
        if kept and any(
            says("best", one) for one in (*texts, *map(source.code, _bound_to(path, load, source)))
        ):
            return False  # the best state of a run, in a file that keeps it as well
        if _is_its_own(load, path, source):
            return False
    return has_choice(source) and not (
        _is_broken(source) or is_settled(load, source) or _is_of_this_run(load, source)
    )


def is_settled(load: Load, source: Source) -> bool:
    """Does a program run on CUDA whatever there is, or load what it has trained itself, or numbers?"""
    scope, parent = _node(load), source.parents.get(load.node)
    if _is_of_this_run(load, source):
        if not any(says("fetches", dotted(one.func)) for one in source.of_kind(ast.Call, scope)):
            return True
    into = dotted(parent.func).rpartition(".")[0] if isinstance(parent, ast.Call) else ""
    if says("counts", into) or (load.function is not None and says("counts", load.function.name)):
        return True
    return _goes_to_cuda(source, scope)


@remembered
def _goes_to_cuda(source: Source, scope: ast.AST | None) -> bool:
    text = source.text
    if isinstance(scope, FUNCTIONS):  # without its header, as whoever gets to the load has called it
        text = text[source.offset(scope.body[0].lineno, 0) : source.span(scope).end]
    data = plain(text.encode("utf-8", "replace"))
    data = data.replace(b"torch.cuda.", b"")  # to measure, or to ask, moves nothing
    return goes(data, 0, len(data)) or _DEFAULT_CUDA.search(_without_comments(source)) is not None


@remembered
def _without_comments(source: Source) -> str:
    return re.sub(r"#.*", "", source.text)


@remembered
def has_choice(source: Source) -> bool:
    """Has the program a choice of devices, and does it not save from the CPU?"""
    text = _without_comments(source)
    if (_FIXED.search(text) and not _OPTION.search(text)) or saves_from_cpu(text.encode("utf-8", "replace")):
        return False
    if _NUMBERED.search(text):
        text = _NUMBER.sub("", _NUMBERED.sub("", text))
    # A file without any sign of a choice says nothing of where its checkpoints come from.
    return bool(_CHOICE.search(uninsisting(text.encode("utf-8", "replace")).decode()))


def is_of_host(source: Source) -> bool:
    """Does the file copy to the CPU the one thing that it saves?"""
    text = _without_comments(source)
    return text.count("torch.save(") == 1 and saves_from_cpu(text.encode("utf-8", "replace"))


@remembered
def _is_broken(source: Source) -> bool:
    """Is one option added twice to a parser? Then the program cannot start."""
    found = source.calls_by_name.get("add_argument", ()) if "conflict_handler" not in source.text else ()
    named = [one for one in found if one.args and isinstance(one.args[0], ast.Constant)]
    keys = [
        (source.block(source.statement(one))[0], source.code(one.func), source.code(one.args[0]))
        for one in named
    ]
    return len(set(keys)) < len(keys)


def _is_of_this_run(load: Load, source: Source) -> bool:
    """Has the code above trained, or fetched what it loads? So, too, where all who call it with a path have."""
    callers = source.calls_by_name.get(load.function.name, ()) if load.function and _is_given(load) else ()
    return _trains_above(load.node, source) or (
        bool(callers) and all(_trains_above(one, source) for one in callers)
    )


def _trains_above(node: ast.Call, source: Source) -> bool:
    function = source.enclosing(node, *FUNCTIONS)
    for one in source.of_kind(ast.Call, function):
        path = dotted(one.func) or f"?.{getattr(one.func, 'attr', '')}"
        trains = says("steps", path) or (says("trains", path) and (one.args or one.keywords))
        if trains or (function is not None and says("fetches", path)):
            if (one.lineno, one.col_offset) < (node.lineno, node.col_offset):
                if function is not None or source.enclosing(one, *FUNCTIONS, ast.ClassDef) is None:
                    return True
    return False


def _is_published(load: Load, path: ast.expr, source: Source) -> bool:
    """Is it a file of somebody, by a name of its own, and not one that the caller has?"""
    if any(isinstance(one, ast.Call) and says("finds", dotted(one.func)) for one in ast.walk(path)):
        return True
    values = _bound_to(path, load, source)
    for value in (path, *values):  # join(settings.pretrained_networks, "resnet50.pth")
        if (
            isinstance(value, ast.Call)
            and value.args
            and isinstance(getattr(value.args[-1], "value", None), str)
        ):
            if any(says("folder", source.code(one)) for one in value.args[:-1]):
                return True
    wanted = path.id if isinstance(path, ast.Name) else path.value if isinstance(path, ast.Constant) else None
    for call in source.calls if wanted and _fetches(source) else ():
        if says("runs", dotted(call.func)) and _FETCHER.search(ast.unparse(call)):
            if re.search(rf"(?<!\w){re.escape(str(wanted))}(?!\w)", ast.unparse(call)):
                return True
    if wanted is None or not any(
        says("pretrained", ast.unparse(one.test)) for one in guards_of(source, load.node)
    ):
        return False
    if not _is_given(load):
        return isinstance(path, ast.Constant) or load.function is not None
    return bool(values) and all(isinstance(_last(one), ast.Constant) for one in values)


@remembered
def _fetches(source: Source) -> bool:
    """Does a file name a program that fetches files?"""
    return _FETCHER.search(source.text) is not None


def _last(node: ast.expr) -> ast.expr:
    """ "yolo.pt" of `join(dirname(__file__), "yolo.pt")`"""
    joins = isinstance(node, ast.Call) and dotted(node.func).endswith("join") and node.args
    return node.args[-1] if joins and isinstance(node, ast.Call) else node


def _is_its_own(load: Load, path: ast.expr, source: Source) -> bool:
    """Is it what the function has just saved, or what this very object or script saves under a name of its own?"""
    text, values = source.code(path), _bound_to(path, load, source)
    for call, saved in _saved_above(load, source):
        if saved == text.removesuffix(".name"):
            if source.parents[source.statement(call)] in [*around(source, path), _node(load)]:
                return True
    fixed = not _is_given(load) and bool(values) and all(isinstance(one, ast.Constant) for one in values)
    if not (fixed or isinstance(path, ast.Constant) or re.fullmatch(r"self\.\w+", text)):
        return False
    owner = source.enclosing(path, ast.ClassDef)
    return any(
        saved == text and source.enclosing(call, ast.ClassDef) is owner for call, saved in _saves(source)
    )


def of_replicas(load: Load, receivers: Sequence[str], source: Source) -> bool:
    """Is what gets it wrapped for GPUs on CUDA alone: `if args.cuda: net = DataParallel(net)`?

    Then `net.module` is not there elsewhere, and the states of `net` have other names.
    """
    made = source.calls_by_name.get("DataParallel", ())
    asked = all(any(about_devices(one.test) for one in guards_of(source, call)) for call in made)
    if not receivers or not made or not asked:
        return False
    if all(".module." in f"{receiver}." for receiver in receivers):
        return True
    if _RENAMES.search(source.text) or source.enclosing(load.node, ast.Try) is not None:
        return False
    for call in made:  # `net = DataParallel(net)`, where there is a GPU, and wherever there is one
        statement, guards = source.statement(call), guards_of(source, call)
        tests = [ast.unparse(one.test) for one in guards]
        name = source.code(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if (
            name in receivers
            and call.args
            and source.code(call.args[0]) == name
            and statement in guards[0].body
        ):
            if call.lineno < load.node.lineno and all(
                says("gpu", one) and not _COUNTS.search(one) for one in tests
            ):
                return all(f"{receiver}.state_dict()" in source.text for receiver in receivers)
    return False


# --- the project -------------------------------------------------------------------------------


def cures(flow: Flow, load: Load, stay: Sequence[Load]) -> bool:
    """Is it likely that a program works with the argument that fails without? `stay`: loads that stay as they are."""
    function, path, source = load.function, load.path, flow.source
    if function is not None and flow.project.used(function.name) is False:
        return False
    if load.is_wrapped:
        return True
    for other in stay:
        if other.function is function:  # it runs wherever this one does, in the same block or one around it
            block = source.block(source.statement(other.node))
            if any(one in block for one in around(source, load.node)):
                return False
        elif function is not None and other.function is not None:
            if flow.project.called_after(function.name, other.function.name):
                return False
    for call, saved in _saves(source):  # the very file is written as a module, not as its state
        name = re.escape(source.code(call.args[0]))
        if path is not None and not isinstance(path, ast.Constant) and saved == source.code(path):
            if re.search(rf"(?<![\w.]){name}\.(?:eval|train|parameters|state_dict|to|cuda)\(", source.text):
                return False
    while isinstance(path, ast.Call) and path.args:
        path = path.args[-1]
    if isinstance(path, ast.Constant) and isinstance(path.value, str):
        if flow.project.saved_without_cuda(re.split(r"[/\\]", path.value)[-1]):
            return False
    if flow.project.sets_default() or flow.project.saves_from_cpu() or flow.project.writes() is False:
        return False
    if _is_given(load) and flow.project.called_after_download(_names_around(source, load)[-1]):
        return False  # what is published was mostly saved so that it loads anywhere
    return not needs_cuda(flow, load)


def needs_cuda(flow: Flow, load: Load, steps: int = sys.maxsize) -> bool:
    """Does the program, or what it uses of other files, in so many steps, go to CUDA whatever there is?"""
    names = _names_around(flow.source, load)
    return flow.project.needs_cuda() is True or flow.project.goes_to_cuda(names, steps) is True


def _names_around(source: Source, load: Load) -> list[str]:
    """The names of the functions and classes that a load stands in."""
    return [up.name for up in source.ancestors(load.node) if isinstance(up, (*FUNCTIONS, ast.ClassDef))]


# --- paths -------------------------------------------------------------------------------------


def _node(load: Load) -> ast.AST | None:
    return load.function.node if load.function is not None else None


def _is_given(load: Load) -> bool:
    """Is the path a parameter?"""
    names = [one.arg for one in load.function.parameters] if load.function is not None else []
    return isinstance(load.path, ast.Name) and load.path.id in names


def of_one_process(load: Load, source: Source) -> bool:
    """Does the path name the process that reads it? Then that wrote the file, from its own device."""
    seen, todo = set[str](), [load.path]
    while todo:
        one = todo.pop()
        for part in ast.walk(one) if one is not None else ():
            if says("process", getattr(part, "id", getattr(part, "attr", ""))):
                return True
            if isinstance(part, ast.Name) and part.id not in seen:
                seen.add(part.id)
                todo += _bound_to(part, load, source)
    return False


def _bound_to(path: ast.expr, load: Load, source: Source) -> list[ast.expr]:
    """What the function around a load binds to a name, or the file passes for it."""
    if not isinstance(path, ast.Name):
        return []
    found, function = _assigned(source, _node(load)).get(path.id, []), load.function
    if found or function is None or path is not load.path or path.id not in function.positional:
        return found
    at = function.positional.index(path.id) - (function.owner is not None and not function.static)
    every = list[ast.expr]()
    for call in source.calls_by_name.get(function.name, ()):
        for one in [word.value for word in call.keywords if word.arg == path.id] or call.args[at : at + 1]:
            here = _assigned(source, source.enclosing(call, *FUNCTIONS))
            every += here.get(one.id, [one]) if isinstance(one, ast.Name) else [one]
    return every


@remembered
def _assigned(source: Source, scope: ast.AST | None) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in source.of_kind(ast.Assign, scope):
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(node.value)
    return found


@remembered
def _saves(source: Source) -> list[tuple[ast.Call, str]]:
    """The calls that save, and the text of what they save to."""
    every = [one for one in source.calls_by_name.get("save", ()) if len(one.args) > 1]
    every = [one for one in every if source.qualified(one.func) in ("torch.save", "torch.jit.save")]
    return [(one, source.code(one.args[1])) for one in every]


def _saved_above(load: Load, source: Source) -> list[tuple[ast.Call, str]]:
    """Those in the same function, above a load."""
    here = [one for one in _saves(source) if source.enclosing(one[0], *FUNCTIONS) is _node(load)]
    return [one for one in here if source.span(one[0]).start < source.span(load.node).start]
