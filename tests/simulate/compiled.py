"""Programs for torch.compile, run on simulated CUDA and on the CPU: what they print, and how often tracing breaks."""

import json
import sys
import time

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
backend = "inductor" if device.type == "cuda" else "aot_eager"  # the CPU needs no compiler for the latter
x = torch.ones(4, 3, device=device)
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def compiled(function=None, **named):
    return torch.compile(function, backend=backend, **named)


def trained(make, shape, **named):
    torch.manual_seed(0)
    model = make().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = compiled(model, **named)
    for _ in range(2):
        optimizer.zero_grad()
        out = run(torch.ones(shape, device=device))
        loss = (out[0] if isinstance(out, tuple) else out).square().mean()
        loss.backward()
        optimizer.step()
    return round(loss.item(), 4)


@program
def layers():
    def make():
        features = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        return nn.Sequential(*features, nn.Linear(36, 5))

    return trained(make, (8, 1, 8, 8), fullgraph=True)


@program
def attention():
    layer = lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)  # noqa: E731
    return trained(layer, (2, 4, 8), fullgraph=True)


@program
def recurrent():
    return trained(lambda: nn.LSTM(3, 5, batch_first=True), (2, 4, 3))


@program
def factories():
    @compiled(fullgraph=True)
    def f(x):
        a = torch.zeros(3, device=x.device) + torch.arange(3, device=device) + torch.ones_like(x)
        return (
            a + torch.tensor([1.0, 2.0, 3.0], device=x.device) + x.new_zeros(3) + torch.eye(3).to(x.device)[0]
        )

    return f(x).tolist()


@program
def random_numbers():
    @compiled(fullgraph=True)
    def f(x):
        more = (
            torch.rand(3, device=x.device) + torch.randint(0, 5, (3,), device=x.device) + torch.bernoulli(x)
        )
        return x + more + torch.empty(3, device=x.device).uniform_() + F.dropout(x)

    return list(f(x).shape)


@program
def a_generator():
    generator = torch.Generator(device)
    f = compiled(lambda x: x + 0 * torch.rand(3, device=x.device, generator=generator))
    return f(x).sum().item()


@program
def the_default_device():
    torch.set_default_device(device)
    try:
        return compiled(lambda x: x + torch.ones(3), fullgraph=True)(x).sum().item()
    finally:
        torch.set_default_device(None)


@program
def streams():
    @compiled
    def f(x):
        if not x.is_cuda:
            return x + 1
        stream, event = torch.cuda.Stream(), torch.cuda.Event()
        with torch.cuda.stream(stream):
            y = x + 1
            event.record()
        event.wait()
        torch.cuda.current_stream().wait_stream(stream)
        return y

    return f(x).sum().item()


@program
def autocast():
    layer = nn.Linear(3, 2).to(device)

    @compiled(fullgraph=True)
    def f(x):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return layer(x)

    return str(f(x).dtype)


@program
def a_break():
    @compiled
    def f(x):
        y = x + 1
        print("", end="")
        return y[y > 0].sum() + y[torch.tensor([0, 1])].sum()

    return f(x).item()


@program
def a_module_that_compiles_itself():
    module = nn.Linear(3, 3).to(device)
    module.compile(backend=backend)
    return list(module(x).shape)


@program
def an_optimizer():
    torch.manual_seed(0)
    module = nn.Linear(3, 3).to(device)
    optimizer = torch.optim.Adam(module.parameters(), 0.1)
    step = compiled(optimizer.step)
    for _ in range(2):
        module(x).sum().backward()
        step()
    return round(module.weight.sum().item(), 4)


@program
def changed_in_place():
    def f(y):
        y.add_(1)
        y[0].zero_()
        return y.T

    y = x.clone()
    compiled(f, fullgraph=True)(y)
    return y.sum().item()


@program
def several_sizes():
    f = compiled(lambda x: torch.unsqueeze(x, 0) + 1, fullgraph=True)
    return sum(f(torch.ones(size, size + 1, device=device)).sum().item() for size in (2, 4, 6, 8))


@program
def branches_on_data():
    return compiled(lambda x: x + 1 if x.sum() > 0 else x, fullgraph=True)(x).sum().item()


@program
def a_parameter_made_inside():
    return (
        compiled(lambda x: x @ nn.Parameter(torch.ones(3, 3, device=device)), fullgraph=True)(x).sum().item()
    )


@program
def an_unknown_option():
    return torch.compile(lambda x: x, options={"nonsense": 1})(x)


for name, function in PROGRAMS.items():
    torch._dynamo.reset()
    counters.clear()
    start = time.process_time()
    try:
        said = str(function())
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
    breaks, graphs = sum(counters["graph_break"].values()), counters["stats"].get("unique_graphs", 0)
    print(json.dumps([name, said, breaks, graphs, round(time.process_time() - start, 2)]), flush=True)
sys.stdout.flush()
