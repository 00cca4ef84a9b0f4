"""move-inputs: what it moves, in which form, and what it leaves alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.move_inputs import MoveInputs
from devfix.rules.place_factory import PlaceFactory

RULE = MoveInputs()
HEAD = """\
import torch
import numpy as np
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
loader = DataLoader(data)
"""

LIGHTNING = """\
import lightning as L
class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)
"""

# name: (before, after)
CHANGED = {
    "the lengths that an unpacked sequence has": (
        "rnn = nn.GRU(4, 4).to(device)\nout, n = nn.utils.rnn.pad_packed_sequence(rnn(packed.to(device))[0])\n"
        "mask = torch.arange(9)[:, None] < n\nout = rnn(torch.ones(9, 2, 4, device=device))[0] * mask[..., None]\n",
        "rnn = nn.GRU(4, 4).to(device)\nout, n = nn.utils.rnn.pad_packed_sequence(rnn(packed.to(device))[0])\n"
        "mask = torch.arange(9)[:, None] < n\n"
        "out = rnn(torch.ones(9, 2, 4, device=device))[0] * mask[..., None].to(device)\n",
    ),
    "what a LightningModule reads from a loader itself": (
        LIGHTNING
        + "    def score(self, data):\n        for x, _ in DataLoader(data):\n            self.net(x)\n",
        LIGHTNING
        + "    def score(self, data):\n        for x, _ in DataLoader(data):\n            x = x.to(self.device)\n"
        "            self.net(x)\n",
    ),
    "audio that is loaded with its rate, and resampled on one path": (
        "import torchaudio\nwave, rate = torchaudio.load('a.wav')\nif rate != 16000:\n"
        "    wave = torchaudio.functional.resample(wave, rate, 16000)\nout = model(wave)\n",
        "import torchaudio\nwave, rate = torchaudio.load('a.wav')\nif rate != 16000:\n"
        "    wave = torchaudio.functional.resample(wave, rate, 16000)\nout = model(wave.to(device))\n",
    ),
    "what a step of a LightningModule makes": (
        LIGHTNING + "    def training_step(self, batch, index):\n        self.net.to(device)\n"
        "        return self.net(torch.ones(4))\n",
        LIGHTNING + "    def training_step(self, batch, index):\n        self.net.to(device)\n"
        "        return self.net(torch.ones(4).to(device))\n",
    ),
    "one element": (
        "for x in loader:\n    print(x.shape)\n    y = model(x)\n",
        "for x in loader:\n    x = x.to(device)\n    print(x.shape)\n    y = model(x)\n",
    ),
    "tuple in enumerate": (
        "for i, (x, y) in enumerate(loader):\n    loss = nn.functional.mse_loss(model(x), y)\n",
        "for i, (x, y) in enumerate(loader):\n    x, y = x.to(device), y.to(device)\n"
        "    loss = nn.functional.mse_loss(model(x), y)\n",
    ),
    "tqdm over enumerate": (
        "from tqdm import tqdm\nfor i, x in tqdm(enumerate(loader)):\n    model(x)\n    print(x.mean())\n",
        "from tqdm import tqdm\nfor i, x in tqdm(enumerate(loader)):\n    x = x.to(device)\n    model(x)\n"
        "    print(x.mean())\n",
    ),
    "zip of two loaders": (
        "for x, z in zip(loader, loader):\n    model(x)\n    model(z)\n",
        "for x, z in zip(loader, loader):\n    x, z = x.to(device), z.to(device)\n    model(x)\n    model(z)\n",
    ),
    "below the moves of the other elements": (
        "for x, y in loader:\n    x = x.to(device)\n    loss = nn.functional.mse_loss(model(x), y)\n",
        "for x, y in loader:\n    x = x.to(device)\n    y = y.to(device)\n"
        "    loss = nn.functional.mse_loss(model(x), y)\n",
    ),
    "next(iter(loader))": (
        "x, y = next(iter(loader))\nprint(nn.functional.mse_loss(model(x), y))\nprint(x.shape, y.shape)\n",
        "x, y = next(iter(loader))\nx, y = x.to(device), y.to(device)\n"
        "print(nn.functional.mse_loss(model(x), y))\nprint(x.shape, y.shape)\n",
    ),
    "keys of a dict batch": (
        "for batch in loader:\n    loss = nn.functional.mse_loss(model(batch['x']), batch['y'])\n",
        "for batch in loader:\n"
        "    loss = nn.functional.mse_loss(model(batch['x'].to(device)), batch['y'].to(device))\n",
    ),
    "a dict batch unpacked into the call": (
        "for batch in loader:\n    out = model(**batch)\n    print(batch.keys())\n",
        "for batch in loader:\n"
        "    batch = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}\n"
        "    out = model(**batch)\n    print(batch.keys())\n",
    ),
    "an array, used once": (
        "x = torch.from_numpy(np.ones(4))\nprint(model(x))\n",
        "x = torch.from_numpy(np.ones(4))\nprint(model(x.to(device)))\n",
    ),
    "an array, used more than once": (
        "x = torch.from_numpy(np.ones(4))\nprint(model(x), x.shape)\n",
        "x = torch.from_numpy(np.ones(4)).to(device)\nprint(model(x), x.shape)\n",
    ),
    "an array that the host needs as well": (
        "x = torch.from_numpy(np.ones(4))\nprint(model(x))\nprint(x.numpy())\n",
        "x = torch.from_numpy(np.ones(4))\nprint(model(x.to(device)))\nprint(x.numpy())\n",
    ),
    "an expression in the call": (
        "print(model(torch.from_numpy(np.ones(4)) * 2))\n",
        "print(model((torch.from_numpy(np.ones(4)) * 2).to(device)))\n",
    ),
    "loaded audio": (
        "import torchaudio\nwave, rate = torchaudio.load('a.wav')\nprint(model(wave), rate, wave.shape)\n",
        "import torchaudio\nwave, rate = torchaudio.load('a.wav')\nwave = wave.to(device)\n"
        "print(model(wave), rate, wave.shape)\n",
    ),
    "tokenizer output": (
        "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('t')\n"
        "inputs = tokenizer('a', return_tensors='pt')\nprint(model(**inputs), inputs)\n",
        "from transformers import AutoTokenizer\ntokenizer = AutoTokenizer.from_pretrained('t')\n"
        "inputs = tokenizer('a', return_tensors='pt').to(device)\nprint(model(**inputs), inputs)\n",
    ),
    "an image through a transform": (
        "from PIL import Image\ntransform = make()\n"
        "x = transform(Image.open('a.png')).unsqueeze(0)\nprint(model(x), x.shape)\n",
        "from PIL import Image\ntransform = make()\n"
        "x = transform(Image.open('a.png')).unsqueeze(0).to(device)\nprint(model(x), x.shape)\n",
    ),
    "through a function of the file": (
        "def generate(model, ids):\n    for _ in range(3):\n        ids = model(ids[:, -8:])\n    return ids\n\n\n"
        "print(generate(model, torch.tensor([[1, 2]])))\n",
        "def generate(model, ids):\n    for _ in range(3):\n        ids = model(ids[:, -8:])\n    return ids\n\n\n"
        "print(generate(model, torch.tensor([[1, 2]]).to(device)))\n",
    ),
    "the device goes by another name in the function": (
        "def run(net, batches, where):\n    for x in batches:\n        print(net(x), x.shape)\n\n\n"
        "run(model, loader, device)\n",
        "def run(net, batches, where):\n    for x in batches:\n        x = x.to(where)\n"
        "        print(net(x), x.shape)\n\n\nrun(model, loader, device)\n",
    ),
    "no device name in the function": (
        "def run(net, batches):\n    for x in batches:\n        print(net(x), x.shape)\n\n\n"
        "def main():\n    dev = torch.device('cuda')\n    net = nn.Linear(4, 2).to(dev)\n    run(net, DataLoader(data))\n",
        "def run(net, batches):\n    for x in batches:\n        x = x.to(next(net.parameters()).device)\n"
        "        print(net(x), x.shape)\n\n\n"
        "def main():\n    dev = torch.device('cuda')\n    net = nn.Linear(4, 2).to(dev)\n    run(net, DataLoader(data))\n",
    ),
    "a model that is moved under a condition": (
        "net = nn.Linear(4, 2)\nif args.cuda:\n    net.cuda()\nfor x in loader:\n    print(net(x), x.shape)\n",
        "net = nn.Linear(4, 2)\nif args.cuda:\n    net.cuda()\nfor x in loader:\n"
        "    x = x.to(next(net.parameters()).device)\n    print(net(x), x.shape)\n",
    ),
    "DataParallel scatters inputs, not targets": (
        "net = nn.DataParallel(model)\nfor x, y in loader:\n    print(nn.functional.mse_loss(net(x), y), y.shape)\n",
        "net = nn.DataParallel(model)\nfor x, y in loader:\n    y = y.to(device)\n"
        "    print(nn.functional.mse_loss(net(x), y), y.shape)\n",
    ),
    "a trainer class": (
        "class Trainer:\n    def __init__(self, net, device):\n        self.device = device\n"
        "        self.net = net.to(device)\n\n"
        "    def fit(self, batches: DataLoader):\n        for x in batches:\n            print(self.net(x), x.shape)\n",
        "class Trainer:\n    def __init__(self, net, device):\n        self.device = device\n"
        "        self.net = net.to(device)\n\n"
        "    def fit(self, batches: DataLoader):\n        for x in batches:\n            x = x.to(self.device)\n"
        "            print(self.net(x), x.shape)\n",
    ),
    "what a generator of the file yields": (
        "def batches():\n    for i in range(3):\n        yield torch.randn(2, 4), torch.ones(2)\n\n\n"
        "for x, y in batches():\n    print(model(x), x.shape)\n",
        "def batches():\n    for i in range(3):\n        yield torch.randn(2, 4), torch.ones(2)\n\n\n"
        "for x, y in batches():\n    x = x.to(device)\n    print(model(x), x.shape)\n",
    ),
    "an image through ToTensor": (
        "from torchvision import transforms\nx = transforms.ToTensor()(image)[None]\nprint(model(x), x.shape)\n",
        "from torchvision import transforms\nx = transforms.ToTensor()(image)[None].to(device)\n"
        "print(model(x), x.shape)\n",
    ),
    "a loaded tensor": (
        "x = torch.load('x.pt', map_location='cpu')\nprint(model(x), x.unsqueeze(0))\n",
        "x = torch.load('x.pt', map_location='cpu').to(device)\nprint(model(x), x.unsqueeze(0))\n",
    ),
    "a batch of graphs": (
        "from torch_geometric.loader import DataLoader as Graphs\nfor data in Graphs(graphs):\n"
        "    print(model(data.x, data.edge_index))\n",
        "from torch_geometric.loader import DataLoader as Graphs\nfor data in Graphs(graphs):\n"
        "    data = data.to(device)\n    print(model(data.x, data.edge_index))\n",
    ),
    "the output of a preprocessor, in a class that is given its model": (
        "class Predictor:\n    def __init__(self, pre_processor, net: nn.Module):\n"
        "        self.pre_processor = pre_processor\n        self.net = net.eval()\n\n"
        "    def __call__(self, pages):\n"
        "        return [self.net(batch) for batch in self.pre_processor(pages)]\n",
        "class Predictor:\n    def __init__(self, pre_processor, net: nn.Module):\n"
        "        self.pre_processor = pre_processor\n        self.net = net.eval()\n\n"
        "    def __call__(self, pages):\n"
        "        return [self.net(batch.to(next(self.net.parameters()).device)) "
        "for batch in self.pre_processor(pages)]\n",
    ),
    "a function out of sight that runs a model on token ids": (
        "from lib import generate, text_to_token_ids\n"
        "print(generate(model=model, idx=text_to_token_ids('a'), top_k=1))\n",
        "from lib import generate, text_to_token_ids\n"
        "print(generate(model=model, idx=text_to_token_ids('a').to(device), top_k=1))\n",
    ),
    "a method of a model that is loaded to a device": (
        "from lib import Net\nfrom tqdm import tqdm\n\n\ndef run(path, loader: DataLoader, device='cpu'):\n"
        "    model = Net.load_from_checkpoint(path, map_location=device)\n"
        "    for i, (x, y) in tqdm(enumerate(loader)):\n        print(model.get_features(x), y)\n",
        "from lib import Net\nfrom tqdm import tqdm\n\n\ndef run(path, loader: DataLoader, device='cpu'):\n"
        "    model = Net.load_from_checkpoint(path, map_location=device)\n"
        "    for i, (x, y) in tqdm(enumerate(loader)):\n        x = x.to(device)\n"
        "        print(model.get_features(x), y)\n",
    ),
    "an image for a model that was told a device": (
        "from PIL import Image\nfrom lib import Net, transforms\n\n\ndef run(path, device):\n"
        "    model = Net('w', device=device)\n    resize = transforms(224)\n"
        "    im = resize(Image.open(path)).unsqueeze(0)\n    print(model(im), im.shape)\n",
        "from PIL import Image\nfrom lib import Net, transforms\n\n\ndef run(path, device):\n"
        "    model = Net('w', device=device)\n    resize = transforms(224)\n"
        "    im = resize(Image.open(path)).unsqueeze(0).to(device)\n    print(model(im), im.shape)\n",
    ),
    "back from numpy, of what a function collects": (
        "class Session:\n    def forward(self, **kwargs):\n"
        "        found = self.session.run(None, {'ids': kwargs['ids'].cpu().numpy()})\n"
        "        return [torch.from_numpy(found[0])]\n",
        "class Session:\n    def forward(self, **kwargs):\n"
        "        found = self.session.run(None, {'ids': kwargs['ids'].cpu().numpy()})\n"
        "        return [torch.from_numpy(found[0]).to(kwargs['ids'].device)]\n",
    ),
    "a part of something that is handed on": (
        "def show(pair):\n    x, name = pair\n    print(model(x), name)\n\n\n"
        "def run(rows):\n    show((torch.from_numpy(rows), 'a'))\n",
        "def show(pair):\n    x, name = pair\n    print(model(x.to(device)), name)\n\n\n"
        "def run(rows):\n    show((torch.from_numpy(rows), 'a'))\n",
    ),
    "one of two evaluations forgets its batch": (
        "class Runner:\n    def step(self, batch):\n        batch = batch.to(self.device)\n"
        "        return self.net(batch)\n\n"
        "    def check(self, batch):\n        size = len(batch)\n        return self.net(batch) / size\n",
        "class Runner:\n    def step(self, batch):\n        batch = batch.to(self.device)\n"
        "        return self.net(batch)\n\n"
        "    def check(self, batch):\n        batch = batch.to(self.device)\n        size = len(batch)\n"
        "        return self.net(batch) / size\n",
    ),
    "the other one moves a dict in an else": (
        "class Runner:\n    def step(self, batch):\n        if self.prepare is not None:\n"
        "            batch = self.prepare(batch)\n        else:\n"
        "            batch = {k: v.to(self.device) for k, v in batch.items()}\n"
        "        return self.net(**batch)\n\n"
        "    def check(self, batch):\n        if self.prepare is not None:\n"
        "            batch = self.prepare(batch)\n        return self.net(**batch)\n",
        "class Runner:\n    def step(self, batch):\n        if self.prepare is not None:\n"
        "            batch = self.prepare(batch)\n        else:\n"
        "            batch = {k: v.to(self.device) for k, v in batch.items()}\n"
        "        return self.net(**batch)\n\n"
        "    def check(self, batch):\n        if self.prepare is not None:\n"
        "            batch = self.prepare(batch)\n        if self.prepare is None:\n"
        "            batch = {k: v.to(self.device) for k, v in batch.items()}\n"
        "        return self.net(**batch)\n",
    ),
    "an override whose base moves its own name only": (
        "class A:\n    def keep(self, ids):\n        ids = ids.to(self.scores.device)\n"
        "        self.scores = self.scores.index_select(0, ids)\n\n\n"
        "class B(A):\n    def keep(self, ids):\n        super().keep(ids)\n"
        "        self.length = self.length.index_select(0, ids)\n",
        "class A:\n    def keep(self, ids):\n        ids = ids.to(self.scores.device)\n"
        "        self.scores = self.scores.index_select(0, ids)\n\n\n"
        "class B(A):\n    def keep(self, ids):\n        super().keep(ids)\n"
        "        ids = ids.to(self.scores.device)\n"
        "        self.length = self.length.index_select(0, ids)\n",
    ),
    "an index that goes where only the selected rows should": (
        "def rows(table, chosen):\n    chosen = chosen.to(device)\n    return table[chosen].view(1, -1).to(device)\n",
        "def rows(table, chosen):\n    chosen = chosen.to(table.device)\n"
        "    return table[chosen].view(1, -1).to(device)\n",
    ),
    "an index that is made there": (
        "def rows(table):\n    chosen = torch.randperm(4, device=device)[:2]\n"
        "    return table.view(4, -1)[chosen].to(device)\n",
        "def rows(table):\n    chosen = torch.randperm(4, device=table.device)[:2]\n"
        "    return table.view(4, -1)[chosen].to(device)\n",
    ),
    "back from numpy": (
        "class Outside:\n    def __init__(self, device):\n        self.device = device\n\n"
        "    def forward(self, x):\n        out = self.session.run(None, {'x': x.cpu().numpy()})\n"
        "        logits = [torch.from_numpy(out[0])]\n        return logits\n",
        "class Outside:\n    def __init__(self, device):\n        self.device = device\n\n"
        "    def forward(self, x):\n        out = self.session.run(None, {'x': x.cpu().numpy()})\n"
        "        logits = [torch.from_numpy(out[0]).to(x.device)]\n        return logits\n",
    ),
    "an average kept on a device of its own": (
        "import copy\nclass Ema:\n    def __init__(self, net, device=None):\n"
        "        self.copy = copy.deepcopy(net)\n        self.device = device\n"
        "        if device is not None:\n            self.copy.to(device=device)\n\n"
        "    def update(self, net):\n"
        "        for mine, theirs in zip(self.copy.parameters(), net.parameters()):\n"
        "            mine.lerp_(theirs, weight=0.1)\n",
        "import copy\nclass Ema:\n    def __init__(self, net, device=None):\n"
        "        self.copy = copy.deepcopy(net)\n        self.device = device\n"
        "        if device is not None:\n            self.copy.to(device=device)\n\n"
        "    def update(self, net):\n"
        "        for mine, theirs in zip(self.copy.parameters(), net.parameters()):\n"
        "            mine.lerp_(theirs.to(device=self.device), weight=0.1)\n",
    ),
    "a dropped result": (
        "x = torch.ones(4)\nx.to(device)  # on the device\nprint(model(x))\n",
        "x = torch.ones(4)\nx = x.to(device)  # on the device\nprint(model(x))\n",
    ),
}

SILENT = {
    "a function that is told the device, a method that gets a copy on the CPU, and one that may do anything": (
        "from lib import generate, text_to_token_ids\nids = text_to_token_ids('a')\n"
        "print(generate(model, ids, device), generate(model, ids, device=device))\n"
        "print(model.decode(torch.ones(3, device=device).cpu()), model.collect(ids))\n"
    ),
    "a dataset of tensors that were moved": "x = torch.ones(8, 4).to(device)\n"
    "for (b,) in DataLoader(torch.utils.data.TensorDataset(x)):\n    model(b)\n",
    "a dataset that moves its items": "class Data:\n    def __getitem__(self, i):\n"
    "        return self.x[i].to(device)\n\n\nfor b in DataLoader(Data()):\n    model(b)\n",
    "several loaders": "def check(net, data_loaders):\n    net.to(device)\n"
    "    for one in data_loaders:\n        inference(net, one)\n        net(one)\n",
    "a loader of a class of its own": "def check(net: nn.Module, loader: fast.Loader):\n    net.cuda()\n"
    "    for x in loader.epoch():\n        net(x)\n",
    "a step whose caller moves the batch": "class Runner:\n    def step(self, batch):\n"
    "        batch = batch.to(self.device)\n        return self.net(batch)\n\n"
    "    def check(self, batch):\n        return self.net(batch)\n\n"
    "    def all(self):\n        for b in self.data:\n            self.check(b.to(self.device))\n",
    "a method that hands on to the one that moves": "class Runner:\n    def step(self, batch):\n"
    "        batch = batch.to(self.device)\n        return self.net(batch)\n\n"
    "    def check(self, batch):\n        return self.step(batch)\n",
    "another name is moved by the other": "class Runner:\n    def step(self, batch):\n"
    "        batch = batch.to(self.device)\n        return self.net(batch)\n\n"
    "    def check(self, texts):\n        return self.net(texts)\n",
    "an index on the CPU": "def rows(table, chosen):\n    return table[chosen].to(device)\n",
    "an index of what was moved": "def rows(table, chosen):\n    table, chosen = table.to(device), chosen.to(device)\n"
    "    return table[chosen].to(device)\n",
    "rows that go elsewhere": "def rows(table, chosen, other):\n    chosen = chosen.to(device)\n"
    "    return table[chosen].to(other)\n",
    "a metric over numpy": "def forward(self, x):\n    return torch.from_numpy(score(x.cpu().numpy()))\n",
    "an average where its model is": "import copy\nclass Ema:\n    def __init__(self, net):\n"
    "        self.copy = copy.deepcopy(net)\n\n    def update(self, net):\n"
    "        for mine, theirs in zip(self.copy.parameters(), net.parameters()):\n"
    "            mine.lerp_(theirs, weight=0.1)\n",
    "an average that copies": "import copy\nclass Ema:\n    def __init__(self, net, device):\n"
    "        self.copy = copy.deepcopy(net)\n        self.device = device\n        self.copy.to(device)\n\n"
    "    def update(self, net):\n"
    "        for mine, theirs in zip(self.copy.parameters(), net.parameters()):\n"
    "            mine.copy_(theirs)\n",
    "moved at the top": "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    model(x)\n",
    "moved in the call": "for x in loader:\n    model(x.to(device, non_blocking=True))\n",
    "moved by .cuda()": "net = nn.Linear(4, 2).cuda()\nfor x in loader:\n    net(x.cuda())\n",
    "moved under the same condition": "net = nn.Linear(4, 2)\nif args.cuda:\n    net.cuda()\nfor x in loader:\n"
    "    if args.cuda:\n        x = x.cuda()\n    net(x)\n",
    "moved by a comprehension": "for batch in loader:\n    batch = [t.to(device) for t in batch]\n    model(batch[0])\n",
    "moved key by key": "for batch in loader:\n    for k in batch:\n        batch[k] = batch[k].to(device)\n"
    "    model(**batch)\n",
    "moved by a helper out of sight": "for batch in loader:\n    batch = send(batch)\n    model(batch)\n",
    "a model that is never moved": "net = nn.Linear(4, 2)\nfor x in loader:\n    net(x)\n",
    "a model on the CPU on purpose": "net = nn.Linear(4, 2).to('cpu')\nfor x in loader:\n    net(x)\n",
    "prepared by accelerate": "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    "net, batches = accelerator.prepare(nn.Linear(4, 2), DataLoader(data))\nfor x in batches:\n    net(x)\n",
    "a hook that runs before Lightning moves the module": LIGHTNING
    + "    def setup(self, stage=None):\n        for x, _ in DataLoader(data):\n            self.net(x)\n",
    "a batch that Lightning has placed": LIGHTNING
    + "    def validation_step(self, batch, index):\n        return self.net(batch[0])\n",
    "a batch that is handed to Lightning's own mover": LIGHTNING
    + "    def score(self, data):\n        for batch in DataLoader(data):\n"
    "            batch = self.transfer_batch_to_device(batch, self.device, 0)\n            self.net(batch[0])\n",
    "a collate function": "def collate(items):\n    return model(torch.stack(items))\n",
    "a dataset": "class Data(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
    "        return model(torch.from_numpy(np.ones(4)))\n",
    "device_map": "from transformers import AutoModelForCausalLM\n"
    "net = AutoModelForCausalLM.from_pretrained('m', device_map='auto')\nnet(torch.ones(4))\n",
    "the default device is changed": "torch.set_default_device('cuda')\nmodel(torch.ones(4))\n",
    "copy_ takes any device": "model.weight.copy_(torch.from_numpy(np.ones((2, 4))))\n",
    "a loss without weights": "for x, y in loader:\n    nn.MSELoss().to(device)(x, y)\n",
    "BatchEncoding moves in place": "from transformers import AutoTokenizer\n"
    "tokenizer = AutoTokenizer.from_pretrained('t')\ninputs = tokenizer('a', return_tensors='pt')\n"
    "inputs.to(device)\n",
    "moved in both arms": "for x in loader:\n    if a:\n        x = x.to(device)\n    else:\n        x = x.to(device)\n"
    "    model(x)\n",
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str) -> None:
    before, after = CHANGED[name]
    assert fixed(RULE, HEAD + before) == HEAD + after


@pytest.mark.parametrize("name", CHANGED)
def test_silent_after(name: str) -> None:
    assert not findings(RULE, HEAD + CHANGED[name][1])


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert not findings(RULE, HEAD + SILENT[name])


def test_names_both_places() -> None:
    (finding,) = findings(RULE, HEAD + CHANGED["one element"][0])
    assert "`x` (a batch from a DataLoader)" in finding.message
    assert "`model` on line 10, which is on `device` (line 6), takes it and raises" in finding.message
    assert finding.related


def test_a_known_loader_is_safe_and_a_name_is_not() -> None:
    (known,) = findings(RULE, HEAD + "for x, y in loader:\n    model(x)\n")
    (named,) = findings(RULE, HEAD + "def f(my_loader):\n    for x, y in my_loader:\n        model(x)\n")
    assert known.fix is not None and known.fix.safety is Safety.SAFE
    assert named.fix is not None and named.fix.safety is Safety.UNSAFE


def test_a_whole_batch_may_be_a_list() -> None:
    (finding,) = findings(RULE, HEAD + "for x in loader:\n    model(x)\n")
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


@pytest.mark.parametrize(
    ("read", "is_moved"),
    [
        ("self.net(batch)", True),
        ("self.net(batch[0]) - batch[1]", False),
        ("self.net(*batch[:2])", True),
    ],
)
@pytest.mark.parametrize("given", ["batch, 2.0", "factor=2.0, batch=batch"])
def test_a_batch_that_is_taken_apart_may_be_a_list(read: str, is_moved: bool, given: str) -> None:
    text = f"""
