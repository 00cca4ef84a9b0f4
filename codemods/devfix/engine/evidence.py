"""What a value is where its making is out of sight: annotations, docstrings, uses, and at last names.

The only place that looks at what something is called. Evidence proposes a kind, and takes no fact away; a few names
keep a finding back whose fix would break the program if the name is right: captions, lengths, factors.
"""

from __future__ import annotations

import ast
import re
from functools import cache

from devfix.engine.places import ON_CUDA
from devfix.text.source import Source, remembered

_COMMENT = re.compile(r"#.*")
# What is run, and not imported: it reads its command line, or does something at the top.
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PROGRAM = re.compile(r"\bargparse\b|\bsys\.argv\b|__main__|^(?:for |while |print\()", re.MULTILINE)
_TRAINING = re.compile(r"\.backward\(|onnx\.export\(|\boptim\.\w+\(")
_DEVICE_WORD = re.compile(
    r"cuda|device|\.to\((?!\s*(?:dtype\s*=|torch\.\w+\s*[,)]))|accelerat|\b(?:xpu|mps|npu|hpu)\b",
    re.IGNORECASE,
)
_CHOOSES_CPU = re.compile(r"\bdevice\s*=\s*(?:torch\.device\()?[\"']cpu[\"']")
_SWITCHED_OFF = re.compile(
    r"\b(?:use_?)?(?:cuda|gpu)[\"']?\s*[:=]\s*False\b|\bno_?(?:cuda|gpu)[\"']?\s*[:=]\s*True\b"
)
_ACCELERATOR_WORD = re.compile(r"cuda|accelerat|\b(?:xpu|mps|npu|hpu)\b", re.IGNORECASE)
# A condition on how many there are: more than one, or as many as something else says.
_SEVERAL = re.compile(r"> ?[1-9]|>= ?[2-9]|== ?[1-9]|count\(\) ?[>=]=? ?[a-z]")
_NO_NUMBER = re.compile(r"== ?-1|<=? ?-1|< ?0")
_DEVICE_NAMES = frozenset({"device", "dev", "torch_device", "map_location"})
_MODULE_NAMES = frozenset(
    {"model", "net", "network", "module", "encoder", "decoder", "generator", "discriminator", "backbone"}
)
_COMPUTING = ("calc", "compute", "eval", "validate", "test", "predict", "infer", "generate", "run_", "apply_")
_COMPUTED = ("_step", "_apply", "_infer", "_predict", "_forward")
_BATCHES = ("batch", "data", "inputs", "sample", "samples", "example", "examples", "encodings", "features")
_DEVICE_WORDS = ("cuda", "gpu", "device", "cpu", "mps", "xpu", "accelerat")
_TO_HOST = re.compile(
    r"numpy|array|cpu|host|list|pil|decode|predict|transcri|translat|metric|accura|plot|show|draw|render|visuali|"
    r"save|load|read|write|print|collate|item|format|json|remote|map|zip|sorted|dict|postprocess|post_process|nms|"
    r"(?:^|[._])(?:np|str|to|log|len|act|get|sample|generate|select_action|step|set|int|float|range|min|max|sum)$|"
    r"(?:^|[._])(?:images?|get)_",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"(?:^|[.\"'])_?(?:torch_|target_|compute_|cuda_|gpu_|model_)?(?:device|dev|gpu)s?(?:_\d|\d)?(?:\(\))?"
    r"(?:$|[\"'\])])|cuda|gpu|accelerator|fabric|rank",
    re.IGNORECASE,
)
_COUNTS = re.compile(r"len|^num_|(?:^|_)(?:sz|sizes?|shapes?)$")
_FACTORS = re.compile(r"(?:^|_)(?:scale|ratio|factor|rate|alpha|beta|gamma|temperature|eps(?:ilon)?)$")
_OF_DATA = re.compile(
    r"transform|data|loader|sampler|collat|augment|preproc|token|normali|crop|test|plot|vis", re.IGNORECASE
)
_LABELS = re.compile(r"^(?:\w+_)?(?:labels?|targets?|indices|ids|classes)$")
_TEXTS = re.compile(
    r"(?:^|_)(?:text|caption|question|answer|sentence|prompt|title|name|path|file|filename|transcript|instruction|"
    r"description|document|string|url|utterance)s?$"
)
_LOSS = re.compile(r"^(?:\w+_)?(?:criterion|loss|loss_fn|loss_func|loss_function|crit)$", re.IGNORECASE)
# Written for torch before 0.4: what is summed, or indexed in a loss, is a number there, and `volatile` an option.
_BEFORE_SCALARS = re.compile(r"\bvolatile\s*=\s*True\b|loss\w{0,40}\.data\[0\]")
_SET_UP = r"\.(?:to|cuda|train|eval|parameters|named_parameters|load_state_dict|state_dict|half|zero_grad)\("
IS_TENSOR = "a tensor: "  # how a condition begins that asks whether something is one
_TESTING = frozenset({"pytest", "unittest", "parameterized", "absl"})
_DEVICES = re.compile(r"(?:^|[_.\[])(?:device|dev|gpu|device_id|local_rank)s?\d*$", re.IGNORECASE)
_KIND = re.compile(
    r"\bis_cuda\b|\.type\b|device_type|\buse_(?:cuda|gpu)\b|(?<!torch\.)\bcuda\b|[\"'](?:cpu|mps|xpu|npu|hpu)\b"
)
_PREPARES = re.compile(r"(?:pre_?process(?:or)?|to_token_ids)$")
_RUNNERS = re.compile(r"^(?:generate(?:_text\w*)?|predict|infer(?:ence)?|sample|translate)$")
_RUNS = re.compile(
    r"^(?:encode|decode|generate|predict|infer|embed|reconstruct|classify|translate|denoise|extract|compute|loss)"
    r"(?:_|$)|inference|^(?:select_)?act(?:ion)?$|^get_\w*(?:action|value|feature|embedding|logit|latent|code)s?$"
)
_FORWARD = re.compile(r"_?forward(?:_(?!\w*(?:hook|cpu|numpy))\w+)?$")
_HANDED = re.compile(r"_?(?:torch_|target_|output_|model_|input_)?(?:device|dev)$")


