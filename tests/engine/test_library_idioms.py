"""What other packages make on the CPU, and what torch draws with a generator; and the right twins."""

from __future__ import annotations

import pytest
from programs import marked, spoken

HEAD = """\
import random
from collections import deque
import dgl
import timm
import torch
import torch.nn as nn
from diffusers import DDPMScheduler
from PIL import Image
from tensordict import TensorDict
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torchvision.io import read_image
from torchvision.models import ResNet50_Weights, resnet50
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = nn.Linear(4, 2).to(device)
"""

FOUND = {
    "a graph that is put together": """
        conv = GCNConv(4, 2).to(device)
        edges = torch.tensor([[0, 1], [1, 2]])
        data = Data(x=torch.rand(3, 4), edge_index=edges)
        conv(data.x, edges.to(device))  # <
    """,
    "an attribute of a graph": """
        data = Data(x=torch.rand(3, 4)).to(device)
        data.w = torch.rand(3, 4)  # <
        net(data.w)
    """,
    "named tensors": """
        batch = TensorDict({"x": torch.rand(3, 4)}, batch_size=[3])
        net(batch["x"])  # <
    """,
    "named tensors whose moved copy is lost": """
        batch = TensorDict({"x": torch.rand(3, 4)}, batch_size=[3])
        moved = batch.to(device)
        net(batch["x"])  # <
    """,
    "a graph of the CPU": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = dgl.nn.GraphConv(4, 2)
            def forward(self, g, x):
                return self.conv(g, x)
        model = Net().to(device)
        g = dgl.graph(([0, 1], [1, 2]))
        model(g, torch.rand(3, 4, device=device))  # <
    """,
    "transforms of timm": """
        model = timm.create_model("resnet18").to(device)
        transform = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model))
        image = transform(Image.open("a.png")).unsqueeze(0)
        model(image)  # <
    """,
    "transforms of published weights": """
        weights = ResNet50_Weights.DEFAULT
        model = resnet50(weights=weights).to(device)
        prepare = weights.transforms()
        model(prepare(read_image("a.png")).unsqueeze(0))  # <
    """,
    "memory of the file that functions fill": """
        memory = deque(maxlen=100)
        def push(row):
            memory.append(torch.tensor(row))  # <
        def learn():
            return net(torch.stack(random.sample(memory, 4)))
    """,
    "a generator for a method": """
        g = torch.Generator()
        x = torch.ones(3, 4, device=device)
        x.normal_(generator=g)  # <
    """,
    "a generator for a function": """
        g = torch.Generator()
        def draw(x):
            x = x.to(device)
            return torch.multinomial(x, 2, generator=g)  # <
    """,
    "a method of what was moved": """
        def spread(x):
            x = x.to(device)
            index = torch.zeros(3, 4, dtype=torch.long)  # <
            return x.scatter_add(0, index, torch.ones(3, 4, device=device))
    """,
    "what was moved as an argument of a method": """
        def score(x):
            x = x.to(device)
            normal = torch.distributions.Normal(torch.zeros(4), 1.0)  # <
            return normal.log_prob(x)
    """,
    "a sparse matrix": """
        def smooth(x):
            adjacency = torch.eye(3).to_sparse()  # <
            return torch.sparse.mm(adjacency, x.to(device))
    """,
    "noise for a scheduler": """
        scheduler = DDPMScheduler.from_pretrained("a")
        def add(x, steps):
            x = x.to(device)
            noise = torch.randn(x.shape)  # <
            return scheduler.add_noise(x, noise, torch.randint(0, steps, (3,)))
    """,
    "blocks": """
        def blocks(x):
            return torch.block_diag(x.to(device), torch.ones(2, 2))  # <
    """,
}
SILENT = {
    "a graph that moves itself": """
        data = Data(x=torch.rand(3, 4))
        data.to(device)
        net(data.x)
    """,
    "a moved graph": """
        data = Data(x=torch.rand(3, 4))
        data = data.to(device, non_blocking=True)
        net(data["x"])
    """,
    "a graph that is filled afterwards": """
        data = Data()
        data.x = torch.rand(3, 4, device=device)
        net(data.x)
    """,
    "an attribute of a graph that is replaced": """
        data = Data(x=torch.rand(3, 4))
        data.x = data.x.to(device)
        net(data.x)
    """,
    "named tensors of a device": """
        batch = TensorDict({"x": torch.rand(3, 4)}, batch_size=[3], device=device)
        net(batch["x"])
    """,
    "a graph on the device": """
        conv = dgl.nn.GraphConv(4, 2).to(device)
        g = dgl.graph(([0, 1], [1, 2]), device=device)
        conv(g, torch.rand(3, 4, device=device))
        h = dgl.add_self_loop(dgl.graph(([0, 1], [1, 2]))).to(device)
        conv(h, torch.rand(3, 4, device=device))
    """,
    "transforms whose result is moved": """
        model = resnet50().to(device)
        prepare = ResNet50_Weights.DEFAULT.transforms()
        model(prepare(Image.open("a.png")).unsqueeze(0).to(device))
        model(prepare(read_image("a.png").to(device)).unsqueeze(0))
    """,
    "a memory of tensors of the device": """
        memory = deque(maxlen=100)
        def push(row):
            memory.append(torch.tensor(row, device=device))
        def learn():
            return net(torch.stack(random.sample(memory, 4)))
    """,
    "a generator of the device": """
        g = torch.Generator(device)
        x = torch.ones(3, 4, device=device)
        x.normal_(generator=g)
        torch.ones(3, 4).normal_(generator=torch.Generator())
    """,
    "noise on the device of its data": """
        scheduler = DDPMScheduler()
        def add(x, steps):
            x = x.to(device)
            return scheduler.add_noise(x, torch.randn_like(x), torch.randint(0, steps, (3,)))
    """,
    "what was moved may be a container": """
        def count(x):
            x = x.to(device)
            x.update(torch.zeros(3))
            return x.index(torch.zeros(3)), x.keys()
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