import torch
from torch import nn


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 2)

    def forward(self, batch, factor=1.0):
        return ({read}).sum() * factor


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
objective = Loss().to(device)


def epoch(loader):
    for batch in loader:
        objective({given}).backward()
"""
    (finding,) = findings(RULE, text)
    assert (finding.fix is not None) is is_moved
    unpacked = text.replace("        return", "        a, b = batch\n        return")
    (finding,) = findings(RULE, unpacked)
    assert finding.fix is None


def test_collate_fn_makes_it_unsafe() -> None:
    text = HEAD.replace("DataLoader(data)", "DataLoader(data, collate_fn=mine)")
    (finding,) = findings(RULE, text + "for x, y in loader:\n    model(x)\n")
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


def test_non_blocking() -> None:
    text = HEAD + "for x in loader:\n    print(model(x), x.shape)\n"
    assert "x = x.to(device, non_blocking=True)\n" in fixed(MoveInputs(non_blocking=True), text)


def test_a_global_is_not_made_local() -> None:
    text = "import torch\nx = torch.ones(3)\ndef f(device):\n    x.to(device)\n    return x.view(-1)\n"
    (finding,) = findings(RULE, text)
    assert finding.fix is None


def test_what_is_read_as_an_array_later_is_not_moved() -> None:
    (finding,) = findings(RULE, HEAD + "x = torch.ones(4)\nx.to(device)\nprint(x.numpy())\n")
    assert finding.fix is None


BERT_SCORE = """\
import torch
from torch.utils.data import DataLoader


