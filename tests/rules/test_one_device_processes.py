"""one-device: the processes of distributed programs, found and silent.

In the tables `<` marks the line that a finding has to be on; a program without a mark has to be silent.
"""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from applying import findings, fixed
from devfix.rules.one_device import OneDevice
from devfix.text.source import Source

RULE = OneDevice()
HEAD = "import os\nimport torch\nfrom torch import nn\nimport torch.distributed as dist\n"

# All that is placed is placed by number: that works, and what uses the current GPU does not.
BY_NUMBER = {
    "the number comes from the launcher": """
        def start():
            dist.init_process_group(backend="nccl")  # <
            local = int(os.environ["LOCAL_RANK"])
            device = f"cuda:{local}"
            net = nn.Linear(2, 2).to(device)
            return nn.parallel.DistributedDataParallel(net, device_ids=[local])
    """,
    "other spellings": """
        from torch.distributed import init_process_group as join
        from torch.nn.parallel import DistributedDataParallel as Parallel
        def go():
            number = int(os.getenv("LOCAL_RANK", "0"))
            join("nccl", init_method="env://")  # <
            place = torch.device("cuda:" + str(number))
            return Parallel(nn.Linear(1, 1).to(place), device_ids=[number])
    """,
    "the backend is chosen by what there is": """
        there = torch.cuda.is_available()
        kind = "nccl" if there else "gloo"
        dist.init_process_group(kind)  # <
        slot = dist.get_rank() % torch.cuda.device_count()
        net = nn.Linear(2, 2).to(torch.device("cuda", slot))
    """,
    "the default of an option": """
        import argparse
        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--how", default="nccl")
            parser.add_argument("--local_rank", type=int)
            opts = parser.parse_args()
            dist.init_process_group(backend=opts.how)  # <
            net = nn.Linear(2, 2).to("cuda:%d" % opts.local_rank)
        main()
    """,
    "the default of an argument, in a helper": """
        def join(how="nccl"):
            dist.init_process_group(how)  # <
        def main():
            join()
            x = torch.zeros(2, device=int(os.environ["SLURM_LOCALID"]))
            dist.all_reduce(x)
        if __name__ == "__main__":
            main()
    """,
    "in a class": """
        class Worker:
            def __init__(self):
                self.mine = int(os.environ["LOCAL_RANK"])
                dist.init_process_group("nccl")  # <
            def build(self):
                return nn.Linear(2, 2).cuda(self.mine)
    """,
}

NOT_SET = {
    "what is bare is on the first": """
        def main(number):
            local_rank = number
            dist.init_process_group(dist.Backend.NCCL)  # <
            net = nn.Linear(2, 2).cuda()
        main(int(os.environ["LOCAL_RANK"]))
    """,
    "one arm sets it, its sibling does not": """
        def start(args):
            if "RANK" in os.environ:
                args.gpu = int(os.environ["LOCAL_RANK"])
                dist.init_process_group("nccl")  # <
            elif "SLURM_PROCID" in os.environ:
                args.gpu = int(os.environ["SLURM_PROCID"]) % torch.cuda.device_count()
                torch.cuda.set_device(args.gpu)
                dist.init_process_group("nccl", rank=int(os.environ["SLURM_PROCID"]))
    """,
    "one launcher sets it, another does not": """
        def by_torch(how):
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group(how)
        def by_mpi(how):
            local = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
            os.environ["MASTER_PORT"] = "29500"
            dist.init_process_group(how)  # <
        def main(launcher):
            if launcher == "torch":
                by_torch("nccl")
            else:
                by_mpi("nccl")
        main(os.environ["LAUNCHER"])
    """,
    "processes of one machine that move without a number": """
        import torch.multiprocessing as mp
        def work(i, n):
            dist.init_process_group("nccl", rank=i, world_size=n)  # <
            net = nn.Linear(2, 2).cuda()
            return nn.parallel.DistributedDataParallel(net.to(i), device_ids=[i])
        if __name__ == "__main__":
            mp.spawn(work, args=(2,), nprocs=2)
    """,
}

