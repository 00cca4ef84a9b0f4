"""What a value is where its making is out of sight: annotations, docstrings, uses, and at last names.

The only place that looks at what something is called. Evidence proposes a kind; it never takes a fact away.
"""

from __future__ import annotations

import ast
import re

from devfix.engine.places import ON_CUDA
from devfix.source import Source, remembered

_COMMENT = re.compile(r"#.*")
# What is run, and not imported: it reads its command line, or does something at the top.
_PROGRAM = re.compile(r"\bargparse\b|\bsys\.argv\b|__main__|^(?:for |while |print\()", re.MULTILINE)
_TRAINING = re.compile(r"\.backward\(|onnx\.export\(|\boptim\.\w+\(")
_DEVICE_WORD = re.compile(
    r"cuda|device|\.to\((?!\s*(?:dtype\s*=|torch\.\w+\s*[,)]))|accelerat|\b(?:xpu|mps|npu|hpu)\b",
    re.IGNORECASE,
)
# A condition on how many there are: more than one, or as many as something else says.
_SEVERAL = re.compile(r"> ?[1-9]|>= ?[2-9]|== ?[1-9]|count\(\) ?[>=]=? ?[a-z]")
_DEVICE_NAMES = frozenset({"device", "dev", "torch_device", "map_location"})
_MODULE_NAMES = frozenset(
    {"model", "net", "network", "module", "encoder", "decoder", "generator", "discriminator", "backbone"}
)
_LAYER = re.compile(
    r"^[A-Z]\w*(?:Layer|Linear|Head|Conv|Embedding|Adapter|Classifier|Projection|Projector|MLP|Block|Encoder|Decoder|"
    r"Attention|Norm|LSTM|GRU|Net|Unit|Stage|Bottleneck|FeedForward)s?(?:\dd)?$|^[A-Z]\w*Conv\w*$"
)
_NETWORK_USE = re.compile(r"(?<![\w.])((?:self\.)?\w+)\.(?:parameters|named_parameters|train|eval)\(")
_PART_USE = re.compile(r"(?<![\w.])((?:self\.)?\w+)\.\w+\.(?:parameters|named_parameters|train|eval)\(")
_MOVED = re.compile(r"(?<![\w.])((?:self\.)?\w+)\.(?:to|cuda)\(")
_SAVED = re.compile(r"(?<![\w.])((?:self\.)?\w+)\.(?:load_)?state_dict\(")
_AVERAGE = re.compile(r"(?:Model)?(?:EMA|Ema)(?:V\d|Model)?$|ExponentialMovingAverage$")
_METHOD = re.compile(r"\.(?:forward|generate|encode|decode|predict)$")
_PLACES = re.compile(
    r"load(?!er|_model$)|init|restore|prepare|set_?up|wrap|cuda|gpu|device|dist|parallel|pipe|session|client|engine|agent|"
    r"trainer|runner|policy|predictor|detector|onnx|compile|jit|quant|copy|clone",
    re.IGNORECASE,
)
_BUILDS = re.compile(
    r"get|build|create|make|factory|fetch|model|construct|new_|instantiate|^net|network", re.IGNORECASE
)
_TOLD = re.compile(r"device|cuda|gpu|rank|accelerat|fabric|distrib|\bcpu\b", re.IGNORECASE)
_OPTIONS = re.compile(
    r"^(?:self\.)?_?(?:\w+_)?(?:args|opts?|options|cfg|conf|config|hparams|flags|params|settings|kwargs|parser)$",
    re.IGNORECASE,
)
_HELD = r"{0}(?:\.|\[.)\w*(?:device|cuda|gpu|rank|dist)|--\w*-?(?:device|cuda|gpu)|[\"']device[\"']"
_COMPUTING = ("calc", "compute", "eval", "validate", "test", "predict", "infer", "generate", "run_", "apply_")
_COMPUTED = ("_step", "_apply", "_infer", "_predict", "_forward")
_NO_LAYER = re.compile(
    r"act|func|fn|transform|augment|token|metric|accuracy|measure|score|sampl|loss|optim|sched|param|path|config|size|"
    r"dim|shape|format|split|hook|tensor|array|join|drop_?|relu|pool|identity|upsampl|interpol|pad|partial|compose",
    re.IGNORECASE,
)
_OPTIMIZER = re.compile(
    r"^\w{0,99}(?:Adam|SGD|RMSprop|Adagrad|Adadelta|LAMB|Lion|Adafactor|ASGD|Rprop)\w{0,99}$"
)
_WORD = re.compile(r"[A-Z][a-z0-9]+$|[A-Z]+$")
_NO_MODULE = re.compile(r"Loader|Dataset|Sampler|Optim|Scheduler|Writer|Tokenizer|Processor|Config")
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
_OF_DATA = re.compile(
    r"transform|data|loader|sampler|collat|augment|preproc|token|normali|crop|test|plot|vis", re.IGNORECASE
)
_LABELS = re.compile(r"^(?:\w+_)?(?:labels?|targets?|indices|ids|classes)$")
_LOSS = re.compile(r"^(?:\w+_)?(?:criterion|loss|loss_fn|loss_func|loss_function|crit)$", re.IGNORECASE)
_SET_UP = r"\.(?:to|cuda|train|eval|parameters|named_parameters|load_state_dict|state_dict|half|zero_grad)\("
_TESTING = frozenset({"pytest", "unittest", "parameterized", "absl"})
_FOR_HOST = re.compile(
    r"load|read|save|cpu|offload|numpy|dataset|collate|parse|convert|export|dump|plot|draw|visuali[sz]e|tokeni[sz]|"
    r"checkpoint|state_dict|^get_data|benchmark",
    re.IGNORECASE,
)
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


