"""A model is of one of several classes, as an option says: what is wrong with it whichever it is, is told."""

from __future__ import annotations

import devfix
import pytest
from devfix.findings import Safety
from snippets import CHOSEN, HEAD, alone  # noqa: F401

NETS = """
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(x)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
    def forward(self, x):
        return self.last(self.first(x))

def build(args):
    if args.net == "wide":
        return Wide()
    elif args.net == "deep":
        return Deep()
    raise ValueError(args.net)

KINDS = {"wide": Wide, "deep": Deep}

def main(args):
MADE    print(model(torch.ones(2, 4).to(device)))
"""
WAYS = {
    "two arms": "if args.deep:\n    model = Deep()\nelse:\n    model = Wide()\n",
    "a conditional expression": "model = Deep() if args.deep else Wide()\n",
    "a class that is chosen": "kind = Deep if args.deep else Wide\nmodel = kind()\n",
    "a dict of classes": "model = KINDS[args.net]()\n",
    "a dict that is asked": "model = KINDS.get(args.net)()\n",
    "a function that builds": "model = build(args)\n",
}


def program(made: str, after: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in (made + after).splitlines())
    return HEAD + CHOSEN + NETS.replace("MADE", lines)


def found(code: str) -> list[tuple[str, Safety | None]]:
    return [(one.codemod, one.safety) for one in devfix.check(source=code, settings=False).findings]


@pytest.mark.parametrize("made", WAYS.values(), ids=WAYS)
def test_it_is_never_moved(made: str) -> None:
    assert [one for one, _ in found(program(made))] == ["module-never-moved"]
    fixed = devfix.fix(source=program(made), unsafe=True, settings=False).text
    assert fixed.count("(device)") > program(made).count("(device)") and not found(fixed)


@pytest.mark.parametrize("made", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    "move", ["model = model.to(device)\n", "model.to(device)\n", "model = model.cuda()\n"]
)
def test_it_is_changed_after_it_was_moved(made: str, move: str) -> None:
    assert "module-never-moved" not in [one for one, _ in found(program(made, move))]
    late = f"{move}model.head = nn.Linear(4, 4)\n"
    assert "reorder-to" in [one for one, _ in found(program(made, late))]
    assert "reorder-to" not in [
        one for one, _ in found(program(made, "model.head = nn.Linear(4, 4)\n" + move))
    ]


PUBLISHED = """
import torchvision.models as models

def main(args):
    model = MADE(weights=None)
    print(model(torch.ones(2, 3, 8, 8).to(device)))
"""


@pytest.mark.parametrize("made", ["models.__dict__[args.arch]", "getattr(models, args.arch)"])
def test_a_published_model_by_its_name(made: str) -> None:
    code = HEAD + CHOSEN + PUBLISHED.replace("MADE", made)
    assert found(code) == [("module-never-moved", Safety.UNSAFE)]
    assert not found(code.replace("(weights=None)", "(weights=None).to(device)"))


WRAPPED = """if not args.no_cuda:
    model = model.cuda()
    model = nn.DataParallel(model)
inner = model if args.no_cuda else model.module
inner.head = nn.Linear(4, 4)LATE
"""


@pytest.mark.parametrize("made", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("late", "told"), [("", True), (".to(device)", False)])
def test_a_part_of_what_is_wrapped(made: str, late: str, told: bool) -> None:
    code = program(made, WRAPPED.replace("LATE", late))
    assert ("reorder-to" in [one for one, _ in found(code)]) is told


HELD = """
class Held:
    def __init__(self, given):
        self.given = given
    def __enter__(self):
        return self.given
    def __exit__(self, *error):
        return None
    @property
    def content(self):
        return self.given

def main():
TAKEN
    head = nn.Linear(4, 3).to(device)
    print(criterion(head(torch.ones(5, 4, device=device)), torch.arange(5, device=device) % 3))
"""


@pytest.mark.parametrize(
    "taken", ["criterion = Held(LOSS).content", "with Held(LOSS) as criterion:\n        pass"]
)
def test_calls_that_are_written_nowhere_are_not_edited(taken: str) -> None:
    """Properties and special methods: there is no call to which a move could be added."""
    loss = "nn.CrossEntropyLoss(weight=torch.ones(3))"
    code = HEAD + CHOSEN + HELD.replace("TAKEN", f"    {taken}").replace("LOSS", loss)
    checked = devfix.check(source=code, settings=False)
    assert not checked.problems and [one.codemod for one in checked.findings] == ["module-never-moved"]
    assert f"{loss}.to(device)" in devfix.fix(source=code, unsafe=True, settings=False).text