def is_device_name(name: str) -> bool:
    """Is a name, or an attribute, one that people give devices?"""
    return name in _DEVICE_NAMES or name.endswith("_device")


def is_type_name(name: str) -> bool:
    """Does a name say of itself that it is the type of a device, or mixed precision, and not a device?"""
    low = name.lower()
    return any(word in low for word in ("type", "autocast", "amp", "backend"))


def is_autocast_name(name: str) -> bool:
    """Is a function out of sight called like one that makes an autocast context?"""
    return "autocast" in name.lower()


def may_name_device(path: str) -> bool:
    """May a variable, an attribute or an entry of a mapping be a device, or its number, as it is called?"""
    return _DEVICES.search(path.replace("'", "").replace('"', "").rstrip("]")) is not None


def asks_for_kind(condition: object) -> bool:
    """Does a condition ask for the type of a device, and not only whether the machine has an accelerator?"""
    if isinstance(condition, tuple):
        return condition[-1] == ON_CUDA or any(asks_for_kind(one) for one in condition)
    return isinstance(condition, str) and _KIND.search(condition) is not None


@cache
def is_handed_name(name: str) -> bool:
    """Is a parameter one by which a caller says where all is done? Not `device_type`, nor `offload_device`."""
    return _HANDED.match(name) is not None


def is_for_tests(source: Source) -> bool:
    """Does a file import what tests are written with?"""
    roots = (what.partition(".")[0] for what in source.imports.values())
    return not _TESTING.isdisjoint(roots)


def may_be_moved_to(name: str) -> bool:
    """Is what `.to(...)` is given a device, and no dtype, by its name?"""
    return is_device_name(name) or name in ("gpu", "gpu_id", "device_id", "cuda", "rank")


@cache
def computes(function: str) -> bool:
    """Is a function out of sight one that runs the module that it is given, and does not train it?"""
    low = function.lower()
    return "loss" in low or low.startswith(_COMPUTING) or low.endswith(_COMPUTED)


def trains(function: str) -> bool:
    """Is a function out of sight one that trains the module that it is given? Such often move it first."""
    return function.lower().startswith(("train", "fit", "finetune", "fine_tune"))


@cache
def is_local_rank(name: str) -> bool:
    """Is a name one that people give the number of a process among those of its machine?"""
    return name.lower().replace("_", "").replace("-", "").endswith(("localrank", "localprocessindex"))


