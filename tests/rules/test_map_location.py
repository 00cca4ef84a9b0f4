"""map-location: which loads it speaks of, the place it gives them, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import devfix
import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.map_location import MapLocation

RULE, ALL = MapLocation(), MapLocation(all=True)

# (name, the call as it was, the call as it becomes, safety, the program with `LOAD` for the call)
FIXED = [
    ("feeds a model", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def f(model, path, device):\n    model.load_state_dict(LOAD)\n"),
    ("device in scope makes no difference to that", "torch.load(path)",
     'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def f(model, path, device):\n    model.to(device)\n    state = LOAD\n"
     "    model.load_state_dict(state['net'])\n"),
    ("renamed on the way", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def f(net, path, device):\n    old = LOAD['state_dict']\n    new = {}\n    for k, v in old.items():\n"
     "        new[k[7:]] = v\n    net.load_state_dict(new)\n"),
    ("through a function of the file",
     "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def restore(net, state):\n    net.load_state_dict(state)\ndef f(net, path, device):\n    restore(net, LOAD)\n"),
    ("other options stay", "torch.load(path, weights_only=True)",
     'torch.load(path, weights_only=True, map_location="cpu")', Safety.SAFE,
     "def f(model, path, device):\n    model.load_state_dict(LOAD)\n"),
    ("an object of its own keeps what it gets", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.UNSAFE, "def f(ema, path):\n    ema.load_state_dict(LOAD)\n"),
    ("an entry called like a number, that is moved", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.UNSAFE, "def f(model, path, device, test):\n    state = LOAD\n    best = state['best_acc']\n"
     "    if device is not None:\n        best = best.to(device)\n    model.load_state_dict(state['net'])\n"
     "    print(max(test(model), best))\n"),
    ("an entry called like a number", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.SAFE, "def f(model, path, device, test):\n    state = LOAD\n    best = state['best_acc']\n"
     "    model.load_state_dict(state['net'])\n    print(max(test(model), best))\n"),
    ("entries of a checkpoint", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "def f(path):\n    sd = LOAD\n    if 'state_dict' in sd:\n        sd = sd['state_dict']\n"
     "    return {k[7:]: v for k, v in sd.items()}\n"),
    ("not copied", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "def f(model, path):\n    model.load_state_dict(LOAD, assign=True)\n"),
    ("the best of some run", "torch.load(best_path)", 'torch.load(best_path, map_location="cpu")', Safety.SAFE,
     "def f(model, best_path, device):\n    model.load_state_dict(LOAD)\n"),
    ("saved by another function", "torch.load(p)", 'torch.load(p, map_location="cpu")', Safety.SAFE,
     "def g(model, p):\n    torch.save(model.state_dict(), p)\n\n\ndef f(model, p, device):\n"
     "    model.load_state_dict(LOAD)\n"),
    ("something else is kept as well", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.UNSAFE,
     "class T:\n    def f(self, path):\n        c = LOAD\n        self.net.load_state_dict(c['n'])\n"
     "        self.memory = c['memory']\n"),
    ("a whole model, device in scope", "torch.load(path)", "torch.load(path, map_location=device)",
     Safety.UNSAFE, "def f(path, x, device):\n    model = LOAD\n    model.eval()\n"
     "    return model(x.to(device))\n"),
    ("a whole model, self.device", "torch.load(path)", "torch.load(path, map_location=self.device)",
     Safety.UNSAFE,
     "class P:\n    def __init__(self, device):\n        self.device = device\n"
     "    def f(self, path):\n        self.net = LOAD\n        self.net.eval()\n"),
    ("a whole model, args.device", "torch.load(path)", "torch.load(path, map_location=args.device)",
     Safety.UNSAFE,
     "def f(path, args, x):\n    model = LOAD\n    return model(x.to(args.device))\n"),
    ("a whole model on a program's GPU", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "def f(path, x):\n    model = LOAD\n    return model(x.cuda())\n"),
    ("a whole model, by a global name", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "def f(path):\n    global model\n    model = LOAD\ndef g(x):\n    return model(x.cuda())\n"),
    ("a whole model for somebody else", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "from mine import Judge\ndef f(path, x):\n    model = LOAD\n    return Judge(model).of(x.cuda())\n"),
    ("an optimizer of torch", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def make(kind, p):\n    if kind:\n        return torch.optim.SGD(p, 0.1)\n"
     "    return torch.optim.Adam(p)\ndef f(kind, p, path, device):\n    optimizer = make(kind, p)\n"
     "    optimizer.load_state_dict(LOAD)\n"),
    ("an optimizer of some class", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "from mine import get_optimizer\ndef f(kind, p, path):\n    optimizer = get_optimizer(kind, p)\n"
     "    optimizer.load_state_dict(LOAD)\n"),
    ("a class of the file that keeps it", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.UNSAFE,
     "class Norm:\n    def load_state_dict(self, state):\n        self.mean = state['mean']\n"
     "def f(path):\n    norm = Norm()\n    norm.load_state_dict(LOAD)\n    return norm\n"),
    ("a class of the file that copies it", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.SAFE,
     "class Both:\n    def load_state_dict(self, state):\n        self.net.load_state_dict(state['a'])\n"
     "def f(path, device):\n    both = Both()\n    both.load_state_dict(LOAD)\n    return both\n"),
    ("a function that makes parameters of it", "torch.load(path)", 'torch.load(path, map_location="cpu")',
     Safety.UNSAFE,
     "def load_weights_into(net, w):\n    net.head = torch.nn.Parameter(w['head'])\n"
     "def f(net, path, device):\n    load_weights_into(net, LOAD)\n    net.to(device)\n"),
    ("a value that is kept as it is", "torch.load(path)", "torch.load(path, map_location=device)", Safety.UNSAFE,
     "def f(agent, path, device):\n    state = LOAD\n    agent.net.load_state_dict(state['net'])\n"
     "    agent.alpha = state['alpha']\n"),
    ("a number that is kept", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.SAFE,
     "def f(agent, path, device):\n    state = LOAD\n    agent.net.load_state_dict(state['net'])\n"
     "    agent.epoch = state['epoch']\n"),
    ("a method out of sight", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "def f(agent, path):\n    agent.load_weights(LOAD)\n"),
    ("the part of one process", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "def f(model, folder, rank):\n    name = f'model_rank{rank}.bin'\n    path = folder / name\n"
     "    model.load_state_dict(LOAD)\n"),
    ("a wrapper with a GPU of its own", "torch.load(path)", "torch.load(path, map_location=map_location)",
     Safety.UNSAFE, "def load(path, map_location='cuda'):\n    return LOAD\n"),
    ("a rank is no place", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "def f(path, local_rank, x):\n    device = local_rank\n    model = LOAD\n"
     "    return model(x.to(device))\n"),
    ("a device bound below", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "def f(path, x):\n    model = LOAD\n    device = x.device\n    return model(x.to(device))\n"),
    ("a device of some paths only", "torch.load(path)", 'torch.load(path, map_location="cpu")', Safety.UNSAFE,
     "def f(path, x, fast):\n    if fast:\n        device = x.device\n    model = LOAD\n"
     "    return model(x)\n"),
    ("a global that is loaded again", "torch.load(path)",
     'torch.load(path, map_location=None if torch.cuda.is_available() else "cpu")', Safety.UNSAFE,
     "def load(path):\n    global net\n    net = LOAD\ndef main(args, x):\n    global net\n    load(args.resume)\n"
     "    net = net.cuda() if args.cuda else net\n    load(args.best)\n    return net(x)\n"),
    ("converter", "torch.load(args.checkpoint_path)",
     'torch.load(args.checkpoint_path, map_location="cpu")', Safety.UNSAFE,
     "def f(args):\n    model = LOAD\n    model['optim'] = None\n    torch.save(model, args.output)\n"),
    ("weights of a parameter", "torch.load(init_file)", 'torch.load(init_file, map_location="cpu")',
     Safety.UNSAFE, "def f(layer, init_file):\n    layer.W.data = LOAD\n"),
    ("exported", "torch.jit.load(path)", 'torch.jit.load(path, map_location=device)', Safety.UNSAFE,
     "def f(path, device):\n    return LOAD.to(device)\n"),
    ("a wrapper that forgets", "torch.load(f)", "torch.load(f, map_location=map_location)", Safety.SAFE,
     "def pt_load(path, map_location=None):\n    with open(path, 'rb') as f:\n        return LOAD\n"),
    ("a call of a wrapper", "pt_load(path)", 'pt_load(path, map_location="cpu")', Safety.SAFE,
     "def pt_load(path, map_location=None):\n    return torch.load(path, map_location=map_location)\n"
     "def f(model, path):\n    model.load_state_dict(LOAD)\n"),
    ("a method that takes one elsewhere", "Net.load_from_file(p)", 'Net.load_from_file(p, map_location="cpu")',
     Safety.UNSAFE, "def f(Net, p):\n    return Net.load_from_file(p, map_location='cpu')\n"
     "def g(Net, p):\n    model = LOAD\n    return model.eval()\n"),
    ("a test that the program calls", "torch.load(p)", 'torch.load(p, map_location="cpu")', Safety.SAFE,
     "def test(model, p):\n    model.load_state_dict(LOAD)\ndef main(model, p, device):\n"
     "    test(model.to(device), p)\n"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "safety", "program"), [c[1:] for c in FIXED], ids=[c[0] for c in FIXED]
)
def test_fixed(before: str, after: str, safety: Safety, program: str) -> None:
    text = "import torch\n" + program.replace("LOAD", before)
    (finding,) = findings(ALL, text)
    assert finding.fix is not None and finding.fix.safety is safety
    assert fixed(ALL, text) == "import torch\n" + program.replace("LOAD", after)


STATE = "    model.load_state_dict(torch.load({}))\n"
# Programs in which it makes no difference, or nobody can tell, where a state is loaded to.
WRAPPED = (
    "def f(model, p, use_gpu, name, device):\n    if {0}:\n        model = torch.nn.DataParallel(model).cuda()\n"
    "    model.load_state_dict(torch.load(p){1})\n    torch.save(model.state_dict(), name)\n"
)
NO_MATTER = {
    "the file of this run": "def f(model, loader, p):\n    train(model, loader)\n" + STATE.format("p"),
    "the file of this run, in a script": "import sys\nfor x in data:\n    model(x).backward()\n"
    "if sys.argv:\n" + STATE.format("'best.pt'"),
    "the file of this run, in a function that is called below": "def evaluate(model, p):\n" + STATE.format("p")
    + "def main(model, loader, p):\n    train(model, loader)\n    evaluate(model, p)\n",
    "the file of this run, under another name": "def f(model, p, device):\n    fit_model(model, device, 3)\n"
    + STATE.format("p"),
    "an early stop": "class Stop:\n    def keep(self, model):\n        torch.save(model.state_dict(), self.path)\n"
    "    def back(self, model):\n    " + STATE.format("self.path"),
    "a file of its own": "def f(model):\n    path = 'm.pt'\n" + STATE.format("path")
    + "    torch.save(model.state_dict(), path)\n",
    "saved from the CPU": "def save(model, p):\n    torch.save(model.cpu().state_dict(), p)\n"
    "def f(model, p):\n" + STATE.format("p"),
    "CUDA only": "def f(model, p):\n" + STATE.format("p") + "    model.cuda()\n",
    "CUDA only, under a name": "device = 'cuda'\ndef f(model, p):\n" + STATE.format("p") + "    model.to(device)\n",
    "downloaded": "def f(model, url):\n    p = download_file(url)\n" + STATE.format("p"),
    "published": "def f(model, name):\n" + STATE.format("get_model_file(name)"),
    "published, under a name of its own": "def net(pretrained=False):\n    model = Net()\n    if pretrained:\n    "
    + STATE.format("'net_v3.pth'") + "    return model\n",
    "the best of this object": "class Keeper:\n    def keep(self, model, n):\n"
    "        torch.save(model.state_dict(), f'{self.folder}/{n}')\n    def back(self, model, log):\n"
    "        path = self.folder + '/' + log['best']\n    " + STATE.format("path"),
    "no such file": "def f(model, device):\n" + STATE.format("'model_%d.pth'") + "    model.to(device)\n",
    "a program for the CPU": "def f(model, p):\n" + STATE.format("p") + "if __name__ == '__main__':\n    f(1, 2)\n",
    "an object of an unknown kind": "def f(thing, p, device):\n    thing.load_state_dict(torch.load(p))\n",
    "CUDA whatever there is": "def f(model, p, args, device):\n" + STATE.format("p") + "    model.cuda()\n"
    "    model(args.gpus)\n",
    "all tensors on CUDA": "torch.set_default_tensor_type('torch.cuda.FloatTensor')\ndef f(model, p, device):\n"
    + STATE.format("p"),
    "a fixed device, though tensors are asked for theirs": "device = 'cuda'\ndef f(model, p, x):\n"
    + STATE.format("p") + "    return model.to(device)(x.to(x.device))\n",
    "published, where a function finds it": "def net(pretrained=False):\n    model = Net()\n    if pretrained:\n"
    "        where = check_path('net')\n    " + STATE.format("where") + "    return model\n",
    "fetched above": "def f(model, url, device):\n    p = load_file_from_url(url)\n" + STATE.format("p"),
    "what a handler kept": "from ignite.handlers import Checkpoint\ndef f(model, folder, device):\n"
    + STATE.format("folder + '/best.pt'"),
    "what a trainer has done": "def f(model, p, device, trainer, loader):\n    trainer.run(loader, max_epochs=3)\n"
    + STATE.format("p"),
    "an engine": "def f(model, trt_file, device):\n" + STATE.format("trt_file"),
    "a class that takes it in its own way": "class Norm(torch.nn.Module):\n    def set_extra_state(self, state):\n"
    "        self.mean = state\ndef f(model, p, device):\n" + STATE.format("p"),
}  # fmt: skip
NO_MATTER |= {
    "a file that says nothing of devices": "def f(model, p):\n" + STATE.format("p"),
    "copied to the CPU a line above": "def keep(model, p, device):\n    model.cpu()\n"
    "    print('saved')\n    torch.save(model.state_dict(), p)\n    model.to(device)\ndef f(model, p):\n" + STATE.format("p"),
    "follows its inputs, and needs CUDA": "def f(model, p):\n" + STATE.format("p") + "def warp(x, flow):\n"
    "    grid = torch.ones(3)\n    if x.is_cuda:\n        grid = grid.cuda()\n"
    "    return grid * torch.ones(3).cuda() * flow\n",
    "follows its inputs": "def f(model, p):\n" + STATE.format("p")
    + "def g(x):\n    return x + torch.ones(3, device=x.device)\n",
    "a GPU that is insisted on": "def f(model, p):\n    if torch.cuda.is_available():\n        where = 'cuda'\n"
    "    else:\n        raise RuntimeError('no GPU')\n" + STATE.format("p") + "    model.to(where)\n",
    "what is there on CUDA only": "def f(model, p, args):\n    if args.cuda:\n"
    "        model = torch.nn.DataParallel(model).cuda()\n" + STATE.format("p").replace("model.", "model.module."),
    "one file, by its name": "import os\ndef net(device):\n    pretrained = os.path.join('models', 'tiny.pt')\n"
    "    return start(Net(), pretrained)\ndef start(model, pretrained=''):\n    if os.path.isfile(pretrained):\n    "
    + STATE.format("pretrained") + "    return model\n",
    "inside of what is there on CUDA only": "def f(model, p, args):\n    if args.cuda:\n"
    "        model = torch.nn.DataParallel(model).cuda()\n"
    + STATE.format("p").replace("model.", "model.module.net."),
    "other names on CUDA": WRAPPED.format("use_gpu", ""),
    "an option that is the number of a GPU": "parser.add_argument('--device', type=int, default=0)\n"
    "args = parser.parse_args()\nmodel = Net()\nmodel.load_state_dict(torch.load(args.path))\n"
    "model.to(torch.device(args.device))\n",
    "fetched by another program": "import os\nP = 'a/b.pt'\nif not os.path.exists(P):\n"
    "    os.system(f'wget -O {P} https://example.com/b.pt')\ndef f(model, device):\n" + STATE.format("P"),
    "one of a folder of published ones": "import os\ndef f(model, settings, device):\n"
    "    p = os.path.join(settings.env.pretrained_networks, 'mask_rcnn.pkl')\n" + STATE.format("p"),
}  # fmt: skip
# ... and in which it does, each a little different from one of those.
MATTERS = {
    "resumed before the training": "def f(model, loader, p, device):\n" + STATE.format("p")
    + "    train(model, loader)\n",
    "a path that is given": "class Trainer:\n    def keep(self, model, device, p):\n"
    "        torch.save(model.state_dict(), p)\n    def back(self, model, p):\n    " + STATE.format("p"),
    "either": "def f(model, p):\n" + STATE.format("p") + "    if torch.cuda.is_available():\n"
    "        model.cuda()\n",
    "one process per GPU": "def f(model, p, args):\n    model.cuda(args.gpu)\n" + STATE.format("p"),
    "an option": "def f(model, p, args):\n" + STATE.format("p") + "    model.to(args.device)\n",
    "weights that the caller has": "def net(pretrained='', device='cpu'):\n    model = Net()\n    if pretrained:\n    "
    + STATE.format("pretrained") + "    return model\n",
    "the best of another program": "def f(model, device, folder):\n" + STATE.format("folder + '/best.pth'"),
    "other names, and one GPU": WRAPPED.format("torch.cuda.device_count() > 1", ""),
    "other names that are made to agree": WRAPPED.format("use_gpu", ", strict=False"),
    "an option that may be the CPU": "parser.add_argument('--device', default='cpu')\n"
    "args = parser.parse_args()\nmodel = Net()\nmodel.load_state_dict(torch.load(args.path))\n"
    "model.to(torch.device(args.device))\n",
    "a program that fetches another file": "import os\nP = 'a/b.pt'\nos.system('wget https://example.com/data.zip')\n"
    "def f(model, device):\n" + STATE.format("P"),
    "one of a folder": "import os\ndef f(model, run, device):\n"
    "    p = os.path.join(run.folder, 'mask_rcnn.pkl')\n" + STATE.format("p"),
    "set to training": "def f(model, p, device):\n    model.train()\n" + STATE.format("p"),
}  # fmt: skip


@pytest.mark.parametrize("text", NO_MATTER.values(), ids=NO_MATTER)
def test_unsafe_where_it_may_make_no_difference(text: str) -> None:
    (finding,) = findings(ALL, "import torch\n" + text)
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


# Of those, what goes where it was saved from in each run of the program is only told where that is asked for.
SETTLED = (
    "the file of this run", "the file of this run, in a script", "the file of this run, under another name",
    "the file of this run, in a function that is called below", "CUDA only", "CUDA whatever there is",
    "all tensors on CUDA", "what a trainer has done", "saved from the CPU", "copied to the CPU a line above",
)  # fmt: skip


@pytest.mark.parametrize("name", NO_MATTER)
def test_what_each_run_settles_is_told_only_if_asked_for(name: str) -> None:
    assert bool(findings(RULE, "import torch\n" + NO_MATTER[name])) is (name not in SETTLED)


@pytest.mark.parametrize("text", MATTERS.values(), ids=MATTERS)
def test_safe_where_the_device_of_the_checkpoint_may_be_absent(text: str) -> None:
    (finding,) = findings(RULE, "import torch\n" + text)
    assert finding.fix is not None and finding.fix.safety is Safety.SAFE


def test_what_a_file_saves_besides_may_be_on_a_device() -> None:
    text = "import torch\ndef save(net, opt, p):\n    torch.save(net.cpu().state_dict(), p)\n{}def load(opt, p):\n"
    text += "    opt.load_state_dict(torch.load(p))\n"
    assert findings(RULE, text.format("    torch.save(opt.state_dict(), p + 'o')\n"))
    assert not findings(RULE, text.format(""))


def test_other_names_of_torch() -> None:
    for head, call in (("import torch as th", "th.load"), ("from torch import load", "load"),
                       ("from utils import *", "torch.load")):  # fmt: skip
        text = f"{head}\n# torch\ndef f(model, p):\n    model.load_state_dict({call}(p))\n"
        assert f'{call}(p, map_location="cpu")' in fixed(RULE, text)


SILENT = {
    "given": "def f(m, p, d):\n    m.load_state_dict(torch.load(p, map_location=d))\n",
    "given by position": "def f(m, p, d):\n    m.load_state_dict(torch.load(p, d))\n",
    "given as None": "def f(m, p):\n    m.load_state_dict(torch.load(p, map_location=None))\n",
    "given by somebody": "def f(m, p, **kw):\n    m.load_state_dict(torch.load(p, **kw))\n",
    "positional of the hub": "from torch.hub import load_state_dict_from_url as get\n"
    "def f(m, u, d):\n    m.load_state_dict(get(u, None, d))\n",
    "Lightning sees to it": "def f(Net, p):\n    return Net.load_from_checkpoint(p)\n",
    "safetensors": "from safetensors.torch import load_file\ndef f(m, p):\n"
    "    m.load_state_dict(load_file(p))\n",
    "dataset": "class D(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n"
    "        return torch.load(f'checkpoint{i}.pt')\n",
    "what a loader reads": "from torch.utils.data import DataLoader, random_split\ndef f(p, device):\n"
    "    model.to(device)\n    held = torch.load(p)\n    parts = random_split(held, [9, 1])\n"
    "    return [DataLoader(one) for one in parts]\n",
    "vocabulary": "def f(path):\n    vocab = torch.load(path + '/vocab.pt')\n    return vocab\n",
    "unknown data": "def f(path):\n    return torch.load(path)\n",
    "test": "def test_state(model, p):\n    model.load_state_dict(torch.load(p))\n",
    "a test that is run by itself": "def test_it(p=1):\n    Net().load_state_dict(torch.load(p))\ntest_it()\n",
    "a state has its own place": "def f(net, opt, s):\n    opt.load_state_dict(s, map_location='cpu')\n"
    "    net.load_state_dict(s)\n",
    "test case": "class TestModel:\n    def check(self, m, p):\n        m.load_state_dict(torch.load(p))\n",
    "just saved": "def f(model, p):\n    torch.save(model.state_dict(), p)\n"
    "    model.load_state_dict(torch.load(p))\n",
    "saved in a round of a loop": "def f(model, p, n, best):\n    for i in range(n):\n        if i > best:\n"
    "            torch.save(model.state_dict(), p)\n    model.load_state_dict(torch.load(p))\n",
    "the best of this run": "def f(trainer, model, callback):\n    trainer.fit(model)\n"
    "    model.load_state_dict(torch.load(callback.best_model_path))\n",
    "saved by the same script": "if __name__ == '__main__':\n    torch.save(model.state_dict(), 'm.pt')\n"
    "    model.load_state_dict(torch.load('m.pt'))\n",
    "metadata": "def f(folder, map_location=None):\n    metadata = torch.load(folder / 'm.pkl')\n"
    "    return metadata['version']\n",
    "buffer": "import io\ndef clone(model):\n    b = io.BytesIO()\n    torch.save(model, b)\n    b.seek(0)\n"
    "    model = torch.load(b)\n    return model.eval()\n",
    "file of tests": "import unittest\ndef f(m, p):\n    m.load_state_dict(torch.load(p))\n",
    "only with a GPU": "def f(m, p):\n    if torch.cuda.is_available():\n"
    "        m.load_state_dict(torch.load(p))\n",
    "the other arm": "def f(m, p, use_gpu):\n    if not use_gpu:\n"
    "        c = torch.load(p, map_location='cpu')\n    else:\n        c = torch.load(p)\n"
    "    m.load_state_dict(c)\n",
    "no place was asked for": "def f(m, p, map_location=None):\n    if map_location is None:\n"
    "        c = torch.load(p)\n    else:\n        c = torch.load(p, map_location=map_location)\n"
    "    m.load_state_dict(c)\n",
    "no place was asked for, the other way round": "def f(m, p, map_location=None):\n    if map_location:\n"
    "        return torch.load(p, map_location=map_location)\n    return torch.load(p)\n",
    "second try": "def f(m, p):\n    try:\n        c = torch.load(p)\n    except RuntimeError:\n"
    "        c = torch.load(p, map_location='cpu')\n    m.load_state_dict(c)\n",
    "replaced": "import functools\ntorch.load = functools.partial(torch.load, map_location='cpu')\n"
    "def f(m, p):\n    m.load_state_dict(torch.load(p))\n",
    "a name that only the other arm binds": "def f(m, p, tpu, device):\n    if tpu:\n"
    "        m.load_state_dict(torch.load(p, map_location='cpu'))\n    else:\n        map_location = device\n"
    "        m.load_state_dict(torch.load(p, map_location=map_location))\n",
    "another load": "import json\ndef f(model, p):\n    model.load_state_dict(json.load(p))\n",
    "own function called load": "def load(p):\n    return p\ndef f(model, p):\n"
    "    model.load_state_dict(load(p))\n",
}  # fmt: skip


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert not findings(RULE, "import torch\n" + dedent(text))


def test_a_wrapper_that_changes_its_argument_is_not_followed() -> None:
    text = dedent("""\
        import torch
        def load(p, map_location=None):
            if map_location is None:
                map_location = "cpu"
            return torch.load(p, map_location=map_location)
        def f(model, p):
            model.load_state_dict(load(p))
    """)
    assert not findings(RULE, text)


def test_module_level_device_in_a_function_but_not_from_the_main_guard() -> None:
    program = "import torch\n{}def f(p):\n    model = torch.load(p)\n    return model.eval()\n{}"
    bound = "device = torch.device('cpu')\n"
    assert "map_location=device" in fixed(RULE, program.format(bound, ""))
    guarded = f"if __name__ == '__main__':\n    {bound}    f('x.pt')\n"
    assert 'map_location=None if torch.cuda.is_available() else "cpu"' in fixed(
        RULE, program.format("", guarded)
    )


def test_a_transform_may_keep_what_it_is_given() -> None:
    text = """\
