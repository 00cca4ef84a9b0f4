"""Does a module have weights or buffers at all? Most losses have none, and are anywhere at home."""

from __future__ import annotations

import ast
import re

from devfix.flow import Flow, torch_api
from devfix.flow.evidence import looks_like_loss, looks_like_network
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.source import Source, remembered

# Libraries whose modules mostly have no weights, or find their device themselves.
_ELSEWHERE = (
    "kornia.",
    "sentence_transformers.",
    "ultralytics.",
    "flair.",
    "easyocr.",
    "whisper",
    "onnxruntime.",
)
_WEIGHTLESS = re.compile(
    r"Aug|Transform(?!er)|Normali[sz]e|Pipeline|Sampler|Scheduler|Processor|Tokenizer|Wrapper|SentenceTransformer|"
    r"CrossEncoder|YOLO|Policy|Agent|Trainer|Runner|Env$|Config|Session|Client|Accelerator"
)
# Transforms of torchaudio that are functions with options.
_PLAIN_TRANSFORMS = frozenset(
    {"AmplitudeToDB", "ComputeDeltas", "Fade", "FrequencyMasking", "Loudness", "MuLawDecoding", "MuLawEncoding",
     "Preemphasis", "Deemphasis", "SlidingWindowCmn", "TimeMasking", "Vad",
     "Vol", "AddNoise", "Convolve", "FFTConvolve", "SpecAugment"}
)  # fmt: skip
_MODEL = re.compile(r"(?:^|[._])(?:models?|nets?|networks?|encoder|decoder|backbone|modules?)$")
# What is done with modules that have weights.
_WEIGHTED_USES = (
    "parameters(", "named_parameters(", "state_dict(", "load_state_dict(", "requires_grad_(", "train(", "eval("
)  # fmt: skip
_LAYER = re.compile(
    r"^[A-Z]\w*(?:Conv|Linear|Layer|Block|Attention|Embedding|Encoder|Decoder|Head|Net|MLP)s?\d*d?$"
)
_HOLDING = ("register_buffer", "register_parameter", "Parameter", "UninitializedParameter", "Buffer")


def maker(flow: Flow, made: ast.expr) -> ast.Call | None:
    """The constructor call of a module: of a copy that of the original, of a chain of methods its root."""
    node = flow.value(made).node
    if isinstance(node, ast.Call):
        return node
    while not isinstance(made, ast.Name):
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and _calls(made.func):
            made = made.func.value  # `Net().eval()`
        elif isinstance(made, (ast.Attribute, ast.Subscript)):
            made = made.value  # `vgg16().features[:16]`
        else:
            break
    return made if isinstance(made, ast.Call) else None


def _calls(node: ast.expr) -> bool:
    """Is there a call further down the chain?"""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Call)


def weighted(flow: Flow, made: ast.expr, path: str = "") -> bool:
    """Is there something in the module that must be where its inputs are? False where nobody can tell.

    `path` is the name of the module; what is done with it tells, too.
    """
    call = maker(flow, made)
    if call is None:
        return False
    name = flow.source.qualified(call.func) or path_of(call.func)
    last = name.rpartition(".")[2]
    if name in torch_api.WEIGHTED_LOSSES:
        given = [flow.value(k.value) for k in call.keywords if k.arg in ("weight", "pos_weight")]
        given += [flow.value(argument) for argument in call.args[:1]]
        return any(v.kind is Kind.TENSOR and v.form != "scalar" for v in given)
    if name.startswith("torch.nn."):
        bare = name in torch_api.BARE_MODULES or last in ("ModuleList", "ModuleDict")
        return not bare and not looks_like_loss(last) and "Loss" not in last
    owner = next(
        (d for d in flow.source.definitions if d.name == last and isinstance(d, ast.ClassDef)),
        None,
    )
    if owner is not None:
        return _class_weighted(flow, owner, 0)
    if any(_MODEL.search(path_of(argument)) for argument in call.args):
        return False  # made around another module: it is where that is
    if name.startswith(_ELSEWHERE) or _WEIGHTLESS.search(last) or _plain_transform(name):
        return False
    if looks_like_loss(last) or "Loss" in last or "Criterion" in last:
        return False
    if name.startswith(("torchvision.models.", *torch_api.LIBRARY_MODULES)) or last.startswith("from_"):
        return True
    text = flow.source.text
    return looks_like_network(last) or any(f"{path}.{use}" in text for use in _WEIGHTED_USES if path)


