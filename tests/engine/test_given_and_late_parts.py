"""Modules that callers pass, parts that arrive late, and what is silent beside them: all codemods together."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from engine.programs import HEAD, marked


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs belong to no project: not to devfix's own, of which every file would be looked at."""
    monkeypatch.chdir(tmp_path)


PLACED = """
        class Model(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.device = device
                self.body = nn.Linear(4, 4){part}
                {whole}
            def set_classes(self, n):
                self.head = nn.Linear(4, n){mark}
                {after}
            def forward(self, x):
                return self.head(self.body(x.to(self.device)))
"""


def late(part: str = "", whole: str = "pass", after: str = "pass") -> str:
    mark = "" if after != "pass" else "  # <"
    return PLACED.format(part=part, whole=whole, after=after, mark=mark)


LOADED = """
        from parts import Whole
        from zoo import Coder, Core, Text, Tokenizer
        def build(device):
            coder = Coder.from_pretrained("a")
            text = Text.from_pretrained("b")MARK
            core = Core.from_pretrained("c")
            coder.to(device)
            core.to(device)
            MOVED
            whole = Whole(coder=coder, text=text, core=core, tokenizer=Tokenizer.from_pretrained("d"))
            END
            return whole
"""


def loaded(moved: str = "pass", end: str = "pass") -> str:
    mark = "  # <" if moved == end == "pass" else ""
    return LOADED.replace("MARK", mark).replace("MOVED", moved).replace("END", end)