def collate(batch, device=None):
    a = batch["a"][:, :3].to(device)
    batch.update({"a": a})
    return batch


def embed(loader, model, device):
    for batch in loader:
        batch = collate(batch, device)
        out = model(batch["a"])


def main(device):
    model = torch.nn.Linear(2, 2)
    model.to(device)
    embed(DataLoader([1]), model, device)
"""
RAISES = """\
import pytest
import torch


def test_shapes(device):
    model = torch.nn.Linear(2, 2).to(device)
    with pytest.raises(ValueError):
        model(torch.zeros(3, 3))
"""


@pytest.mark.parametrize("text", [BERT_SCORE, RAISES], ids=["update", "raises"])
def test_silent_where_it_was_moved_or_is_to_fail(text: str) -> None:
    assert findings(MoveInputs(), text) == []


@pytest.mark.parametrize("line", ["x, y = model(x), y", "x, y = loss = criterion(model(x), y)"])
def test_names_that_the_statement_binds_anew(line: str) -> None:
    """What is read there was bound before: by the loop."""
    head = (
        "import torch\nfrom torch import nn\n\n"
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "data = torch.utils.data.TensorDataset(torch.zeros(8, 4), torch.zeros(8))\n"
        "model = nn.Linear(4, 2).to(device)\ncriterion = nn.CrossEntropyLoss()\n"
        "for x, y in torch.utils.data.DataLoader(data):\n"
    )
    moved = "x, y = x.to(device), y.to(device)" if "criterion" in line else "x = x.to(device)"
    assert fixed(MoveInputs(), head + f"    {line}\n") == head + f"    {moved}\n    {line}\n"


def test_a_use_in_another_function_is_no_proof() -> None:
    """`x` is a tensor in the lambda; what the loop has may be a dict."""
    text = """\
