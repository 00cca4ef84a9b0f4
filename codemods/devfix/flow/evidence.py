"""What names, annotations and uses say about a value whose making is out of sight.

Names alone are weak evidence: a value known only by its name is never `sure`.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property, lru_cache

from devfix.flow import torch_api
from devfix.source import Source

_DEVICE_NAME = re.compile(r"(?:^|[_.])(?:device|dev|gpu|device_id|local_rank)s?\d*$", re.IGNORECASE)
_LOADER_NAME = re.compile(r"(?:data_?)?loader(?!s)\w{0,99}$", re.IGNORECASE)
_MODULE_NAME = re.compile(
    r"(?:^|[_.])(?:model|net|network|encoder|decoder|generator|discriminator|classifier|backbone|unet|vae|"
    r"module|critic|actor|policy|net[dg])\d*$",
    re.IGNORECASE,
)
_PROCESSOR_NAME = re.compile(
    r"(?:^|[_.])(?:pre_?process(?:or|ing)?|image_processor|processor|tokenizer|feature_extractor)$",
    re.IGNORECASE,
)
_SETTINGS_NAME = re.compile(
    r"(?:^|[_.])(?:args|arguments|opts?|options|cfg|conf|config|h?params|settings|flags)\.device$"
)
_LOSS_NAME = re.compile(r"(?:^|[_.])(?:criterion|loss_?(?:fn|func|function|fct)?)$", re.IGNORECASE)
_PIPELINE_NAME = re.compile(r"(?:^|[_.])pipe(?:line)?s?\d*$|Pipeline\w{0,99}$", re.IGNORECASE)
_TOKENS_NAME = re.compile(r"(?:^|_)(?:tokenize|text_to_(?:token_)?ids|to_token_ids)$")
_NETWORK_NAME = re.compile(
    r"^[A-Z]\w*(?:Net|Network|Discriminator|Backbone|Critic|Actor|Autoencoder|AutoEncoder|VAE|GPT|BERT|ViT|LSTM|GRU|"
    r"RNN|CNN|MLP|GAN|GCN|GAT|VGG|LPIPS)(?:\d\w{0,3})?$|^(?:VGG|Vgg|ResNet|UNet|GPT|Bert|LPIPS)\w*$"
)
_SIZE_NAME = re.compile(
    r"(?:_features|_channels|_size|_dim|_dims|_heads|_embeddings|_classes|_layers)$|^(?:d_model|n_\w+|num_\w+|stride|"
    r"padding|dilation|groups|bias|config|cfg|eps|p|dim|training)$"
)
_ATTRIBUTE = re.compile(r"\.(\w+)")
# `x.to(`, `x.y["z"].cuda(`: the name in front; and what follows `in` in the line of a loop.
_MOVED = re.compile(r"(?<![\w.])(\w{1,99})(?=(?:\.\w{1,99}|\[[^\]\n]{0,200}\]){0,20}\.(?:to|cuda)\()")
_LOOPED = re.compile(r"\bfor\b[^\n]*?\bin\b([^\n]*)")
_NAME = re.compile(r"(?<![\w.])\w+")
# More than a module's `train` takes: that of a trainer.
_TRAINS = re.compile(r"\((?:[^(),]|\([^()]{0,200}\)){1,400},")
_TELLING = torch_api.MODULE_ONLY | torch_api.TENSOR_ONLY
_MODULE_ANNOTATION = re.compile(r"(?:^|\.)(?:Module|PreTrainedModel|\w+Model|\w+Net)$")
_TENSOR_ANNOTATION = re.compile(r"(?:^|\.)(?:Tensor|\w*Tensor)$")


# The same few names are asked for again and again.
_remembered = lru_cache(maxsize=4096)


@_remembered
def looks_like_device(path: str) -> bool:
    return bool(_DEVICE_NAME.search(path))


@_remembered
def looks_like_loader(path: str) -> bool:
    return bool(_LOADER_NAME.search(path))


@_remembered
def looks_like_module(path: str) -> bool:
    return bool(_MODULE_NAME.search(path))


@_remembered
def looks_like_settings(path: str) -> bool:
    """`args.device`: the device that a program was told, not the one of a tensor."""
    return bool(_SETTINGS_NAME.search(path))


@_remembered
def looks_like_loss(path: str) -> bool:
    """A criterion: it compares its arguments, so they must be in one place."""
    return bool(_LOSS_NAME.search(path))


@_remembered
def looks_like_pipeline(path: str) -> bool:
    """A pipeline of diffusers or transformers: it places its own inputs."""
    return bool(_PIPELINE_NAME.search(path))


@_remembered
def looks_like_network(name: str) -> bool:
    """The name of a class of whole networks: `Vgg16`, `UNet`, `TextEncoder`."""
    return bool(_NETWORK_NAME.search(name))


@_remembered
def looks_like_size(name: str) -> bool:
    """An attribute of a module that is a number: `in_features`, `hidden_size`."""
    return bool(_SIZE_NAME.search(name))


@_remembered
def looks_like_processor(path: str) -> bool:
    """Something that turns host data into the input of a model."""
    return bool(_PROCESSOR_NAME.search(path))


@_remembered
def makes_token_ids(name: str) -> bool:
    return bool(_TOKENS_NAME.search(name))


@_remembered
def makes_device_batches(name: str) -> bool:
    """Loader factories whose name says that they put batches on the device by themselves."""
    return "prefetch" in name.lower() or name[:1].isupper()


def tells_loaders(source: Source) -> bool:
    """Is a loader of the file told a device, `DataLoader(graph, ids, sampler, device=device)`?

    What parameters get that are called loaders may be one of these.
    """
    return "Loader(" in source.text and any(
        any(keyword.arg == "device" for keyword in call.keywords)
        and source.code(call.func).endswith("Loader")
        for call in source.calls
    )


def moves_inputs(code: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Does a method move something that it is given, so that callers need not? `code` is its text."""
    if ".to(" not in code and ".cuda(" not in code:
        return False
    arguments = node.args
    given = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    given += [one.arg for one in (arguments.vararg, arguments.kwarg) if one is not None]
    names = {name for name in given if name != "self"}
    for line in code.split("\n"):
        if ".to(" in line or ".cuda(" in line:
            if any(match.group(1) in names for match in _MOVED.finditer(line)):
                return True
        if "for" in line:
            looped = _LOOPED.search(line)
            if looped is not None and not names.isdisjoint(_NAME.findall(looped.group(1))):
                return True
    return False


