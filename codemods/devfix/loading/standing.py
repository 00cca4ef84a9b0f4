"""Does it matter where a checkpoint goes: may it come from a device that is not there?

Not where the same run has written it, or it was saved from the CPU, and not in a program that runs on
CUDA only or on the CPU only.
"""

from __future__ import annotations

import ast
import re

from devfix.bindings import FunctionNode, function_around
from devfix.findings import Span
from devfix.flow.frame import path_of
from devfix.loading.calls import Load, asks_for_gpu
from devfix.loading.index import assigned, calls, plain, saved, without_comments
from devfix.placing import about_devices, around, guards_of
from devfix.project.saving import saves_from_cpu
from devfix.source import Source, remembered, walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What trains, so that what is loaded below is of this run.
_TRAINS = re.compile(
    r"(?<![\w.])(?:(?:run_|do_)?train(?:ing)?(?:_\w+)?|fit(?:_\w+)?|\w{1,99}_train)\((?!\))|"
    r"\.(?:fit|backward|train_model|train_epoch|run_training|train_one_epoch)\(|"
    r"\boptim\w*\.step\(|stop\w{0,99}\.step\(|\b\w{0,99}trainer\w{0,99}\.(?:train|run)\("
)
# What is published was mostly saved so that it loads anywhere.
_FETCHED = re.compile(
    r"(?:^|[^\w])(?:\w{0,80}download\w{0,80}|\w{0,80}from_url|cached_path|urlretrieve|wget\w{0,80}|gdown\.\w{1,80})\(",
    re.MULTILINE,
)
# A function that knows where published weights are, and fetches them if need be.
_FETCHES = re.compile(
    r"(?:^|\.)(?:get|fetch|download|cached?|ensure|resolve)_?\w{0,99}(?:file|path|model|weight|ckpt|checkpoint)\w{0,99}$"
)
_PRETRAINED = re.compile(r"\bpre_?train(?:ed)?\b|\bload_weights\b", re.IGNORECASE)
_PRETRAINED_FOLDER = re.compile(r"(?:^|[^a-z])pre_?trained?(?:[^a-z]|$)", re.IGNORECASE)
# What a run begins with was mostly converted from elsewhere.
_INITIAL = re.compile(
    r"(?:^|[^a-z])init_?(?:model|net|weights?|ckpt|checkpoint)|imagenet_?(?:model|weights?|ckpt)",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"sched|(?:^|[._])(?:grad_?|amp_?|loss_?)?scaler\.", re.IGNORECASE)
_OPTION = re.compile(
    r"is_available\(|--device|--(?:no-|use-)?(?:cuda|gpu)|args\.(?:cuda|device)", re.IGNORECASE
)
_DEFAULT_CUDA = re.compile(
    r"set_default_tensor_type\(\s*(?:[\"']torch\.cuda|torch\.cuda)|set_default_device\(\s*[\"']cuda"
)
_BEST = re.compile(r"best|early_?stop", re.IGNORECASE)
_NO_FORMAT = re.compile(r"%[ds]|%\.\d")
# The program has a choice of devices ...
_CHOICE = re.compile(
    r"(?<!assert torch\.cuda\.)is_available\(|[\"']--device\b|\bdef [^\n]*\bdevice\b|"
    r"^[ \t]+device\b[^\n=]*[,:=]|\b(?:use_|no_|args\.|opt\.|opts\.)(?:cuda|gpu|gpus|gpu_ids?)\b|"
    r"\b(?:args|opts?|cfg|config|params|hparams|options|self|accelerator|fabric|training_args)\.device\b|"
    r"--(?:no-|use-)?(?:cuda|gpu)|accelerat|map_location",
    re.IGNORECASE | re.MULTILINE,
)
# A GPU that is insisted on is no choice.
_INSISTS = re.compile(
    r"^([ \t]*)if (?:\w+\.)*cuda\.is_available\(\)[^\n]*:\n"
    r"(?:\1[ \t]+[^\s][^\n]*\n|[ \t]*\n)+\1else:[^\n]*\n\s*raise\b|"
    r"if not (?:\w+\.)*cuda\.is_available\(\):\s*(?:raise|(?:sys\.)?exit)\b",
    re.MULTILINE,
)
# ... or none: one that is written down.
_FIXED = re.compile(r"\bdevice\s*=\s*(?:torch\.device\(\s*)?[\"']cuda[^\"'\n]*[\"']\s*\)?")
_MODULE = re.compile(r"\.module(?:\.|$)")
# The names in a state are made to agree, or need not agree.
_RENAMES = re.compile(r"[\"']module\.|\[7:\]|\bstrict\s*=\s*False|\.module\.(?:state_dict|load_state_dict)\(")
_COUNTS = re.compile(r"count|>|\blen\(|parallel|distributed|multi|gpus\b|_ids\b", re.IGNORECASE)
# A program that is run to fetch files.
_SHELL = re.compile(r"(?:^|\.)(?:system|popen|run|call|check_call|check_output|Popen)$")
_FETCHER = re.compile(r"\b(?:wget|curl|gdown|aria2c|gsutil|s3 (?:cp|sync)|huggingface-cli)\b")
# An option that is the number of a GPU, and never the CPU.
_NUMBERED = re.compile(
    r"add_argument\((?![^()]{0,500}-1)[^()]{0,80}[\"']--device[\"'][^()]{0,200}?\btype\s*=\s*int\b[^()]{0,400}\)"
)
_NUMBER = re.compile(r"\b(?:args|opts?|cfg|config|params|hparams|options)\.device\b")
# TensorRT has engines in its modules, no tensors, and runs on CUDA only.
_ENGINE = re.compile(r"trt|tensorrt", re.IGNORECASE)