import torch
from dgl.dataloading import DataLoader


def evaluate(model, dataloader):
    for a, b, blocks in dataloader:
        x = blocks[0].srcdata["feat"]
        y = model(blocks, x)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(2, 2).to(device)
loader = DataLoader(graphs, batch_size=3)
evaluate(model, loader)


def other(h):
    return map(lambda x: x.view(x.shape[0], 3), h)
"""
    found = findings(MoveInputs(), text)
    assert found
    for finding in found:
        assert finding.fix is None or finding.fix.safety is not Safety.SAFE


@pytest.mark.parametrize(("method", "safety"), [("forward", Safety.SAFE), ("predict", Safety.UNSAFE)])
def test_a_method_that_may_take_anything_is_not_safe(method: str, safety: Safety) -> None:
    (finding,) = findings(RULE, f"{HEAD}for x, y in loader:\n    model.{method}(x)\n")
    assert finding.fix is not None and finding.fix.safety is safety


def test_the_output_of_a_tokenizer_moves_itself() -> None:
    text = (
        "import torch\nfrom transformers import AutoModel, AutoTokenizer\n\n\ndef run(device, text):\n"
        "    model = AutoModel.from_pretrained('x').to(device)\n    tokenizer = AutoTokenizer.from_pretrained('x')\n"
        "    words = tokenizer(text, return_tensors='pt')\n    {}\n    return model(**words)\n"
    )
    assert findings(RULE, text.format("words.to(device)")) == []
    assert len(findings(RULE, text.format("print(words)"))) == 1


@pytest.mark.parametrize(("asks", "count"), [("print(x.shape)", 0), ("print(x.is_cuda)", 1)])
def test_what_meets_by_elements_is_not_sure_to_need_a_move(asks: str, count: int) -> None:
    text = (
        "import numpy as np\nimport torch\n\n\ndef other(y, device):\n    return y.to(device)\n\n\n"
        f"def f(x: torch.Tensor, rng):\n    {asks}\n    mask = torch.from_numpy(rng.rand(3))\n    return x * mask\n"
    )
    assert findings(RULE, text) == []  # where the caller decides, it is place-factory's
    found = findings(PlaceFactory(), text)
    assert [one.fix and one.fix.safety for one in found] == [Safety.UNSAFE] * count


@pytest.mark.parametrize(
    ("moves", "safety"), [("x", Safety.SAFE), ("x.to(self.fc.weight.device)", Safety.UNSAFE)]
)
def test_a_method_that_moves_its_inputs_is_not_safe(moves: str, safety: Safety) -> None:
    text = (
        "import torch\nfrom torch import nn\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(4, 2)\n\n"
        f"    def generate(self, x):\n        return self.fc({moves})\n\n\n"
        "def run(rows):\n    net = Net().to(device)\n    x = torch.tensor(rows)\n    return net.generate(x)\n"
    )
    found = findings(RULE, text)
    assert found or safety is Safety.UNSAFE
    for finding in found:
        assert finding.fix is not None and finding.fix.safety is safety


@pytest.mark.parametrize(("where", "number"), [("x.device", 0), ("device", 1)])
def test_what_was_put_beside_an_input_is_where_that_is(where: str, number: int) -> None:
    text = (
        "import numpy as np\nimport torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n\n\n"
        "def f(rows):\n    for row in rows:\n        x = torch.from_numpy(row).long()\n"
        f"        one = torch.FloatTensor(x.size(0), 3).to({where})\n        one.scatter_(1, x.unsqueeze(1), 1)\n"
    )
    assert len(findings(RULE, text)) == number


def test_a_move_is_not_written_where_the_other_value_is_still_on_the_cpu() -> None:
    """Above `net.cuda()`, `next(net.parameters()).device` is the CPU: the fix would never be enough."""
    text = """\