def _plain_transform(name: str) -> bool:
    package, _, last = name.rpartition(".")
    return package == "torchaudio.transforms" and last in _PLAIN_TRANSFORMS


def _given(flow: Flow, call: ast.Call, owner: ast.ClassDef) -> bool:
    """Is the tensor of a buffer a parameter of the method, as it came?"""
    method = flow.source.enclosing(call, ast.FunctionDef)
    value = call.args[-1] if call.args else None
    if not isinstance(method, ast.FunctionDef) or not isinstance(value, ast.Name):
        return False
    arguments = method.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return value.id in names


def _class_weighted(flow: Flow, owner: ast.ClassDef, depth: int) -> bool:
    """Does a class of this file make layers, parameters or buffers?"""
    classes = {d.name: d for d in flow.source.definitions if isinstance(d, ast.ClassDef)}
    for base in owner.bases:
        last = path_of(base).rpartition(".")[2]
        if last in classes and depth < 4 and classes[last] is not owner:
            if _class_weighted(flow, classes[last], depth + 1):
                return True
    for node in flow.source.walk(owner):
        if not isinstance(node, ast.Call):
            continue
        name = flow.source.qualified(node.func) or path_of(node.func)
        last = name.rpartition(".")[2]
        if last in ("register_buffer", "Buffer") and _given(flow, node, owner):
            continue  # it is where the giver has it
        if last in _HOLDING or last in ("from_pretrained", "create_model"):
            return True
        if name.startswith(("torchvision.models.", "torch.hub.load", *torch_api.LIBRARY_MODULES)):
            return True
        if _LAYER.search(last) and not name.startswith("torch.") and last not in classes:
            return True
        if name.startswith("torch.nn.") and last[:1].isupper():
            if name in torch_api.BARE_MODULES or name in torch_api.WEIGHTED_LOSSES or "Loss" in last:
                continue
            if name in torch_api.CONTAINERS or "Pool" in last or "Pad" in last or "Upsample" in last:
                continue
            return True
        if last in classes and depth < 4 and classes[last] is not owner:
            if _class_weighted(flow, classes[last], depth + 1):
                return True
    return False


@remembered
def _classes(source: Source) -> dict[str, ast.ClassDef]:
    return {one.name: one for one in source.definitions if isinstance(one, ast.ClassDef)}


def in_view(flow: Flow, made: ast.expr) -> bool:
    """Is the class of a module known: one of torch's, or of this file?"""
    call = maker(flow, made)
    if call is None:
        return False
    name = flow.source.qualified(call.func) or path_of(call.func)
    if name.startswith(("torch.", "torchvision.models.", "torchaudio.transforms.")):
        return True
    classes = _classes(flow.source)
    line = [classes[name]] if name in classes else []
    for one in line:
        for base in one.bases:
            qualified = flow.source.qualified(base) or path_of(base)
            if qualified in classes and classes[qualified] not in line:
                line.append(classes[qualified])
            elif not qualified.startswith("torch.") and qualified not in classes:
                return False  # a base out of sight may place what it makes
    return bool(line)


def shared(source: Source, scope: ast.AST, name: str) -> bool:
    """Does another object get weights of a module: `loss.weight = layer.weight`? It may move them for both."""
    return name in _sharing(source, scope)


@remembered
def _sharing(source: Source, scope: ast.AST) -> frozenset[str]:
    return frozenset(
        path_of(node.value.value)
        for node in source.of_kind(ast.Assign, scope)
        if isinstance(node.value, ast.Attribute)
        and any(isinstance(target, ast.Attribute) for target in node.targets)
    )


# `cell.weight_hh.data = gru.weight_hh_l0.data`, `layer.weight = other.weight`
_TAKES = re.compile(r"\.(?:data|weight\w*|bias\w*)\s*=\s*\w+\.[\w.]*(?:data|weight|bias)")


def filled(source: Source, made: ast.expr) -> bool:
    """Is a module made by a function of the file that gives it the weights of another one, where those are?"""
    name = path_of(made.func).rpartition(".")[2] if isinstance(made, ast.Call) else ""
    return name in _taking(source)


@remembered
def _taking(source: Source) -> frozenset[str]:
    return frozenset(
        node.name
        for node in source.definitions
        if isinstance(node, ast.FunctionDef) and _TAKES.search(source.code(node))
    )
