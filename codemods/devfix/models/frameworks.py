"""Who owns placement: frameworks that move models or batches themselves.

What a framework owns is left alone; what it is not given still needs a move.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Owner:
    """A framework's object that places what it is given.

    - `places`: methods that return their arguments, placed on its device.
    - `takes`: methods that place a model while they run; it may be anywhere afterwards.
    - `gives`: methods that return loaders whose batches are placed.
    - `switch`: the argument that turns placement off where it is False.
    """

    places: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    switch: str = ""


_ACCELERATOR = Owner(
    frozenset({"prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer"}),
    switch="device_placement",
)
_FABRIC = Owner(
    frozenset({"setup", "setup_module", "setup_dataloaders", "setup_optimizers", "to_device"}),
    switch="move_to_device",
)
_TRAINER = Owner(
    gives=frozenset({"get_train_dataloader", "get_eval_dataloader", "get_test_dataloader"}),
)
_LIGHTNING = Owner(takes=frozenset({"fit", "validate", "test", "predict", "tune"}))
OWNERS = {
    "accelerate.Accelerator": _ACCELERATOR,
    "accelerate.accelerator.Accelerator": _ACCELERATOR,
    "lightning.Fabric": _FABRIC,
    "lightning.fabric.Fabric": _FABRIC,
    "lightning_fabric.Fabric": _FABRIC,
    "transformers.Trainer": _TRAINER,
    "transformers.Seq2SeqTrainer": _TRAINER,
    "lightning.Trainer": _LIGHTNING,
    "lightning.pytorch.Trainer": _LIGHTNING,
    "pytorch_lightning.Trainer": _LIGHTNING,
}
# Methods with names of their own: where the object is out of sight, the name tells.
PLACING_METHODS = _ACCELERATOR.places | (_FABRIC.places - {"setup"}) | _TRAINER.gives | {"per_device_loader"}
# Packages whose trainers, learners and pipelines move the model that they are made with ...
OWNING_PACKAGES = frozenset(
    {"transformers", "trl", "fastai", "skorch", "composer", "sentence_transformers", "setfit", "speechbrain"}
)
_OWNING_CLASSES = ("Trainer", "Learner", "Pipeline", "pipeline", "NeuralNet", "Brain")
# ... and functions that place a module in place, hooks included; their result is placed as well.
OWNING_CALLS = frozenset(
    {
        "accelerate.dispatch_model",
        "accelerate.load_checkpoint_and_dispatch",
        "accelerate.cpu_offload",
        "accelerate.disk_offload",
        "accelerate.big_modeling.disk_offload",
        "accelerate.big_modeling.dispatch_model",
        "accelerate.big_modeling.load_checkpoint_and_dispatch",
        "accelerate.big_modeling.cpu_offload",
        "colossalai.initialize",
        "deepspeed.init_inference",
        "diffusers.hooks.apply_group_offloading",
        "ignite.distributed.auto_model",
        "torch.distributed.fsdp.fully_shard",
        "torch.distributed._composable.fsdp.fully_shard",
    }
)
# Loaders that put their batches on the device.
OWNING_LOADERS = frozenset(
    {
        "dgl.graphbolt.DataLoader",
        "torch_xla.distributed.parallel_loader.MpDeviceLoader",
        "torch_xla.distributed.parallel_loader.ParallelLoader",
    }
)
# ... and functions that make such loaders: timm's, which programs copy under its name.
LOADER_MAKERS = frozenset({"create_loader"})
# Return an engine, an optimizer, a loader and a scheduler: the engine is on its own device, while
# batches, those of its loader too, are moved by hand.
ENGINES = frozenset({"deepspeed.initialize"})
# Methods of a module that hook it: it moves itself and its inputs.
HOOKING_METHODS = frozenset(
    {"enable_model_cpu_offload", "enable_sequential_cpu_offload", "enable_group_offload"}
)
# Calls that give the device of the process.
DEVICE_CALLS = frozenset(
    {
        "ignite.distributed.device",
        "torch_xla.core.xla_model.xla_device",
        "torch_xla.device",
    }
)
# Packages that start the processes of a program, or set their devices.
PROCESS_OWNERS = frozenset(
    {
        "accelerate",
        "bmtrain",
        "colossalai",
        "composer",
        "deepspeed",
        "horovod",
        "ignite",
        "lightning",
        "lightning_fabric",
        "mmcv",
        "mmengine",
        "pytorch_lightning",
        "ray",
        "smdistributed",
        "torch_xla",
    }
)


def owns_processes(imported: str) -> bool:
    """Does importing this tell that a framework sets the devices of the processes?"""
    root, last = imported.partition(".")[0], imported.rpartition(".")[2]
    return root in PROCESS_OWNERS or (
        root in OWNING_PACKAGES and last.endswith(("Trainer", "TrainingArguments"))
    )


# Bases whose methods run with model and batch already placed: all of the class is owned.
OWNED_BASES = frozenset(
    {
        "LightningModule",
        "LightningDataModule",
        "Trainer",
        "Seq2SeqTrainer",
        "SFTTrainer",
        "DPOTrainer",
        "Learner",
        "Callback",
        "ClassificationTask",
        "ComposerModel",
        "StandardUpdater",
        "FairseqTask",
        "FairseqCriterion",
        "BaseModelModule",
        "KerasModel",
    }
)
# Packages whose runners prepare model and loaders: `handle_batch` gets what is in place, `predict_batch` moves its own
# (https://catalyst-team.github.io/catalyst/faq/inference.html, https://github.com/InterDigitalInc/CompressAI-Trainer).
_RUNNING_PACKAGES = frozenset({"catalyst", "compressai_trainer"})
# Of the bases, those that are modules; the methods that get a batch where the module is.
OWNED_MODULES = frozenset({"LightningModule", "ComposerModel"})
STEPS = frozenset({"training_step", "validation_step", "test_step", "predict_step"})
# Hooks of a LightningModule that may run before it is moved: `setup`, `configure_*` and the loaders
# (https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks).
_BEFORE_PLACEMENT = re.compile(r"__init__|prepare_data|setup|configure_\w+|\w+_dataloader")
# Code that runs in loader workers or prepares data: it stays on the CPU on purpose.
HOST_BASES = ("Dataset", "IterableDataset", "Sampler", "BatchSampler", "DataPipe", "Collator", "Transform")
HOST_FUNCTIONS = ("collate", "worker_init", "_transform", "preprocess", "pre_process", "prepare_data")


def runs_before_placement(method: str) -> bool:
    """Is a method of a module, by its name, one that a framework calls before it moves the module?"""
    return _BEFORE_PLACEMENT.fullmatch(method) is not None


def owns_models(name: str) -> bool:
    """Does calling this place the modules that it is given?"""
    if name in OWNING_CALLS:
        return True
    return name.partition(".")[0] in OWNING_PACKAGES and name.endswith(_OWNING_CLASSES)


def owns_subclasses(base: str) -> bool:
    """Do methods of a class with this base, by its qualified name, find all in place?"""
    root, _, _ = base.partition(".")
    if root in _RUNNING_PACKAGES and base.endswith("Runner"):
        return True
    return base.rpartition(".")[2] in OWNED_BASES or (
        root in OWNING_PACKAGES and base.endswith(("Trainer", "Learner"))
    )


# Importing one of these says that the file is for NVIDIA's devices alone.
CUDA_LIBRARIES = (
    "tensorrt",
    "transformer_engine",
    "msamp",
    "apex",
    "pycuda",
    "cupy",
    "numba.cuda",
    "pynvml",
    "cuda.",
)
# Progress bars, which give what they are given, also as contexts.
PROGRESS_BARS = frozenset({"tqdm", "trange"})
