"""What a loss is given: what code out of sight makes of inputs that are moved, on one path or on all, is with them."""

from __future__ import annotations

from pathlib import Path

import devfix
import pytest
from engine.programs import HEAD, marked


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs belong to no project: not to devfix's own, of which every file would be looked at."""
    monkeypatch.chdir(tmp_path)


FOUND = {
    "a label from an array, where the image is moved if": """
        import numpy as np
        class Attack:
            def __init__(self, net, cuda=True):
                self._net, self.cuda = net, cuda
            def gradient(self, image, label):
                target = torch.from_numpy(np.array([label]))
                images = torch.from_numpy(image[np.newaxis])
                if self.cuda:
                    images = images.cuda()
                predictions = self._net(images)
                loss = nn.CrossEntropyLoss()(predictions, target)  # <
                loss.backward()
    """,
    "a conditional expression": """
        def score(critic, use_gpu, rows, wanted):
            x = torch.tensor(rows)
            x = x.cuda() if use_gpu else x
            out = critic(x)
            return nn.MSELoss()(out, torch.tensor(wanted))  # <
    """,
    "where there is a GPU": """
        criterion = nn.BCEWithLogitsLoss()
        def step(critic, size):
            noise = torch.randn(size, 8)
            if torch.cuda.is_available():
                noise = noise.cuda()
            fake = critic(noise)
            real = torch.ones(size, 1)  # <
            return criterion(input=fake, target=real)
    """,
    "a device that is asked for": """
        from zoo import embed
        def align(texts, labels, device):
            loss = nn.NLLLoss()
            ids = torch.tensor(texts).to(device)
            want = torch.tensor(labels)  # <
            return loss(embed(ids), want)
    """,
    "one of several that it gives": """
        class Trainer:
            def __init__(self, net, device):
                self.net, self.device = net, device
                self.loss = nn.L1Loss()
            def step(self, rows):
                x = torch.tensor(rows).to(self.device)
                hidden, out = self.net(x)
                return self.loss(out, torch.zeros(4, 1))  # <
    """,
    "computed with, without a loss": """
        def gap(critic, rows, gpu):
            x = torch.tensor(rows)
            if gpu:
                x = x.cuda()
            out = critic(x)
            return (out - torch.ones(4, 1)).abs().mean()  # <
    """,
}
SILENT = {
    "the target is moved if, too": """
        import numpy as np
        class Attack:
            def __init__(self, net, cuda=True):
                self._net, self.cuda = net, cuda
            def gradient(self, image, label):
                target = torch.from_numpy(np.array([label]))
                images = torch.from_numpy(image[np.newaxis])
                if self.cuda:
                    images, target = images.cuda(), target.cuda()
                predictions = self._net(images)
                nn.CrossEntropyLoss()(predictions, target).backward()
    """,
    "the result is brought back": """
        def score(critic, use_gpu, rows, wanted):
            x = torch.tensor(rows)
            x = x.cuda() if use_gpu else x
            out = critic(x).cpu()
            return nn.MSELoss()(out, torch.tensor(wanted))
    """,
    "what it gives may be on the CPU, as its name says": """
        def score(to_host, use_gpu, rows, wanted):
            x = torch.tensor(rows)
            x = x.cuda() if use_gpu else x
            out = to_host(x)
            return nn.MSELoss()(out, torch.tensor(wanted))
    """,
    "nothing is moved": """
        def score(critic, rows, wanted):
            x = torch.tensor(rows)
            return nn.MSELoss()(critic(x), torch.tensor(wanted))
    """,
    "a target of the caller": """
        def score(critic, use_gpu, rows, wanted: torch.Tensor):
            x = torch.tensor(rows)
            x = x.cuda() if use_gpu else x
            return nn.MSELoss()(critic(x), wanted)
    """,
    "lengths, which stay on the CPU": """
        def score(critic, use_gpu, rows, labels):
            x = torch.tensor(rows)
            x = x.cuda() if use_gpu else x
            sizes = torch.tensor([len(one) for one in labels])
            return nn.CTCLoss()(critic(x), labels, sizes, sizes)
    """,
    "a copy on the CPU is computed with": """
        def gap(critic, rows, wanted, gpu):
            x = torch.tensor(rows)
            out = critic(x.cuda() if gpu else x)
            y = x.to(out.device)
            return nn.MSELoss()(out, y)
    """,
    "where the GPU is not asked for": """
        def gap(critic, rows, wanted, gpu):
            x = torch.tensor(rows)
            if gpu:
                x = x.cuda()
            out = critic(x)
            if not gpu:
                return nn.MSELoss()(out, torch.tensor(wanted))
            return nn.MSELoss()(out, torch.tensor(wanted).cuda())
    """,
}


@pytest.mark.parametrize("name", [*FOUND, *SILENT])
def test_marked_lines_are_found_and_others_silent(name: str) -> None:
    code, wanted = marked((FOUND | SILENT)[name])
    assert bool(wanted) == (name in FOUND)
    found = devfix.check(source=HEAD + code, settings=False, codemods=["move-inputs", "place-factory"])
    assert {one.line - HEAD.count("\n") for one in found.findings} == wanted