FOUND = {
    "of a batch that is a dict, with its number, one part is not moved": """
        from nets import Detector
        def evaluate(val_loader, criterion):
            model = Detector().cuda()
            for number, data in enumerate(val_loader):
                images, boxes = data["img"], data["annot"]
                boxes = boxes.cuda()
                classes, anchors = model(images)  # <
                criterion(classes, anchors, boxes).backward()
    """,
    "the result of a Triton kernel": """
        import triton
        @triton.jit
        def add_kernel(x_ptr, out_ptr, n, BLOCK: "constexpr"):
            pass
        def add(x, n):
            out = torch.empty(x.shape)  # <
            add_kernel[(4,)](x, out, x.stride(0), BLOCK=128)
            return out
    """,
    "what a module that has its forward elsewhere gives": """
        class Policy(nn.Module):
            def masked(self, q):
                return q * torch.ones(3, device=q.device)
            def targets(self, batch):
                q = self(batch).logits
                return q.detach().numpy()  # <
    """,
    "the first item of a data set of another package": """
        from sets import Papers
        from zoo import Walk
        data = Papers("root")[0]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = Walk(16).to(device)
        def test():
            model.eval()
            return model("user", rows=data["user"].members)  # <
        test()
    """,
    "the same, by attributes, in a function": """
        from sets import Papers
        def main(device):
            sample = Papers("root", split="test")[0]  # <
            net = nn.Linear(4, 2)
            net.to(device)
            return net(sample.x).sum()
    """,
    "settings of a namespace that choose CUDA": """
        from types import SimpleNamespace
        def score(weights, x, args):
            return x.to(torch.device(args.device)) @ weights
        def main():
            args = SimpleNamespace(device="cuda", rank=0)
            print(score(torch.eye(2), torch.eye(2), args))  # <
    """,
    "of the networks that an object is handed one is not moved": loaded(),
    "the same, where the others are moved as they are made": """
        from parts import Whole
        from zoo import Coder, Core, Text
        def build(device):
            coder = Coder.from_pretrained("a").to(device)
            text = Text.from_pretrained("b")  # <
            core = Core.from_pretrained("c").to(device)
            return Whole(coder, text, core)
    """,
    "a method attaches a part, and the constructor has moved the others": late(part=".to(device)"),
    "a method attaches a part, and the constructor has moved the module": late(whole="self.to(device)"),
    "who made and moved a module has it attach a part": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 4)
                self.head = nn.Linear(4, 2)
            def reset(self, n):
                self.head = nn.Linear(4, n)
            def forward(self, x):
                return self.head(self.body(x))
        class Trainer:
            def __init__(self, device):
                self.device = device
                self.model = Model().to(device)
            def fit(self, loaders):
                for n, loader in enumerate(loaders):
                    self.model.reset(n + 2)  # <
                    for x, y in loader:
                        F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)).backward()
    """,
    "parameters beside one that is taken from a layer": """
        class Extra(nn.Module):
            def __init__(self, base: nn.Linear, rank=4):
                super().__init__()
                self.w = base.weight
                self.down = nn.Parameter(torch.randn(base.in_features, rank))  # <
                self.up = nn.Parameter(torch.zeros(rank, base.out_features))
            def forward(self, x):
                return x @ self.w.t() + (x @ self.down) @ self.up
    """,
    "of two modules that a function is given it moves one": """
        def distill(student, teacher, loader, device):
            student.to(device)  # <
            teacher.eval()
            for x, _ in loader:
                x = x.to(device)
                F.mse_loss(student(x), teacher(x)).backward()
    """,
    "of two modules that a constructor is given it moves one": """
        class Game:
            def __init__(self, g, d, device):
                self.g = g.to(device)  # <
                self.d = d
                self.optimizer = torch.optim.Adam(self.d.parameters())
                self.device = device
            def step(self, z):
                return self.d(self.g(z.to(self.device))).mean()
    """,
    "an object chooses a device for its inputs, not for the module that it is given": """
        class Check:
            def __init__(self, loader, net: nn.Module):
                self.loader, self.net = loader, net  # <
                self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            def run(self):
                return [self.net(x.to(self.device)).argmax() for x, y in self.loader]
    """,
    "the same, where only its uses say that it is a module": """
        class Trainer:
            def __init__(self, model, loader):
                self.model = model  # <
                self.loader = loader
                self.device = "cuda" if torch.cuda.is_available() else "cpu"
            def train(self):
                self.model.train()
                for x, y in self.loader:
                    F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)).backward()
    """,
    "what was loaded to the CPU, in arithmetic, as entries and as a table": """
        def run(x, device):
            x = x.to(device)
            stats = torch.load("stats.pt", map_location="cpu")
            table = torch.load("table.pt", map_location=torch.device("cpu"))
            x = (x - stats["mean"]) @ stats["turn"]  # <
            return table[x]  # <
    """,
    "a module that was loaded to the CPU": """
        class Trainer:
            def __init__(self, model, device):
                self.model = model.to(device)
                self.device = device
            def finish(self, path, loader):
                self.model = torch.load(path, map_location="cpu")  # <
                self.model.eval()
                for x, y in loader:
                    self.model(x.to(self.device))
    """,
    "what a constructor is given in view, beside what it makes": """
        class Result:
            def __init__(self, images, boxes):
                sizes = [torch.tensor([one.shape[1], one.shape[0]]) for one in images]
                self.parts = [b / s for b, s in zip(boxes, sizes)]  # <
        def predict(model, images, x):
            place = next(model.parameters()).device
            return Result(images, [b for b in model(x.to(place))])
    """,
    "what a module converts to a tensor, if it is given something": """
        class Pick(nn.Module):
            def __init__(self, columns=None):
                super().__init__()
                self.columns = None if columns is None else torch.as_tensor(columns)  # <
            def forward(self, a):
                if self.columns is not None:
                    a = a.index_select(-1, self.columns)
                return a
    """,
    "a list of flows that a constructor is given": """
        class Flows(nn.Module):
            def __init__(self, prior, flows=None):
                super().__init__()
                self.prior = prior
                self.flows = flows  # <
            def forward(self, z):
                for flow in self.flows:
                    z, log_det = flow(z)
                return z
    """,
    "a list that a constructor is given beside one that it registers": """
        class Levels(nn.Module):
            def __init__(self, parts, merges):
                super().__init__()
                self.parts = nn.ModuleList([nn.ModuleList(one) for one in parts])
                self.merges = merges  # <
            def forward(self, x):
                for i in range(len(self.parts)):
                    for part in self.parts[i]:
                        x = part(x)
                    x = self.merges[i](x)
                return x
    """,
    "gradients of what is called named parameters, in a plot": """
        import matplotlib.pyplot as plt
        class Log:
            def flow(self, named_parameters, device=None):
                averages = []
                for name, p in named_parameters:
                    if p.requires_grad and "bias" not in name:
                        averages.append(p.grad.abs().mean())
                plt.plot(averages)  # <
    """,
    "what torch puts together, for a function that reads arrays": """
        from sklearn.metrics import f1_score
        def evaluate(model, loader, device):
            model.to(device)
            wanted, told = [], []
            for x, y in loader:
                told.append(model(x.to(device)).argmax(1))
                wanted.append(y)
            return f1_score(torch.cat(wanted), torch.cat(told))  # <
    """,
    "the weight of a part of a module out of sight": """
        import numpy as np
        def spread(model, device):
            model.to(device)
            return np.histogram(model.layers.head.weight.data.numpy(), bins=10)  # <
    """,
    "costs that forward hands to a function that reads arrays": """
        from scipy.optimize import linear_sum_assignment
        class Matcher(nn.Module):
            def forward(self, outputs, targets):
                p = outputs["logits"].flatten(0, 1).softmax(-1)
                cost = -p[:, targets["labels"]]
                return linear_sum_assignment(cost.detach())  # <
    """,
    "a device that is given or chosen": """
        from transformers import AutoModelForCausalLM, AutoTokenizer
        class Bot:
            def __init__(self, name, device=None):
                self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
                self.tokenizer = AutoTokenizer.from_pretrained(name)
                self.model = AutoModelForCausalLM.from_pretrained(name).to(self.device)
            def ask(self, text):
                tokens = self.tokenizer.encode(text, return_tensors="pt")
                return self.model.generate(tokens, max_new_tokens=20)  # <
    """,
    "an optimizer of named parameters, taken one by one": """
        def main(args):
            net = nn.Linear(2, 2)
            groups = []
            for name, value in dict(net.named_parameters()).items():
                if value.requires_grad:
                    groups += [{"params": [value], "lr": 0.1}]
            optimizer = torch.optim.SGD(groups, momentum=0.9)
            optimizer.load_state_dict(torch.load(args.path, map_location="cpu"))  # <
            net.to(args.device)
            optimizer.step()
    """,
    "layers of a network that only a plain list keeps": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])
                self.parts = [nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:])]  # <
            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x
    """,
}
SILENT = {
    "weights of losses, beside parts of another argument that are moved": """
        from nets import Gen, Critic
        def distance(a, b):
            return torch.mean(torch.abs(a - b))
        class Net(nn.Module):
            def __init__(self, sizes):
                super().__init__()
                self.gen, self.dis = Gen(sizes["gen"]), Critic(sizes["dis"])
            def forward(self, data, others, weights):
                x, y = data[0].cuda(), others[0].cuda()
                made = self.gen.decode(x, y)
                adv, features = self.dis.loss(made, y)
                loss = weights["gan"] * (0.5 * adv) + weights["rec"] * distance(made, x)
                loss.backward()
                return loss
    """,
    "captions, questions and numbers of a batch that are given to a model as they are": """
        def train(model, data_loader, device):
            for image, caption, _ in data_loader:
                image = image.to(device)
                model(image, caption).backward()
            for image, (question, answers) in enumerate(data_loader):
                model(torch.ones(3, device=device), question, answers).backward()
    """,
    "a part of a batch beside one that is a dict": """
        from torch.utils.data import DataLoader
        class Runner:
            def __init__(self, data, model, loss):
                self.loader, self.loss = DataLoader(data, collate_fn=data.collate), loss
                self.model = model.cuda()
            def run(self):
                for index, (given, wanted) in enumerate(self.loader):
                    given["uv"] = given["uv"].cuda()
                    out = self.model(given)
                    self.loss(out, wanted).backward()
    """,
    "targets for a loss that is spread over several GPUs": """
        from torch.utils.data import DataLoader
        from losses import DataParallelCriterion, DataParallelModel
        class SegLoss(nn.CrossEntropyLoss):
            def __init__(self, n):
                super().__init__()
                self.n = n
            def forward(self, *inputs):
                return super().forward(*inputs)
        class Trainer:
            def __init__(self, args, data, model):
                self.loader = DataLoader(data)
                self.criterion = SegLoss(args.n)
                self.model = model
                if args.cuda:
                    self.model = DataParallelModel(self.model).cuda()
                    self.criterion = DataParallelCriterion(self.criterion).cuda()
            def train(self):
                for image, target in self.loader:
                    self.criterion(self.model(image), target).backward()
    """,
    "the same, of a class in view": """
        from torch.nn.parallel.data_parallel import DataParallel
        from torch.utils.data import DataLoader
        class Spread(DataParallel):
            def forward(self, inputs, *targets):
                targets, _ = self.scatter(targets, {}, self.device_ids)
                return self.module(inputs, *targets[0])
        class Trainer:
            def __init__(self, args, data, model):
                self.loader = DataLoader(data)
                self.criterion = nn.CrossEntropyLoss()
                if args.cuda:
                    self.criterion = Spread(self.criterion).cuda()
            def train(self, model):
                for image, target in self.loader:
                    self.criterion(model(image), target).backward()
    """,
    "a kernel on tensors like its input, and a subscript that is no kernel": """
        import triton
        @triton.autotune(configs=[], key=["n"])
        @triton.jit
        def add_kernel(x_ptr, out_ptr, n):
            pass
        def add(x, table):
            out = torch.empty_like(x)
            add_kernel[(4,)](x, out, x.stride(0))
            table[0](x, torch.empty(3))
            return out
    """,
    "what a module without parameters gives": """
        class Scale(nn.Module):
            def forward(self, x):
                return 2 * x
        def scaled():
            return Scale()(torch.ones(3)).numpy()
    """,
    "the first item of a data set that is moved, or of what is told a device, and its sizes": """
        from sets import Papers, Options
        from zoo import Walk, Net
        device = "cuda" if torch.cuda.is_available() else "cpu"
        data = Papers("root")[0].to(device)
        model = Walk(16).to(device)
        model(data.x, data.edge_index)
        data = Papers("root", device=device)[0]
        model(data.x)
        example = Options("x.yaml")[0]
        net = Net(example.width).to(device)
        data = Papers("root")[0]
        n = Net(data.num_features).to(device)
        out = model(data.x.to(device), data.y.to(device))
    """,
    "all of the networks that an object is handed are moved": loaded(moved="text.to(device)"),
    "the object that is handed the networks is moved": loaded(end="whole.to(device)"),
    "the new part is moved": late(part=".to(device)", after="self.head.to(self.device)"),
    "the module is moved again": late(whole="self.to(device)", after="self.to(self.device)"),
    "a method that the constructor calls before it moves the module": """
        class Model(nn.Module):
            def __init__(self, device):
                super().__init__()
                self.build()
                self.to(device)
            def build(self):
                self.head = nn.Linear(2, 2)
            def forward(self, x):
                return self.head(x)
    """,
    "a model that shares a weight of its own layer": """
        class Extra(nn.Module):
            def __init__(self, base: nn.Linear):
                super().__init__()
                self.w = base.weight
                self.b = nn.Parameter(torch.zeros(base.out_features))
            def forward(self, x):
                return F.linear(x, self.w, self.b)
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(3, 3)
                self.extra = Extra(self.first)
            def forward(self, x):
                return self.extra(x)
    """,
    "a loss that a function is given beside the module": """
        def train(model, criterion, loader, device):
            model.to(device)
            for x, y in loader:
                criterion(model(x.to(device)), y.to(device)).backward()
    """,
    "what was loaded is moved, or is a state": """
        def run(net, x, device):
            net.to(device)
            state = torch.load("net.pt", map_location="cpu")
            net.load_state_dict(state["model"])
            other = torch.load("other.pt", map_location="cpu")
            other.to(device)
            third = torch.load("third.pt", map_location="cpu")["net"].float().to(device).eval()
            scale = torch.load("scale.pt", map_location="cpu").to(device)
            return other(x.to(device)) + third(x.to(device)) * scale
    """,
    "lists that a constructor is given and registers, or that are called like functions": """
        class Heads(nn.Module):
            def __init__(self, body, heads, blocks: nn.ModuleList, transforms):
                super().__init__()
                self.body, self.heads, self.blocks, self.transforms = body, heads, blocks, transforms
                for i, head in enumerate(heads):
                    self.add_module(f"head{i}", head)
            def forward(self, x):
                for one in self.transforms:
                    x = one(x)
                for block in self.blocks:
                    x = block(x)
                return [head(x) for head in self.heads]
    """,
    "objects that are called, beside modules that are registered": """
        class Heads(nn.Module):
            def __init__(self, boxes, matchers):
                super().__init__()
                self.boxes = nn.ModuleList(boxes)
                self.matchers = matchers
            def forward(self, x, stage):
                found = self.matchers[stage](x.sum(0))
                return self.boxes[stage](x), found
    """,
    "a mask that the constructor of a class hands to that of its base": """
        class Coupling(nn.Module):
            def __init__(self, mask, n):
                mask = torch.as_tensor(mask)
                super().__init__()
                self.register_buffer("identity", torch.arange(n).masked_select(mask <= 0))
        class Affine(Coupling):
            def __init__(self, mask, n):
                super().__init__(mask, n)
            def forward(self, x):
                return x[:, self.identity]
    """,
    "sizes that a batch has beside its tensors": """
        import numpy as np
        from typing import Dict, List
        class Detector(nn.Module):
            def forward(self, batch: List[Dict[str, torch.Tensor]]):
                for one in batch:
                    c, h, w = one["image"].shape
                    scale = np.array([w / one["width"], h / one["height"]] * 2)
                return scale
    """,
    "numbers that a constructor converts to a tensor, and a method reads": """
        class Evaluator(nn.Module):
            def __init__(self, scores):
                super().__init__()
                self.scores = torch.as_tensor(scores)
            def __call__(self, model, device):
                return model(self.scores.to(device)).mean().item(), self.scores.numpy()
    """,
    "an object is told the device": """
        class Trainer:
            def __init__(self, model, device):
                self.model = model
                self.device = device
            def step(self, x):
                self.model.train()
                return self.model(x.to(self.device))
    """,
    "the caller of the constructor has moved the module": """
        class Trainer:
            def __init__(self, model: nn.Module):
                self.model = model
                self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            def step(self, x):
                return self.model(x.to(self.device))
        def main():
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            Trainer(nn.Linear(2, 2).to(device)).step(torch.ones(1, 2))
    """,
    "a plain list of parts of a registered network": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])
                self.parts = [nn.Sequential(*self.layers[:2]), nn.Sequential(*self.layers[2:])]
            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x
    """,
    "a plain list of the layers of a network of a library": """
        from torchvision import models
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.network = models.vgg19().features
                self.parts = [nn.Sequential(one) for one in self.network]
            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x
    """,
    "a network that a function takes back to the CPU": """
        from nets import Discriminator
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        net = nn.Linear(4, 1)
        net.to(device)
        def reward(state):
            return net(torch.tensor([state, 1.0, 2.0, 3.0]))
        def loop(collect):
            net.to(torch.device("cpu"))
            collect(reward)
            net.to(device)
    """,
    "a batch that is empty where it is not moved": """
        from torch.utils.data import DataLoader
        def run(model, data, device):
            model.to(device)
            for x, boxes in DataLoader(data):
                if boxes.shape[1] == 0:
                    pass
                else:
                    boxes = boxes.to(device)
                out = model(x.to(device))
                if len(boxes) > 0:
                    print(torch.cat([out, boxes]))
    """,
    "lengths and labels of CTC, also of another package": """
        from warpctc_pytorch import CTCLoss
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Linear(4, 2).to(device)
        criterion = CTCLoss().to(device)
        for x in range(3):
            labels, sizes = torch.IntTensor(5), torch.IntTensor(1)
            criterion(model(torch.ones(3, 1, 4).to(device)), labels, sizes, sizes).backward()
    """,
    "part of a network of another class, on data of CUDA": """
        from layers import SharedMLP
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = SharedMLP([3, 4])
                self.down = SharedMLP([4, 3])
            def forward(self, points):
                pooled = points.new_zeros(3).cuda()
                return self.up(pooled)
    """,
}


def spoken(code: str) -> set[int]:
    """The lines with a finding of any codemod but hard-coded-cuda, counted from the first below `HEAD`."""
    found = devfix.check(source=HEAD + code, settings=False).findings
    return {one.line - HEAD.count("\n") for one in found if one.codemod != "hard-coded-cuda"}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(FOUND[name])
    assert wanted and spoken(code) == wanted


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert spoken(marked(SILENT[name])[0]) == set()


def test_a_module_that_was_put_on_the_cpu_is_not_moved_where_it_is_made() -> None:
    """The fix changed nothing: further down the program takes the module back to the CPU."""
    code = """
