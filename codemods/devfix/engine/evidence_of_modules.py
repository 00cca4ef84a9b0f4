"""What names and uses say of modules out of sight: of what makes them, and of what is made."""

from __future__ import annotations

import ast
import re
from functools import cache

from devfix.engine.evidence import computes, is_module_name
from devfix.text.source import Source, remembered

_LAYER = re.compile(
    r"^[A-Z]\w*(?:Layer|Linear|Head|Conv|Embedding|Adapter|Classifier|Projection|Projector|MLP|Block|Encoder|Decoder|"
    r"Attention|Norm|LSTM|GRU|Net|Unit|Stage|Bottleneck|FeedForward)s?(?:\dd)?$|^[A-Z]\w*Conv\w*$"
)
# Calls, and below what they are called of: these begin with a character that is found fast.
_NETWORK_USE = re.compile(r"\.(?:parameters|named_parameters|train|eval)\(")
_PART_USE = re.compile(r"\.\w+\.(?:parameters|named_parameters|train|eval)\(")
_MOVED = re.compile(r"\.(?:to|cuda)\(")
_SAVED = re.compile(r"\.(?:load_)?state_dict\(")
_OBJECT = re.compile(r"(?<![\w.])(?:self\.)?\w{1,99}$")
_LONGEST = 99  # characters of a name
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
_NETWORK = re.compile(
    r"^[A-Z]\w*(?:Net|Network|Discriminator|Backbone|Critic|Actor|Autoencoder|AutoEncoder|VAE|GPT|BERT|ViT|LSTM|GRU|"
    r"RNN|CNN|MLP|GAN|GCN|GAT|VGG|LPIPS)(?:\d\w{0,3})?$|^(?:VGG|Vgg|ResNet|UNet|GPT|Bert|LPIPS)\w*$"
)
_NO_LAYER = re.compile(
    r"act|func|fn|transform|augment|token|metric|accuracy|measure|score|sampl|loss|optim|sched|param|path|config|size|"
    r"dim|shape|format|split|hook|tensor|array|join|drop_?|relu|pool|identity|upsampl|interpol|pad|partial|compose",
    re.IGNORECASE,
)
_OPTIMIZER = re.compile(
    r"^\w{0,99}(?:Adam|SGD|RMSprop|Adagrad|Adadelta|LAMB|Lion|Adafactor|ASGD|Rprop)\w{0,99}$"
)
_SIZE = re.compile(
    r"(?:_features|_channels|_size|_dim|_dims|_heads|_embeddings|_classes|_layers)$|^(?:d_model|n_\w+|num_\w+|stride|"
    r"padding|dilation|groups|bias|config|cfg|eps|p|dim|training)$"
)
_WORD = re.compile(r"[A-Z][a-z0-9]+$|[A-Z]+$")
_NO_NETWORK = re.compile(
    r"Loader|Dataset|Sampler|Optim|Scheduler|Tokenizer|Processor|Config|Extractor|Pipeline"
)
_NO_MODULE = re.compile(r"Loader|Dataset|Sampler|Optim|Scheduler|Writer|Tokenizer|Processor|Config")


def makes_module(maker: str) -> bool:
    """Does a class out of sight make a layer, or load a network, as its name says?"""
    loaded = maker.endswith((".from_pretrained", ".from_config"))
    name = class_of(maker)
    if _NO_NETWORK.search(name) is not None:
        return False
    return is_layer_name(name) or (loaded and name[:1].isupper())


@cache
def is_size_name(name: str) -> bool:
    """Is an attribute of a module called like a number: `in_features`, `hidden_size`?"""
    return _SIZE.search(name) is not None


_LAYERS = re.compile(
    r"(?:^|_)(?:layers|blocks|modules|flows|heads|stages|experts|nets|networks|encoders|decoders|convs|branches)$"
)
_PLACING = re.compile(
    r"(?:^|_)(?:prepare|prepare_model|fit|initialize|init_inference|setup|to_device|dispatch_model|learner|engine|"
    r"load_checkpoint_and_dispatch|cpu_offload|move_to\w*)$|trainer$",
    re.IGNORECASE,
)
_PLACEMENT = re.compile(
    r"dist|rank|parallel|half|fp16|amp|ddp|fsdp|deepspeed|accelerat|offload|quant|load_in|vram|world|not in|None",
    re.IGNORECASE,
)


