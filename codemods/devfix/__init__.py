"""devfix finds and repairs device bugs in PyTorch programs."""

__version__ = "0.1.0"
