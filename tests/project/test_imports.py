"""Which file an import means: what `attach_head` does is known where its file is found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from repositories import HEADS, found, training, write

WRONG = ["train.py:9 reorder-to"]
FROM = "from {} import attach_head"

FOUND = {
    "script beside script": ({"heads.py": HEADS}, FROM.format("heads")),
    "package": ({"pkg/__init__.py": "", "pkg/heads.py": HEADS}, FROM.format("pkg.heads")),
    "package without __init__": ({"pkg/heads.py": HEADS}, FROM.format("pkg.heads")),
    "defined in __init__": ({"pkg/__init__.py": HEADS}, FROM.format("pkg")),
    "renamed": ({"heads.py": HEADS}, "from heads import attach_head as attach\nattach_head = None"),
    "src": ({"src/pkg/__init__.py": "", "src/pkg/heads.py": HEADS}, FROM.format("pkg.heads")),
    "passed on": (
        {"pkg/__init__.py": "from .deep import attach_head", "pkg/deep/__init__.py": "from .heads import *",
         "pkg/deep/heads.py": HEADS},
        FROM.format("pkg"),
    ),
    "passed on under another name": (
        {"pkg/__init__.py": "from .heads import attach as attach_head",
         "pkg/heads.py": HEADS.replace("attach_head", "attach")},
        FROM.format("pkg"),
    ),
    "named as its module": (
        {"pkg/__init__.py": "from .attach_head import attach_head", "pkg/attach_head.py": HEADS},
        FROM.format("pkg"),
    ),
    "star": ({"heads.py": HEADS}, "from heads import *"),
    "star of stars": ({"a.py": "from b import *", "b.py": "from heads import *", "heads.py": HEADS},
                      "from a import *"),
    "stars in a circle": ({"a.py": "from b import *", "b.py": "from a import *\nfrom heads import *",
                           "heads.py": HEADS}, "from a import *"),
    "with a fallback": ({"heads.py": HEADS},
                        "try:\n    from heads import attach_head\nexcept OSError:\n    attach_head = None"),
    "inside of a function of the file": (
        {"heads.py": HEADS}, "def attach_head(model):\n    from heads import attach_head as h\n    h(model)"
    ),
}  # fmt: skip

UNKNOWN = {
    "no such file": ({}, FROM.format("heads")),
    "no such name": ({"heads.py": "from torch import nn"}, FROM.format("heads")),
    "a circle": (
        {"a.py": "from b import attach_head", "b.py": "from a import attach_head"},
        FROM.format("a"),
    ),
    "two of them": (
        {"a.py": HEADS, "b.py": "def attach_head(model):\n    pass"},
        "try:\n    from a import attach_head\nexcept ImportError:\n    from b import attach_head",
    ),
    "defined twice": (
        {"heads.py": HEADS + "\nif not nn:\n    def attach_head(model):\n        pass\n"},
        FROM.format("heads"),
    ),
    "defined and imported": (
        {"heads.py": HEADS + "\ntry:\n    from other import attach_head\nexcept ImportError:\n    pass\n"},
        FROM.format("heads"),
    ),
    "bound again here": ({"heads.py": HEADS}, FROM.format("heads") + "\nattach_head = print"),
    "a library that a folder is named after": (
        {"torch/__init__.py": "", "torch/heads.py": HEADS},
        FROM.format("torch.heads"),
    ),
    "the standard library": ({"types.py": HEADS}, FROM.format("types")),
    "a path that only sys.path knows": (
        {"lib/heads.py": HEADS},
        "import sys\nsys.path.insert(0, 'lib')\n" + FROM.format("heads"),
    ),
    "a private name through a star": (
        {"heads.py": HEADS.replace("attach_head", "_attach"), "a.py": "from heads import *"},
        "from a import _attach as attach_head",
    ),
    "a file that does not parse": ({"heads.py": HEADS + "\nprint 'x'\n"}, FROM.format("heads")),
    "a file that is no text": ({"heads.py": HEADS + "\n\x00"}, FROM.format("heads")),
    "a huge file": ({"heads.py": HEADS + "\n# " + "x" * 1_000_000}, FROM.format("heads")),
}


def script(imported: str) -> str:
    if " as attach\n" in imported:
        return training(imported, "attach(model)")
    return training(imported)


@pytest.mark.parametrize("name", FOUND)
def test_imports_that_are_followed(name: str, tmp_path: Path) -> None:
    files, imported = FOUND[name]
    write(tmp_path, {"setup.py": "", "train.py": script(imported), **files})
    line = 9 + imported.count("\n")
    assert found(tmp_path, "train.py") == [f"train.py:{line} reorder-to"]
    assert not found(tmp_path, "train.py", project=None) or name.startswith("inside")


@pytest.mark.parametrize("name", UNKNOWN)
def test_imports_that_say_nothing(name: str, tmp_path: Path) -> None:
    files, imported = UNKNOWN[name]
    write(tmp_path, {"setup.py": "", "train.py": script(imported), **files})
    assert found(tmp_path, "train.py") == []


RELATIVE = {
    "beside": ("pkg/train.py", "from .heads import attach_head", "pkg/heads.py"),
    "from the package": ("pkg/train.py", "from . import heads", "pkg/heads.py"),
    "above": ("pkg/scripts/train.py", "from ..heads import attach_head", "pkg/heads.py"),
    "two above": ("pkg/a/b/train.py", "from ...heads import attach_head", "pkg/heads.py"),
    "absolute": ("pkg/a/train.py", "from pkg.b.heads import attach_head", "pkg/b/heads.py"),
    "as for a script in a package": ("pkg/train.py", "from heads import attach_head", "pkg/heads.py"),
    "from a script in a folder": ("tools/train.py", "from pkg.heads import attach_head", "pkg/heads.py"),
    "module with an alias": ("train.py", "import pkg.heads as heads", "pkg/heads.py"),
    "the whole path": ("train.py", "import pkg.heads", "pkg/heads.py"),
}


@pytest.mark.parametrize("name", RELATIVE)
def test_from_where_to_where(name: str, tmp_path: Path) -> None:
    train, imported, heads = RELATIVE[name]
    call = {"from the package": "heads.attach_head", "module with an alias": "heads.attach_head",
            "the whole path": "pkg.heads.attach_head"}.get(name, "attach_head")  # fmt: skip
    packages = {f"{folder}/__init__.py": "" for folder in ("pkg", "pkg/a", "pkg/a/b", "pkg/b", "pkg/scripts")}
    write(tmp_path, {"setup.py": "", **packages, heads: HEADS, train: training(imported, f"{call}(model)")})
    assert found(tmp_path, train) == [f"{train}:9 reorder-to"]


def test_the_nearest_of_two_files_of_one_name_is_meant(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "setup.py": "",
            "one/heads.py": HEADS,
            "two/heads.py": "def attach_head(model):\n    pass\n",
            "one/train.py": training("from heads import attach_head"),
            "two/train.py": training("from heads import attach_head"),
        },
    )
    assert found(tmp_path) == ["one/train.py:9 reorder-to"]


def test_a_package_is_not_looked_into_before_its_surroundings(tmp_path: Path) -> None:
    """In a package, `import heads` means the one beside the package."""
    write(
        tmp_path,
        {
            "setup.py": "",
            "pkg/__init__.py": "",
            "pkg/heads.py": "def attach_head(model):\n    pass\n",
            "heads.py": HEADS,
            "pkg/train.py": training("from heads import attach_head"),
        },
    )
    assert found(tmp_path, "pkg/train.py") == ["pkg/train.py:9 reorder-to"]


def test_nothing_above_the_root_is_read(tmp_path: Path) -> None:
    write(
        tmp_path, {"heads.py": HEADS, "repo/setup.py": "", "repo/a/train.py": training(FROM.format("heads"))}
    )
    assert found(tmp_path, "repo/a/train.py") == []
    assert found(tmp_path, "repo/a/train.py", project=".") == ["repo/a/train.py:9 reorder-to"]
    write(tmp_path, {"repo/b.py": training("from ..heads import attach_head")})
    assert found(tmp_path, "repo/b.py") == []


def test_a_package_that_builds_an_extension_is_not_the_root(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "setup.py": "",
            "pkg/__init__.py": "",
            "pkg/setup.py": "",
            "pkg/heads.py": HEADS,
            "pkg/train.py": training(FROM.format("pkg.heads")),
        },
    )
    assert found(tmp_path, "pkg/train.py") == ["pkg/train.py:9 reorder-to"]


def test_a_given_root_narrows(tmp_path: Path) -> None:
    write(tmp_path, {"setup.py": "", "heads.py": HEADS, "a/train.py": training(FROM.format("heads"))})
    assert found(tmp_path, "a/train.py") == ["a/train.py:9 reorder-to"]
    assert found(tmp_path, "a/train.py", project="a") == []


def test_without_a_mark_the_folder_above_the_package_is_the_root(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "heads.py": HEADS,
            "top/pkg/__init__.py": "",
            "top/heads2.py": HEADS,
            "top/pkg/one.py": training(FROM.format("heads2")),
            "top/pkg/two.py": training(FROM.format("heads")),
        },
    )
    assert found(tmp_path) == ["top/pkg/one.py:9 reorder-to"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes")
def test_links_out_of_the_project_and_pipes_are_left_alone(tmp_path: Path) -> None:
    repo = write(tmp_path / "repo", {"setup.py": "", "train.py": training(FROM.format("heads"))})
    outside = write(tmp_path / "outside", {"heads.py": HEADS}) / "heads.py"
    (repo / "heads.py").symlink_to(outside)
    assert found(repo, "train.py") == []
    (repo / "heads.py").unlink()
    os.mkfifo(repo / "heads.py")
    assert found(repo, "train.py") == []
    (repo / "heads.py").unlink()
    write(repo, {"real.py": HEADS})
    (repo / "heads.py").symlink_to("real.py")
    assert found(repo, "train.py") == WRONG


def test_notebooks_import_modules(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        for text in training(FROM.format("heads")).split("\n\n")
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write(tmp_path, {"setup.py": "", "heads.py": HEADS, "nb.ipynb": json.dumps(notebook, indent=1)})
    assert len(found(tmp_path, "nb.ipynb")) == 1
    assert found(tmp_path, "nb.ipynb", project=None) == []


@pytest.mark.parametrize(
    ("papers", "seen"), [("README.md", True), ("requirements.txt", True), ("notes.txt", False)]
)
def test_a_copy_without_git_is_known_by_its_papers(papers: str, seen: bool, tmp_path: Path) -> None:
    write(tmp_path, {"heads.py": HEADS, papers: "", "tools/train.py": training(FROM.format("heads"))})
    assert found(tmp_path, "tools/train.py") == ["tools/train.py:9 reorder-to"] * seen


def test_papers_count_only_where_no_folder_is_a_project(tmp_path: Path) -> None:
    files = {"heads.py": HEADS, "pyproject.toml": "", "tools/README.md": ""}
    write(tmp_path, {**files, "tools/train.py": training(FROM.format("heads"))})
    assert found(tmp_path, "tools/train.py") == ["tools/train.py:9 reorder-to"]


def test_a_readme_at_home_makes_no_project_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, {"heads.py": HEADS, "README.md": "", "tools/train.py": training(FROM.format("heads"))})
    assert found(tmp_path, "tools/train.py") == []
