"""numpy-of-device: tensors that come through loops, lists and functions out of sight, and parameters beside others."""

from __future__ import annotations

import pytest
from applying import findings, fixed
from devfix.findings import Safety
from devfix.rules.numpy_of_device import NumpyOfDevice

RULE = NumpyOfDevice()
HEAD = "import numpy as np\nimport torch\nfrom heads import decode_scores, to_scalar\n\n\n"

# name: (before, what is copied)
CARRIED = {
    "moved in another method": (
        "class Base:\n    def fit(self):\n        self.network.to(self.device)\n\n"
        "    def step(self, x):\n        x = x.to(self.device)\n        out, mask = self.network(x)\n"
        "        return mask.sum(dim=0).detach().numpy()\n",
        "mask.sum(dim=0).detach()",
    ),
    "moved by the class above": (
        "class Base:\n    def fit(self):\n        self.network.to(self.device)\n\n"
        "class Child(Base):\n    def step(self, x):\n        x = x.to(self.device)\n"
        "        return self.network(x).numpy()\n",
        "self.network(x)",
    ),
    "a list in a loop": (
        "def run(model, loader, device):\n    model.to(device)\n    found = []\n    for x in loader:\n"
        "        found.append(model(x.to(device)).detach())\n    for one in found:\n        print(one.numpy())\n",
        "one",
    ),
    "a list in a comprehension": (
        "def run(model, loader, device):\n    model.to(device)\n    found = []\n    for x in loader:\n"
        "        found.append(model(x.to(device)).detach())\n    return [one.numpy() for one in found]\n",
        "one",
    ),
    "a list beside another": (
        "def run(model, loader, device):\n    model.to(device)\n    found = []\n    for x in loader:\n"
        "        found.append(model(x.to(device)).detach())\n"
        "    return [a.numpy() for i, (a, b) in enumerate(zip(found, loader))]\n",
        "a",
    ),
    "through an imported function": (
        "def run(model, x):\n    x = torch.tensor(x).to(next(model.parameters()).device)\n"
        "    v = to_scalar(model.initial_inference(x)[0], 3)\n    return torch.squeeze(v).detach().numpy()\n",
        "torch.squeeze(v).detach()",
    ),
    "what one of several networks gives, out of its graph": (
        "class Gan:\n    def __init__(self, nets, device):\n        self.nets, self.device = nets, device\n\n"
        "    def draw(self, z):\n        z = torch.tensor(z, device=self.device)\n        y, _ = self.nets[0](z, train=False)\n"
        "        return y.detach().numpy()\n",
        "y.detach()",
    ),
    "what a network by its name gives": (
        "def run(nets, z, device):\n    z = z.to(device)\n    for name in nets:\n        out = nets[name](z)\n"
        "        print(out.squeeze(0).detach().numpy())\n",
        "out.squeeze(0).detach()",
    ),
    "what an attribute gives": (
        "class Gan:\n    def __init__(self, net, device):\n        self.net = net\n        self.device = device\n\n"
        "    def draw(self, z):\n        y = self.net(z.to(self.device))\n        return y.detach().numpy()[0]\n",
        "y.detach()",
    ),
    "what a method gives": (
        "def act(agent, state, device):\n    x = torch.from_numpy(state).to(device)\n"
        "    return agent.act(x)[0].detach().numpy()\n",
        "agent.act(x)[0].detach()",
    ),
    "images, on the device of a base out of sight": (
        "from base import Agent\n\n\nclass A(Agent):\n    def show(self, z):\n        z = z.to(self.device)\n"
        "        images = self.vae.decode(z)\n        return images.detach().numpy()\n",
        "images.detach()",
    ),
    "tokens": (
        "def run(model, ids, device):\n    model.to(device)\n    ids = ids.to(device)\n"
        "    for row in model.generate(input_ids=ids, max_length=9):\n        print(row.numpy())\n",
        "row",
    ),
}


@pytest.mark.parametrize("name", CARRIED)
def test_likely_on_a_device(name: str) -> None:
    code, copied = CARRIED[name]
    (found,) = findings(RULE, HEAD + code)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    after = fixed(RULE, HEAD + code)
    assert f"{copied}.cpu().numpy()" in after
    assert after.count(".cpu()") == code.count(".cpu()") + 1