import torch


def restore(buffer, path):
    state = torch.load(path)
    buffer.transform.load_state_dict(state)
"""
    for finding in findings(MapLocation(), text):
        assert finding.fix is None or finding.fix.safety is not Safety.SAFE


def test_a_device_that_is_none_is_not_passed() -> None:
    text = "import torch\ndef f(p, device=None):\n    if device is {}None:\n        net = torch.load(p)\n        net.eval()\n"
    assert "map_location=device" not in fixed(RULE, text.format(""))
    assert "map_location=device" in fixed(RULE, text.format("not "))


WRITTEN = """\
import tempfile
import torch


def speed_up(self, device):
    file = tempfile.NamedTemporaryFile(delete=False)
    {}
    self.net.load_state_dict(torch.load({}))
"""


@pytest.mark.parametrize(
    ("above", "path", "safety"),
    [
        ("torch.save(self.net.state_dict(), file)", "file.name", Safety.UNSAFE),
        ("torch.save(self.net.state_dict(), other)", "file.name", Safety.SAFE),
        ("for _ in device:\n        torch.save(self.net.state_dict(), file)", "file.name", Safety.SAFE),
    ],
)
def test_what_the_function_has_just_written(above: str, path: str, safety: Safety) -> None:
    found = findings(RULE, WRITTEN.format(above, path))
    assert [one.fix and one.fix.safety for one in found] == [safety]


@pytest.mark.parametrize("name", ["_scaler", "grad_scaler", "lr_scheduler", "sched"])
def test_the_state_of_schedulers_and_grad_scalers_is_numbers(name: str) -> None:
    text = "import torch\ndef f(self, p, device):\n    self.{}.load_state_dict(torch.load(p))\n"
    assert not findings(RULE, text.format(name))
    assert findings(RULE, text.format("upscaler"))


OPTIONS = """\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--{}", default="")
args = parser.parse_args()
net = make().to(args.device)
if args.{}:
    net.load_state_dict(torch.load(args.{}))