import torch
from loss import Loss
from model import Net
criterion = Loss()
net = Net()
labels = torch.IntTensor(64)
if torch.cuda.is_available():
    net.cuda()
    criterion = criterion.cuda()
def evaluate(criterion, images):
    return criterion(net(images.cuda()), labels)
def train(criterion, images):
    return criterion(net(images.cuda()), labels)
train(criterion, images)
evaluate(criterion, images)
"""
    assert "torch.IntTensor(64).to(" not in fixed(RULE, text, Safety.UNSAFE)


def test_beside_a_list_of_tensors_another_part_may_be_a_list_too() -> None:
    """As detectors take them: a list of images, and one of dicts."""
    text = (
        "for images, targets in loader:\n    images = [one.to(device) for one in images]\n"
        "    losses = model(images, targets)\n"
    )
    (found,) = findings(RULE, HEAD + text)
    assert "`targets`" in found.message and found.fix is None


TWICE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x, where):
        return self.fc(x) + self.fc(where)


def train(net, other, loader, flag):
    net.cuda()
    other.cuda()
    for x, where in loader:
        rows = where.numpy()
        x = x.cuda()
        if flag:
            y = net(x, where)
        else:
            y = other(x, where)
        print(rows, y)
    where.cpu()
"""


def test_all_uses_of_a_value_that_is_moved_where_it_is_used_are_one_fix() -> None:
    (found,) = [one for one in findings(RULE, TWICE) if one.fix is not None]
    assert found.fix is not None and len(found.fix.edits) == 2
    assert fixed(RULE, TWICE).count("where.to(") == 2