def matters(source: Source, load: Load) -> bool:
    """Can a checkpoint come from a device that is not there where it is loaded, as the text shows?"""
    if load.name.endswith(("_from_url", "load_url")):
        return False  # what is published mostly loads anywhere
    path = load.call.args[0] if load.call.args else None
    if isinstance(path, ast.Constant) and isinstance(path.value, str) and _NO_FORMAT.search(path.value):
        return False  # there is no such file
    if path is not None and (_ENGINE.search(source.code(path)) or _INITIAL.search(source.code(path))):
        return False
    if is_settled(source, load) or _published(source, load, path) or _kept_best(source, load, path):
        return False
    return has_choice(source) and not (
        _twice(source) or _own_file(source, path) or _trained_above(source, load)
    )


def is_settled(source: Source, load: Load) -> bool:
    """Does a program run on CUDA whatever there is, or load what it has trained itself, or numbers?"""
    around = source.text if load.function is None else source.code(load.function)
    trained = _trained_above(source, load) and not _FETCHED.search(without_comments(around))
    return trained or _numbers(load, source) or _cuda_throughout(source, load)


@remembered
def has_choice(source: Source) -> bool:
    """Has the program a choice of devices, and does it not save from the CPU?"""
    text = plain(source)
    if _FIXED.search(text) and not _OPTION.search(text):
        return False
    if saves_from_cpu(text.encode("utf-8", "replace")):
        return False
    if _NUMBERED.search(text):
        text = _NUMBER.sub("", _NUMBERED.sub("", text))
    # A file without any sign of a choice says nothing of where its checkpoints come from.
    return bool(_CHOICE.search(_INSISTS.sub("", text)))


@remembered
def _twice(source: Source) -> bool:
    """Is one option added twice to a parser? Then the program cannot start."""
    if "conflict_handler" in source.text or "add_argument(" not in source.text:
        return False
    seen: set[tuple[int, str, str]] = set()
    for call in source.calls:
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr != "add_argument":
            continue
        block = source.block(source.statement(call))
        for one in call.args:
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value.startswith("-"):
                key = (id(block), path_of(func.value), one.value)
                if key[1] and key in seen:
                    return True
                seen.add(key)
    return False


def of_replicas(source: Source, load: Load, receivers: tuple[str, ...]) -> bool:
    """Is what gets it wrapped for GPUs on CUDA alone: `if args.cuda: net = DataParallel(net)`?

    Then `net.module` is not there elsewhere, and the states of `net` have other names.
    """
    made = [
        call
        for path, calls in calls(source).items()
        if path.rpartition(".")[2] == "DataParallel"
        for call in calls
    ]
    if not receivers or not made:
        return False
    guards = [[one.test for one in guards_of(source, call) if about_devices(one.test)] for call in made]
    if not all(guards):
        return False
    if all(_MODULE.search(receiver) for receiver in receivers):
        return True
    if _RENAMES.search(source.text) or source.enclosing(load.call, ast.Try) is not None:
        return False
    at = source.span(load.call).start
    return any(
        _wrapped(source, call) in receivers and source.span(call).end <= at and _with_a_gpu(source, call)
        for call in made
    ) and all(
        re.search(rf"(?<![\w.]){re.escape(receiver)}\.state_dict\(\)", source.text) for receiver in receivers
    )