from zoo import Net, load_image
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def image():
    return torch.ones(3).to(device)
model = Net(pretrained="a")
model.eval()
model = model.to(device="cpu")
x = image()
out = model(x)
"""
    found = devfix.check(source=HEAD + code, settings=False).findings
    assert not any(one.fix for one in found)


def test_the_device_of_what_may_be_a_list_is_not_asked_for() -> None:
    code = '''
def encode(targets, n):
    """
    Args:
        targets (tensor): what is wanted, one for each image
    """
    wanted = torch.zeros(n, 4).cuda()
    return [wanted - targets[i][:, -1] for i in range(n)]
'''
    found = devfix.check(source=HEAD + code, settings=False).findings
    assert found and not any("targets.device" in str(one.fix) for one in found)


@pytest.mark.parametrize(
    ("said", "count"),
    [("scale of the random tensor", 0), ("tensor of the scales", 1), ("list of tensors", 1)],
)
def test_what_is_of_a_tensor_need_not_be_one(said: str, count: int) -> None:
    code = f'''
def scaled(scale, n):
    """
    Args:
        scale: {said}
    """
    return scale[1] * torch.randn(n, n)
class Net(nn.Linear):
    pass
'''
    assert len(devfix.check(source=HEAD + code, settings=False).findings) == count


def test_tests_that_choose_the_cpu_are_on_it() -> None:
    code = """
