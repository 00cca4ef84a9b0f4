"""hard-coded-cuda: which device takes the place of CUDA, how surely, and what is left alone."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.hard_coded_cuda import HardCodedCuda

RULE = HardCodedCuda()
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
# Elsewhere in the file, devices are told apart: then a literal is an oversight.
PORTABLE = "def pad(a, b):\n    return F.pad(a, (0, len(b))).to(b.device)\n\n\n"

# The file shows that its tensors may be on any GPU, or on the CPU.
ANYWHERE = 'def place(net, rank):\n    return net.to(f"cuda:{rank}" if rank >= 0 else "cpu")\n\n\n'

# name: (before, after)
SAFE = {
    "is_cuda, a statement": (
        "def f(x: torch.Tensor, n):\n    y = torch.zeros(n)\n    if x.is_cuda:\n        y = y.cuda()\n"
        "    return torch.cat([x, y])\n",
        "def f(x: torch.Tensor, n):\n    y = torch.zeros(n)\n    y = y.to(x.device)\n"
        "    return torch.cat([x, y])\n",
    ),
    "is_cuda, two moves": (
        "def f(x, n):\n    a = torch.zeros(n)\n    b = torch.ones(n)\n    if x.is_cuda:\n"
        "        a, b = a.cuda(), b.cuda(non_blocking=True)\n    return a, b\n",
        "def f(x, n):\n    a = torch.zeros(n)\n    b = torch.ones(n)\n    a = a.to(x.device)\n"
        "    b = b.to(x.device, non_blocking=True)\n    return a, b\n",
    ),
    "is_cuda among other conditions": (
        "def f(x: torch.Tensor, n, fast):\n    y = torch.zeros(n)\n    if fast and x.is_cuda:\n"
        "        y = y.cuda()\n",
        "def f(x: torch.Tensor, n, fast):\n    y = torch.zeros(n)\n    if fast and x.is_cuda:\n"
        "        y = y.to(x.device)\n",
    ),
    "is_cuda of a module": (
        "def f(model, n):\n    y = torch.zeros(n)\n    if next(model.parameters()).is_cuda:\n"
        "        y = y.cuda()\n"
        "    return y\n",
        "def f(model, n):\n    y = torch.zeros(n)\n    y = y.to(next(model.parameters()).device)\n"
        "    return y\n",
    ),
    "is_cuda, an expression": (
        "def f(x, n):\n    y = torch.zeros(n)\n    y = y.cuda() if x.is_cuda else y\n    return y\n",
        "def f(x, n):\n    y = torch.zeros(n)\n    y = y.to(x.device)\n    return y\n",
    ),
    "device.type": (
        "def f(x):\n    y = torch.zeros(x.size(0))\n    if x.device.type == 'cuda':\n"
        "        y = y.pin_memory().cuda()\n",
        "def f(x):\n    y = torch.zeros(x.size(0))\n    if x.device.type == 'cuda':\n"
        "        y = y.pin_memory().to(x.device)\n",
    ),
    "round trip": (
        "def f(x: torch.Tensor):\n    if x.is_cuda:\n        return x.cpu().cumsum(0).cuda()\n"
        "    return x.cumsum(0)\n",
        "def f(x: torch.Tensor):\n    if x.is_cuda:\n        return x.cpu().cumsum(0).to(x.device)\n"
        "    return x.cumsum(0)\n",
    ),
    "a factory that meets an argument": (
        "def f(x: torch.Tensor):\n    y = torch.zeros(x.size(0), 3).cuda()\n"
        "    return torch.cat([x, y], 1)\n",
        "def f(x: torch.Tensor):\n    y = torch.zeros(x.size(0), 3, device=x.device)\n"
        "    return torch.cat([x, y], 1)\n",
    ),
    "random numbers are drawn where they were": (
        "def f(x: torch.Tensor):\n    y = torch.randn(x.shape).cuda()\n    return x + y\n",
        "def f(x: torch.Tensor):\n    y = torch.randn(x.shape).to(x.device)\n    return x + y\n",
    ),
    "a keyword": (
        "def f(x: torch.Tensor):\n    return x.size(0) * (x @ torch.eye(3, device='cuda:0'))\n",
        "def f(x: torch.Tensor):\n    return x.size(0) * (x @ torch.eye(3, device=x.device))\n",
    ),
    "an index": (
        "def f(x):\n    order = torch.randperm(x.size(0)).cuda()\n    return x.view(-1, 2)[order]\n",
        "def f(x):\n    order = torch.randperm(x.size(0)).to(x.device)\n    return x.view(-1, 2)[order]\n",
    ),
    "moved on at once": (
        "def f(w, scale):\n    scale = scale.cuda().type_as(w)\n    return w * scale\n",
        "def f(w, scale):\n    scale = scale.type_as(w)\n    return w * scale\n",
    ),
    "the declared device": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nx = torch.ones(3).cuda()\n',
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "x = torch.ones(3, device=device)\n",
    ),
    "the current accelerator, declared": (
        "device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')\n"
        "x = torch.ones(3).cuda()\n",
        "device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')\n"
        "x = torch.ones(3, device=device)\n",
    ),
    "the device of the model in a class": (
        "class A:\n    def __init__(self, device):\n        self.device = torch.device(device)\n"
        "        self.model = nn.Linear(2, 2).to(self.device)\n"
        "    def run(self, rows):\n        x = torch.tensor(rows).cuda()\n        return self.model(x)\n",
        "class A:\n    def __init__(self, device):\n        self.device = torch.device(device)\n"
        "        self.model = nn.Linear(2, 2).to(self.device)\n"
        "    def run(self, rows):\n        x = torch.tensor(rows, device=self.device)\n"
        "        return self.model(x)\n",
    ),
}
UNSAFE = {
    "a device that its user chooses": (
        'device = torch.device("cuda" if args.gpu else "cpu")\nx = torch.ones(3).cuda()\n',
        'device = torch.device("cuda" if args.gpu else "cpu")\nx = torch.ones(3, device=device)\n',
    ),
    "a meeting that need not come": (
        f"{PORTABLE}def f(x: torch.Tensor, flag):\n    y = torch.zeros(x.size(0)).cuda()\n    if flag:\n"
        "        return x * y\n"
        "    return None\n",
        f"{PORTABLE}def f(x: torch.Tensor, flag):\n    y = torch.zeros(x.size(0), device=x.device)\n"
        "    if flag:\n        return x * y\n    return None\n",
    ),
    "the class's device, not the name that its constructor has for it": (
        "class T:\n    def __init__(self, model, device):\n        self.model = model.to(device)\n"
        "        self.device = device\n\n    def step(self, rows):\n        rows = rows.cuda()\n"
        "        return self.model(rows)\n",
        "class T:\n    def __init__(self, model, device):\n        self.model = model.to(device)\n"
        "        self.device = device\n\n    def step(self, rows):\n        rows = rows.to(self.device)\n"
        "        return self.model(rows)\n",
    ),
    "a library for CUDA alone": (
        "def f(x: torch.Tensor, flag):\n    y = torch.zeros(x.size(0)).cuda()\n    if flag:\n"
        "        return x * y\n    return None\n",
        "def f(x: torch.Tensor, flag):\n    y = torch.zeros(x.size(0), device=x.device)\n    if flag:\n"
        "        return x * y\n    return None\n",
    ),
    "the choice of the user, next to a tensor of the caller": (
        "def f(x: torch.Tensor, use_cuda):\n    y = torch.zeros(x.size(0))\n    if use_cuda:\n"
        "        y = y.cuda()\n    return x + y\n",
        "def f(x: torch.Tensor, use_cuda):\n    y = torch.zeros(x.size(0))\n    if use_cuda:\n"
        "        y = y.to(x.device)\n    return x + y\n",
    ),
    "an index that meets what came of a parameter": (
        "def f(values, corr):\n    i = torch.arange(values.shape[1]).unsqueeze(0).cuda()\n"
        "    weights, delay = torch.topk(corr, 3, dim=-1)\n"
        "    return torch.gather(values, dim=-1, index=i + delay)\n",
        "def f(values, corr):\n    i = torch.arange(values.shape[1]).unsqueeze(0).to(values.device)\n"
        "    weights, delay = torch.topk(corr, 3, dim=-1)\n"
        "    return torch.gather(values, dim=-1, index=i + delay)\n",
    ),
    "a method of a module": (
        "def f(net: nn.Module, rows):\n    return net.encode(torch.tensor(rows).cuda())\n",
        "def f(net: nn.Module, rows):\n    return net.encode(torch.tensor(rows, device=next(net.parameters()).device))\n",
    ),
    "generation, in a program that has its model from elsewhere": (
        "import argparse\n\n\ndef f(model, tokenizer, text):\n"
        "    ids = tokenizer(text, return_tensors='pt').input_ids.to('cuda')\n"
        "    return model.generate(input_ids=ids)\n",
        "import argparse\n\n\ndef f(model, tokenizer, text):\n"
        "    ids = tokenizer(text, return_tensors='pt').input_ids.to(next(model.parameters()).device)\n"
        "    return model.generate(input_ids=ids)\n",
    ),
    "a function of the file that runs the model": (
        "def run(model, ids):\n    return model(ids)\n\n\ndef f(model, rows):\n"
        "    ids = torch.tensor(rows)\n    ids = ids.to('cuda')\n    return run(model, ids)\n",
        "def run(model, ids):\n    return model(ids)\n\n\ndef f(model, rows):\n"
        "    ids = torch.tensor(rows)\n    ids = ids.to(next(model.parameters()).device)\n    return run(model, ids)\n",
    ),
    "the example of an export": (
        "def f(model, path):\n    rows = model.example()\n    rows = (rows[0].to('cuda'),)\n"
        "    torch.onnx.export(model, rows, path)\n",
        "def f(model, path):\n    rows = model.example()\n"
        "    rows = (rows[0].to(next(model.parameters()).device),)\n"
        "    torch.onnx.export(model, rows, path)\n",
    ),
    "a layer of one's own, and oneself": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Linear(3, 3)\n\n    def one(self, rows):\n"
        "        rows = torch.tensor(rows).cuda()\n        return self.net(rows)\n\n"
        "    def two(self, rows):\n        rows = torch.tensor(rows).cuda()\n        return self(rows)\n",
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.net = nn.Linear(3, 3)\n\n    def one(self, rows):\n"
        "        rows = torch.tensor(rows, device=next(self.net.parameters()).device)\n"
        "        return self.net(rows)\n\n    def two(self, rows):\n"
        "        rows = torch.tensor(rows, device=next(self.parameters()).device)\n        return self(rows)\n",
    ),
    "a parameter that its move makes none": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.zeros(3)).cuda()\n\n    def forward(self, x):\n"
        "        return x * self.w\n",
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.zeros(3))\n\n    def forward(self, x):\n"
        "        return x * self.w\n",
    ),
    "an entry of the configuration": (
        "def f(config, net):\n    if config['device'] != 'cpu':\n        net = nn.DataParallel(net)\n"
        "    net = net.cuda()\n    return net\n",
        "def f(config, net):\n    if config['device'] != 'cpu':\n        net = nn.DataParallel(net)\n"
        "    net = net.to(config['device'])\n    return net\n",
    ),
    "what there is, where a module has been put somewhere": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n\n"
        "    def start(self, n):\n        device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "        return self.l(torch.ones(n, 3).to(device))\n",
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n\n"
        "    def start(self, n):\n        device = next(self.parameters()).device\n"
        "        return self.l(torch.ones(n, 3).to(device))\n",
    ),
    "what there is, where a tensor is given": (
        "class N(nn.Module):\n    def forward(self, x):\n        x = x.t\n        return x\n\n"
        "    def more(self, x, y):\n        x = x.contiguous\n"
        "        d = torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')\n"
        "        return torch.ones(x.size(0), device=d) + y.size(1)\n",
        "class N(nn.Module):\n    def forward(self, x):\n        x = x.t\n        return x\n\n"
        "    def more(self, x, y):\n        x = x.contiguous\n"
        "        d = y.device\n"
        "        return torch.ones(x.size(0), device=d) + y.size(1)\n",
    ),
    "what a function of the program makes of it": (
        "import argparse\n\n\ndef f(model, wav, rows):\n    wav, rows = wav.cuda(), rows.cuda()\n"
        "    feats = features(wav)\n    return model(feats), rows\n",
        "import argparse\n\n\ndef f(model, wav, rows):\n"
        "    wav, rows = wav.to(next(model.parameters()).device), rows.cuda()\n"
        "    feats = features(wav)\n    return model(feats), rows\n",
    ),
    "a function that sounds like data, but runs the model": (
        "def preprocess(model, rows):\n    x = torch.tensor(rows).cuda()\n    return model(x)\n",
        "def preprocess(model, rows):\n    x = torch.tensor(rows, device=next(model.parameters()).device)\n"
        "    return model(x)\n",
    ),
    "two that are moved at once": (
        "def f(a, n):\n    x, y = torch.arange(n), torch.arange(n)\n    x, y = x.cuda(), y.cuda()\n"
        "    return a.size(0) + x * a[:, 0] + torch.stack((x, y), 1)\n",
        "def f(a, n):\n    x, y = torch.arange(n), torch.arange(n)\n    x, y = x.to(a.device), y.to(a.device)\n"
        "    return a.size(0) + x * a[:, 0] + torch.stack((x, y), 1)\n",
    ),
    "the device of what may be no tensor": (
        "def f(task, n):\n    y = torch.zeros(n)\n    if task.device.type == 'cuda':\n"
        "        y = y.pin_memory().cuda()\n    return y\n",
        "def f(task, n):\n    y = torch.zeros(n)\n    if task.device.type == 'cuda':\n"
        "        y = y.pin_memory().to(task.device)\n    return y\n",
    ),
    "a helper of a script that uses the current GPU": (
        "def f(y, n):\n    new = torch.eye(n)[y.tolist()]\n    if y.is_cuda:\n        return new.cuda()\n"
        "    return new\nif __name__ == '__main__':\n    f(load().cuda(), 3)\n",
        "def f(y, n):\n    new = torch.eye(n)[y.tolist()]\n    if y.is_cuda:\n        return new.to(y.device)\n"
        "    return new\nif __name__ == '__main__':\n    f(load().cuda(), 3)\n",
    ),
    "a file that refuses what is not on CUDA": (
        "class A(nn.Module):\n    def g(self, y):\n        assert isinstance(y, torch.cuda.LongTensor)\n"
        "        return y.device\n\n"
        "    def f(self, x: torch.Tensor):\n        return torch.cat([x, torch.zeros(x.size(0), device='cuda')])\n",
        "class A(nn.Module):\n    def g(self, y):\n        assert isinstance(y, torch.cuda.LongTensor)\n"
        "        return y.device\n\n"
        "    def f(self, x: torch.Tensor):\n        return torch.cat([x, torch.zeros(x.size(0), device=x.device)])\n",
    ),
    "other functions need CUDA": (
        "def g(n):\n    return torch.zeros(n, device='cuda')\n"
        "def f(x: torch.Tensor):\n    y = torch.zeros(x.size(0), device='cuda')\n    return torch.cat([x, y])\n",
        "def g(n):\n    return torch.zeros(n, device='cuda' if torch.cuda.is_available() else 'cpu')\n"
        "def f(x: torch.Tensor):\n    y = torch.zeros(x.size(0), device=x.device)\n    return torch.cat([x, y])\n",
    ),
    "a parameter of the function": (
        "def f(rows, device):\n    y = torch.tensor(rows).cuda()\n    z = load(rows).to(device)\n"
        "    return y, z\n",
        "def f(rows, device):\n    y = torch.tensor(rows, device=device)\n    z = load(rows).to(device)\n"
        "    return y, z\n",
    ),
    "args.device": (
        "def f(args, net):\n    net.to(args.device)\n    y = load(args.path).cuda()\n    return y\n",
        "def f(args, net):\n    net.to(args.device)\n    y = load(args.path).to(args.device)\n    return y\n",
    ),
    "an accelerator": (
        "def f(accelerator, state):\n    for value in state.values():\n"
        "        value = value.detach().cuda()\n"
        "        send(value, accelerator.device)\n",
        "def f(accelerator, state):\n    for value in state.values():\n"
        "        value = value.detach().to(accelerator.device)\n        send(value, accelerator.device)\n",
    ),
    "self.device of a framework": (
        "import speechbrain as sb\nclass B(sb.Brain):\n    def compute_forward(self, batch, stage):\n"
        "        batch = batch.to(self.device)\n        self.hparams.norm = self.hparams.norm.to('cuda')\n",
        "import speechbrain as sb\nclass B(sb.Brain):\n    def compute_forward(self, batch, stage):\n"
        "        batch = batch.to(self.device)\n"
        "        self.hparams.norm = self.hparams.norm.to(self.device)\n",
    ),
    "an offloaded pipeline": (
        "class P(DiffusionPipeline):\n    def loss(self, x):\n"
        "        return torch.tensor(0.0).cuda(), x.device\n",
        "class P(DiffusionPipeline):\n    def loss(self, x):\n"
        "        return torch.tensor(0.0, device=self._execution_device), x.device\n",
    ),
    "inputs of a model by way of a helper": (
        f"{PORTABLE}def f(flow_model, a, b):\n    a, b = mix(a.cuda(), b)\n    return flow_model(a, b)\n",
        f"{PORTABLE}def f(flow_model, a, b):\n"
        "    a, b = mix(a.to(next(flow_model.parameters()).device), b)\n"
        "    return flow_model(a, b)\n",
    ),
    "a legacy constructor by sizes": (
        "def f(x: torch.Tensor):\n    z = torch.cuda.FloatTensor(x.size(0), 3).normal_()\n    if len(z):\n"
        "        return z, x.device\n",
        "def f(x: torch.Tensor):\n    z = torch.empty(x.size(0), 3, dtype=torch.float32, device=x.device)"
        ".normal_()\n    if len(z):\n        return z, x.device\n",
    ),
    "a legacy constructor by data": (
        "def f(x: torch.Tensor, n):\n    z = torch.cuda.LongTensor([n, 1])\n    return torch.cat([x, z])\n",
        "def f(x: torch.Tensor, n):\n    z = torch.tensor([n, 1], dtype=torch.int64, device=x.device)\n"
        "    return torch.cat([x, z])\n",
    ),
    "where there is CUDA, although the class knows better": (
        "class A:\n    def __init__(self, device):\n        self.device = device\n    def f(self, rows):\n"
        "        x = torch.tensor(rows)\n        if torch.cuda.is_available():\n"
        "            x = x.cuda()\n        return x\n",
        "class A:\n    def __init__(self, device):\n        self.device = device\n    def f(self, rows):\n"
        "        x = torch.tensor(rows)\n        x = x.to(self.device)\n        return x\n",
    ),
    "a table of a module": (
        "class M(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "        self.pe = torch.arange(n).cuda()\n    def forward(self, x):\n        return x + self.pe\n",
        "class M(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        '        self.register_buffer("pe", torch.arange(n), persistent=False)\n    def forward(self, x):\n'
        "        return x + self.pe\n",
    ),
    "something that may have no to()": (
        "def f(x, batch):\n    if x.is_cuda:\n        batch = batch.cuda()\n    return batch\n",
        "def f(x, batch):\n    batch = batch.to(x.device)\n    return batch\n",
    ),
}
SILENT = {
    "a module that puts its halves on two GPUs": (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n\n\n'
        "class Halves(torch.nn.Module):\n    def __init__(self, a, b):\n        super().__init__()\n"
        "        self.a = a.cuda(0)\n        self.b = b.cuda(1)\n\n"
        "    def forward(self, x):\n        return self.b(self.a(x.cuda(0)).cuda(1))\n"
    ),
    "a script for CUDA": "model = nn.Linear(2, 2).cuda()\nx = torch.ones(3, 2).cuda()\nmodel(x)\n",
    "the choice of the user, of what meets nothing": (
        "def f(x: torch.Tensor, use_cuda):\n    y = torch.zeros(x.size(0))\n    if use_cuda:\n"
        "        y = y.cuda()\n"
        "    return y\n"
    ),
    "the choice of the user, also for what it meets": (
        "def f(x, use_cuda):\n    y = torch.zeros(x.size(0))\n    if use_cuda:\n"
        "        y = y.cuda()\n        x = x.cuda()\n    return x + y\n"
    ),
    "the other arm": (
        "def f(x: torch.Tensor):\n    y = torch.zeros(x.size(0))\n    if x.device.type == 'cpu':\n"
        "        pass\n"
        "    else:\n        y = y.cuda()\n    return x + y\n"
    ),
    "an index of its own": "def f(x: torch.Tensor, gpu):\n    return x + torch.zeros(x.size(0)).cuda(gpu)\n",
    "moved under its own condition": "def f(x):\n    if not x.is_cuda:\n        x = x.cuda()\n    return x\n",
    "rebound in between": (
        "def f(x: torch.Tensor):\n    if x.is_cuda:\n        x = x.cpu()\n"
        "        return x.sort().values.cuda()\n"
    ),
    "rebound later in the loop": (
        "def f(x: torch.Tensor, ys):\n    if x.is_cuda:\n        for y in ys:\n            send(y.cuda())\n"
        "            x = x.cpu()\n"
    ),
    "left where there is no CUDA": (
        "def f(x: torch.Tensor):\n    if not torch.cuda.is_available():\n        return None\n"
        "    return x + torch.zeros(x.size(0)).cuda()\n"
    ),
    "a method for it": (
        "class A:\n    def cuda(self):\n        self.x = self.x.cuda()\n        return self.x.device\n"
    ),
    "a test": "import pytest\ndef f(x: torch.Tensor):\n    return x + torch.zeros(x.size(0)).cuda()\n",
    "a kernel": "import triton\ndef f(x: torch.Tensor):\n    return x + torch.zeros(x.size(0)).cuda()\n",
    "an extension": (
        "from ops import nms_cuda\ndef f(x: torch.Tensor):\n    y = torch.zeros(x.size(0)).cuda()\n"
        "    return nms_cuda.run(x + y)\n"
    ),
    "a measurement": (
        "def f(x: torch.Tensor):\n    y = x + torch.zeros(x.size(0)).cuda()\n    torch.cuda.synchronize()\n"
    ),
    "autocast belongs to another": "def f(x):\n    with torch.autocast('cuda'):\n        return x.device\n",
    "a device chosen on purpose": "device = 'cuda'\nmodel = nn.Linear(2, 2).to(device)\n",
    "a default of a class": (
        "class A:\n    def __init__(self, device='cuda'):\n        self.x = torch.ones(3, device=device)\n"
    ),
    "the type of the device that the program has declared": (
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "def f(net):\n    if device.type == 'cuda':\n        net = nn.DataParallel(net).cuda()\n    return net\n"
    ),
    "a model that the program puts on CUDA": (
        "import argparse\n\n\ndef f(model, rows):\n    return model(torch.tensor(rows).cuda())\n\n\n"
        "def main(path):\n    f(Net(path).cuda(), [1])\n"
    ),
    "the type of what is moved afterwards": (
        "def f(x, n):\n    Float = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor\n"
        "    return x * Float(n).to(x.device)\n"
    ),
    "a choice by which the module itself is moved": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n\n"
        "    def put(self):\n        device = 'cuda' if torch.cuda.is_available() else 'cpu'\n        self.l.to(device)\n\n"
        "    @classmethod\n    def make(cls):\n        device = 'cuda' if torch.cuda.is_available() else 'cpu'\n"
        "        return torch.zeros(3, device=device)\n"
    ),
    "a GPU by number that the program has made the current one": (
        "def f(x, y, gpu):\n    torch.cuda.set_device(gpu)\n    x.cuda(gpu)\n    return y.cuda()\n"
    ),
    "the declared device, asked another way": (
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "x = torch.ones(3)\nif torch.cuda.is_available():\n    x = x.cuda()\n"
    ),
}


LATE = (
    "def f(x):\n    return x + torch.zeros(2).cuda()\n\n\n{}\n"
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nprint(torch.ones(2).to(device))\n"
)
# Nothing tells another device, and nothing in view says that all who call it have CUDA.
SHOWN = {
    "a name of another function": (
        "def build(net, device):\n    return net.to(device)\n\n\nclass T:\n    def __init__(self, net, device):\n"
        "        self.net = net.to(device)\n\n    def step(self, rows):\n        return rows.cuda() * 2\n"
    ),
    "a program for CUDA alone": (
        'def step(model, rows, local_rank):\n    device = torch.device("cuda", local_rank)\n'
        "    model.to(device)\n\n\ndef train(model, loader):\n    for x in loader:\n"
        "        model(x.cuda())\n"
    ),
    "a function of such a script": "def f(x):\n    m = nn.Linear(2, 2).cuda()\n    return m(x.cuda())\n",
    "the number that it meets has no device": (
        "def f(scale, n, x):\n    y = torch.zeros(n).cuda()\n    return y * scale, x.is_cuda\n"
    ),
    "a parameter that may be None": (
        "def f(n, base=None):\n    y = torch.zeros(n).cuda()\n    if base is not None:\n"
        "        y = base.mean() + y * base.size(0)\n    return y\n"
    ),
    "a model that goes to CUDA in the same function": (
        "def f(model, rows):\n    x = torch.tensor(rows).cuda()\n    model = model.cuda()\n    return model(x)\n"
    ),
    "the options of another function": (
        "def main():\n    args = parse()\n    return net(args).to(args.device)\n\n\ndef f(n):\n    return torch.zeros(n).cuda()\n"
    ),
    "a method of a module's own, and a module without parameters": (
        "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.kind = 'a'\n\n"
        "    def helper(self, rows):\n        return rows\n\n    def one(self, rows):\n"
        "        return self.helper(torch.tensor(rows).cuda())\n\n"
        "    def two(self, rows):\n        return self(torch.tensor(rows).cuda())\n"
    ),
    "something on the host": (
        "def f(n):\n    a = torch.zeros(n)\n    b = torch.ones(n).cuda()\n"
        "    return torch.cat([a.view(-1), b]), b.device\n"
    ),
    "a device that is bound after the function was called": LATE.format("print(f(nn.Linear(2, 2)))"),
    "one that another function has called before": LATE.format("def g():\n    return f(3)\n\n\ng()"),
    "the current GPU as the device": "def f(x):\n    return x.to(torch.cuda.current_device())\n",
}
NOT_SHOWN = {
    "the current GPU, where a package needs it": (
        "def f(x, fast=None):\n    return x if fast is None else fast(x, device=torch.cuda.current_device())\n"
    ),
    "a program for CUDA": ("import argparse\n\n\ndef f(x):\n    return nn.Linear(2, 2).cuda()(x.cuda())\n"),
}


@pytest.mark.parametrize("name", SAFE)
def test_safe(name: str) -> None:
    before, after = SAFE[name]
    assert fixed(RULE, HEAD + ANYWHERE + before, Safety.SAFE) == HEAD + ANYWHERE + after


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe(name: str) -> None:
    before, after = UNSAFE[name]
    assert fixed(RULE, HEAD + before, Safety.SAFE) == HEAD + before
    assert fixed(RULE, HEAD + before) == HEAD + after


@pytest.mark.parametrize("text", [*SILENT.values(), *NOT_SHOWN.values()], ids=[*SILENT, *NOT_SHOWN])
def test_silent(text: str) -> None:
    assert [finding.message for finding in findings(RULE, HEAD + text)] == []


def test_a_device_that_is_bound_before_the_function_is_called() -> None:
    text = LATE.format("args = len('what comes before does not run f')") + "f(3)\n"
    assert "torch.zeros(2, device=device)" in fixed(RULE, HEAD + text)


@pytest.mark.parametrize("name", SHOWN)
def test_what_callers_may_not_have_is_shown(name: str) -> None:
    """No device is known that they could be on; CUDA can be used only if it is available."""
    found = findings(RULE, HEAD + SHOWN[name])
    assert found and all("goes to the current GPU" in one.message for one in found)
    fixes = [one.fix for one in found if one.fix is not None]
    assert {(one.title, one.safety) for one in fixes} <= {("use CUDA only if it is available", Safety.UNSAFE)}
    text = fixed(RULE, HEAD + SHOWN[name])
    assert text.count("torch.cuda.is_available()") == SHOWN[name].count("torch.cuda.is_available()") + len(
        fixes
    )
    assert not [one for one in findings(RULE, text) if one.fix is not None]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda()", 'x.to("cuda" if torch.cuda.is_available() else "cpu")'),
        ("x.cuda(1)", None),
        ("x.to('cuda')", "x.to('cuda' if torch.cuda.is_available() else 'cpu')"),
        (
            "x.cuda(non_blocking=True)",
            'x.to("cuda" if torch.cuda.is_available() else "cpu", non_blocking=True)',
        ),
        (
            "x.to(torch.cuda.current_device())",
            'x.to(torch.cuda.current_device() if torch.cuda.is_available() else "cpu")',
        ),
        ("x.to(torch.cuda.current_device() + 1)", None),
    ],
)
def test_cuda_only_if_it_is_available(before: str, after: str | None) -> None:
    text = "import torch\ndef f(x: torch.Tensor):\n    return {}\n"
    assert fixed(RULE, text.format(before)) == text.format(after or before)


def test_what_is_fixed_is_silent() -> None:
    for _, after in (*SAFE.values(), *UNSAFE.values()):
        assert [one for one in findings(RULE, HEAD + after) if one.fix] == []


def test_a_default_is_shown() -> None:
    text = HEAD + (
        "def one_hot(x, n, device='cuda'):\n    x = x.long().view(-1, 1)\n"
        "    return torch.full((x.size(0), n), 0.0, device=device).scatter_(1, x, 1.0)\n"
    )
    (finding,) = findings(RULE, text)
    assert finding.fix is not None and finding.fix.safety is Safety.MANUAL
    assert fixed(RULE, text, Safety.UNSAFE) == text
    after = fixed(RULE, text, Safety.MANUAL)
    assert "device=None):\n    device = x.device if device is None else device\n" in after


def test_legacy_constructor_of_an_unknown_thing_has_no_fix() -> None:
    text = HEAD + "def f(x: torch.Tensor, y):\n    return torch.cat([x, torch.cuda.FloatTensor(y)])\n"
    (finding,) = findings(RULE, text)
    assert finding.fix is None


@pytest.mark.parametrize(("functions", "more", "count"), [(4, "", 4), (5, "", 0), (5, PORTABLE, 5)])
def test_a_file_that_goes_to_cuda_throughout_is_written_for_it(functions: int, more: str, count: int) -> None:
    text = HEAD + more + "".join(f"def f{i}(x):\n    return load(x).cuda()\n" for i in range(functions))
    assert len(findings(RULE, text)) == count


def test_comments_keep_a_condition() -> None:
    text = (
        HEAD
        + ANYWHERE
        + (
            "def f(x, n):\n    y = torch.zeros(n)\n    if x.is_cuda:\n        # to the GPU\n"
            "        y = y.cuda()\n"
        )
    )
    assert "        # to the GPU\n        y = y.to(x.device)\n" in fixed(RULE, text, Safety.SAFE)


def test_elif_stays() -> None:
    text = (
        HEAD
        + ANYWHERE
        + (
            "def f(x, n):\n    y = torch.zeros(n)\n    if n == 0:\n        return y\n    elif x.is_cuda:\n"
            "        y = y.cuda()\n"
            "    return y\n"
        )
    )
    assert "    elif x.is_cuda:\n        y = y.to(x.device)\n" in fixed(RULE, text, Safety.SAFE)


SCRIPT = HEAD + "\nmodel = nn.Linear(2, 2).cuda()\nfor x in data:\n    model(x.to('cuda'))\n"


def test_all_reports_the_rest() -> None:
    found = findings(HardCodedCuda(all=True), SCRIPT)
    assert len(found) == 2 and all(finding.fix is None for finding in found)


def test_declare() -> None:
    (finding,) = findings(HardCodedCuda(declare="cuda"), SCRIPT)
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE
    assert fixed(HardCodedCuda(declare="cuda"), SCRIPT) == HEAD + (
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "\nmodel = nn.Linear(2, 2).to(device)\nfor x in data:\n    model(x.to(device))\n"
    )


def test_declare_any_accelerator_under_a_free_name() -> None:
    after = fixed(HardCodedCuda(declare="accelerator"), SCRIPT + "def f(device):\n    return device\n")
    assert "DEVICE = torch.accelerator.current_accelerator() if " in after
    assert "model(x.to(DEVICE))" in after


ACCELERATOR = (
    "torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device('cpu')"
)


@pytest.mark.parametrize(
    "device",
    [
        "torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        ACCELERATOR,
        "torch.accelerator.current_accelerator(check_available=True) or torch.device('cpu')",
    ],
)
def test_the_current_accelerator_is_a_device_in_scope(device: str) -> None:
    text = HEAD + f"device = {device}\nnet = nn.Linear(3, 3).to(device)\nx = torch.randn(2, 3)\n"
    text += "net(x.cuda())\ndef f():\n    y = torch.zeros(2)\n    return y.cuda()\n"
    after = fixed(RULE, text)
    assert "net(x.to(device))" in after and "return y.to(device)" in after


def test_declare_replaces_a_constant() -> None:
    text = HEAD + "device = 'cuda'\nmodel = nn.Linear(2, 2).to(device)\n"
    after = fixed(HardCodedCuda(declare="cuda"), text)
    assert 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nmodel' in after


NAMED = (
    HEAD + "\n\nclass P:\n    def __init__(self):\n        self._device = 'cuda'\n\n\ndef main():\n"
    '    device = torch.device("cuda")\n    return nn.Linear(2, 2).to(device)\n'
)


def test_all_reports_devices_that_are_given_a_name() -> None:
    assert findings(RULE, NAMED) == []
    assert len(findings(HardCodedCuda(all=True), NAMED)) == 2


def test_declare_lets_devices_with_a_name_choose() -> None:
    chosen = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    assert fixed(HardCodedCuda(declare="cuda"), NAMED) == NAMED.replace("'cuda'", chosen).replace(
        'torch.device("cuda")\n', f"{chosen}\n"
    )


@pytest.mark.parametrize("subject", ["self", "self.prior"])
def test_an_option_called_is_cuda_is_no_tensor(subject: str) -> None:
    """A module may keep whether it was asked for CUDA under that name, and has no `device` then."""
    text = f"""\