@cache
def may_set_device(name: str) -> bool:
    """Is a function out of sight one that people make to start a process, and to set its device?"""
    low = name.lower()
    starts = any(
        word in low for word in ("init", "setup", "set_up", "launch", "spawn", "prepare", "set_", "start")
    )
    return starts and any(
        word in low for word in ("dist", "ddp", "device", "gpu", "env", "process", "cuda", "nccl")
    )


def runs_what_it_is_given(name: str) -> bool:
    """Is a function out of sight one that people call to run a module: `checkpoint(layer, x)`?"""
    return "checkpoint" in name


def are_named_parameters(name: str) -> bool:
    """Is an argument called as the method that gives the parameters of a network with their names?"""
    return name == "named_parameters"


def is_module_name(name: str) -> bool:
    return name in _MODULE_NAMES or name.endswith(("_model", "_net"))


def is_test(path: str, name: str) -> bool:
    """Is it a function that pytest takes for a test: by its name, and that of its file?"""
    return name.startswith("test") and is_of_pytest(path)


def is_of_pytest(path: str) -> bool:
    """Is it a file that pytest collects, by its name?"""
    file = path.replace("\\", "/").rpartition("/")[2]
    return file.startswith("test_") or file.endswith("_test.py")


def is_test_on_cpu(source: Source, path: str) -> bool:
    """Is it a file of tests that names no device, or switches accelerators off and names none?"""
    return is_of_pytest(path) and (_names_no_device(source) or _switches_off(source))


def is_cpu_program(source: Source, path: str, at: ast.AST | None = None) -> bool:
    """Is it a program, a notebook or a file of tests that names no device? All that it makes is on the CPU.

    Tests may also choose the CPU by name, or by a switch, and no accelerator. What `at` is in has to be run by the
    program: others may use the definitions that it does not.
    """
    if is_of_pytest(path):
        return is_test_on_cpu(source, path) or _chooses_cpu(source)
    if not _names_no_device(source):
        return False
    return path.endswith(".ipynb") or (_is_program(source) and (at is None or _runs(source, at)))


def _runs(source: Source, at: ast.AST) -> bool:
    """Does the body of a file use, if by way of others, the definition that something is in?"""
    while (up := source.parents.get(at)) is not None and up is not source.tree:
        at = up
    return not isinstance(at, _DEFINITIONS) or at.name in _used_by_body(source)


@remembered
def _used_by_body(source: Source) -> frozenset[str]:
    """The names that the body of a file uses, and those that the definitions of these use in turn."""
    definitions = {one.name: one for one in source.tree.body if isinstance(one, _DEFINITIONS)}
    found: set[str] = set()
    todo: list[ast.AST] = [one for one in source.tree.body if not isinstance(one, _DEFINITIONS)]
    while todo:
        names = {one.id for one in ast.walk(todo.pop()) if isinstance(one, ast.Name)} - found
        found |= names
        todo += [definitions[name] for name in names if name in definitions]
    return frozenset(found)


@remembered
def trains_on_cpu(source: Source) -> bool:
    """Does a file train or export, and name no device? It is a program, or written for one like that."""
    return _names_no_device(source) and _TRAINING.search(_COMMENT.sub("", source.text)) is not None


@remembered
def predates_scalars(source: Source) -> bool:
    """Was a file written for torch before 0.4, where sums over all are numbers, and no tensors without dimensions?"""
    if not source.has("volatile") and not source.has(".data[0]"):
        return False  # as nearly always, and fifty times as fast
    return _BEFORE_SCALARS.search(source.text) is not None


@remembered
def _names_no_device(source: Source) -> bool:
    return not _DEVICE_WORD.search(_COMMENT.sub("", source.text))


@remembered
def _chooses_cpu(source: Source) -> bool:
    text = _COMMENT.sub("", source.text)
    return _CHOOSES_CPU.search(text) is not None and not _ACCELERATOR_WORD.search(text)


@remembered
def _switches_off(source: Source) -> bool:
    text, switches = _SWITCHED_OFF.subn("", _COMMENT.sub("", source.text))
    return switches > 0 and not _ACCELERATOR_WORD.search(text)


@remembered
def _is_program(source: Source) -> bool:
    return _PROGRAM.search(_COMMENT.sub("", source.text)) is not None


