from dataclasses import dataclass, field

import torch


@dataclass
class Config:
    width: int = 12
    classes: int = 3
    device: str = field(default_factory=lambda: "cuda" if torch.cuda.is_available() else "cpu")