def is_handed_name(name: str) -> bool:
    """Is a parameter one by which a caller says where all is done? Not `device_type`, nor `offload_device`."""
    return _HANDED.match(name) is not None


def is_for_host(name: str) -> bool:
    """Does a function work on the CPU on purpose, as its name says: does it copy, save, convert, or feed workers?"""
    return _FOR_HOST.search(name) is not None


def is_for_tests(source: Source) -> bool:
    """Does a file import what tests are written with?"""
    roots = (what.partition(".")[0] for what in source.imports.values())
    return not _TESTING.isdisjoint(roots)


def may_be_moved_to(name: str) -> bool:
    """Is what `.to(...)` is given a device, and no dtype, by its name?"""
    return is_device_name(name) or name in ("gpu", "gpu_id", "device_id", "cuda", "rank")


def computes(function: str) -> bool:
    """Is a function out of sight one that runs the module that it is given, and does not train it?"""
    low = function.lower()
    return "loss" in low or low.startswith(_COMPUTING) or low.endswith(_COMPUTED)


def is_local_rank(name: str) -> bool:
    """Is a name one that people give the number of a process among those of its machine?"""
    return name.lower().replace("_", "").replace("-", "").endswith(("localrank", "localprocessindex"))


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


def is_layer_name(name: str) -> bool:
    """Is a class out of sight called like a layer?"""
    return _LAYER.match(name) is not None


def is_set_up(path: str, source: Source) -> bool:
    """Is what has this name set up as only networks are: `net.parameters()`, `net.eval()`?"""
    return path in _networks(source)


@remembered
def _networks(source: Source) -> frozenset[str]:
    saved = set(_SAVED.findall(source.text))  # so are optimizers, which nobody calls
    called = {_METHOD.sub("", source.code(one.func)) for one in source.calls} if saved else set[str]()
    first = [
        (source.code(one.func).rpartition(".")[2], source.code(one.args[0]))
        for one in source.calls
        if one.args
    ]
    given = {one for name, one in first if computes(name)}
    averaged = {one.removesuffix(".parameters()") for name, one in first if is_average(name)}
    used = {*_NETWORK_USE.findall(source.text), *filter(is_module_name, given)}
    used |= set(_PART_USE.findall(source.text)) & set(_MOVED.findall(source.text))
    return frozenset(used | averaged | (saved & (called | given)))


def may_place(maker: str) -> bool:
    """May a function or class out of sight move what it makes, by its name?"""
    return _PLACES.search(maker) is not None


def builds_any(maker: str) -> bool:
    """Is it a function that may make any network, as the program's options say?"""
    return not maker[:1].isupper() and _BUILDS.search(maker) is not None


def is_told_a_device(call: ast.Call, source: Source) -> bool:
    """Is a device among the arguments, or anything that may hold one? Or is all inside a `with` on some device?"""
    around = source.enclosing(call, ast.With)
    for item in around.items if isinstance(around, ast.With) else ():
        if _TOLD.search(source.code(item.context_expr)):
            return True
    for one in (*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is not None)):
        text = ast.unparse(one)
        if isinstance(one, ast.Starred) or _TOLD.search(text) or text == "self":
            return True
        if _OPTIONS.match(text) and _holds_device(text, source):
            return True
    return any(_TOLD.search(one.arg or "") for one in call.keywords) or unpacks_device(call, source)


def unpacks_device(call: ast.Call, source: Source) -> bool:
    """May a device be among the keywords that a call gets as `**options`?"""
    texts = [ast.unparse(one.value) for one in call.keywords if one.arg is None]
    return any(_TOLD.search(one) or one in _collected(source) or _holds_device(one, source) for one in texts)


def _holds_device(options: str, source: Source) -> bool:
    """Does a file read or set a device among options?"""
    return re.search(_HELD.format(re.escape(options)), source.text, re.IGNORECASE) is not None


@remembered
def _collected(source: Source) -> frozenset[str]:
    """The names in which functions collect keywords that nobody else has."""
    given = (one.args.kwarg for one in source.of_kind(ast.FunctionDef))
    return frozenset(one.arg for one in given if one is not None)


def is_class_name(name: str) -> bool:
    """Is it called like a class, or like a variable that holds one?"""
    return name[:1].isupper() or name.endswith("_class")