def holds_layers(name: str) -> bool:
    """Is an argument called like several modules?"""
    return _LAYERS.search(name) is not None


def is_layer_name(name: str) -> bool:
    """Is a class out of sight called like a layer?"""
    return _LAYER.match(name) is not None


def is_network_name(name: str) -> bool:
    """Is a class out of sight called like a whole network: `Vgg16`, `UNet`?"""
    return _NETWORK.search(name) is not None and _NO_NETWORK.search(name) is None


def scatters_inputs(maker: str) -> bool:
    """Is a class out of sight one that hands parts of its inputs to several GPUs, as its name says?"""
    return re.search(r"(?<!Distributed)DataParallel", maker.rpartition(".")[2]) is not None


def is_set_up(path: str, source: Source) -> bool:
    """Is what has this name set up as only networks are: `net.parameters()`, `net.eval()`?"""
    return path in _networks(source)


@remembered
def _networks(source: Source) -> frozenset[str]:
    saved = _called_of(_SAVED, source.text)  # so are optimizers, which nobody calls
    called = {_METHOD.sub("", source.code(one.func)) for one in source.calls} if saved else set[str]()
    given, averaged = set[str](), set[str]()
    for one in source.calls:
        if one.args:
            name = getattr(one.func, "attr", "") or source.code(one.func).rpartition(".")[2]
            if computes(name):
                given.add(source.code(one.args[0]))
            if is_average(name):
                averaged.add(source.code(one.args[0]).removesuffix(".parameters()"))
    used = _called_of(_NETWORK_USE, source.text).union(filter(is_module_name, given))
    used |= _called_of(_PART_USE, source.text) & _called_of(_MOVED, source.text)
    return frozenset(used | averaged | (saved & (called | given | _handed(source, used) if saved else saved)))


def _handed(source: Source, networks: set[str]) -> set[str]:
    """What is passed to functions of the file for parameters that are networks there."""
    names = {one.name: [arg.arg for arg in one.args.args] for one in source.of_kind(ast.FunctionDef)}
    calls = [(one, names.get(getattr(one.func, "id", ""), ())) for one in source.calls]
    pairs = (pair for call, given in calls for pair in zip(call.args, given, strict=False))
    return {source.code(at) for at, name in pairs if name in networks}


def _called_of(method: re.Pattern[str], text: str) -> set[str]:
    """The names, also those of attributes of `self`, that stand before a call."""
    ends = [one.start() for one in method.finditer(text)]
    found = [_OBJECT.search(text, max(0, end - _LONGEST), end) for end in ends]
    return {one[0] for one in found if one is not None}


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


def class_of(maker: str) -> str:
    """The class of what is made: `Net` of `models.Net`, and of `Net.from_pretrained`."""
    return maker.removesuffix(".from_pretrained").rpartition(".")[2]


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


@cache
def is_optimizer(name: str) -> bool:
    """Is a class out of sight called like an optimizer with state?"""
    return _OPTIMIZER.match(name) is not None


@cache
def is_average(name: str) -> bool:
    """Is a class called like those that keep an average of the weights of a module?"""
    return _AVERAGE.match(name) is not None


@cache
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


def places_modules(function: str) -> bool:
    """Does a function out of sight place the module that it is handed, by its name?"""
    return _PLACING.search(function) is not None


def is_about_placement(test: str) -> bool:
    """May a condition be about where a module is, or about who moves it, by the names in it?"""
    return _PLACEMENT.search(test) is not None


def keeps_what_it_loads(maker: str) -> bool:
    """Does the `load_state_dict` of a class take tensors as they are? That of diffusers' average of weights does."""
    return class_of(maker) == "EMAModel"