def annotation_text(node: ast.expr | None) -> str:
    """The name an annotation comes down to: `Optional[torch.Tensor]`, `"nn.Module" | None` included."""
    while node is not None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value.partition("|")[0].strip()
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Subscript):
            head = annotation_text(node.value)
            if head.rpartition(".")[2] != "Optional":
                return head
            node = node.slice
        elif isinstance(node, ast.Attribute):
            return f"{annotation_text(node.value)}.{node.attr}"
        elif isinstance(node, ast.Name):
            return node.id
        else:
            return ""
    return ""


def annotated_kind(node: ast.expr | None) -> str:
    """'module', 'tensor', 'loader', 'device', 'string' or ''."""
    text = annotation_text(node)
    if not text:
        return ""
    if _MODULE_ANNOTATION.search(text):
        return "module"
    if _TENSOR_ANNOTATION.search(text):
        return "tensor"
    last = text.rpartition(".")[2]
    if last == "DataLoader":
        return "loader"
    if text in ("torch.device", "device"):
        return "device"
    return {"str": "string"}.get(text, "")


class Evidence:
    """Dotted names of one file by the attributes that are used on them."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @cached_property
    def _uses(self) -> dict[str, set[str]]:
        uses: dict[str, set[str]] = {}
        text = self._source.text
        # Looking for the few words that occur is several times faster than matching every dotted name.
        for attribute in _TELLING.intersection(_ATTRIBUTE.findall(text)):
            needle = f".{attribute}"
            at = text.find(needle)
            while at >= 0:
                end = at + len(needle)
                other = attribute == "train" and _TRAINS.match(text, end)
                if not (other or text[end : end + 1].isalnum() or text.startswith("_", end)):
                    start = at
                    while start and (text[start - 1].isalnum() or text[start - 1] in "._"):
                        start -= 1
                    uses.setdefault(text[start:at], set()).add(attribute)
                at = text.find(needle, end)
        return uses

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(
            path for path, uses in self._uses.items() if not torch_api.MODULE_ONLY.isdisjoint(uses)
        )

    def used_as_module(self, path: str) -> bool:
        return path in self._modules

    def used_as_tensor(self, path: str) -> bool:
        uses = self._uses.get(path, ())
        return path not in self._modules and not torch_api.TENSOR_ONLY.isdisjoint(uses)