"""


@pytest.mark.parametrize(("option", "safety"), [("resume", Safety.SAFE), ("device", Safety.UNSAFE)])
def test_a_program_that_cannot_start(option: str, safety: Safety) -> None:
    [one] = findings(RULE, OPTIONS.format(option, option, option))
    assert one.fix is not None and one.fix.safety is safety


_ASKED = """\
import torch


def restore(model, optimizer, path, map_location="cpu"):
    state = torch.load(path, map_location=map_location)
    model.load_state_dict(state["model"])
    read(path, map_location={0})
    optimizer.load_state_dict(state["optimizer"], map_location={0})
"""


def test_a_place_of_its_own_in_one_call_of_several() -> None:
    found = findings(RULE, _ASKED.format('"cpu"'))
    assert len(found) == 2
    assert fixed(RULE, _ASKED.format('"cpu"')) == _ASKED.format("map_location")
    assert not findings(RULE, _ASKED.format("map_location"))
    assert not findings(RULE, _ASKED.format("None"))


_BY_DEFAULT = """\
import torch


def restore(net, path, device{0}):
{1}    net.load_state_dict(torch.load(path, map_location=device{2}))
    return net
"""


def test_none_unless_somebody_names_one() -> None:
    text = _BY_DEFAULT.format("=None", "", "")
    [found] = findings(RULE, text)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    assert fixed(RULE, text) == _BY_DEFAULT.format("=None", "", ' or "cpu"')
    assert not findings(RULE, _BY_DEFAULT.format("", "", ""))
    assert not findings(RULE, _BY_DEFAULT.format("='cpu'", "", ""))
    chosen = "    if device is None:\n        device = 'cpu'\n"
    assert not findings(RULE, _BY_DEFAULT.format("=None", chosen, ""))


def test_a_device_that_is_not_read_speaks_for_a_checkpoint() -> None:
    text = "import torch\nclass Mean:\n    def _load(self, path, device=None):\n        stats = torch.load(path)\n{}"
    [found] = findings(RULE, text.format("        self.load_stats(stats)\n"))
    assert found.fix is not None and "map_location=device" in fixed(RULE, text.format(""))
    assert not findings(RULE, text.format("        self.load_stats(stats).to(device)\n"))


def test_what_computes_with_tensors_is_a_model() -> None:
    text = "import torch\npolicy, stats = torch.load(path)\nx = {}\nvalue = policy.act(x)\n"
    assert findings(RULE, text.format("torch.zeros(1, 3)"))
    assert not findings(RULE, text.format("read()"))


def test_what_is_loaded_by_its_address_loads_anywhere() -> None:
    text = "import torch\ndef f(model, url):\n    model.load_state_dict(torch.hub.load_state_dict_from_url(url))\n"
    assert not findings(RULE, text)
    assert 'load_state_dict_from_url(url, map_location="cpu")' in fixed(ALL, text)


def test_what_a_switch_turns_off_is_loaded_another_time() -> None:
    text = "import torch\nRESUME = {}\nnet = torch.nn.Linear(2, 2)\nif RESUME:\n    net.load_state_dict(torch.load('a.pt'))\n"
    assert findings(RULE, text.format("False")) and findings(RULE, text.format("True"))


CARRIED = {
    "a mapping that is updated": "own = net.state_dict()\n    own.update({{k: v for k, v in state.items()}})\n    {}(own)\n",
    "an entry under a condition": "if 'net' in state:\n        state = state['net']\n    {}(state)\n",
    "a helper that gives it on": "{}(stripped(state))\n",
}


@pytest.mark.parametrize("way", CARRIED.values(), ids=CARRIED)
def test_what_is_loaded_is_followed_to_where_it_goes(way: str) -> None:
    text = (
        "import torch\ndef stripped(state):\n    out = {}\n    for k, v in state.items():\n        out[k[7:]] = v\n"
        "    return out\ndef f(net, path, device):\n    state = torch.load(path)\n    "
    )
    [one] = findings(RULE, text + way.format("net.load_state_dict"))
    assert one.fix is not None and one.fix.safety is Safety.SAFE
    assert not findings(
        RULE, "import torch\ndef f(net, path):\n    state = read(path)\n    " + way.format("net.use")
    )


@pytest.mark.parametrize(
    ("save", "told"),
    [
        ("torch.save({'model': model.cpu().state_dict()}, p)", False),
        ("torch.save({'model': model.cpu().state_dict(), 'optim': optimizer.state_dict()}, p)", True),
        ("model.to('cpu')\n    save(model.state_dict(), p)", False),
        ("torch.save({'model': model.state_dict()}, p)", True),
    ],
)
def test_checkpoints_of_a_project_that_are_copied_to_the_cpu(tmp_path: Path, save: str, told: bool) -> None:
    """Without the state of an optimizer, nothing of them is on a GPU."""
    keep = f"import torch\nfrom torch import save\n\n\ndef keep(model, optimizer, p):\n    {save}\n"
    use = (
        "import argparse\nimport torch\nfrom keep import keep\n\n\nparser = argparse.ArgumentParser()\n"
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "model = torch.nn.Linear(2, 2)\nstate = torch.load(parser.parse_args().path)\n"
        'model.load_state_dict(state["model"])\nmodel.to(device)\n'
    )
    (tmp_path / "keep.py").write_text(keep)
    (tmp_path / "main.py").write_text(use)
    found = devfix.check(tmp_path, settings=False).findings
    assert ("map-location" in [one.codemod for one in found]) is told
