"""numpy-of-device: what it copies to the CPU, how, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.pipeline.around import Around
from devfix.pipeline.discover import discover
from devfix.pipeline.runner import run
from devfix.rules.numpy_of_device import NumpyOfDevice

RULE = NumpyOfDevice()
HEAD = """\
import torch
import numpy as np
import matplotlib.pyplot as plt
from sklearn.metrics import accuracy_score
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
x = torch.ones(3, 4).to(device)
"""

# name: (before, after)
CHANGED = {
    "the largest, by name": (
        "print(x.topk(2).indices.numpy())\n",
        "print(x.topk(2).indices.cpu().numpy())\n",
    ),
    "the sorted, by name": ("print(x.sort().values.numpy())\n", "print(x.sort().values.cpu().numpy())\n"),
    "moved tensor": ("print(x.numpy())\n", "print(x.cpu().numpy())\n"),
    "output without gradients": (
        "def f(net, s):\n    net.to(device)\n    with torch.no_grad():\n        return net(s.to(device)).numpy()\n",
        "def f(net, s):\n    net.to(device)\n    with torch.no_grad():\n        return net(s.to(device)).cpu().numpy()\n",
    ),
    "an element of a batch": (
        "def f(loader, device):\n    z, _ = next(iter(loader))\n    z = z.to(device)\n    np.save('z', z)\n",
        "def f(loader, device):\n    z, _ = next(iter(loader))\n    z = z.to(device)\n    np.save('z', z.cpu())\n",
    ),
    "detached output": ("y = model(x)\ny.detach().numpy()\n", "y = model(x)\ny.detach().cpu().numpy()\n"),
    "in a chain": (
        "y = model(x)\ny.argmax(dim=1).numpy().tolist()\n",
        "y = model(x)\ny.argmax(dim=1).cpu().numpy().tolist()\n",
    ),
    "an operator": ("(x + 1).numpy()\n", "(x + 1).cpu().numpy()\n"),
    "an operator without parentheses": ("np.abs(x + 1)\n", "np.abs((x + 1).cpu())\n"),
    "literal": ("z = torch.ones(3).cuda()\nz.numpy()\n", "z = torch.ones(3).cuda()\nz.cpu().numpy()\n"),
    "made on the device": (
        "z = torch.ones(3, device=device)\nz.numpy()\n",
        "z = torch.ones(3, device=device)\nz.cpu().numpy()\n",
    ),
    "moved under its own name": (
        "def show(image, device):\n    image = image.to(device)\n    return image[0].numpy()\n",
        "def show(image, device):\n    image = image.to(device)\n    return image[0].cpu().numpy()\n",
    ),
    "batch of a loader": (
        "def show(loader, device):\n    for a, b in loader:\n        a, b = a.to(device), b.to(device)\n"
        "        print(decode(b.numpy()))\n",
        "def show(loader, device):\n    for a, b in loader:\n        a, b = a.to(device), b.to(device)\n"
        "        print(decode(b.cpu().numpy()))\n",
    ),
    "numpy function": ("np.median(x)\n", "np.median(x.cpu())\n"),
    "array of one": ("np.array(x)\n", "np.array(x.cpu())\n"),
    "every argument": (
        "np.allclose(x, model.weight.data)\n",
        "np.allclose(x.cpu(), model.weight.data.cpu())\n",
    ),
    "list of losses": (
        "losses = []\nfor _ in range(2):\n    losses.append(model(x).sum().detach())\n"
        "print(np.mean(losses))\n",
        "losses = []\nfor _ in range(2):\n    losses.append(model(x).sum().detach())\n"
        "print(np.mean([t.cpu() for t in losses]))\n",
    ),
    "list written out": ("np.array([x, 1.0])\n", "np.array([x.cpu(), 1.0])\n"),
    "comprehension": (
        "np.array([model(x).sum().detach() for _ in range(3)])\n",
        "np.array([model(x).sum().detach().cpu() for _ in range(3)])\n",
    ),
    "pyplot": ("plt.imshow(x)\nplt.title('x')\n", "plt.imshow(x.cpu())\nplt.title('x')\n"),
    "axes": (
        "fig, axes = plt.subplots(2)\naxes[0].plot(x, label='x')\n",
        "fig, axes = plt.subplots(2)\naxes[0].plot(x.cpu(), label='x')\n",
    ),
    "sklearn": (
        "y = model(x).argmax(1)\naccuracy_score(y_true=[1], y_pred=y)\n",
        "y = model(x).argmax(1)\naccuracy_score(y_true=[1], y_pred=y.cpu())\n",
    ),
}

SILENT = {
    "items of a data set that only changes their type": (
        "from torch.utils.data import DataLoader\n"
        "class Scenes:\n"
        "    def __getitem__(self, i):\n"
        "        return torch.ones(3, dtype=torch.uint8).to(torch.float32)\n"
        "def extract(dataset):\n"
        "    for maps, images in DataLoader(dataset, collate_fn=dataset.collate):\n"
        "        for image in images:\n"
        "            points, mask = image.points()\n"
        "            print(points.numpy()[mask])\n"
        "extract(Scenes())\n"
        "net = torch.nn.Linear(3, 3).cuda()\n"
    ),
    "an argument, of a class that is no module, that may be an array as well": (
        "class Noise:\n"
        "    def __call__(self, wave):\n"
        "        if isinstance(wave, torch.Tensor):\n"
        "            wave = wave.numpy()\n"
        "        return wave + 1\n"
        "net = torch.nn.Linear(3, 3).cuda()\n"
    ),
    "made where a tensor is of which nothing is known": (
        "import matplotlib.pyplot as plt\n"
        "def scaled(x):\n"
        "    return x + torch.tensor([0.0], device=x.device)\n"
        "parts = [torch.load('a')['x'].cpu(), torch.load('b')['x'].cpu()]\n"
        "y = scaled(torch.cat((parts[0], parts[1])))\n"
        "plt.scatter(y, y)\n"
    ),
    "a number of a model's output": (
        "class Voice(nn.Module):\n"
        "    def __init__(self, device=None):\n"
        "        super().__init__()\n"
        "        self.device = device\n"
        "        self.net, self.h = load(device)\n"
        "\n"
        "    def forward(self, a, b):\n"
        "        return self.net(a, b).view(-1), self.h.rate\n"
        "\n"
        "\n"
        "class E:\n"
        "    def __init__(self, device):\n"
        "        self.device = device\n"
        "        self.net = Voice(device)\n"
        "\n"
        "    def f(self, a, b):\n"
        "        c = torch.from_numpy(b.cpu().numpy()).unsqueeze(0).float().to(self.device)\n"
        "        y, rate = self.net(a, c)\n"
        "        return np.round(rate * 0.1), y\n"
    ),
    "to where a copy on the CPU is": "y = foreign().cpu()\nx = x.to(y.device)\na = x.numpy()\n",
    "the other arm is for the GPU": "a = x.numpy() if fn == host else x.contiguous().cuda()\n",
    "a device that is left to its default": "def made(n, device='cpu'):\n    return torch.zeros(n, device=device)\n"
    "def f(device):\n    return model.to(device), made(3).numpy()\n",
    "the error is caught": "try:\n    a = x.numpy()\nexcept TypeError:\n    a = x.cpu().numpy()\n",
    "as a flag says": "if use_gpu:\n    a = x.cpu().numpy()\nelse:\n    a = x.numpy()\n",
    "as a flag says, at once": "a = x.cpu().numpy() if use_cuda else x.numpy()\n",
    "cpu": "x.cpu().numpy()\n",
    "cpu on a line of its own": "y = x.cpu()\ny.numpy()\nnp.mean(y)\n",
    "cpu in place": "x = x.cpu()\nx.numpy()\n",
    "to cpu": "x.to('cpu').numpy()\nx.detach().to(torch.device('cpu')).numpy()\n",
    "a device named so": "def f(x, cpu_device):\n    x = x.to(cpu_device)\n    return x.numpy()\n",
    "back to where it was": "def f(x, rows):\n    input_device = rows.where\n    y = x.to(input_device)\n"
    "    return y.numpy()\n",
    "item and tolist": "np.mean(x.tolist())\nnp.sqrt(x[0, 0].item())\nplt.plot(x.tolist())\n",
    "forced": "x.numpy(force=True)\n",
    "sizes": "np.shape(x)\nnp.zeros(x.shape)\nnp.ndim(x)\nnp.random.permutation(x.shape[0])\n",
    "never moved": "y = torch.ones(3)\ny.numpy()\nnp.mean(y)\n",
    "moved only then": "y = torch.ones(3)\ny.numpy()\ny = y.to(device)\n",
    "model on the CPU": "m = nn.Linear(4, 2)\nm(torch.ones(3, 4)).detach().numpy()\n",
    "moved back under a condition": "if torch.cuda.is_available():\n    x = x.cpu()\nx.numpy()\n",
    "where another is": "def f(x, y):\n    x = x.to(y.device)\n    return x.numpy()\n",
    "a parameter": "def f(x: torch.Tensor):\n    return x.numpy()\n",
    "result of a method that may return anything": (
        "from library import Net\nnet = Net()\nnet.to(device)\nnet.eval()\n"
        "net.predict(x).numpy()\nnp.mean(net.encode(x))\nnp.mean(net(x))\n"
    ),
    "list with other things": "kept = []\nkept.append(x)\nkept.append(1.0)\nnp.mean(kept)\n",
    "list that is made elsewhere": "kept = load()\nkept.append(x)\nnp.mean(kept)\n",
    "list of numbers": "kept = []\nkept.append(x.sum().item())\nnp.mean(kept)\n",
    "a pipeline that returns arrays": (
        "from library import Pipe\npipe = Pipe.from_pretrained('x')\npipe.to(device)\npipe.eval()\n"
        "image = pipe(3).images\nprint(np.abs(image.flatten() - image[0]).max(), np.stack(pipe(3)))\n"
    ),
    "a model that returns what is on the CPU": (
        "class Net(nn.Module):\n    layer = nn.Linear(4, 2)\n    def forward(self, x):\n        return self.layer(x).cpu()\n"
        "net = Net().to(device)\nnet(x).detach().numpy()\n"
    ),
    "a function that only indexes": "y = np.take_along_axis(x, np.zeros((3, 1), int), axis=1)\nprint(y)\n",
    "functions that ask the tensor itself": "np.squeeze(x)\nnp.real(x)\nnp.split(x, 3)\nnp.moveaxis(x, 0, 1)\n",
    "fails on the CPU as well": "np.mean(x)\n",
    "a name that is no axes": "game.plot(x)\n",
}


@pytest.mark.parametrize("name", CHANGED)
def test_copies(name: str) -> None:
    before, after = CHANGED[name]
    assert fixed(RULE, HEAD + before) == HEAD + after


@pytest.mark.parametrize("name", SILENT)
def test_leaves_alone(name: str) -> None:
    assert [finding.message for finding in findings(RULE, HEAD + SILENT[name])] == []


def test_a_tensor_beyond_doubt_is_safe() -> None:
    (finding,) = findings(RULE, HEAD + "print(x.numpy())\n")
    assert finding.fix is not None
    assert finding.fix.safety is Safety.SAFE
    assert finding.message == "`x` is on `device` since line 8, and `.numpy()` raises unless it is on the CPU"


def test_tensors_of_other_libraries_copy_themselves() -> None:
    assert findings(RULE, "import paddle\n" + HEAD + "x.numpy()\n") == []


def test_a_device_that_was_left_to_its_default() -> None:
    text = (
        "import torch\nfrom numpy.testing import assert_allclose\nfrom torch.nn.functional import mse_loss\n\n\n"
        "def pair(n=2, device=None):\n    return torch.ones(n, device=device).log(), torch.zeros(n, device=device)\n\n\n"
        "def check(metric):\n    a, b = pair()\n    wanted = mse_loss(a, b)\n    assert_allclose(metric, wanted)\n"
    )
    assert findings(RULE, text) == []


def test_a_device_that_another_function_was_handed_is_not_safe() -> None:
    text = (
        "import numpy as np\nimport torch\n\n\nclass User:\n    def __init__(self, device):\n"
        "        self.net = torch.nn.Linear(3, 3).to(device)\n\n    def read(self, x):\n"
        "        y = self.net(x)\n        return y.detach().numpy()\n"
    )
    (finding,) = findings(RULE, text)
    assert finding.fix is not None and finding.fix.safety is Safety.UNSAFE


NET = """\
import torch
from torch import nn


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def produce(self, c):
        return self.layer(c)RESULT