NOT_SET_SILENT = {
    "set before": """
        def start():
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            dist.init_process_group(backend="nccl")
            return nn.Linear(2, 2).to(f"cuda:{local}")
    """,
    "set after, by the device": """
        def start():
            dist.init_process_group(backend="nccl")
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
            return nn.Linear(2, 2).to(device)
    """,
    "set by the caller": """
        def join():
            dist.init_process_group(backend="nccl")
        def main():
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            join()
            return nn.Linear(2, 2).to(f"cuda:{local}")
        main()
    """,
    "set in a callee": """
        def mine():
            local = int(os.environ["LOCAL_RANK"])
            torch.accelerator.set_device_index(local)
            return local
        def main():
            dist.init_process_group(backend="nccl")
            return nn.Linear(2, 2).cuda(mine())
    """,
    "set for a block": """
        def main():
            local = int(os.environ["LOCAL_RANK"])
            with torch.cuda.device(local):
                dist.init_process_group(backend="nccl")
                return nn.Linear(2, 2).cuda(local)
    """,
    "the group is told": """
        def main():
            local = int(os.environ["LOCAL_RANK"])
            dist.init_process_group(backend="nccl", device_id=torch.device("cuda", local))
            return nn.Linear(2, 2).cuda(local)
    """,
    "each process sees one device": """
        def main(rank):
            os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
            dist.init_process_group(backend="nccl")
            local = int(os.environ["LOCAL_RANK"])
            return nn.Linear(2, 2).cuda(local)
    """,
    "gloo": """
        def main():
            dist.init_process_group("gloo")
            local = int(os.environ["LOCAL_RANK"])
            return nn.Linear(2, 2).cuda(local)
    """,
    "one for each": """
        def main():
            dist.init_process_group("cpu:gloo,cuda:nccl")
            local = int(os.environ["LOCAL_RANK"])
            return nn.Linear(2, 2).cuda(local)
    """,
    "the choice of torch": """
        def main():
            dist.init_process_group()
            local = int(os.environ["LOCAL_RANK"])
            return nn.Linear(2, 2).cuda(local)
    """,
    "a framework": """
        from accelerate import Accelerator
        def main():
            accelerator = Accelerator()
            dist.init_process_group("nccl")
            local = int(os.environ["LOCAL_RANK"])
            return nn.Linear(2, 2).cuda(local)
    """,
    "a function out of sight may set it": """
        from tools import setup_device
        def main():
            dist.init_process_group("nccl")
            local = int(os.environ["LOCAL_RANK"])
            setup_device(local)
            return nn.Linear(2, 2).cuda(local)
    """,
    "a helper of which no caller is in view": """
        def join(local_rank):
            dist.init_process_group("nccl")
            return torch.device("cuda", local_rank)
    """,
    "processes of one machine that place all by number": """
        import torch.multiprocessing as mp
        def work(i, n):
            dist.init_process_group("nccl", rank=i, world_size=n)
            net = nn.Linear(2, 2).to(i)
            return nn.parallel.DistributedDataParallel(net, device_ids=[i])
        if __name__ == "__main__":
            mp.spawn(work, args=(2,), nprocs=2)
    """,
}

GLOBAL = {
    "at a barrier": """
        class Proc:
            def __init__(self):
                dist.init_process_group(backend="nccl")
                self.rank = dist.get_rank()
                self.local = int(os.environ["LOCAL_RANK"])
                torch.cuda.set_device(self.local)
            def wait(self):
                dist.barrier(device_ids=[self.rank])  # <
    """,
    "of a wrapper, where the device is right": """
        def main():
            rank = dist.get_rank()
            device = rank % torch.cuda.device_count()
            torch.cuda.set_device(device)
            net = nn.Linear(2, 2).to(device)
            return nn.parallel.DistributedDataParallel(net, device_ids=[rank])  # <
    """,
    "in a string, through arguments": """
        def place(number):
            return torch.device("cuda:{}".format(number))  # <
        def main():
            local_rank = int(os.environ["LOCAL_RANK"])
            where = place(int(os.environ["RANK"]))
    """,
    "made of the machine and the number there": """
        def main():
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            number = int(os.environ["NODE"]) * 8 + local
            dist.init_process_group("nccl", rank=number)
            net = nn.Linear(2, 2).cuda(number)  # <
            return torch.zeros(2, device=local)
    """,
    "by an attribute of the options": """
        def main(args):
            args.rank = int(os.environ["RANK"])
            args.gpu = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(args.rank)  # <
    """,
    "on one of two ways": """
        def main(many):
            rank, local = 0, 0
            if many:
                rank = dist.get_rank()
                local = dist.get_node_local_rank()
            x = torch.zeros(3, device=f"cuda:{rank}")  # <
    """,
    "where the other one is taken without processes": """
        def name():
            if dist.is_initialized():
                number = dist.get_rank()
            else:
                number = int(os.environ.get("LOCAL_RANK", 0))
            return f"cuda:{number}"  # <
    """,
    "under the name of the other": """
        def main():
            local_rank = dist.get_rank()  # <
            torch.cuda.set_device(local_rank)
    """,
}