def _with_a_gpu(source: Source, call: ast.Call) -> bool:
    """Does a call run where there is a GPU, and wherever there is one?"""
    tests = [one.test for one in guards_of(source, call)]
    arm = next((one.body for one in guards_of(source, call)), [])
    return (
        all(asks_for_gpu(test) and not _COUNTS.search(ast.unparse(test)) for test in tests)
        and source.statement(call) in arm
    )


def _wrapped(source: Source, call: ast.Call) -> str:
    """`net` of `net = DataParallel(net)`; empty where it gets another name."""
    statement = source.statement(call)
    if not call.args or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    name = path_of(statement.targets[0])
    return name if name == path_of(call.args[0]) else ""


def _numbers(load: Load, source: Source) -> bool:
    """Is it the state of a scheduler or of a GradScaler, all of it numbers?"""
    texts = [load.function.name] if load.function is not None else []
    parent = source.parents.get(load.call)
    if isinstance(parent, ast.Call):
        texts.append(path_of(parent.func))
    return any(_NUMBERS.search(text) for text in texts)


def _cuda_throughout(source: Source, load: Load) -> bool:
    """Does the same function move things to CUDA whatever there is? Or the program make all of them there?"""
    return _moves_all(source, load.function or source.tree)


@remembered
def _moves_all(source: Source, scope: ast.AST) -> bool:
    if _DEFAULT_CUDA.search(plain(source)):
        return True
    for node in source.of_kind(ast.Call, scope):
        if node.args or node.keywords:
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            if not any(about_devices(one.test) for one in guards_of(source, node)) and not isinstance(
                source.enclosing(node, ast.IfExp), ast.IfExp
            ):
                return True
    return False


def _published(source: Source, load: Load, path: ast.expr | None) -> bool:
    """Is it a file of somebody, by a name of its own, and not one that the caller has?"""
    if path is None:
        return False
    if any(isinstance(node, ast.Call) and _FETCHES.search(path_of(node.func)) for node in walk(path)):
        return True
    if _filed(source, load, path) or _fetched_by_program(source, path):
        return True
    if (
        not isinstance(path, ast.Constant)
        and not _found_out(load, path)
        and not _given_a_file(source, load, path)
    ):
        return False
    up: ast.AST | None = load.call
    while up is not None and not isinstance(up, _FUNCTIONS):
        if isinstance(up, ast.If) and _PRETRAINED.search(ast.unparse(up.test)):
            return True
        up = source.parents.get(up)
    return False


def _found_out(load: Load, path: ast.expr) -> bool:
    """Is a path a name that the function itself binds, and nothing of its caller's?"""
    if not isinstance(path, ast.Name) or load.function is None:
        return False
    arguments = load.function.args
    return path.id not in {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}


def _fetched_by_program(source: Source, path: ast.expr) -> bool:
    """Does the file run a program that fetches what is loaded: `os.system(f"wget -O {PATH} ...")`?"""
    if not isinstance(path, (ast.Name, ast.Constant)) or not source.matches(_FETCHER):
        return False
    wanted = path.id if isinstance(path, ast.Name) else str(path.value)
    for call in source.calls:
        if _SHELL.search(path_of(call.func)) and wanted:
            text = ast.unparse(call)
            if _FETCHER.search(text) and re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text):
                return True
    return False


def _filed(source: Source, load: Load, path: ast.expr) -> bool:
    """`join(settings.pretrained_networks, "resnet50.pth")`: a file by its own name among pretrained ones."""
    return any(
        isinstance(value, ast.Call)
        and value.args
        and isinstance(value.args[-1], ast.Constant)
        and any(_PRETRAINED_FOLDER.search(ast.unparse(part)) for part in value.args[:-1])
        for value in (path, *_values(source, load.function or source.tree, path))
    )