def prepares_data(*names: str) -> bool:
    """Is a class one that works on data before it is anywhere, as its name or that of its base says?"""
    return any(_OF_DATA.search(one) for one in names)


def is_loader_name(name: str) -> bool:
    return name.endswith("loader")  # several, of "loaders", yield loaders


@cache
def prepares_inputs(path: str) -> bool:
    """Does a function out of sight make inputs of a model, on the CPU, as its name says?"""
    return _PREPARES.search(path) is not None


def runs_module(name: str, *, is_method: bool) -> bool:
    """Does a method of a module, or a function that is given one, run it on its other inputs, as its name says?"""
    return (_RUNS if is_method else _RUNNERS).search(name) is not None


def is_forward_name(name: str) -> bool:
    """Is a method of a module, by its name, one that does what `forward` does, or a part of it?"""
    return _FORWARD.match(name) is not None


def is_batch_name(path: str) -> bool:
    """Is a name one that people give what a loader or a tokenizer yields?"""
    return path.rpartition(".")[2].lower().endswith(_BATCHES)


def is_count(node: ast.AST) -> bool:
    """Is an argument called like lengths or sizes, which whoever takes them may want on the CPU?"""
    return isinstance(node, ast.Name) and _COUNTS.search(node.id) is not None


def is_factor(node: ast.AST) -> bool:
    """Is an operand called like a number that tensors are multiplied with?"""
    return isinstance(node, ast.Name) and _FACTORS.search(node.id) is not None


def is_text_name(name: str) -> bool:
    """Is a name one that people give texts, of which a batch has a list?"""
    return _TEXTS.search(name) is not None


def is_labels_name(name: str) -> bool:
    """Is a name one that people give tensors of indices?"""
    return _LABELS.search(name) is not None


@cache
def is_loss_name(path: str) -> bool:
    """Is what is called by a path called like a loss?"""
    return _LOSS.search(path.rpartition(".")[2]) is not None


def about_devices(condition: object) -> bool:
    """Does a condition ask for a device or an accelerator, by the words of its text?"""
    if isinstance(condition, tuple):
        return any(about_devices(one) for one in condition)
    text = condition.lower() if isinstance(condition, str) else ""
    return any(word in text for word in _DEVICE_WORDS)


def asks_for_tensor(condition: object) -> bool:
    """Does a condition ask whether something is a tensor? What is none has no device yet."""
    return isinstance(condition, tuple) and str(condition[-1]).startswith(IS_TENSOR)


def asks_how_many(condition: object) -> bool:
    """Does a condition ask whether there are several of something, or just as many?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else condition
    return isinstance(text, str) and _SEVERAL.search(text.lower()) is not None


def without_accelerator(condition: object, holds: bool) -> bool:
    """Does it follow from a condition that there is no accelerator, or that what it asks for is on the CPU?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else condition
    if not isinstance(text, str) or (isinstance(condition, tuple) and condition[0] == "none"):
        return False
    low = text.lower()
    if "cpu" in low:
        return holds
    if asks_how_many(low) or not any(word in low for word in ("cuda", "gpu", "accelerat", "is_available")):
        return False  # there may be one
    return holds is (_NO_NUMBER.search(low) is not None)


def is_named_for_host(name: str) -> bool:
    """Does a name suggest that what a function out of sight gives is on the CPU?"""
    return _TO_HOST.search(name) is not None


def may_bring_to_host(path: str, source: Source) -> bool:
    """May what is called out of sight give something on the CPU? Modules that the file sets up, and imports, do not.

    Its name may suggest so; of an object that the file does not move, train or load nothing is known.
    """
    base, _, last = path.rpartition(".")
    if is_named_for_host(last):
        return True
    if path.partition(".")[0] in source.imports:
        return last[:1].isupper()
    parts = [one for one in (path, base) if one not in ("", "self", "cls")]
    return not any(re.search(rf"(?<![\w.]){re.escape(one)}{_SET_UP}", source.text) for one in parts)


def names_what_computes(device: str) -> bool:
    """Does the expression of a device say that the program computes there, as `cpu_device` or `input_device` do not?"""
    return _CHOSEN.search(device) is not None


def compares_devices(condition: object) -> bool:
    """Does a condition ask whether two values are in one place?"""
    text = condition[-1] if isinstance(condition, tuple) and condition else condition
    return isinstance(text, str) and ".device" in text and "==" in text
