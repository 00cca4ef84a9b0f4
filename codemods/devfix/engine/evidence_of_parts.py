"""What names say of modules: which classes are layers, and which functions place what they are given."""

from __future__ import annotations

import re

_LAYER = re.compile(
    r"(?:^|\.)[A-Z]\w*(?:Layer|Linear|Head|Conv\dd|Embedding|Adapter|Classifier|Projection|Projector|MLP)$"
)
_PLACES = re.compile(
    r"(?:^|_)(?:prepare|prepare_model|fit|initialize|init_inference|setup|to_device|dispatch_model|learner|engine|"
    r"load_checkpoint_and_dispatch|cpu_offload|move_to\w*)$|trainer$",
    re.IGNORECASE,
)


def is_layer_name(name: str) -> bool:
    """Is a class out of sight called like a layer: `LoRALinearLayer`, `ArcFaceHead`?"""
    return _LAYER.search(name) is not None


def places_modules(name: str) -> bool:
    """Does a function out of sight move the modules that it is given, as its name says?"""
    return _PLACES.search(name) is not None
