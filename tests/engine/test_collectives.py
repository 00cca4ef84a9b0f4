"""Tensors on the CPU that are given to collectives, found and silent.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

from textwrap import dedent

import pytest
from devfix.engine import analyse
from devfix.text.source import Source
from programs import strays

HEAD = "import os\nimport torch\nfrom torch import nn\nimport torch.distributed as dist\n"

HOST = {
    "of a group that is joined in another file, where the class moves to its device": """
        class Runner:
            def step(self, x):
                x = x.to(self.device)
                return self.net(x)
            def mean(self, total):
                both = torch.tensor([total, 1.0])  # <
                dist.all_reduce(both)
                return both
    """,
    "in another method": """
        class Mean:
            def gather(self):
                both = torch.tensor([self.total, self.count])  # <
                dist.all_reduce(both)
                return both
        def main():
            dist.init_process_group(backend="nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            Mean().gather()
    """,
    "a list of them": """
        def share(x: torch.Tensor, n):
            into = [torch.zeros(3) for _ in range(n)]  # <
            dist.all_gather(into, x)
            return into
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
    """,
    "from an array": """
        import numpy as np
        def main(rows):
            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            found = torch.from_numpy(np.asarray(rows))  # <
            dist.broadcast(found, src=0)
    """,
    "of a type, by imported names": """
        from torch.distributed import all_reduce, ReduceOp
        def main(loss: float):
            dist.init_process_group(backend="NCCL")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            value = torch.FloatTensor([loss])  # <
            all_reduce(value, op=ReduceOp.SUM)
    """,
    "through a helper": """
        def summed(x):
            dist.all_reduce(x)
            return x
        def main():
            dist.init_process_group("nccl")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            return summed(torch.ones(4) * 2)  # <
    """,
    "where there is a choice": """
        def main():
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            size = torch.empty(1)  # <
            dist.broadcast(size, 0)
    """,
    "moved where a flag says so": """
        def share(flag, device):
            x = torch.ones(4)  # <
            if flag:
                x = x.to(device)
            dist.all_reduce(x)
    """,
}

HOST_SILENT = {
    "of a group that is joined in another file, and nothing is moved": """
        class Runner:
            def mean(self, total):
                both = torch.tensor([total, 1.0])
                dist.all_reduce(both)
                return both
    """,
    "of a group that is joined in another file, below a question for the backend": """
        class Runner:
            def step(self, x):
                return self.net(x.to(self.device))
            def mean(self, total):
                if dist.get_backend() == "gloo":
                    dist.all_reduce(torch.tensor([total, 1.0]))
    """,
    "gloo": """
        def main():
            dist.init_process_group("gloo")
            x = torch.ones(4)
            dist.all_reduce(x)
    """,
    "both": """
        def main():
            dist.init_process_group("cpu:gloo,cuda:nccl")
            x = torch.ones(4)
            dist.all_reduce(x)
    """,
    "the choice of torch": """
        def main():
            dist.init_process_group()
            dist.all_reduce(torch.ones(4))
    """,
    "moved before": """
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            x = torch.ones(4)
            dist.all_reduce(x.cuda())
            y = torch.ones(4)
            y = y.to(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
            dist.all_reduce(y)
    """,
    "a group of its own": """
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            group = dist.new_group(backend="gloo")
            dist.all_reduce(torch.ones(4), group=group)
    """,
    "a group of its own, by position": """
        def share(group):
            dist.all_reduce(torch.ones(4), dist.ReduceOp.SUM, group)
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
    """,
    "asked for the backend": """
        def share(x):
            if dist.get_backend() == "nccl":
                x = x.cuda()
            dist.all_reduce(x)
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            share(torch.ones(3))
    """,
    "only without an accelerator": """
        def main():
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
                dist.init_process_group("nccl")
            else:
                dist.init_process_group("gloo")
                dist.all_reduce(torch.ones(3))
    """,
    "moved where there is an accelerator": """
        def share(device):
            x = torch.ones(4)
            if torch.cuda.is_available():
                x = x.to(device)
            dist.all_reduce(x)
    """,
    "moved by a helper, where there is an accelerator": """
        def moved(x, device):
            return x if not torch.cuda.is_available() else x.to(device)
        def share(device):
            x = moved(torch.ones(4), device)
            dist.all_reduce(x)
    """,
    "not known": """
        def main(backend):
            dist.init_process_group(backend)
            dist.all_reduce(torch.ones(3))
    """,
    "no group in view": """
        def share():
            x = torch.ones(3)
            dist.all_reduce(x)
    """,
    "a place that is not known": """
        def share(x):
            dist.all_reduce(x)
        def main(x):
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            share(x)
    """,
    "torch makes things elsewhere": """
        def main():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            torch.set_default_device("cuda")
            dist.all_reduce(torch.ones(3))
    """,
}


@pytest.mark.parametrize("name", [*HOST, *HOST_SILENT])
def test_the_marked_lines_are_found(name: str) -> None:
    text = dedent((HOST if name in HOST else HOST_SILENT)[name]).strip("\n")
    lines = text.split("\n")
    marks = {number for number, line in enumerate(lines, 1) if line.endswith("  # <")}
    assert bool(marks) == (name in HOST)
    source = Source(HEAD + "\n".join(line.removesuffix("  # <") for line in lines) + "\n")
    found = list(strays(analyse("main.py", source)))
    assert {source.position(one.span.start)[0] - HEAD.count("\n") for one in found} == marks
    assert all(one.codemod == "place-factory" and one.fix is not None for one in found)
