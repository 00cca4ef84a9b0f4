"""What names say of loaded data: of paths, of what it is bound to and goes into, and of the functions around."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache

# What is said -> the words that say it; `(?i)`: in any case.
_WORDS = {
    # Entries of a checkpoint: numbers, options or texts; what is a state in spite of that; what only checkpoints have.
    "numbers": r"(?i)epoch|step|iter|best|loss|acc|score|metric|args|opts?$|config|cfg|hparam|hyper|seed|version|vocab|"
    r"dict|classes|labels?$|names?$|arch|lr$|date|time|info|meta|history|settings|kwargs|logger",
    "tensors": r"(?i)state|weights|optim|(?:model|net|params|ema|module|generator)$",
    "entry": r"^(?:\w*state_?dict|model|optimizer|params_ema|module|generator|weights)$",
    # What is bound: numbers and texts about a checkpoint, its state.
    "about": r"(?i)metadata|manifest|kwargs|^args|config",
    "state": r"state_?dict$|(?:^|_)sd$",
    # At the call: a checkpoint, also beside words of data (`data_dir + "/checkpoint.pt"`), or data.
    "checkpoint": r"(?i)ckpt|checkpoint|check_point|weight|state|snapshot|pre_?train|resume|restore|model|netg\b|"
    r"netd\b|network|generator|discriminator|encoder|decoder|adapter|lora|optim|unet|vae\b|backbone|\.pth|\.ckpt|params",
    "surely": r"(?i)ckpt|checkpoint|weights|state_?dict|pre_?train|(?<![a-z])model(?!s?/)|snapshot",
    "data": r"(?i)vocab|data|token|lexicon|fields|transforms|meta|triples|graph|sample|feature|feat\b|index|label|"
    r"stats|statistic|cache|corpus|split|shard|record|history|loss|metric|config|speaker|prompt|image|video|audio|"
    r"indices|centroid|assign|mask",
    # Functions that load (Lightning sees to its own), that put a state into something, change it and give it back, or
    # write it to a file.
    "loads": r"^_?(?:load|restore|resume)_(?!state_dict$|from_checkpoint$)\w",
    "restores": r"load_(?:\w{1,80}_)?(?:state|weights|params|parameters)|set_\w{0,80}state|load_from_state|"
    r"restore_state|load_ema",
    "adapts": r"convert|rename|remap|map_|strip|filter|clean|resize|interpolate|adapt|translate|fix|replace|remove",
    "writes": r"(?:^|\.)(?:save|save_file|save_pretrained|dump|savez|asarray|export|write\w{0,99})$",
    # Objects with a state: numbers only, tensors that they may keep as they are, those of torch's that copy them.
    "counts": r"(?i)sched|(?:^|[._])(?:grad_?|amp_?|loss_?)?scaler(?:\.|$)",
    "keeps": r"(?i)ema|shadow|average|obj\b|self$|"
    r"(?:^|[._])_?(?:transforms?|samplers?|storages?|writers?|replay_buffers?)$",
    "optimizer": r"(?i)optim|(?:^|[._])opt(?:$|_)",
    "copies": r"(?i)model|net|module|encoder|decoder|generator|discriminator|critic|actor|policy|agent|head|backbone|"
    r"embed|layer|conv|classifier|vae|gan|unet|transformer|bert|lstm|vgg|resnet|sched|scaler|criterion|loss|q_func",
    # What trains, so that what is loaded below is of this run, and what has been downloaded.
    "trains": r"^(?:run_|do_)?train(?:ing)?(?:_\w+)?$|^fit(?:_\w+)?$|^\w+_train$",
    "steps": r"\.(?:fit|backward|train_model|train_epoch|run_training|train_one_epoch)$|"
    r"(?:\boptim\w{0,99}|stop\w{0,99})\.step$|(?i:trainer)\w{0,99}\.(?:train|run)$",
    "fetches": r"download\w{0,99}$|from_url$|(?:^|\.)(?:cached_path|urlretrieve)$|wget\w{0,99}$|"
    r"(?:^|\.)gdown\.\w{1,99}$",
    "finds": r"(?:^|\.)(?:get|fetch|download|cached?|ensure|resolve)_?\w{0,99}(?:file|path|model|weight|ckpt|"
    r"checkpoint)\w{0,99}$",
    "runs": r"(?:^|\.)(?:system|popen|run|call|check_call|check_output|Popen)$",
    # Files: published, by a condition or a folder; converted from elsewhere, or without tensors, as those of TensorRT.
    "pretrained": r"(?i)\bpre_?train(?:ed)?\b|\bload_weights\b",
    "folder": r"(?i)(?:^|[^a-z])pre_?trained?(?:[^a-z]|$)",
    "elsewhere": r"(?i)(?:^|[^a-z])init_?(?:model|net|weights?|ckpt|checkpoint)|"
    r"imagenet_?(?:model|weights?|ckpt)|trt|tensorrt",
    "best": r"(?i)best|early_?stop",
    "process": r"(?:^|_)rank$|^process_index$|^get_(?:\w+_)?rank$",
    # Classes of tests, or of data before it is anywhere.
    "apart": r"TestCase|^Test|Tests?$|Tester|(?:Dataset|DataModule|DataPipe|Sampler|Collator|Transform)\w{0,99}$",
    # Conditions that hold only where there is a GPU.
    "gpu": r"^(?!not ).*(?:cuda\.is_available\(\)|\b(?:use_|opt\.|args\.)(?:cuda|gpu)\b(?! is))",
}  # fmt: skip
_PATTERNS = {what: re.compile(words) for what, words in _WORDS.items()}


@lru_cache(10_000)
def says(what: str, name: Hashable) -> bool:
    """Does a name, a path or a text say one of the things above of itself?"""
    return isinstance(name, str) and _PATTERNS[what].search(name) is not None


def holds_numbers(key: object) -> bool:
    """Has an entry of a checkpoint no tensors, as it is called?"""
    return says("numbers", key) and not says("tensors", key)


def is_of_states(words: str, around: str = "") -> bool | None:
    """Is it a checkpoint that is loaded, as the words at the call say, or the function `around`? None: nothing says so.

    False: they say that it is data.
    """
    if says("surely", words):
        return True
    if says("data", words):
        return False
    named = says("checkpoint", words) or (says("checkpoint", around) and not says("data", around))
    return named or None
