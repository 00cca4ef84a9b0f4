"""Who owns placement: frameworks that move models or batches themselves.

What a framework owns is left alone; what it is not given still needs a move.
"""

from __future__ import annotations

# Objects whose `prepare`-like methods place what they are given.
OWNERS = {
    "accelerate.Accelerator": ("prepare", "prepare_model", "prepare_data_loader", "prepare_optimizer"),
    "lightning.Fabric": ("setup", "setup_module", "setup_dataloaders", "to_device"),
    "lightning.fabric.Fabric": ("setup", "setup_module", "setup_dataloaders", "to_device"),
    "lightning_fabric.Fabric": ("setup", "setup_module", "setup_dataloaders", "to_device"),
}
# Calls that return something placed by themselves.
OWNING_CALLS = frozenset({"deepspeed.initialize", "deepspeed.init_inference", "colossalai.initialize"})
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
# Code that runs in loader workers or prepares data: it stays on the CPU on purpose.
HOST_BASES = ("Dataset", "IterableDataset", "Sampler", "BatchSampler", "DataPipe", "Collator", "Transform")
HOST_FUNCTIONS = ("collate", "worker_init", "_transform", "preprocess", "pre_process", "prepare_data")
# Keyword arguments that hand placement of a model to a library.
OWNING_ARGUMENTS = frozenset({"device_map", "load_in_8bit", "load_in_4bit", "quantization_config"})
