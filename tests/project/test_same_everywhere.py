"""The facts of a file depend on its project, not on what is analysed with it, in which order or process."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from devfix.codemod import registry
from devfix.flow import analyse
from devfix.project import Projects
from devfix.text.source import Source
from repositories import HEADS, NET, found, training, write
from test_facts import scripts

# Three files that import each other, whose functions call each other, some of them in circles.
CIRCLE = {
    "setup.py": "",
    "one.py": """
        from torch import nn
        from two import back, grow


        def attach_head(model, depth=0):
            model.head = nn.Linear(2, 2)
            return ping(model)


        def ping(model):
            pong(model)
            return back(model)


        def pong(model):
            ping(model)
            grow(model)
            return model
        """,
    "two.py": """
        from torch import nn
        from one import attach_head, ping
        from three import Base


        class Derived(Base):
            pass


        def grow(model):
            model.extra = nn.Linear(2, 2)


        def back(model):
            ping(model)
            attach_head(model)
            return model
        """,
    "three.py": """
        from torch import nn
        from two import Derived, back


        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)


        class Last(Derived):
            def deepen(self):
                back(self)
                self.deep = nn.Linear(2, 2)
        """,
}
LAST = "model = Last().to(device)\nmodel.deepen()"
CALLS = ("from one import ping", "ping(model)"), ("from one import pong", "pong(model)"), (
    "from one import attach_head", "attach_head(model)"), ("from two import back", "back(model)"), (
    "from two import grow", "grow(model)"), ("from three import Last", LAST),  # fmt: skip


def circle(root: Path) -> list[str]:
    """The repository, and its scripts."""
    write(root, CIRCLE)
    names = []
    for number, (imported, call) in enumerate(CALLS):
        names.append(f"train{number}.py")
        write(root, {names[-1]: training(imported, call)})
    return names


def messages(projects: Projects, path: Path) -> tuple[str, ...]:
    source = Source(path.read_text())
    flow = analyse(source, projects.outside(str(path), source))
    codemods = [kind() for kind in registry().values()]
    made = [f"{f.span} {f.codemod} {f.message} {f.fix}" for codemod in codemods for f in codemod.check(flow)]
    flow.release()
    return tuple(made)


def test_the_order_of_questions_changes_nothing(tmp_path: Path) -> None:
    names = circle(tmp_path)
    alone = {name: messages(Projects(), tmp_path / name) for name in names}
    assert sum(map(bool, alone.values())) >= 4
    for order in list(itertools.permutations(names, 3))[::3]:
        projects = Projects()
        assert {name: messages(projects, tmp_path / name) for name in order} == {n: alone[n] for n in order}


def test_long_chains_end_at_the_same_place_wherever_one_begins(tmp_path: Path) -> None:
    chain = "".join(f"def f{n}(model):\n    f{n + 1}(model)\n\n\n" for n in range(12))
    chain += "def f12(model):\n    model.head = nn.Linear(2, 2)\n"
    write(tmp_path, {"setup.py": "", "chain.py": f"from torch import nn\n\n\n{chain}"})
    names = []
    for n in range(13):
        names.append(f"train{n}.py")
        write(tmp_path, {names[-1]: training(f"from chain import f{n}", f"f{n}(model)")})
    alone = [messages(Projects(), tmp_path / name) for name in names]
    assert {"reorder-to" in str(made) for made in alone} == {True, False}
    for order in (names, names[::-1], names[6:] + names[:6]):
        projects = Projects()
        made = {name: messages(projects, tmp_path / name) for name in order}
        assert [made[name] for name in names] == alone


def test_calls_of_another_file_say_nothing_of_mine(tmp_path: Path) -> None:
    """What one function of the file passes to a class is not what others pass to it."""
    holder = """
        from torch import nn


        class Holder:
            def __init__(self, net):
                self.net = net

        def make():
            return Holder(nn.Linear(4, 2).to("cuda"))
        """
    write(
        tmp_path, {"setup.py": "", "holder.py": holder, "a.py": training("from holder import make", "make()")}
    )
    mine = "held = Holder(net).net\nfor x in DataLoader([torch.ones(4)]):\n    held(x)"
    write(
        tmp_path, {"b.py": scripts(f"net = nn.Linear(4, 2)  # device\n{mine}", "from holder import Holder")}
    )
    alone = messages(Projects(), tmp_path / "b.py")
    projects = Projects()
    messages(projects, tmp_path / "a.py")
    assert messages(projects, tmp_path / "b.py") == alone


def test_one_file_many_files_and_many_processes(tmp_path: Path) -> None:
    names = circle(tmp_path)
    for number in range(60):
        imported, call = CALLS[number % len(CALLS)]
        write(tmp_path, {f"more/t{number}.py": training(imported, call)})
    whole = found(tmp_path)
    assert whole == found(tmp_path, jobs=2)
    alone = [line for name in sorted(tmp_path.rglob("*.py")) for line in found(tmp_path, str(name))]
    assert sorted(whole) == sorted(alone)
    assert {line.partition(":")[0] for line in whole} >= set(names[:4])


def test_a_forgotten_file_is_found_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = circle(tmp_path)
    alone = [messages(Projects(), tmp_path / name) for name in names]
    monkeypatch.setattr("devfix.project.project.OUTLINES", 1)
    monkeypatch.setattr("devfix.project.files.SOURCES", 1)
    projects = Projects()
    for _ in range(2):
        assert [messages(projects, tmp_path / name) for name in names] == alone


def test_a_new_run_reads_anew(tmp_path: Path) -> None:
    write(
        tmp_path, {"setup.py": "", "heads.py": HEADS, "train.py": training("from heads import attach_head")}
    )
    assert found(tmp_path) == ["train.py:9 reorder-to"]
    write(tmp_path, {"heads.py": "def attach_head(model):\n    pass\n"})
    assert found(tmp_path) == []


def test_classes_of_other_files_are_known_by_their_file_and_name(tmp_path: Path) -> None:
    """Two classes of one name are two."""
    write(
        tmp_path,
        {
            "setup.py": "",
            "a.py": NET,
            "b.py": NET + "\n    def grow(self):\n        self.more = nn.Linear(2, 2)\n",
            "train.py": training(
                "from a import Net\nfrom b import Net as Other", "model = Net().to(device)\nmodel.grow()"
            ),
            "other.py": training(
                "from a import Net\nfrom b import Net as Other", "model = Other().to(device)\nmodel.grow()"
            ),
        },
    )
    assert found(tmp_path) == ["other.py:11 reorder-to"]
