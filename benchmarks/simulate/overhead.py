"""What the simulator costs: a train step on simulated CUDA beside the same step on the plain CPU; and recording.

    python benchmarks/simulate/overhead.py [FILE] [--rounds N]

CPU time of one train step, one thread, the least of N rounds; the rounds of all ways are interleaved, each
in a process of its own, so that a slow spell of the machine hits all. The losses are compared, too. Compiled is the
simulated step with the kernels that `devfix simulate --build` compiles, which needs a C++ compiler.
Recording is the same step with `--keep-going`, beside the strict simulated one; in one program it meets a stray in
each step, which the strict run does not have. Goals: at most 2.5 for each program with compiled kernels, at most 1.3
where kernels dominate, and for recording at most 1.5. FILE gets the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import json, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width, layers, heads, stray, vocabulary=256, length=128):
        super().__init__()
        self.stray = stray
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        places = torch.arange(x.shape[1], device="cpu" if self.stray else x.device)
        return self.head(self.blocks(self.token(x) + self.place(places)))


def language(width, layers, heads, batch, length, stray=False):
    x = torch.randint(0, 256, (batch, length + 1)).to(device)
    return GPT(width, layers, heads, stray), lambda m: F.cross_entropy(m(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def mlp():
    x, y = torch.randn(16, 8).to(device), torch.randint(0, 3, (16,)).to(device)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)), lambda m: F.cross_entropy(m(x), y)


def cnn(width, size, batch):
    x, y = torch.randn(batch, 3, size, size).to(device), torch.randint(0, 9, (batch,)).to(device)
    parts = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(4):
        parts += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 9)]
    return nn.Sequential(*parts), lambda m: F.cross_entropy(m(x), y)


def lstm():
    x = torch.randn(20, 8, 32).to(device)
    return nn.LSTM(32, 64, 2), lambda m: m(x)[0].square().mean()


MODELS = {
    "MLP 8-32-3, batch 16": (mlp, 200),
    "GPT d=64 L=3, 8 x 64": (lambda: language(64, 3, 4, 8, 64), 20),
    "GPT d=64 L=3, 8 x 64, a stray": (lambda: language(64, 3, 4, 8, 64, "stray" in sys.argv), 20),
    "GPT d=128 L=4, 8 x 64": (lambda: language(128, 4, 4, 8, 64), 8),
    "GPT d=384 L=6, 8 x 128": (lambda: language(384, 6, 6, 8, 128), 1),
    "CNN 5 x 32, 32 px, batch 16": (lambda: cnn(32, 32, 16), 4),
    "LSTM 2 x 64, 20 steps": (lstm, 10),
}
out = {}
for name, (make, steps) in MODELS.items():
    torch.manual_seed(0)
    model, loss_of = make()
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step(), step()
    times = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(steps):
            loss = step()
        times.append((time.process_time() - start) / steps)
    out[name] = (min(times), loss.item())
print(json.dumps(out))
"""


PLAIN = ("step.py",)
SIMULATED = ("-m", "devfix", "run", *PLAIN)
COMPILED = (*SIMULATED, "compiled")
RECORDED = ("-m", "devfix", "run", "--keep-going", *PLAIN, "stray")


def environment(words: tuple[str, ...]) -> dict[str, str]:
    built = str(Path("built" if words is COMPILED else "none").resolve())
    more = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "codemods"), "DEVFIX_SIMULATE_BUILT": built}
    return {**os.environ, **more}


def run(words: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    Path("step.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment(words))
    strays = "1 distinct device error " in done.stderr
    assert (done.returncode, strays) == ((1, True) if words is RECORDED else (0, False)), done.stderr
    return {name: tuple(value) for name, value in json.loads(done.stdout).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    target = options.file.resolve() if options.file else None
    import tempfile
    from importlib.metadata import version

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        ways = PLAIN, SIMULATED, COMPILED, RECORDED
        build = [sys.executable, "-m", "devfix", "simulate", "--build"]
        subprocess.run(build, env=environment(COMPILED), check=True)
        rounds = [[run(way) for way in ways] for _ in range(options.rounds)]
    lines = [
        "# Overhead of simulated CUDA", "",
        f"torch {version('torch')}, Python {platform.python_version()}, {platform.machine()}, one thread, "
        f"least CPU time of {options.rounds} interleaved rounds.", "",
        "| train step | CPU, ms | simulated, ms | ratio | compiled, ms | ratio | recorded, ms | ratio to simulated "
        "| loss differs by |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in rounds[0][0]:
        least = [min(one[way][name][0] for one in rounds) for way in range(len(ways))]
        plain, simulated, compiled, recorded = least
        losses = [rounds[0][way][name][1] for way in range(len(ways))]
        lines.append(
            f"| {name} | {plain * 1e3:.2f} | {simulated * 1e3:.2f} | {simulated / plain:.2f} | {compiled * 1e3:.2f} "
            f"| {compiled / plain:.2f} | {recorded * 1e3:.2f} | {recorded / simulated:.2f} "
            f"| {max(losses) - min(losses):.1e} |"
        )
    print("\n".join(lines))
    if target:
        target.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