import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, cuda=False):
        super().__init__()
        self.is_cuda = cuda

    def forward(self, x):
        y = torch.ones(3)
        if {subject}.is_cuda:
            y = y.cuda()
        return y
"""
    assert findings(HardCodedCuda(), text) == []


JOINED = "def f(x: torch.Tensor, n):\n    y = torch.zeros(n).cuda()\n    return torch.cat([x, y])\n"


@pytest.mark.parametrize(
    ("text", "safety"),
    [
        (JOINED, Safety.SAFE),
        (JOINED.replace("    y =", "    new = torch.cuda.FloatTensor\n    y ="), Safety.UNSAFE),
        (JOINED.replace("    y =", "    n = count(n).cuda()\n    y ="), Safety.UNSAFE),
        (JOINED + "\n\ndef g(make):\n    return make().cuda()\n", Safety.SAFE),
        ("class A:\n    @staticmethod\n    " + JOINED.replace("\n    ", "\n        ")
         + "\n    def g(self, make):\n        return make().cuda()\n", Safety.UNSAFE),
    ],
)  # fmt: skip
def test_what_goes_on_needing_cuda_is_not_mended_by_one_fix(text: str, safety: Safety) -> None:
    levels = [f.fix.safety for f in findings(RULE, HEAD + PORTABLE + ANYWHERE + text) if f.fix is not None]
    assert levels == [safety]


BOOSTED = (
    "def train(model, loader, booster, criterion, optimizer):\n    for images, labels in loader:\n"
    "        images = images.cuda()\n        loss = criterion(model(images), labels)\n"
    "        booster.backward(loss, optimizer)\n"
)


@pytest.mark.parametrize("declared", ["", ": Booster"])
def test_an_engine_is_no_tensor_though_it_has_a_backward(declared: str) -> None:
    text = HEAD + PORTABLE + BOOSTED.replace("booster,", f"booster{declared},")
    assert "booster.device" not in fixed(RULE, text)


def test_what_is_declared_to_be_no_tensor_has_no_device() -> None:
    text = "def f(x{}, n):\n    y = torch.zeros(n).cuda()\n    return torch.matmul(x.view(-1), y)\n"
    assert "x.device" in fixed(RULE, HEAD + PORTABLE + text.format(": torch.Tensor"))
    assert "x.device" not in fixed(RULE, HEAD + PORTABLE + text.format(": Grid"))


def test_nothing_is_mended_where_the_default_device_is_set() -> None:
    text = HEAD + PORTABLE + JOINED + "\n\ntorch.set_default_tensor_type('torch.cuda.FloatTensor')\n"
    assert [f.fix.safety for f in findings(RULE, text) if f.fix is not None] == [Safety.UNSAFE]


@pytest.mark.parametrize(("call", "fixes"), [("train(make(1), judge, 10)", 0), ("train(True)", 0)])
def test_a_trainer_is_no_module(call: str, fixes: int) -> None:
    text = (
        "import torch\nfrom mine import Trainer\n\nif __name__ == '__main__':\n"
        "    device = torch.device('cuda' if use_cuda else 'cpu')\n\n    def evaluation(trainer: Trainer):\n"
        "        def judge(size, seen):\n            with torch.no_grad():\n"
        "                seen = torch.tensor(seen).cuda()\n"
        "                trainer.sample_generator(seen.unsqueeze(0).expand((size, seen.size(0))), size)\n\n"
        f"    trainer.{call}\n"
    )
    told = findings(RULE, text)
    assert sum("parameters" in (one.fix.title if one.fix else "") for one in told) == fixes


ONE_CHOICE = """def main(path):
    device = torch.device("cuda")
    net = nn.Linear(2, 2).to(device)
    return net(torch.load(path, map_location=device))