"""
USER = """\
import torch
from net import Wave

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Wave()
model.to(device)
y = model.produce(torch.rand(1, 2).to(device)).squeeze()
print(y.detach().numpy())
"""


@pytest.mark.parametrize(("result", "expected"), [("", ["safe"]), (".cpu()", []), (".tolist()[0]", [])])
def test_a_method_of_another_file_may_copy_what_it_returns(
    result: str, expected: list[str], tmp_path: Path
) -> None:
    files = {"setup.py": "", "net.py": NET.replace("RESULT", result), "main.py": USER}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    report = run(discover([str(tmp_path)]), [RULE], jobs=1, around=Around(str(tmp_path)))
    found = [
        one.fix.safety.name.lower()
        for result in report.results
        for one in result.findings
        if one.fix is not None
    ]
    assert found == expected


OWN = """\
class Net(nn.Module):
    def forward(self, x):
        return model(x){}


def many(rows, net{}):
    rows = torch.as_tensor(np.stack(rows), device=device)
    return net(rows).detach().numpy()
"""


@pytest.mark.parametrize(
    ("end", "kind", "found"),
    [
        ("", ": Net", [Safety.SAFE]),
        ('.to(dtype=torch.uint8, device=torch.device("cpu"))', ": Net", []),
        ('.to("cpu").detach()', ": Net", []),
        ('.to(device="cpu")', ": Net", []),
        ("", "", [Safety.UNSAFE]),  # whatever it is
    ],
)
def test_a_parameter_that_is_called(end: str, kind: str, found: list[Safety]) -> None:
    got = findings(RULE, HEAD + OWN.format(end, kind))
    assert [one.fix.safety for one in got if one.fix is not None] == found


def test_a_method_out_of_view_proves_nothing() -> None:
    for made in ("from library import Wave\n", "Wave = make()\n"):
        text = USER.replace("from net import Wave\n", made)
        assert all(one.fix is None or one.fix.safety is not Safety.SAFE for one in findings(RULE, text))


FORWARD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)

    def scores(self, x):
        return self.head(x).cpu()

    def forward(self, x, lengths):
        LINES

    def act(self, x):
        return OTHER
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "y = torch.sigmoid(self.head(x))\n        return y.squeeze(1).detach().numpy()",
            "y.squeeze(1).detach()",
        ),
        ("if lengths:\n            y = self.head(x)\n        return y.numpy()", "y"),
        ("y = self.head(x).cpu()\n        return y, x['mask'].numpy()", "x['mask']"),
        ("y = self.head(x).cpu()\n        return y.numpy(), lengths.numpy()", ""),
        ("return x.numpy()", ""),  # nothing speaks of devices
        ("return self.scores(x).numpy()", ""),
        ("return self.predict_boxes(x).numpy()", ""),
        ("return torch.zeros(3).numpy()", ""),
    ],
)
def test_what_forward_makes(lines: str, expected: str) -> None:
    text = FORWARD.replace("LINES", lines).replace("OTHER", "x") + "import numpy\n"
    got = findings(RULE, text)
    assert len(got) == bool(expected)
    assert all(one.fix is not None and one.fix.safety is Safety.UNSAFE for one in got)
    if expected:
        assert f"{expected}.cpu().numpy()" in fixed(RULE, text)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("self(torch.Tensor(x), None).argmax(1).numpy()", 1),
        ("self.forward(x, None).detach().numpy()", 1),
        ("self(x, None).cpu().numpy()", 0),
        ("self.head(x).numpy()", 0),
        ("x.device, x.numpy()", 0),
    ],
)
def test_what_a_module_makes_beside_forward(other: str, found: int) -> None:
    text = FORWARD.replace("LINES", "return self.head(x)").replace("OTHER", other) + "import numpy\n"
    assert len(findings(RULE, text)) == found
    assert not findings(RULE, text.replace("nn.Module", "Function"))


def test_a_number_on_another_path_has_no_cpu() -> None:
    """It is told, since on the first path it raises; `.cpu()` would raise on the second one, on the CPU as well."""
    text = (
        "import numpy as np\nimport torch\nfrom torch import nn\n\n\ndef f(x, extra, device):\n"
        "    net = nn.Linear(3, 3).to(device)\n    out = net(x.to(device)).sum()\n    if len(extra) > 0:\n"
        "        second = out.mean()\n    else:\n        second = 1\n    return np.array([second * 100])\n"
    )
    [finding] = findings(RULE, text)
    assert finding.fix is None


def test_an_element_of_one_number_is_none() -> None:
    """`loss.data[0]` was a number in torch 0.3, and raises today."""
    text = (
        "import numpy as np\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n"
        "def f(x, y, device):\n    net = nn.Linear(3, 3).to(device)\n    losses, each = [], []\n"
        "    losses.append(F.mse_loss(net(x.to(device)), y.to(device)).data[0])\n"
        "    each.append(F.mse_loss(net(x.to(device)), y.to(device), reduction='none').detach()[0])\n"
        "    return np.mean(losses), np.mean(each)\n"
    )
    [finding] = findings(RULE, text)
    assert text[finding.span.start : finding.span.end] == "each"
