"""default-device: what relies on a default, what it is told, and programs on which nothing is said."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.models.loader import models
from devfix.rules.default_device import DefaultDevice

RULE = DefaultDevice()
HEAD = "import torch\nfrom torch.utils.data import DataLoader, RandomSampler, random_split\n"
SET = 'torch.set_default_device("cuda")\n'
BOTH = 'if torch.cuda.is_available():\n    torch.set_default_device("cuda")\n'

# name: (before, after, safety), below HEAD
CHANGED = {
    "a generator": (
        f"{SET}g = torch.Generator()\nx = torch.randn(3, generator=g)\n",
        f'{SET}g = torch.Generator(device="cuda")\nx = torch.randn(3, generator=g)\n',
        Safety.SAFE,
    ),
    "a seeded generator, given at once": (
        f"{BOTH}x = torch.randperm(3, generator=torch.Generator().manual_seed(0))\n",
        f"{BOTH}x = torch.randperm(3, generator=torch.Generator(device=torch.get_default_device())"
        ".manual_seed(0))\n",
        Safety.SAFE,
    ),
    "a default by its name": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "torch.set_default_device(device)\ndef f(rows):\n    return DataLoader(rows, shuffle=True)\n",
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "torch.set_default_device(device)\ndef f(rows):\n"
        "    return DataLoader(rows, shuffle=True, generator=torch.Generator(device=device))\n",
        Safety.UNSAFE,
    ),
    "a default of the main function": (
        "def main(device, rows):\n    torch.set_default_device(device)\n    a, b = random_split(rows, [3, 3])\n",
        "def main(device, rows):\n    torch.set_default_device(device)\n    a, b = random_split(rows, [3, 3], "
        "generator=torch.Generator(device=torch.get_default_device()))\n",
        Safety.UNSAFE,
    ),
    "a default type": (
        'torch.set_default_tensor_type("torch.cuda.FloatTensor")\nloader = DataLoader([1], 1, True)\n',
        'torch.set_default_tensor_type("torch.cuda.FloatTensor")\n'
        'loader = DataLoader([1], 1, True, generator=torch.Generator(device="cuda"))\n',
        Safety.UNSAFE,
    ),
    "a default type where there is CUDA, else that of the CPU": (
        "if torch.cuda.is_available():\n    torch.set_default_tensor_type(torch.cuda.FloatTensor)\nelse:\n"
        "    torch.set_default_tensor_type(torch.FloatTensor)\nsampler = RandomSampler([1])\n",
        "if torch.cuda.is_available():\n    torch.set_default_tensor_type(torch.cuda.FloatTensor)\nelse:\n"
        "    torch.set_default_tensor_type(torch.FloatTensor)\n"
        "sampler = RandomSampler([1], generator=torch.Generator(device=torch.empty(0).device))\n",
        Safety.UNSAFE,
    ),
    "a default type that options choose": (
        "if torch.cuda.is_available():\n    if args.cuda:\n"
        "        torch.set_default_tensor_type('torch.cuda.FloatTensor')\n    if not args.cuda:\n"
        "        torch.set_default_tensor_type('torch.FloatTensor')\n"
        "def train(rows):\n    return DataLoader(rows, shuffle=True)\n",
        "if torch.cuda.is_available():\n    if args.cuda:\n"
        "        torch.set_default_tensor_type('torch.cuda.FloatTensor')\n    if not args.cuda:\n"
        "        torch.set_default_tensor_type('torch.FloatTensor')\n"
        "def train(rows):\n    return DataLoader(rows, shuffle=True, "
        "generator=torch.Generator(device=torch.empty(0).device))\n",
        Safety.UNSAFE,
    ),
    "an array": (
        f"{SET}ticks = torch.linspace(0, 1, 5)[1:].numpy()\n",
        f"{SET}ticks = torch.linspace(0, 1, 5)[1:].cpu().numpy()\n",
        Safety.SAFE,
    ),
    "a constructor whose default is the CPU": (
        "import open_clip\ndef f(device, x):\n    model, _, _ = open_clip.create_model_and_transforms('ViT')\n"
        "    return model(x.to(device))\n",
        "import open_clip\ndef f(device, x):\n"
        "    model, _, _ = open_clip.create_model_and_transforms('ViT', device=device)\n"
        "    return model(x.to(device))\n",
        Safety.UNSAFE,
    ),
    "a constructor whose default is CUDA": (
        "from sam2.build_sam import build_sam2\n"
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = build_sam2("c.yaml", "c.pt")\n',
        "from sam2.build_sam import build_sam2\n"
        'device = "cuda" if torch.cuda.is_available() else "cpu"\n'
        'model = build_sam2("c.yaml", "c.pt", device=device)\n',
        Safety.UNSAFE,
    ),
    "a constructor that chooses, and a device by number": (
        "from sentence_transformers import SentenceTransformer\n"
        'device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")\n'
        "model = SentenceTransformer('m')\n",
        "from sentence_transformers import SentenceTransformer\n"
        'device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")\n'
        "model = SentenceTransformer('m', device=device)\n",
        Safety.UNSAFE,
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    before, after, safety = CHANGED[name]
    (finding,) = findings(RULE, HEAD + before)
    assert finding.fix is not None and finding.fix.safety is safety
    assert fixed(RULE, HEAD + before) == HEAD + after
    assert findings(RULE, HEAD + after) == []


SILENT = {
    "the CPU": 'torch.set_default_device("cpu")\ng = torch.Generator()\nx = torch.randn(3, generator=g)\n',
    "the CPU by name": 'device = "cpu"\ntorch.set_default_device(device)\nl = DataLoader([1], shuffle=True)\n',
    "a type of the CPU": "torch.set_default_tensor_type(torch.DoubleTensor)\nl = DataLoader([1], shuffle=True)\n",
    "no default": "g = torch.Generator()\nx = torch.randn(3, generator=g)\nl = DataLoader([1], shuffle=True)\n",
    "back to the CPU": (
        f'{SET}x = torch.ones(2)\ntorch.set_default_device("cpu")\nl = DataLoader([1], shuffle=True)\n'
    ),
    "a generator that is told": f'{SET}g = torch.Generator(device="cuda")\nx = torch.randn(3, generator=g)\n',
    "numbers that are made on the CPU": (
        f'{SET}g = torch.Generator()\nx = torch.randn(3, generator=g, device="cpu")\n'
    ),
    "a generator for something else": f"{SET}g = torch.Generator()\nx = sample(3, generator=g)\n",
    "in order": f"{SET}l = DataLoader([1], shuffle=False)\nm = DataLoader([1])\n",
    "a sampler of its own": f"{SET}l = DataLoader([1], sampler=s)\n",
    "a loader above": f"l = list(DataLoader([1], shuffle=True))\n{SET}",
    "an array of the CPU": f"{SET}x = torch.ones(2).cpu().numpy()\ny = torch.ones(2, device='cpu').numpy()\n",
    "a constructor that is told": (
        "import open_clip\ndef f(device):\n    return open_clip.create_model('ViT', device=device)\n"
    ),
    "what it makes is moved": (
        "import open_clip\ndef f(device):\n    model, _, _ = open_clip.create_model_and_transforms('ViT')\n"
        "    model = model.to(device)\n    return model\n"
    ),
    "the program names no device": "import open_clip\nmodel = open_clip.create_model('ViT')\n",
    "CUDA, as the default": (
        "from sam2.build_sam import build_sam2\ndevice = torch.device('cuda')\nmodel = build_sam2('c')\n"
    ),
    "it chooses as the program does": (
        "from sentence_transformers import SentenceTransformer\n"
        'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = SentenceTransformer("m")\n'
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert findings(RULE, HEAD + SILENT[name]) == []


def test_the_table_is_well_formed() -> None:
    for name, (parameter, default) in models().takers.items():
        assert "." in name and parameter.isidentifier() and default in ("cpu", "cuda", "auto")
