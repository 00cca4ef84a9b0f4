"""What other packages make on the CPU, and what torch draws with a generator; and the right twins."""

from __future__ import annotations

import pytest
from programs import marked, spoken

HEAD = """\
import random
from collections import deque
import captum
import dgl
import timm
import torch
import torch.nn as nn
from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, NoiseTunnel, Occlusion, Saliency
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
    "inputs of an attribution": """
        ig = IntegratedGradients(net)
        a = ig.attribute(torch.rand(3, 4), target=0)  # <
    """,
    "inputs of an attribution to a layer": """
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(device)
        cam = LayerGradCam(forward_func=model, layer=model[0])
        cam.attribute(inputs=torch.rand(3, 4), target=0)  # <
    """,
    "attributions in turn": """
        for way in (Saliency(net), captum.attr.FeatureAblation(net)):
            way.attribute(torch.rand(3, 4))  # <
    """,
    "an attribution with noise": """
        NoiseTunnel(Saliency(net)).attribute(torch.rand(3, 4), nt_type="smoothgrad")  # <
    """,
    "an attribution that an object keeps": """
        class Explainer:
            def __init__(self):
                self.net = nn.Linear(4, 2).to(device)
                self.way = captum.attr.GuidedBackprop(self.net)
            def explain(self, row):
                return self.way.attribute(torch.tensor([row]), target=1)  # <
    """,
    "an attribution to a function": """
        way = Saliency(lambda x: net(x).softmax(1))
        way.attribute(torch.rand(3, 4))  # <
    """,
    "several inputs of an attribution": """
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)
            def forward(self, x, y):
                return self.fc(x) + y
        pair = Pair().to(device)
        inputs = torch.rand(3, 4, device=device)
        Saliency(pair).attribute((inputs, torch.rand(3, 2)))  # <
    """,
    "what an attribution hands on": """
        class Shifted(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)
            def forward(self, x, y):
                return self.fc(x) + y
        ig = IntegratedGradients(Shifted().to(device))
        ig.attribute(torch.rand(3, 4, device=device), additional_forward_args=torch.rand(3, 2))  # <
    """,
    "baselines": """
        inputs = torch.rand(3, 4).to(device)
        DeepLift(net).attribute(inputs, baselines=torch.zeros(3, 4), target=0)  # <
    """,
    "baselines by position": """
        inputs = torch.rand(3, 4).to(device)
        IntegratedGradients(net).attribute(inputs, torch.zeros(3, 4))  # <
        Occlusion(net).attribute(inputs, (2,), None, torch.zeros(3, 4))  # <
    """,
    "baselines after a neuron": """
        way = captum.attr.NeuronDeepLift(net, net)
        way.attribute(torch.rand(3, 4).to(device), 0, torch.zeros(3, 4))  # <
    """,
    "baselines of what was moved": """
        def explain(model, x):
            ig = IntegratedGradients(model.to(device))
            return ig.attribute(x.to(device), baselines=torch.zeros(1, 4))  # <
    """,
    "baselines of several inputs": """
        way = IntegratedGradients(lambda x, y: x)
        first, second = torch.rand(3, 4, device=device), torch.rand(3, 4)
        bases = torch.zeros(3, 4)  # <
        way.attribute((first, second), baselines=(bases, torch.zeros(3, 4)))
    """,
    "a network that an attribution finds on the CPU": """
        class Late(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)
            def forward(self, x):
                return self.fc(x)
        late = Late()  # <
        Saliency(late).attribute(torch.rand(3, 4, device=device))
    """,
}
SILENT = {
    "inputs and baselines of an attribution that are moved": """
        ig = IntegratedGradients(net)
        inputs = torch.rand(3, 4).to(device)
        ig.attribute(inputs, target=0)
        ig.attribute(inputs, baselines=torch.zeros(3, 4, device=device), target=0)
        ig.attribute(inputs, 0, baselines=torch.zeros_like(inputs))
        ig.attribute(inputs, baselines=0.0)
        Occlusion(net).attribute(inputs, (2,), None, torch.zeros(3, 4, device=device))
    """,
    "an attribution on the CPU": """
        model = nn.Linear(4, 2)
        IntegratedGradients(model).attribute(torch.rand(3, 4), torch.zeros(3, 4), target=0)
        LayerGradCam(model, model).attribute(torch.rand(3, 4), target=0)
    """,
    "a network that is moved between": """
        model = nn.Linear(4, 2)
        way = Saliency(model)
        way.attribute(torch.rand(3, 4))
        model.to(device)
        way.attribute(torch.rand(3, 4, device=device))
    """,
    "a network that is taken back for an attribution": """
        model = nn.Linear(4, 2).to(device)
        way = Saliency(model)
        model.cpu()
        way.attribute(torch.rand(3, 4))
    """,
    "other arguments of attributions": """
        inputs = torch.rand(3, 4, device=device)
        Saliency(net).attribute(inputs, torch.tensor([1]))
        captum.attr.LayerGradCam.interpolate(torch.rand(3, 4), (2, 2))
        captum.attr.TokenReferenceBase(0).generate_reference(4, device)
        captum.attr.LLMAttribution(Saliency(net), None).attribute(torch.rand(3, 4))
        captum.attr.NeuronGradient(net, net).attribute(inputs, torch.tensor([1]))
        for way in (Saliency(net), IntegratedGradients(net)):
            way.attribute(inputs, torch.tensor([1]))
    """,
    "a function that moves what an attribution hands on": """
        way = IntegratedGradients(lambda x: net(x.to(device)))
        way.attribute(torch.rand(3, 4), baselines=torch.zeros(3, 4))
    """,
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