if __name__ == "__main__":
    main("x.pt")
"""


@pytest.mark.parametrize(
    ("code", "literal"),
    [
        ('device = torch.device("cuda")', '"cuda"'),
        ("device = 'cuda:0'", "'cuda:0'"),
        ("device = torch.cuda.current_device()", "torch.cuda.current_device()"),
        ('device = choose(path, device="cuda")', '"cuda"'),
    ],
)
def test_the_one_word_that_keeps_a_script_from_running_without_cuda(code: str, literal: str) -> None:
    text = HEAD + ONE_CHOICE.replace('device = torch.device("cuda")', code)
    (found,) = findings(RULE, text)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    assert "the only place of this script" in found.message
    chosen = code.replace(literal, f'{literal} if torch.cuda.is_available() else "cpu"')
    assert fixed(RULE, text) == text.replace(code, chosen)


ASKED = """
def main(path, x):
    cuda = torch.cuda.is_available()
    device = torch.device("cuda")
    net = torch.load(path, map_location="cpu")
    CUDA
        net = net.to(device)
    run(net, device)
    print(net(x))

if __name__ == "__main__":
    main("x.pt", torch.ones(2))
"""


def test_a_table_of_devices_is_a_choice() -> None:
    text = """
DEVICES = {"cuda": dict(device=torch.device("cuda")), "cpu": dict(device=torch.device("cpu"))}
CHOSEN = "cuda" if torch.cuda.is_available() else "cpu"