GLOBAL_SILENT = {
    "modulo": """
        def main():
            local = dist.get_rank() % torch.cuda.device_count()
            torch.cuda.set_device(local)
            return torch.zeros(2, device=local), os.environ["LOCAL_RANK"]
    """,
    "modulo a number of its own": """
        def main(per_node):
            print(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(int(os.environ["RANK"]) % per_node)
    """,
    "processes of one machine": """
        import torch.multiprocessing as mp
        def work(local_rank, n):
            dist.init_process_group("nccl", rank=local_rank, world_size=n)
            torch.cuda.set_device(local_rank)
            net = nn.Linear(2, 2).to(dist.get_rank())
        mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
    """,
    "processes of one machine, made by hand": """
        from multiprocessing import Process
        def work(rank, n):
            os.environ["LOCAL_RANK"] = str(rank)
            dist.init_process_group("gloo", rank=rank, world_size=n)
            torch.cuda.set_device(dist.get_rank())
        for i in range(2):
            Process(target=work, args=(i, 2)).start()
    """,
    "of a group of its own": """
        def main(group):
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(dist.get_rank(group=group))
            return local
    """,
    "seeds and samplers": """
        def main(data):
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            torch.manual_seed(dist.get_rank())
            return torch.utils.data.DistributedSampler(data, rank=dist.get_rank())
    """,
    "the environment first": """
        def main():
            local = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
            torch.cuda.set_device(local)
    """,
    "what is there": """
        def main():
            if "LOCAL_RANK" in os.environ:
                number = int(os.environ["LOCAL_RANK"])
            else:
                number = dist.get_rank()
            try:
                other = int(os.environ["LOCAL_RANK"])
            except KeyError:
                other = dist.get_rank()
            torch.cuda.set_device(number)
            return torch.zeros(2, device=f"cuda:{other}")
    """,
    "the parity of the number": """
        def main():
            local = int(os.environ["LOCAL_RANK"])
            side = dist.get_rank() % 2
            return torch.zeros(2, device=f"cuda:{side}"), local
    """,
}

_GATHERED = "\ndef told(x):\n    dist.all_gather_object([x], x)  # <\n"
ALL = {
    f"{kind}: {name}": text
    for kind, table in (
        ("not set", NOT_SET), ("not set, silent", NOT_SET_SILENT), ("global", GLOBAL),
        ("global, silent", GLOBAL_SILENT),
        ("by number", {name: text.replace("  # <", "") for name, text in BY_NUMBER.items()}),
        ("by number, gathered", {name: dedent(text) + _GATHERED for name, text in BY_NUMBER.items()}),
    )
    for name, text in table.items()
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_marked_lines_are_found(name: str) -> None:
    lines = dedent(ALL[name]).strip("\n").split("\n")
    marks = {number for number, line in enumerate(lines, 1) if line.endswith("  # <")}
    text = HEAD + "\n".join(line.removesuffix("  # <") for line in lines) + "\n"
    source = Source(text)
    spoken = {source.position(one.span.start)[0] - HEAD.count("\n") for one in findings(RULE, text)}
    assert spoken == marks
    after = fixed(RULE, text)
    ast.parse(after)
    assert not marks or after == text or not findings(RULE, after)