def _given_a_file(source: Source, load: Load, path: ast.expr) -> bool:
    """Is a path a parameter, and do all calls of the file pass the name of one file for it?"""
    function = load.function
    if function is None or not isinstance(path, ast.Name):
        return False
    names = [one.arg for one in function.args.args]
    if path.id not in names:
        return False
    at = names.index(path.id)
    seen: set[tuple[ast.AST, str]] = set()
    for call in calls(source).get(function.name, ()):
        scope = function_around(source, call) or source.tree
        for one in [word.value for word in call.keywords if word.arg == path.id] or call.args[at : at + 1]:
            key = (scope, one.id if isinstance(one, ast.Name) else "")
            if key[1] and key in seen:
                continue
            seen.add(key)
            if not all(map(_ends_in_constant, _values(source, scope, one) or [one])):
                return False
    return bool(seen)


def _ends_in_constant(node: ast.expr) -> bool:
    """`"yolo.pt"`, `join(dirname(__file__), "yolo.pt")`"""
    if isinstance(node, ast.Call) and path_of(node.func).endswith("join") and node.args:
        node = node.args[-1]
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _values(source: Source, scope: ast.AST, path: ast.expr) -> list[ast.expr]:
    """What a scope binds to a name."""
    if not isinstance(path, ast.Name):
        return []
    return assigned(source, scope).get(path.id, [])


def _kept_best(source: Source, load: Load, path: ast.expr | None) -> bool:
    """Is it the best state of a run, in a file that keeps it as well?"""
    if path is None or not re.search(r"torch\.save|\b(?:Model)?Checkpoint\b", source.text):
        return False
    texts = [load.function.name if load.function is not None else "", ast.unparse(path)]
    texts += [ast.unparse(value) for value in _values(source, load.function or source.tree, path)]
    return any(_BEST.search(text) for text in texts)


def _trained_above(source: Source, load: Load) -> bool:
    """Has the code above trained, or fetched what it loads? So, too, where all who call it with a path have."""
    function, path = load.function, load.call.args[0] if load.call.args else None
    if _of_this_run(source, load.call, function):
        return True
    if function is None or not isinstance(path, ast.Name):
        return False
    if path.id not in {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}:
        return False
    callers = source.calls_by_name.get(function.name, ())
    return bool(callers) and all(
        _of_this_run(source, call, function_around(source, call)) for call in callers
    )


def _of_this_run(source: Source, node: ast.AST, function: FunctionNode | None) -> bool:
    """Is there training, or a download, above a node in its function or script?"""
    at = source.span(node).start
    if function is not None:
        above = without_comments(source.text[source.span(function.body[0]).start : at])
        return bool(_TRAINS.search(above) or _FETCHED.search(above))
    first = _first_training(source)
    if first is None or first.start >= at:
        return False
    if first.end <= at:
        return True
    return _TRAINS.search(without_comments(source.text[first.start : at])) is not None


@remembered
def _first_training(source: Source) -> Span | None:
    """Where the first statement of the module itself stands that trains."""
    for statement in source.tree.body:
        if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            if _TRAINS.search(without_comments(source.code(statement))):
                return source.span(statement)
    return None


def _own_file(source: Source, path: ast.expr | None) -> bool:
    """Is a file loaded that this very object or script saves, under the same name of its own?"""
    if path is not None and _written_above(source, path):
        return True
    if path is None or not _of_its_own(source, path):
        return False
    wanted = ast.dump(path)
    return any(_same_owner(source, call, path) for call in saved(source).get(wanted, ()))


def _written_above(source: Source, path: ast.expr) -> bool:
    """Has the function just saved it: `torch.save(x, file)`, and a load of `file` or `file.name` below?"""
    scope, at = function_around(source, path), source.span(path).start
    wanted = path_of(path).removesuffix(".name")
    if scope is None or not wanted:
        return False
    for call in source.of_kind(ast.Call, scope):
        if len(call.args) > 1 and source.span(call).end < at:
            if source.qualified(call.func) == "torch.save" and path_of(call.args[1]) == wanted:
                statement = source.statement(call)
                one = source.parents.get(statement)
                return one is scope or one in around(source, path)
    return False


def _of_its_own(source: Source, path: ast.expr) -> bool:
    """A constant, or `self.path` that the class itself changes: no parameter, no option."""
    if isinstance(path, ast.Constant):
        return True
    if isinstance(path, ast.Name):
        bound = _values(source, function_around(source, path) or source.tree, path)
        return bool(bound) and all(isinstance(value, ast.Constant) for value in bound)
    dotted = path_of(path)
    return dotted.startswith("self.") and dotted.count(".") == 1


def _same_owner(source: Source, one: ast.AST, other: ast.AST) -> bool:
    return source.enclosing(one, ast.ClassDef) is source.enclosing(other, ast.ClassDef)