class Fake(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1)
    def forward(self, x):
        return torch.ones(x.shape[0], 3)
def test_it():
    {}
    assert Fake()(torch.ones(2, 1)).shape == (2, 3)
"""
    for choice, number in (('device = "cpu"', 0), ('device = "cuda"', 1)):
        found = devfix.check(
            source=HEAD + code.format(choice), filename="test_it.py", settings=False
        ).findings
        assert len(found) == number, choice


def test_a_module_that_one_run_leaves_on_the_cpu_is_not_moved_to_its_own_device() -> None:
    """The fix made `self.w = nn.Embedding(4, 4).to(self.w.weight.device)`, which reads what is not there yet."""
    code = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Embedding(4, 4)
    def table(self):
        return self.w(torch.arange(4))
class Net(Base):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(4, 4)
    def forward(self, x):
        return self.scale(x @ self.table())
def kept(net, where):
    return net
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(kept(Net(), device)(torch.ones(3, 4)).sum())
"""
    (fixed,) = devfix.fix(source=HEAD + code, settings=False).files
    text = fixed.after.decode()
    assert "self.w = nn.Embedding(4, 4)\n" in text
    assert "torch.arange(4, device=self.w.weight.device)" in text


CONSTRUCTORS = {
    "a name that the file binds after the call": (
        """
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.linspace(0, 1, 4), persistent=False)
class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x) @ torch.outer(self.table, self.table)
net = Net()
x = torch.randn(3, 4, device=torch.device("cuda"))
print(net(x).sum())
""",
        "x.device",
    ),
    "a part that the object gets later": (
        """
class Inner(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table, persistent=False)
    def forward(self, x):
        return x @ torch.outer(self.table, self.table)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner(torch.rand(4))
    def forward(self, x):
        return self.inner(self.head(x))
net = Net()
net.head = nn.Linear(4, 4).to("cuda:0")
print(net(torch.randn(3, 4, device="cuda:0")).sum())
""",
        "self.head",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_what_a_constructor_does_not_have_yet_is_not_asked_for(name: str) -> None:
    code, text = CONSTRUCTORS[name]
    fixed = devfix.fix(source=HEAD + code, settings=False).files
    made = [
        line
        for one in fixed
        for line in one.after.decode().splitlines()
        if "linspace" in line or "rand(" in line
    ]
    assert not any(text in line for line in made)


def test_a_branch_for_what_is_not_on_the_cpu() -> None:
    code = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        ones = torch.ones(4)
        if not x.is_cpu:
            ones = ones.cuda()
        return self.layer(x @ torch.outer(ones, ones))
def handed(x):
    return x
device = torch.device("cuda")
print(Net()(handed(torch.randn(3, 4))).sum())
"""
    found = devfix.check(source=HEAD + code, settings=False).findings
    assert [one.codemod for one in found if one.codemod != "hard-coded-cuda"] == []


def test_the_device_of_what_is_none_in_the_constructor_is_not_asked_for() -> None:
    """The fix made the table on `self.out.device`, one line below `self.out = None`."""
    code = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.out = None
        table = torch.linspace(0, 1, 4)
        self.register_buffer("table", table, persistent=False)
    def forward(self, x):
        if self.out is None:
            self.out = torch.ones(4, device=x.device)
        return (self.layer(x) + self.out) @ torch.outer(self.table, self.table)
def main():
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net()
    print(net(torch.randn(3, 4, device=place)).sum())
main()
"""
    (fixed,) = devfix.fix(source=HEAD + code, settings=False).files
    assert "table = torch.linspace(0, 1, 4)\n" in fixed.after.decode()


def test_the_device_of_what_another_method_fills_is_not_asked_for() -> None:
    """The fix made the table on `self.mask.device`, which is None on the first call."""
    code = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.mask = None
    def table(self):
        return torch.tensor([1.0, 2.0, 3.0, 4.0])
    def forward(self, x):
        x = torch.maximum(x, self.table())
        if self.mask is None:
            self.mask = torch.ones(4, device=x.device)
        return (x + self.mask) * self.weight
net = Net().to("cuda")
net(torch.ones(4, device="cuda"))
"""
    (fixed,) = devfix.fix(source=HEAD + code, settings=False).files
    assert "return torch.tensor([1.0, 2.0, 3.0, 4.0], device=self.weight.device)\n" in fixed.after.decode()


def test_a_partial_with_keywords_may_be_put_into_a_container() -> None:
    """A partial had no hash, so that the file got no answer."""
    code = """
from functools import partial
def blocks(run, device):
    call = partial(F.relu, inplace=True)
    run(call)
    return nn.ModuleList([call]).to(device)
"""
    assert not devfix.check(source=HEAD + code, settings=False).problems


def test_code_of_another_file_is_not_read_in_this_one(tmp_path: Path) -> None:
    """The device that a method of a class in a longer file moves to was looked for by its lines in this file."""
    far = (
        "import torch\n"
        + "# a line\n" * 40
        + "class Base:\n    def start(self, x):\n        x.to(self.device)\n"
    )
    (tmp_path / "far.py").write_text(far)
    near = tmp_path / "near.py"
    near.write_text("""import torch
from far import Base
class Runner(Base):
    def run(self, x):
        self.start(x)
        with torch.cuda.amp.autocast(enabled=self.half):
            return self.model(x.to(self.device))
""")
    found = devfix.check(near, settings=False, options={"normalize-device-type": {"all": True}})
    assert not found.problems
    assert [one.codemod for one in found.findings] == ["normalize-device-type"] * len(found.findings) != []


SCORE = """
import torch
def score(weights, x, args):
    return x.to(torch.device(args.device)) @ weights
"""
POSITIONS = """
import torch
import torch.nn.functional as F
from torch import nn
class Positions(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("table", torch.randn(1, n, 4))
    def forward(self, x, start=0):
        pos = self.positions(start, x.size(1))
        return x * 2 + pos, pos
    def positions(self, start, n):
        if isinstance(start, KINDS):
            pos = self.table[:, start : start + n]
        else:
            at = start.unsqueeze(1) + torch.arange(0, n).to(start.device)
            pos = F.embedding(at, self.table[0])
        return pos
"""
USES_SCORE = """
from argparse import Namespace
from types import SimpleNamespace
import torch
from lib import score
def test_score():
    args = MADE
    assert score(torch.eye(2), torch.eye(2), args=args).sum() == 2
"""
USES_POSITIONS = """
import torch
from lib import Positions
def test_positions():
    x = torch.rand(1, 3, 4)
    there = torch.ones(2, device=x.device)
    Positions(8)(x, start=GIVEN)
"""


BOXES = """
import torch
def paste(masks, boxes):
    if not isinstance(boxes, torch.Tensor):
        boxes = boxes.tensor
    for part in torch.chunk(torch.arange(len(masks), device=boxes.device), 2):
        print(masks[part, None].sum() + boxes[part].sum())
    return masks
"""
WRAPPED = "Boxes(torch.tensor(load()).reshape(-1, 4))"
HOLDER = """
class Boxes:
    def __init__(self, tensor):
        if not isinstance(tensor, torch.Tensor):
            tensor = torch.as_tensor(tensor, device=torch.device("cpu"))
        else:
            tensor = tensor.to(torch.float32)
        self.tensor = tensor
"""
USES_BOXES = """
import torch
from lib import paste
def test_paste():
    there = torch.ones(2, device="cuda" if torch.cuda.is_available() else "cpu")
    assert paste(torch.ones(4), GIVEN).shape == (4,)
"""


@pytest.mark.parametrize(
    ("lib", "uses", "quiet"),
    [
        (BOXES, USES_BOXES.replace("GIVEN", "torch.rand(4, 4)"), True),
        (BOXES + HOLDER, USES_BOXES.replace("paste\n", "Boxes, paste\n", 1).replace("GIVEN", WRAPPED), True),
        (BOXES, USES_BOXES.replace("GIVEN", 'torch.rand(4, 4, device="cuda")'), False),
        (SCORE, USES_SCORE.replace("MADE", 'SimpleNamespace(device="cpu", rank=0)'), True),
        (SCORE, USES_SCORE.replace("MADE", 'Namespace(device="cpu")'), True),
        (SCORE, USES_SCORE.replace("MADE", 'SimpleNamespace(device="cuda")'), False),
        (POSITIONS.replace("KINDS", "int"), USES_POSITIONS.replace("GIVEN", "1"), True),
        (POSITIONS.replace("KINDS", "(float, int)"), USES_POSITIONS.replace("GIVEN", "1"), True),
        (POSITIONS.replace("KINDS", "int"), USES_POSITIONS.replace("GIVEN", "load()"), False),
    ],
    ids=[
        "a tensor",
        "an object",
        "one of cuda",
        "cpu",
        "argparse",
        "cuda",
        "a number",
        "a number, of several types",
        "anything",
    ],
)
def test_what_a_caller_in_another_file_passes(tmp_path: Path, lib: str, uses: str, quiet: bool) -> None:
    """The attributes of a namespace are followed, and a number is no tensor."""
    (tmp_path / "lib.py").write_text(lib)
    (tmp_path / "test_lib.py").write_text(uses)
    found = devfix.check(tmp_path, settings=False).findings
    assert (not found) is quiet


@pytest.mark.parametrize("base", ["nn.Module", "nn.ReLU", "nn.CrossEntropyLoss"])
def test_no_fix_asks_one_of_two_modules_for_parameters_that_it_lacks(base: str) -> None:
    """The fix made `next(self.criterion.parameters()).device`, which raises StopIteration on the CPU as well."""
    code = f"""
from torch.utils.data import DataLoader
class Spread({base}):
    def forward(self, inputs, *targets):
        return (inputs - targets[0]).mean()
class Trainer:
    def __init__(self, args, data):
        self.loader = DataLoader(data)
        self.criterion = nn.CrossEntropyLoss()
        if args.cuda:
            self.criterion = Spread().cuda()
    def train(self, model):
        for image, target in self.loader:
            self.criterion(model(image), target).backward()
"""
    found = devfix.check(source=HEAD + code, settings=False).findings
    assert not any("self.criterion.parameters()" in str(one.fix) for one in found)
