"""Coverage-guided fuzzing of the documents and the rewriter with atheris (pip install atheris; CPython <= 3.13).

    python benchmarks/fuzz_bytes.py -runs=100000          # libFuzzer's options
    python benchmarks/fuzz_bytes.py -max_total_time=600

The first byte chooses what the rest is: a Python file, a notebook, YAML, or the choices of the random program
generator. Documents must give their bytes back or refuse them, and everything in `tests/fuzzing.py` must hold.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import atheris

with atheris.instrument_imports(
    include=["devfix.documents", "devfix.rewrite", "devfix.pipeline.suppress", "devfix.reports.place"]
):
    from devfix.documents import DocumentError, document_of
    from devfix.documents.yaml import YamlError, compose
    from fuzzing import as_notebook, encoded, holds, one, program


def test_one_input(data: bytes) -> None:
    if not data:
        return
    kind, rest = data[0] % 5, data[1:]
    if kind == 0:
        _document("x.py", rest)
    elif kind == 1:
        _document("x.ipynb", rest)
    elif kind == 2:
        try:
            compose(rest.decode("utf-8", "replace"))
        except YamlError:
            return
    elif kind == 3:
        holds(
            "x.py", b"import torch\nfrom torch import nn\nmodel = nn.Linear(1, 1)\nmodel.to('cuda')\n" + rest
        )
    else:
        holds(*one(random.Random(rest)))


def _document(path: str, data: bytes) -> None:
    try:
        document = document_of(path, data)
        assert document.encode(document.text) == data
    except DocumentError:
        return


def seeds(folder: Path) -> None:
    """Something to begin with: programs, notebooks and YAML, each behind the byte that chooses what it is."""
    for number in range(60):
        rng = random.Random(number)
        text = program(rng)
        (folder / f"python{number}").write_bytes(b"\x00" + encoded(rng, text))
        (folder / f"notebook{number}").write_bytes(b"\x01" + as_notebook(rng, text)[:4000])
        (folder / f"rest{number}").write_bytes(b"\x03" + text.encode())
    (folder / "yaml").write_bytes(b"\x02a: &a !new:b.C\n  c: [1, *a, 'x', {d: !ref <e>}]\n? f\n: |\n  g\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder, "-max_len=5000", "-len_control=0"], test_one_input)
        atheris.Fuzz()
