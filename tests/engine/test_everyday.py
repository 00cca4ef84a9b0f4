"""Bugs as people write them every day: training loops, agents, samplers; and the same programs once they are right."""

from __future__ import annotations

import pytest
from devfix.checkers.besides import besides
from devfix.flow import analyse
from devfix.rules.hard_coded_cuda import HardCodedCuda
from devfix.text.source import Source
from programs import marked, spoken

HEAD = """\
import random
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple
from torchvision import models, transforms
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


FOUND = {
    "a progress bar that is a context": """
        from tqdm import tqdm
        def train(dataset):
            net = nn.Linear(4, 2).to(device)
            with tqdm(torch.utils.data.DataLoader(dataset)) as bar:
                for x, y in bar:  # <
                    net(x)
    """,
    "a progress bar of a list": """
        from tqdm import tqdm
        net = nn.Linear(4, 2).to(device)
        with tqdm([torch.ones(2, 4)]) as bar:
            for x in bar:  # <
                net(x)
    """,
    "networks that were made together, each of which is moved": """
        nets = [nn.Linear(4, 2) for _ in range(2)]
        for i in range(2):
            nets[i].to(device)
        nets[1](torch.zeros(1, 4))  # <
    """,
    "a closure that is handed on once the module has moved": """
        def main(loader):
            head = nn.Linear(4, 2).to(device)
            optimizer = torch.optim.LBFGS(head.parameters())
            def closure():
                return head(torch.randn(6, 4)).sum()  # <
            optimizer.step(closure)
    """,
    "a function that is called once the module has moved": """
        net = nn.Linear(4, 2)
        def evaluate():
            return net(torch.randn(2, 4))  # <
        net.to(device)
        evaluate()
    """,
    "what the constructor makes of a parameter": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(4))
                self.twice = self.w * 2  # <
            def forward(self, x):
                return x * self.twice
        def main():
            return Net().to(device)(torch.randn(2, 4, device=device))
    """,
    "lists of a defaultdict": """
        def main(model, loader):
            model = model.to(device)
            history = defaultdict(list)
            for x, y in loader:
                history["loss"].append(F.mse_loss(model(x.to(device)), y.to(device)))
            return torch.stack(history["loss"]).numpy()  # <
    """,
    "what an OrderedDict keeps": """
        def main():
            net = nn.Linear(4, 2).to(device)
            fast = OrderedDict((name, one - 0.1) for name, one in net.named_parameters())
            state = OrderedDict()
            state["x"] = torch.randn(3, 4)  # <
            return F.linear(state["x"], fast["weight"], fast["bias"])
    """,
    "a replay memory": """
        Row = namedtuple("Row", ("state", "action", "reward"))
        class Memory:
            def __init__(self, n):
                self.rows = deque([], maxlen=n)
            def push(self, *row):
                self.rows.append(Row(*row))
            def sample(self, n):
                return random.sample(self.rows, n)
        def main(env):
            net = nn.Linear(4, 2).to(device)
            memory = Memory(10)
            state = torch.randn(1, 4, device=device)
            for _ in range(10):
                action = net(state).argmax(1, keepdim=True)
                reward = torch.tensor([env.step()])  # <
                memory.push(state, action, reward)
            batch = Row(*zip(*memory.sample(4)))
            wanted, rewards = net(torch.cat(batch.state)), torch.cat(batch.reward)
            return F.smooth_l1_loss(wanted.gather(1, torch.cat(batch.action)), rewards.unsqueeze(1))
    """,
    "rows of a named tuple": """
        class Row(NamedTuple):
            state: torch.Tensor
            reward: torch.Tensor
        def main():
            net = nn.Linear(4, 1).to(device)
            rows = []
            for _ in range(10):
                rows.append(Row(torch.randn(4, device=device), torch.ones(1)))  # <
            states, rewards = zip(*rows)
            return F.mse_loss(net(torch.stack(states)), torch.stack(rewards))
    """,
    "a buffer that is replaced once the module has moved": """
        class Whiten(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.register_buffer("w", torch.eye(d))
            def fit(self, n):
                self.w = torch.ones(n, n)  # <
            def forward(self, x):
                return x @ self.w
        def main():
            net = Whiten(3).to(device)
            net.fit(3)
            return net(torch.randn(2, 3, device=device))
    """,
    "where only a lack of memory is caught": """
        def forward(model, x):
            try:
                return model(x)
            except torch.cuda.OutOfMemoryError:
                return model.cpu()(x.cpu())
        def main():
            model = nn.Linear(4, 4).to(device)
            return forward(model, torch.ones(2, 4))  # <
    """,
    "a list that a dataclass begins with": """
        @dataclass
        class State:
            model: nn.Module
            losses: list = field(default_factory=list)
            def step(self, x):
                self.losses.append(self.model(x).detach().mean())
        def main():
            state = State(nn.Linear(3, 1).to(device))
            state.step(torch.randn(4, 3, device=device))
            return torch.stack(state.losses).numpy()  # <
    """,
    "labels": """
        def train(model, loader):
            criterion = nn.CrossEntropyLoss()
            model = model.to(device)
            for x, y in loader:  # <
                x = x.to(device)
                criterion(model(x), y).backward()
    """,
    "labels that are counted": """
        def test(model, loader):
            model = model.to(device)
            correct = 0
            for x, y in loader:  # <
                pred = model(x.to(device)).argmax(1)
                correct += (pred == y).sum().item()
    """,
    "an entry of a batch": """
        class Trainer:
            def __init__(self, model, loader):
                self.model = model.to(device)
                self.loader = loader
            def epoch(self):
                for batch in self.loader:
                    out = self.model(batch["input_ids"].to(device))
                    F.cross_entropy(out, batch["labels"]).backward()  # <
    """,
    "a batch for a model that the constructor moves": """
        class Trainer:
            def __init__(self, network, loader):
                self.network = network.to(device)
                self.loader = loader
            def epoch(self):
                for x, _ in self.loader:  # <
                    yield self.network(x)
    """,
    "rows that were saved": """
        def load(path, x):
            x = x.to(device)
            rows = torch.load(path, map_location="cpu")
            return torch.cat([x, rows], dim=-1)  # <
    """,
    "one-hot rows": """
        def train(model, loader):
            model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                rows = torch.eye(10)[y]  # <
                F.mse_loss(model(x), rows)
    """,
    "the layers of a model, and an image": """
        def features(path):
            net = models.vgg19(pretrained=True).features.to(device).eval()
            image = transforms.ToTensor()(Image.open(path)).unsqueeze(0)
            return net(image)  # <
    """,
    "outputs that are put together": """
        def predict(model, loader):
            model.to(device)
            rows = []
            for x, _ in loader:
                rows.append(model(x.to(device)).detach())
            return np.concatenate(rows)  # <
    """,
    "an agent and what it sees": """
        class Agent:
            def __init__(self, net):
                self.net = net.to(device)
            def act(self, state):
                state = torch.from_numpy(state).float().unsqueeze(0)  # <
                with torch.no_grad():
                    return self.net(state).argmax().item()
    """,
    "states that a model begins with": """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.LSTM(3, 4)
            def forward(self, x, state):
                return self.rnn(x, state)
            def begin(self, n):
                return torch.zeros(1, n, 4), torch.zeros(1, n, 4)  # <
        reader = Reader().to(device)
        def train(loader):
            state = reader.begin(4)
            for x, _ in loader:
                out, state = reader(x.to(device), state)
    """,
    "a schedule that a helper keeps": """
        class Diffusion:
            def __init__(self, steps=1000):
                self.alpha = torch.linspace(1e-4, 0.02, steps)  # <
            def noise(self, x, t):
                return torch.sqrt(self.alpha[t])[:, None] * x
        def train(model, loader):
            model = model.to(device)
            diffusion = Diffusion()
            for x, _ in loader:
                x = x.to(device)
                t = torch.randint(0, 3, (x.shape[0],), device=device)
                model(diffusion.noise(x, t), t)
    """,
    "what a distribution of numbers draws": """
        def mixed(x):
            x = x.to(device)
            weights = torch.distributions.Beta(0.4, 0.4).sample((4,))  # <
            return x * weights
    """,
    "what a distribution that a module keeps draws": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
                self.noise = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
            def forward(self, x):
                return self.fc(x + self.noise.sample((3,)))  # <
    """,
    "a distribution that a module keeps": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
                self.prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))  # <
            def forward(self, x):
                return self.prior.log_prob(self.fc(x))
    """,
    "what a module of a chain keeps, of tensors of the file": """
        mean = torch.tensor([0.5, 0.4, 0.4])
        class Normalize(nn.Module):
            def __init__(self, mean):
                super().__init__()
                self.mean = mean.clone().view(-1, 1, 1)  # <
            def forward(self, x):
                return x - self.mean
        def run(x):
            model = nn.Sequential(Normalize(mean).to(device))
            return model(x.to(device))
    """,
    "weights of a loss, which nobody annotates": """
        class Loss(nn.Module):
            def __init__(self, gamma=2.0, weight=None):
                super().__init__()
                self.gamma, self.pos = gamma, 1
                self.weight = weight  # <
            def forward(self, x, y):
                return F.cross_entropy(x, y, weight=self.weight)
    """,
    "a table read by targets in one row": """
        class Loss(nn.Module):
            def __init__(self, n, alpha=None):
                super().__init__()
                if alpha is None:
                    self.alpha = torch.ones(n, 1)  # <
                else:
                    self.alpha = alpha
            def forward(self, x, targets):
                p = F.softmax(x, 1)
                ids = targets.view(-1, 1)
                return (self.alpha[ids.data.view(-1)] * p).mean()
    """,
    "targets that are repeated": """
        def episode(model, loader, n, k):
            model = model.to(device)
            for x, _ in loader:
                logits = model(x.to(device))
                target = torch.arange(n).repeat_interleave(k)  # <
                F.cross_entropy(logits, target).backward()
    """,
    "the mask of a transformer, of the class and of an object": """
        class Net(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 2), 2)
                self.both = nn.Transformer(d)
            def forward(self, x):
                mask = nn.Transformer.generate_square_subsequent_mask(x.size(0))  # <
                other = self.both.generate_square_subsequent_mask(x.size(0))  # <
                return self.encoder(x, mask) + self.both(x, x, tgt_mask=other)
    """,
    "averages of a model's state": """
        def average(model, rounds):
            model.to(device)
            kept = {k: torch.zeros(v.shape) for k, v in model.state_dict().items()}  # <
            for _ in range(rounds):
                for k, v in model.state_dict().items():
                    kept[k] += v
            return kept
    """,
    "averages of parameters that were copied to the CPU": """
        def average(model, rounds):
            model.to(device)
            kept = {n: p.data.clone().cpu() for n, p in model.named_parameters()}
            for _ in range(rounds):
                for n, p in model.named_parameters():
                    kept[n] = 0.9 * kept[n] + 0.1 * p.data  # <
    """,
    "clusters, as tensors": """
        from sklearn.cluster import KMeans
        def accuracy(model, x):
            model.to(device)
            out = model(x.to(device))
            found = torch.tensor(KMeans(10).fit_predict(out.cpu().numpy()))  # <
            return (out.argmax(1) == found).float().mean()
    """,
    "what gradients are multiplied with": """
        def penalty(model, x):
            model.to(device)
            x = x.to(device).requires_grad_(True)
            out = model(x)
            return torch.autograd.grad(out, x, grad_outputs=torch.ones(out.size()))[0]  # <
    """,
    "a graph of a data set, and another one of a batch": """
        from torch_geometric.datasets import Planetoid, TUDataset
        from torch_geometric.loader import DataLoader
        from torch_geometric.nn import GCNConv
        net = GCNConv(3, 3).to(device)
        def one():
            data = Planetoid("here", "Cora")[0]  # <
            out = net(data.x, data.edge_index)
            return F.nll_loss(out[data.train_mask], data.y[data.train_mask])
        def many():
            for batch in DataLoader(TUDataset("here", "PROTEINS")[:100], batch_size=3):  # <
                net(batch.x, batch.edge_index)
    """,
    "an image of a data set": """
        from torchvision import datasets
        def show():
            data = datasets.MNIST("here", transform=transforms.ToTensor())
            net = models.resnet18().to(device)
            image, label = data[0]
            found = net(image.unsqueeze(0)).argmax()  # <
            return found == label
    """,
    "a model that comes with its transform": """
        import clip
        import open_clip
        def embed(path):
            model, prepare = clip.load("ViT-B/32", device=device)
            other, _, change = open_clip.create_model_and_transforms("ViT-B-32")
            other = other.to(device)
            a = model.encode_image(prepare(Image.open(path)).unsqueeze(0))  # <
            b = other.encode_image(change(Image.open(path)).unsqueeze(0))  # <
            c = model.encode_text(clip.tokenize(["a dog"]))  # <
            return a, b, c
    """,
    "what an environment shows": """
        import gymnasium as gym
        def play(policy):
            env, policy = gym.make("CartPole-v1"), policy.to(device)
            seen, _ = env.reset()
            while True:
                choice = policy(torch.as_tensor(seen, dtype=torch.float32)).argmax()  # <
                seen, *_ = env.step(choice.numpy())  # <
    """,
    "predictions that were copied to the CPU, beside labels that were moved": """
        def accuracy(model, loader):
            model = model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                _, pred = model(x).cpu().max(1)
                print((pred == y).sum().item())  # <
    """,
    "what is sorted on the CPU, beside labels that a caller passes": """
        def hits(model, x, labels):
            model = model.to(device)
            labels = labels.to(device)
            order = model(x.to(device)).sort(1)[1].cpu()
            return (order[:, 0] == labels).sum()  # <
    """,
    "a running mean of parameters that was made on the CPU": """
        class Average:
            def __init__(self, model, decay):
                self.model, self.decay = model, decay
                self.kept = {n: p.data.clone().cpu() for n, p in model.named_parameters()}
            def update(self):
                for n, p in self.model.named_parameters():
                    self.kept[n] = self.decay * self.kept[n] + (1 - self.decay) * p.data  # <
    """,
    "a weight for each class, which labels pick": """
        class Focal(nn.Module):
            def __init__(self, alpha=(0.25, 0.75)):
                super().__init__()
                self.alpha = torch.tensor(alpha)  # <
            def forward(self, scores, labels):
                of_label = F.log_softmax(scores, 1).gather(1, labels.view(-1, 1)).view(-1)
                return -(of_label * self.alpha.gather(0, labels.view(-1))).mean()
    """,
    "a state that each run hands to the next": """
        class Reader(nn.Module):
            def __init__(self, n, h):
                super().__init__()
                self.rnn = nn.RNN(n, h)
                self.state = torch.zeros(1, 1, h)  # <
            def forward(self, x):
                out, self.state = self.rnn(x, self.state)
                return out
    """,
    "a state that each run hands to the next, until a method makes it anew": """
        class Reader(nn.Module):
            def __init__(self, n, h):
                super().__init__()
                self.rnn = nn.RNN(n, h)
                self.state = torch.zeros(1, 1, h)  # <
            def reset(self):
                self.state = torch.zeros(1, 1, 4)
            def forward(self, x):
                out, self.state = self.rnn(x, self.state)
                return out
    """,
    "noise of a given size": """
        class Noise(nn.Module):
            def __init__(self, std):
                super().__init__()
                self.std = std
            def forward(self, x):
                return x + torch.normal(0.0, self.std, size=x.shape)  # <
    """,
    "frequencies for steps that are told by a slice": """
        def embedding(t, dim):
            freqs = torch.exp(-torch.arange(dim // 2).float())  # <
            args = t[:, None].float() * freqs[None]
            return torch.cat([args.cos(), args.sin()], -1)
    """,
    "tokens of a tokenizer that is called like a network": """
        from transformers import BertModel, BertTokenizer
        class Embedder:
            def __init__(self, name):
                self.tokenizer = BertTokenizer.from_pretrained(name)
                self.model = BertModel.from_pretrained(name).to(device)
            def encode(self, texts):
                enc = self.tokenizer(texts, padding=True, return_tensors="pt")
                return self.model(input_ids=enc["input_ids"]).last_hidden_state  # <
    """,
    "a loss with parts of a network of a library": """
        class Perceptual(nn.Module):
            def __init__(self):
                super().__init__()
                vgg = models.vgg19(weights="DEFAULT").features
                self.part = nn.Sequential(*[vgg[i] for i in range(4)])
            def forward(self, x):
                return self.part(x)
        def train(net, loader):
            net.to(device)
            perceptual = Perceptual()  # <
            for x, y in loader:
                F.l1_loss(perceptual(net(x.to(device))), perceptual(y.to(device))).backward()
    """,
    "layers of a library's network, added one by one": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = nn.Sequential()
                whole = models.vgg16(weights="DEFAULT").features
                for i in range(4):
                    self.part.add_module(str(i), whole[i])
            def forward(self, x):
                return self.part(x)
        def features(x):
            return Features()(x.to(device))  # <
    """,
    "the children of a library's network but the last": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = nn.Sequential(*list(models.resnet18(weights="DEFAULT").children())[:-1])
            def forward(self, x):
                return self.part(x)
        def features(x):
            return Features()(x.to(device))  # <
    """,
    "sums of rows that begin with ones": """
        def sinkhorn(scores):
            q = torch.exp(scores / 0.05).t()
            q /= q.sum()
            rows = torch.ones(q.shape[0]) / q.shape[0]  # <
            return q * (rows / q.sum(1)).unsqueeze(1)
    """,
    "weights that are ones unless they are given": """
        class Dice(nn.Module):
            def __init__(self, n, weight=None):
                super().__init__()
                self.weight = torch.ones(n) if weight is None else torch.tensor(weight)  # <
            def forward(self, scores):
                return (self.weight * scores.softmax(1).sum((0, 2, 3))).sum()
    """,
    "features in a list that are stacked for an estimator": """
        from sklearn.cluster import KMeans
        def cluster(model, loader, k):
            model = model.to(device)
            found = []
            for x, _ in loader:
                found.append(model(x.to(device)))
            found = torch.cat(found)
            return KMeans(k).fit_predict(found)  # <
    """,
}
# `.cuda()` is spoken of by another codemod.
CALLED = """
    def edges(x, index=None):
        x = x.view(2, -1)
        if index is None:
            index = x.topk(k=3, dim=-1)[1]
        base = torch.arange(0, 2).view(-1, 1)  # <
        return index + base
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
        def forward(self, x):
            return self.fc(edges(x))
    def main():
        net = Net().cuda()
        print(net(torch.rand(2, 3).cuda()))
"""
SILENT = {
    "one of several networks that were made together": """
        nets = [nn.Linear(4, 2) for _ in range(2)]
        nets[0].to(device)
        nets[0](torch.zeros(1, 4).to(device))
        nets[1](torch.zeros(1, 4))
    """,
    "a closure that is handed on before the module moves": """
        def main(loader):
            head = nn.Linear(4, 2)
            data = torch.randn(6, 4)
            optimizer = torch.optim.LBFGS(head.parameters())
            def closure():
                return head(data).sum()
            optimizer.step(closure)
            head.to(device)
            return head(torch.randn(1, 4).to(device))
    """,
    "a function that is called before the module moves": """
        net = nn.Linear(4, 2)
        def evaluate():
            return net(torch.randn(2, 4))
        evaluate()
        net.to(device)
        net(torch.randn(2, 4, device=device))
    """,
    "a closure that an optimizer calls before the module moves": """
        head = nn.Linear(4, 2)
        data, labels = torch.randn(6, 4), torch.randint(0, 2, (6,))
        optimizer = torch.optim.LBFGS(head.parameters())
        def closure():
            loss = F.cross_entropy(head(data), labels)
            loss.backward()
            return loss
        optimizer.step(closure)
        full = nn.Sequential(head.to(device))
        full(torch.randn(1, 4).to(device))
    """,
    "a parameter under a second name": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(4))
                self.tied = self.w
            def forward(self, x):
                return x * self.tied
        def main():
            return Net().to(device)(torch.randn(2, 4, device=device))
    """,
    "a buffer that is replaced before the module moves": """
        class Whiten(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.register_buffer("w", torch.eye(d))
            def fit(self, n):
                self.w = torch.ones(n, n)
            def forward(self, x):
                return x @ self.w
        def main():
            net = Whiten(3)
            net.fit(3)
            net.to(device)
            return net(torch.randn(2, 3, device=device))
    """,
    "a buffer that is replaced by one beside the old one": """
        class Whiten(nn.Module):
            def __init__(self, d):
                super().__init__()
                self.register_buffer("w", torch.eye(d))
            def fit(self, n):
                self.w = torch.ones(n, n).to(self.w)
            def forward(self, x):
                return x @ self.w
        def main():
            net = Whiten(3).to(device)
            net.fit(3)
            return net(torch.randn(2, 3, device=device))
    """,
    "errors of devices are caught": """
        def forward(model, x):
            try:
                return model(x)
            except (RuntimeError, ValueError):
                return model(x.to(device))
        def main():
            model = nn.Linear(4, 4).to(device)
            return forward(model, torch.ones(2, 4))
    """,
    "labels": """
        def train(model, loader):
            criterion = nn.CrossEntropyLoss()
            model = model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                criterion(model(x), y).backward()
    """,
    "labels that are counted on the CPU": """
        def test(model, loader):
            model = model.to(device)
            correct = 0
            for x, y in loader:
                pred = model(x.to(device)).argmax(1).cpu()
                correct += (pred == y).sum().item()
    """,
    "one-hot rows on the CPU": """
        def rows(loader):
            for x, y in loader:
                yield torch.eye(10)[y]
    """,
    "one-hot rows beside the labels": """
        def train(model, loader):
            model.to(device)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                F.mse_loss(model(x), torch.eye(10, device=device)[y])
    """,
    "outputs that are copied": """
        def predict(model, loader):
            model.to(device)
            rows = []
            for x, _ in loader:
                rows.append(model(x.to(device)).detach().cpu())
            return np.concatenate(rows)
    """,
    "counts of a confusion matrix, by elements, which have no dimensions": """
        def confusion(model, loader, n):
            model.to(device)
            counts, others, row = torch.zeros(n, n), torch.zeros(n, n), torch.zeros(n)
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                pred = model(x).argmax(1)
                for t, p in zip(y.view(-1), pred.view(-1)):
                    counts[t.long(), p.long()] += 1
                for t, p in zip(y.flatten(), pred.reshape(-1)):
                    others[t, p] += 1
                flat = y.view(-1)
                for i in range(len(flat)):
                    row[flat[i].long()] += 1
            return counts, others, row
    """,
    "distributions of numbers, and of what is on the device": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
                self.unit = torch.distributions.Normal(0.0, 1.0)
            def forward(self, x):
                z = torch.distributions.Normal(self.fc(x), 1.0).rsample()
                return self.unit.log_prob(z) + self.unit.sample()
    """,
    "a table that is moved, beside a batch that meets itself": """
        def pick(table, loader):
            table = table.to(device)
            for x, y in loader:
                yield x + y
    """,
    "a chain of modules that are registered, and a copy of one": """
        from copy import deepcopy
        class Shift(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.register_buffer("table", torch.zeros(n))
            def forward(self, x):
                return x + self.table
        class Net(nn.Module):
            def __init__(self, n):
                super().__init__()
                one = Shift(n)
                self.body = nn.Sequential(nn.Linear(n, n), deepcopy(one), one)
            def forward(self, x):
                return self.body(x)
    """,
    "a state that is saved, loaded and averaged where it is": """
        def keep(model, rounds, path):
            model.to(device)
            kept = {k: v.clone() for k, v in model.state_dict().items()}
            host = {k: v.cpu() for k, v in model.state_dict().items()}
            torch.save(host, path)
            for k, v in model.state_dict().items():
                kept[k] = 0.9 * kept[k] + 0.1 * v
            model.load_state_dict(host)
            return sum(host[k].sum() for k in host)
    """,
    "weights of a loss that are brought along": """
        class Loss(nn.Module):
            def __init__(self, weight=None):
                super().__init__()
                self.weight = weight
            def forward(self, x, y):
                weight = None if self.weight is None else self.weight.to(x.device)
                return F.cross_entropy(x, y, weight=weight)
    """,
    "items of data sets that are moved, or put on the device by the data set": """
        from torch_geometric.datasets import Planetoid
        from torch_geometric import transforms as changes
        from torch_geometric.nn import GCNConv
        from torchvision import datasets
        def run():
            net, cnn = GCNConv(3, 3).to(device), models.resnet18().to(device)
            data = Planetoid("here", "Cora")[0]
            data = data.to(device)
            other = Planetoid("here", "Cora", transform=changes.ToDevice(device))[0]
            net(data.x, data.edge_index), net(other.x, other.edge_index)
            for image, label in datasets.MNIST("here", transform=transforms.ToTensor()):
                yield cnn(image[None].to(device)).argmax() == label
    """,
    "the number of the device where a tensor is": """
        class Crf(nn.Module):
            def __init__(self, k):
                super().__init__()
                self.k, self.trans = k, nn.Parameter(torch.zeros(k, k))
            def forward(self, scores):
                n = scores.get_device()
                there = torch.device(f"cuda:{n}") if n >= 0 else torch.device("cpu")
                alpha = torch.zeros(scores.size(0), self.k, device=there) + scores[:, 0]
                return alpha @ self.trans
    """,
    "losses by the name of the file that they stand in": """
        from torch.nn.modules.loss import CrossEntropyLoss, _WeightedLoss
        class Mine(_WeightedLoss):
            def __init__(self, weight=None):
                super().__init__(weight)
            def forward(self, x, y):
                return F.cross_entropy(x, y, weight=self.weight)
        def train(model, loader):
            model.to(device)
            one, other = CrossEntropyLoss(), Mine()
            for x, y in loader:
                out = model(x.to(device))
                (one(out[:3], y.to(device)[:3]) + other(out, y.to(device))).backward()
    """,
    "a table that is brought along where its type differs, and one that may be a number": """
        class Part(nn.Conv2d):
            def __init__(self, *args):
                super().__init__(*args)
                self.ones = torch.ones(1, 1, 3, 3)
            def forward(self, x):
                if self.ones.type() != x.type():
                    self.ones = self.ones.to(x)
                return super().forward(x) * F.conv2d(torch.ones_like(x[:, :1]), self.ones, padding=1)
    """,
    "a batch that goes with the device into what moves it": """
        def front(batch, there):
            if type(batch) is dict:
                return torch.cat([batch[k] for k in ("a", "b")]).to(there)
            return batch
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 1)
            def forward(self, x, there=None):
                return self.fc(front(x, there))
        def train(loader, there):
            net = Net().to(there)
            for batch in loader:
                net.forward(batch, there).sum().backward()
    """,
    "results for a plot, beside one that is on the device, and placeholders": """
        def grid(model, n):
            model.to(device)
            xs = torch.linspace(0, 1, n)
            zs = model(xs.to(device))
            kept = [torch.empty(0)] * n
            for i in range(n):
                kept[i] = model(zs)
            return xs, torch.stack(kept)
    """,
    "predictions and labels, both on the CPU": """
        def accuracy(model, loader):
            model = model.to(device)
            for x, y in loader:
                _, pred = model(x.to(device)).cpu().max(1)
                print((pred == y).sum().item())
    """,
    "a maximum over all, which mixes with any device": """
        def scaled(model, x):
            model = model.to(device)
            y = model(x.to(device))
            return y / y.cpu().max()
    """,
    "a state that is made anew for each run": """
        class Reader(nn.Module):
            def __init__(self, n, h):
                super().__init__()
                self.rnn = nn.RNN(n, h)
                self.state = torch.zeros(1, 1, h)
            def forward(self, x):
                self.state = x.new_zeros(1, 1, 4)
                out, self.state = self.rnn(x, self.state)
                return out
    """,
    "layers of a library's network that are moved one by one": """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                whole = models.vgg16(weights="DEFAULT").features.to(device)
                self.part = nn.Sequential(*[whole[i] for i in range(4)])
            def forward(self, x):
                return self.part(x)
        def features(x):
            return Features()(x.to(device))
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(FOUND[name])
    assert spoken(HEAD, code) == wanted


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    code, _ = marked(SILENT[name])
    assert spoken(HEAD, code) == set()


def test_what_is_called_on_a_line_with_a_literal_device_is_found() -> None:
    """hard-coded-cuda speaks of the line that runs the module, which says nothing of the factory in it."""
    code, wanted = marked(CALLED)
    head = "import torch\nimport torch.nn as nn\n"
    source = Source(head + code)
    flow = analyse(source)
    literals = list(HardCodedCuda().check(flow))
    found = besides(flow, {"place-factory"}, literals)
    assert {source.position(one.span.start)[0] - head.count("\n") for one in found} == wanted
    assert literals


def test_a_method_without_a_first_name_that_is_called_too_often_is_read() -> None:
    calls = "".join(f"        self.step({one})\n" for one in range(14))
    code = f"class Net(nn.Module):\n    def run(self):\n{calls}    def step(*given):\n        return given\n"
    assert spoken(HEAD, code) == set()