if __name__ == "__main__":
    print(nn.Linear(2, 2).to(DEVICES[CHOSEN]["device"]))
"""
    assert not findings(RULE, HEAD + text)
    assert findings(RULE, HEAD + text.replace('"cuda" if torch.cuda.is_available() else "cpu"', "'cuda'"))


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [("if cuda:", False), ("if torch.cuda.is_available():", False), ("if x is not None:", True)],
)
def test_a_device_that_is_used_where_there_is_cuda_raises_nowhere(asked: str, is_told: bool) -> None:
    assert bool(findings(RULE, HEAD + ASKED.replace("CUDA", asked))) is is_told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Linear(2, 2).to(device)", "nn.Linear(2, 2).cuda()"),  # it needs CUDA in another place as well
        ('if __name__ == "__main__":\n    main("x.pt")\n', ""),  # no script
        (
            ".to(device)\n    return net(torch.load(path, map_location=device))",
            "\n    return net(path)",
        ),  # not read
        ("    net =", "    torch.cuda.set_device(0)\n    net ="),
        (
            '    device = torch.device("cuda")',
            '    if torch.cuda.is_available():\n        device = torch.device("cuda")',
        ),
    ],
)
def test_what_needs_cuda_elsewhere_or_has_a_choice_is_left_alone(old: str, new: str) -> None:
    assert ONE_CHOICE.count(old) == 1
    assert not findings(RULE, HEAD + ONE_CHOICE.replace(old, new))