MODEL = "def run(model, x, device):\n    model.to(device)\n    x = x.to(device)\n"
SILENT = {
    "a method that may give arrays": f"{MODEL}    return model.generate(x).numpy()\n",
    "a function that decodes": f"{MODEL}    return decode_scores(model(x)).numpy()\n",
    "no module in sight": (
        "class A:\n    def run(self, x):\n        x = x.to(self.device)\n"
        "        y, z = self.lookup(x)\n        return y.numpy()\n"
    ),
    "beside the list": (
        f"{MODEL}    found = []\n    found.append(model(x).detach())\n"
        "    return [b.numpy() for a, b in zip(found, model.labels)]\n"
    ),
    "what a method gives, as it is": (
        "def act(agent, state, device):\n    x = torch.from_numpy(state).to(device)\n    return agent.act(x)[0].numpy()\n"
    ),
    "of an input out of its graph": (
        "def act(agent, state, device):\n    x = state.to(device)\n    return agent.act(x.detach()).numpy()\n"
    ),
    "copied, and out of its graph": (
        "def act(agent, state, device):\n    x = state.to(device)\n    return agent.act(x).cpu().detach().numpy()\n"
    ),
    "on the device of an argument": (
        "from agents import load\n\n\ndef act(agent, state):\n    x = torch.tensor(state).to(agent.device)\n"
        "    y, _ = agent.net.run(x)\n    return y.detach().numpy()\n\n\nact(load(torch.device('cpu')), [1.0])\n"
    ),
    "an input on the CPU": (
        "def act(agent, state, device):\n    agent.to(device)\n    return agent.net(torch.tensor(state)).detach().numpy()\n"
    ),
    "copied on the way": f"{MODEL}    y = to_scalar(model(x).cpu())\n    return y.numpy()\n",
    "bound in a branch": f"{MODEL}    y = torch.ones(2)\n    if len(x) > 2:\n        y = to_scalar(x)\n    return y.numpy()\n",
    "copied before": "def roc(pred, y):\n    pred = pred.cpu()\n    return pred.numpy(), y.cpu().numpy()\n",
    "another class": (
        "class A:\n    def f(self, x):\n        return x.cpu().numpy()\n\n"
        "class B:\n    def f(self, x):\n        return x.numpy()\n"
    ),
    "a condition about devices": (
        "def f(x):\n    if x.is_cuda:\n        return x.cpu().numpy()\n    return x.numpy()\n"
    ),
    "an item": "def f(x, y):\n    return x.cpu().numpy(), y['label'].numpy()\n",
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_speaks_for_a_device(name: str) -> None:
    assert not findings(RULE, f"{HEAD}# any device\n{SILENT[name]}")


WRITTEN = {
    "audio": (
        "import torchaudio\n",
        'torchaudio.save("a.wav", x[0].unsqueeze(0), 16000)',
        "x[0].unsqueeze(0).cpu()",
    ),
    "audio by keyword": (
        "import torchaudio\n",
        'torchaudio.save("a.wav", src=x, sample_rate=9)',
        "src=x.cpu()",
    ),
    "sound": ("import soundfile as sf\n", 'sf.write("a.wav", x, 16000)', "x.cpu()"),
    "frame": ("import pandas as pd\n", "pd.DataFrame(x)", "x.cpu()"),
    "columns": ("import pandas as pd\n", 'pd.DataFrame({"x": x, "y": [1, 2]})', "x.cpu()"),
    "columns by name": ("import pandas as pd\n", 'pd.DataFrame.from_dict({"x": x})', "x.cpu()"),
    "a file of Matlab": (
        "from scipy.io import savemat\n",
        'savemat("a.mat", {"n": 3, "x": x})',
        '"x": x.cpu()',
    ),
    "a file of Matlab, by its module": (
        "import scipy.io as sio\n",
        'sio.savemat("a.mat", {"x": x})',
        '"x": x.cpu()',
    ),
    "estimator": ("from sklearn.manifold import TSNE\n", "TSNE(2).fit_transform(x)", "x.cpu()"),
    "named estimator": (
        "from sklearn.cluster import KMeans\n",
        "k = KMeans(2)\nk.fit(x)",
        "x.cpu()",
    ),
}


def test_of_two_arguments_both_are_copied() -> None:
    text = (
        "import torch\nfrom sklearn.metrics import accuracy_score\n"
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
        "def test(net, loader):\n    net.to(device)\n    for x, y in loader:\n"
        "        x, y = x.to(device), y.to(device)\n        print(accuracy_score(y, net(x).argmax(1)))\n"
    )
    assert "accuracy_score(y.cpu(), net(x).argmax(1).cpu())" in fixed(RULE, text)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_libraries_write_or_learn_from(name: str) -> None:
    imports, code, wanted = WRITTEN[name]
    text = f'import torch\n{imports}device = torch.device("cuda")\nx = torch.ones(3, 4).to(device)\n{code}\n'
    (found,) = findings(RULE, text)
    assert found.fix is not None and found.fix.safety is Safety.UNSAFE
    after = fixed(RULE, text)
    assert wanted in after and after.count(".cpu()") == 1
    assert not findings(RULE, text.replace(".to(device)", ""))


def test_a_model_that_is_no_estimator() -> None:
    """`fit` and `predict` of what the file names otherwise somewhere take what they like."""
    text = (
        "import torch\nfrom sklearn.cluster import KMeans\nfrom mine import Fast\n"
        'device = torch.device("cuda")\nx = torch.ones(3, 4).to(device)\n'
    )
    assert not findings(RULE, f"{text}k = Fast(2)\nk.fit(x)\n")
    assert not findings(RULE, f"{text}k = KMeans(2)\nk.predict_all(x)\nk = Fast(2)\nk.fit(x)\n")


NET = """\
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(3, 2)
        self.scale = nn.Parameter(torch.ones(2))

    def vectors(self):
        return self.emb.weight{0}

    @property
    def factor(self):
        return self.scale{0}

    def forward(self, i):
        return self.emb(i) * self.scale


def weight_of(net):
    return net.emb.weight{0}


net = Net().to(device)
"""


@pytest.mark.parametrize(
    "read",
    [
        "net.vectors()@.numpy()",
        "net.factor@.numpy()",
        "weight_of(net)@.numpy()",
        "np.save('x.npy', net.vectors()@)",
        "np.asarray(weight_of(net)@)",
        "np.median(net.factor@)",
    ],
)
def test_parameters_out_of_their_graph_in_another_function(read: str) -> None:
    text = HEAD + NET.format(".data") + "print({0})\n"
    after = fixed(RULE, text.format(read.replace("@", "")))
    assert after == text.format(read.replace("@", ".cpu()"))
    assert not findings(RULE, HEAD + NET.format("") + f"print({read.replace('@', '')})\n")
    on_host = HEAD + NET.format(".data").replace(".to(device)", "")
    assert not findings(RULE, on_host + f"print({read.replace('@', '')})\n")


def test_a_parameter_is_one_where_its_data_is_replaced() -> None:
    text = HEAD + NET.format("") + "net.scale.data = net.scale.data * 2\nprint(net.scale.numpy())\n"
    assert not findings(RULE, text)  # it requires grad, so this raises on the CPU as well


ARRAYS = [
    "np.savez('a.npz', x=@)",
    "np.savez('a.npz', labels, @)",
    "np.savez_compressed('a.npz', labels=labels, x=@.mean(0))",
    "np.interp(0.5, @, labels)",
    "np.random.choice(@)",
    "np.random.permutation(@)",
    "np.float32(@)",
]


@pytest.mark.parametrize("read", ARRAYS)
def test_what_numpy_writes_or_draws_from(read: str) -> None:
    text = 'import numpy as np\nimport torch\n\ndevice = torch.device("cuda")\nlabels = np.ones(4)\n'
    text += f"x = torch.ones(4, 2).to(device)\nprint({read})\n"
    (found,) = findings(RULE, text.replace("@", "x"))
    assert found.fix is not None and found.fix.safety is Safety.SAFE
    whole = "@.mean(0)" if "@.mean(0)" in read else "@"
    assert fixed(RULE, text.replace("@", "x")) == text.replace(whole, f"{whole}.cpu()").replace("@", "x")


@pytest.mark.parametrize(
    "code",
    [
        "np.save('a', {'x': x})",
        "np.float64(x[0, 0])",
        "np.array_equal(x, x)",
        "np.savez('a', x=x.cpu())",
        "np.savez('a', n=len(x))",
    ],
)
def test_what_numpy_does_not_read(code: str) -> None:
    text = 'import numpy as np\nimport torch\n\nx = torch.ones(4, 2).to("cuda")\n'
    assert not findings(RULE, f"{text}{code}\n")


@pytest.mark.parametrize(
    "code",
    [
        "plt.title('loss %.2f' % x.mean())",
        "plt.yticks([0, 1], ['%d' % x.min(), '%d' % x.max()])",
        "FORM = '%s'\nplt.plot(FORM % x)",
        "def label(form):\n    plt.title(form % x.mean())",
        "plt.title('%s of %s' % (x.mean(), x.max()))",
    ],
)
def test_a_tensor_that_is_written_out_is_a_text(code: str) -> None:
    text = 'import torch\nimport matplotlib.pyplot as plt\n\nx = torch.ones(4, 2).to("cuda")\n'
    assert not findings(RULE, f"{text}{code}\n")
    assert findings(RULE, f"{text}plt.plot(x % 3)\n")
