"""Random programs in odd layouts, mutated files and random syntax; `benchmarks/fuzz.py` has 100,000 of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from devfix.documents import DocumentError, document_of
from devfix.documents.yaml import YamlError, compose
from fuzzing import Wrong, as_notebook, encoded, holds, mutated, one, program
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

FILES = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py"))[:20]]
RANDOM = st.randoms(use_true_random=False)
FAST = settings(
    max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
# What was found: each of these numbers was wrong once; docs/security.md says what about it.
FOUND = (7, 25, 71, 10734, 14929, 41264, 62469, 91874)


@FAST
@given(RANDOM)
def test_programs(rng: random.Random) -> None:
    holds("program.py", encoded(rng, program(rng)))


@FAST
@given(RANDOM)
def test_notebooks(rng: random.Random) -> None:
    holds("program.ipynb", as_notebook(rng, program(rng)))


@FAST
@given(RANDOM)
def test_mutated_files(rng: random.Random) -> None:
    holds("mutated.py", encoded(rng, mutated(rng, rng.choice(FILES))))


@pytest.mark.parametrize("number", FOUND)
def test_what_was_found_once(number: int) -> None:
    """The same numbers make the same inputs as long as there are no real files among them."""
    holds(*one(random.Random(number)))


@FAST
@given(RANDOM, st.sampled_from(["x.py", "x.ipynb"]), st.integers(0, 40))
def test_bytes_are_given_back_or_refused(rng: random.Random, path: str, changes: int) -> None:
    """Whatever is done to the bytes of a file: it is refused with a reason, or comes back as it was."""
    text = program(rng)
    data = bytearray(as_notebook(rng, text) if path.endswith("ipynb") else encoded(rng, text))
    for _ in range(changes):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    try:
        document = document_of(path, bytes(data))
        assert document.encode(document.text) == bytes(data)
    except DocumentError as error:
        assert str(error) and "\n" not in str(error)


@FAST
@given(st.text(st.sampled_from(list("abc:-[]{}&*!|> \n\t'\"#%?,1")), max_size=60))
@example("a: &a [*a]")
def test_yaml(text: str) -> None:
    try:
        for node in compose(text).walk():
            assert 0 <= node.start <= node.end <= len(text)
    except YamlError:
        pass


@settings(FAST, max_examples=4)
@given(st.data())
def test_any_syntax(data: st.DataObject) -> None:
    """Programs from Python's whole grammar with device code in front."""
    hypothesmith = pytest.importorskip("hypothesmith")
    text = data.draw(
        hypothesmith.from_node() if hasattr(hypothesmith, "from_node") else hypothesmith.from_grammar()
    )
    bug = "import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.to('cuda')\nmodel.a = torch.nn.Linear(1, 1)\n"
    holds("any.py", (bug + text).encode("utf-8", "surrogatepass"))


def test_the_properties_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriter that loses a comment, or changes a line that no fix names, is noticed."""
    from devfix.pipeline.work import Work

    text = (
        "import torch\nmodel = torch.nn.Linear(1, 1)\nmodel.to('cuda')\nmodel.a = torch.nn.Linear(1, 1)\n"
        "x = 1  # kept\nmodel(torch.ones(1, device='cuda'))\n"
    )
    assert holds("x.py", text.encode()) == "changed"
    import devfix.rewrite

    real = devfix.rewrite.apply
    monkeypatch.setattr(Work, "verify", lambda *_: None)
    for old, new in (
        ("  # kept", ""),
        ("x = 1", "x = 2"),
        ("x = 1", "x  = 1"),
        ("import torch\n", "import torch as t\n"),
    ):
        monkeypatch.setattr(devfix.rewrite, "apply", lambda a, b, o=old, n=new: real(a, b).replace(o, n))
        with pytest.raises(Wrong):
            holds("x.py", text.encode())