def is_option(text: str) -> bool:
    """Is it called like what holds the options of a program?"""
    return _OPTIONS.match(text) is not None


def last_word(name: str) -> str:
    """The last word of the name of a class: `Kernel` of `MaternKernel`."""
    found = _WORD.search(name)
    return found.group() if found is not None else ""


def may_hold_no_weights(name: str) -> bool:
    """Is a class, by its name, one of those that are kept beside modules, and are none?"""
    return _NO_MODULE.search(name) is not None


def is_optimizer(name: str) -> bool:
    """Is a class out of sight called like an optimizer with state?"""
    return _OPTIMIZER.match(name) is not None


def is_average(name: str) -> bool:
    """Is a class called like those that keep an average of the weights of a module?"""
    return _AVERAGE.match(name) is not None


def is_loss(name: str) -> bool:
    """Is a class out of sight one of losses, by its name? Few have weights."""
    low = name.rpartition(".")[2].lower()
    return "loss" in low or "criterion" in low


def is_measure(function: str) -> bool:
    """Is it a function that people call with what networks give: a loss, a metric?"""
    return any(word in function for word in ("loss", "metric", "score", "similarity"))


def makes_no_module(name: str) -> bool:
    """Does something out of sight make functions, transforms, or what has nothing to train, by its name?"""
    return _NO_LAYER.search(name) is not None


def is_module_name(name: str) -> bool:
    return name in _MODULE_NAMES or name.endswith(("_model", "_net"))


def is_test(path: str, name: str) -> bool:
    """Is it a function that pytest takes for a test: by its name, and that of its file?"""
    return name.startswith("test") and _is_of_pytest(path)


def _is_of_pytest(path: str) -> bool:
    file = path.replace("\\", "/").rpartition("/")[2]
    return file.startswith("test_") or file.endswith("_test.py")


def is_cpu_program(source: Source, path: str) -> bool:
    """Is it a program, a notebook or a file of tests that names no device? All that it makes is on the CPU."""
    return _names_no_device(source) and (
        path.endswith(".ipynb") or _is_of_pytest(path) or _is_program(source)
    )


@remembered
def trains_on_cpu(source: Source) -> bool:
    """Does a file train or export, and name no device? It is a program, or written for one like that."""
    return _names_no_device(source) and _TRAINING.search(_COMMENT.sub("", source.text)) is not None


@remembered
def _names_no_device(source: Source) -> bool:
    return not _DEVICE_WORD.search(_COMMENT.sub("", source.text))


@remembered
def _is_program(source: Source) -> bool:
    return _PROGRAM.search(_COMMENT.sub("", source.text)) is not None


def prepares_data(*names: str) -> bool:
    """Is a class one that works on data before it is anywhere, as its name or that of its base says?"""
    return any(_OF_DATA.search(one) for one in names)


def is_loader_name(name: str) -> bool:
    return name.endswith("loader")  # several, of "loaders", yield loaders


def prepares_inputs(path: str) -> bool:
    """Does a function out of sight make inputs of a model, on the CPU, as its name says?"""
    return _PREPARES.search(path) is not None


def runs_module(name: str, *, is_method: bool) -> bool:
    """Does a method of a module, or a function that is given one, run it on its other inputs, as its name says?"""
    return (_RUNS if is_method else _RUNNERS).search(name) is not None


def is_batch_name(path: str) -> bool:
    """Is a name one that people give what a loader or a tokenizer yields?"""
    return path.rpartition(".")[2].lower().endswith(_BATCHES)


def is_count(node: ast.AST) -> bool:
    """Is an argument called like lengths or sizes, which whoever takes them may want on the CPU?"""
    return isinstance(node, ast.Name) and _COUNTS.search(node.id) is not None


def runs_on_its_own(name: str) -> bool:
    """Is a function one that nobody calls with a module of his own: a test, an example, the program itself?"""
    return name.lstrip("_").startswith(("test", "example")) or name == "main"


def is_labels_name(name: str) -> bool:
    """Is a name one that people give tensors of indices?"""
    return _LABELS.search(name) is not None


def is_loss_name(path: str) -> bool:
    """Is what is called by a path called like a loss?"""
    return _LOSS.search(path.rpartition(".")[2]) is not None


def about_devices(condition: object) -> bool:
    """Does a condition ask for a device or an accelerator, by the words of its text?"""
    if isinstance(condition, tuple):
        return any(about_devices(one) for one in condition)
    text = condition.lower() if isinstance(condition, str) else ""
    return any(word in text for word in _DEVICE_WORDS)


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
    if asks_how_many(low):
        return False  # there may be one
    return not holds and any(word in low for word in ("cuda", "gpu", "accelerat", "is_available"))


def may_bring_to_host(path: str, source: Source) -> bool:
    """May what is called out of sight give something on the CPU? Modules that the file sets up, and imports, do not.

    Its name may suggest so; of an object that the file does not move, train or load nothing is known.
    """
    base, _, last = path.rpartition(".")
    if _TO_HOST.search(last):
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
