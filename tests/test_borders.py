"""The rules of the house, looked up in the source: who may import, read, write, print and catch what."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from functools import cache
from pathlib import Path, PurePosixPath

import devfix
import pytest
from devfix.codemod import Codemod, registry

PACKAGE = Path(devfix.__file__).parent
ROOT = PACKAGE.parent.parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
RUNS_TORCH = (
    "simulate/",
    "smoke.py",
    "commands/run.py",
    "commands/simulate.py",
    "commands/advice.py",
    "commands/smoke.py",
    "commands/repair.py",
    "migrate/verifying.py",
)  # these run programs, in processes of their own
LINES = 400
# Too long still: split them, and take them off here. None may be added.
LAZY = (
    "torch", "libcst", "rich", "pathspec", "pebble", "yaml", "numpy", "concurrent.futures", "jinja2", "distributed",
    "requests", "github", "gitlab",
)  # fmt: skip


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(module)))


def within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or (home.endswith("/") and module.startswith(home)) for home in homes)


def outside(*homes: str) -> Iterator[str]:
    return (module for module in MODULES if not within(module, homes))


@cache
def imports(module: str) -> tuple[tuple[str, ast.stmt], ...]:
    """Every import of a module, wherever it stands, by its full name."""
    return tuple(_imports(module))


def statements(module: str) -> Iterator[ast.AST]:
    """Without the expressions, which are most of a tree."""
    todo: list[ast.AST] = [tree(module)]
    for node in todo:
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, name, ())
            todo += below if isinstance(below, list) else ()


def _imports(module: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in statements(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node


@cache
def calls(module: str) -> tuple[tuple[str, ast.Call], ...]:
    """Every call, by how the function is written: `open`, `os.open`, `*.write_text`."""
    return tuple(_calls(module))


def _calls(module: str) -> Iterator[tuple[str, ast.Call]]:
    for node in nodes(module):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield function.id, node
            elif isinstance(function, ast.Attribute):
                base = function.value
                yield f"{base.id if isinstance(base, ast.Name) else '*'}.{function.attr}", node


def where(module: str, node: ast.stmt | ast.expr | ast.ExceptHandler) -> str:
    return f"{module}:{node.lineno}"


# --- imports -----------------------------------------------------------------------------------


def test_torch_is_imported_where_programs_run_and_nowhere_else() -> None:
    for module in MODULES:
        for name, node in imports(module):
            if name.partition(".")[0] in ("torch", "torchgen", "numpy"):
                assert within(module, ("simulate/",)), where(module, node)
            if name.startswith("devfix.simulate"):
                assert within(module, RUNS_TORCH), where(module, node)


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("libcst", ("rewrite/", "own/libcst_commands.py")),
        ("bowler", ("own/bowler_scripts.py",)),
        ("fissix", ("own/bowler_scripts.py",)),
        ("yaml", ("documents/",)),
        ("pebble", ("pipeline/parallel.py",)),
        ("distributed", ("migrate/cluster.py", "migrate/onworker.py")),
        ("dask", ("migrate/cluster.py",)),
        ("click", ("cli.py", "commands/", "review/")),
        ("rich", ("review/",)),
        ("jinja2", ("review/html/", "migrate/forges/wording.py")),
        ("github", ("migrate/forges/github.py",)),
        ("gitlab", ("migrate/forges/gitlab.py",)),
        ("requests", ("migrate/forges/github.py", "migrate/forges/gitlab.py", "migrate/forges/gitea.py")),
        ("pygments", ("review/html/",)),
    ],
)
def test_libraries_stay_at_home(library: str, homes: tuple[str, ...]) -> None:
    for module in MODULES:
        for name, node in imports(module):
            if name.partition(".")[0] == library:
                assert within(module, homes), where(module, node)


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after running `code` in an interpreter of its own."""
    report = f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_importing_the_command_line_is_cheap() -> None:
    loaded = loaded_by("import devfix.cli")
    assert "devfix.cli" in loaded
    assert not loaded & {*LAZY, "devfix.flow", "devfix.pipeline.runner", "devfix.codemod", "asyncio", "email"}


def test_help_is_cheap() -> None:
    loaded = loaded_by("from devfix.cli import main\nassert main(['--help']) == 0")
    assert not loaded & {*LAZY, "devfix.flow", "devfix.pipeline.runner", "devfix.rules"}


def test_a_check_without_findings_needs_neither_libcst_nor_torch(tmp_path: Path) -> None:
    file = tmp_path / "clean.py"
    file.write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "model = torch.nn.Linear(2, 2)\nmodel.to('cuda')\nmodel(torch.zeros(2, device='cuda'))\n"
    )
    loaded = loaded_by(f"from devfix.cli import main\nassert main(['check', {str(file)!r}]) == 0")
    assert "devfix.flow" in loaded
    assert not loaded & {"torch", "libcst", "pebble", "rich"}


# --- files, output, exceptions -------------------------------------------------------------------

_FILES = {
    "open", "io.open", "os.fdopen", "codecs.open", "tokenize.open",
    "os.open", "os.replace", "os.rename", "os.remove", "os.unlink", "os.mkdir", "os.makedirs", "os.rmdir",
    "tempfile.mkstemp", "tempfile.mkdtemp", "tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory",
}  # fmt: skip
_FILE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "unlink", "mkdir", "touch", "rename"}
_DEVNULL = "os.devnull"


def test_files_are_read_and_written_by_documents_only() -> None:
    for module in outside("documents/", "migrate/folders.py", *RUNS_TORCH):
        for name, node in calls(module):
            file = name in _FILES or name.startswith("shutil.")
            base, _, method_name = name.rpartition(".")
            method = method_name in _FILE_METHODS and base not in ("", "os")
            if (file or method) and _DEVNULL not in ast.unparse(node):
                pytest.fail(f"{where(module, node)}: {ast.unparse(node)}")


def test_only_the_command_line_prints() -> None:
    for module in outside("cli.py", "__main__.py", "commands/", "review/", *RUNS_TORCH):
        for name, call in calls(module):
            assert name not in ("print", "click.echo", "click.secho"), where(module, call)
        for node in nodes(module):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "sys"
            ):
                assert node.attr not in ("stdout", "stderr", "stdin"), where(module, node)


def test_git_is_run_in_two_places() -> None:
    """That for trees of anybody's, and that for the bare repositories of `migrate`."""
    for module in outside("documents/git.py", "migrate/git.py"):
        for node in nodes(module):
            if isinstance(node, ast.List) and node.elts and isinstance(node.elts[0], ast.Constant):
                assert node.elts[0].value != "git", where(module, node)


def test_analysed_code_is_never_run() -> None:
    homes = (
        "commands/__init__.py",
        "commands/check.py",
        "codemod.py",
        "config.py",
        "migrate/sources.py",
        "own/tree.py",
    )
    for module in outside(
        *RUNS_TORCH, "own/loading.py"
    ):  # codemods of the user's, which are no analysed code
        for name, node in calls(module):
            assert name not in ("exec", "eval", "compile", "__import__", "runpy.run_path"), where(
                module, node
            )
            assert name != "importlib.import_module" or module in homes, where(module, node)


def test_every_exception_is_caught_in_few_places() -> None:
    """The engine takes what comes, file by file, and `main` what comes outside of any file.

    (A program that is run may raise anything, too, and so may codemods of the user's. What tidies up and
    raises again catches nothing.)
    """
    found = []
    for module in outside(*RUNS_TORCH, "own/crashes.py"):
        for node in nodes(module):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type is not None else "everything"
                again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
                if caught in ("everything", "Exception", "BaseException") and not again:
                    found.append(module)
    assert found == ["cli.py", "migrate/local.py", "pipeline/work.py"]


# --- size and shape --------------------------------------------------------------------------------


def test_no_module_is_long() -> None:
    lines = {module: len((PACKAGE / module).read_text(encoding="utf-8").splitlines()) for module in MODULES}
    assert not {module: many for module, many in lines.items() if many > LINES}


@pytest.mark.parametrize(
    "module", ["findings.py", "reports/report.py", "config.py", "codemod.py", "pipeline/discover.py"]
)
def test_what_crosses_borders_is_frozen(module: str) -> None:
    for node in tree(module).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        for decorator in node.decorator_list:
            assert "frozen=True" in ast.unparse(decorator), where(module, node)
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and node.decorator_list:
                annotation = ast.unparse(item.annotation)
                assert "list[" not in annotation and "dict[" not in annotation, where(module, item)


def test_nothing_can_be_imported_from_the_repository_root() -> None:
    """devfix runs inside other people's repositories, some of which have a folder `codemods`."""
    assert not (ROOT / "codemods" / "__init__.py").exists()
    assert not list(ROOT.glob("*.py"))


def test_every_module_says_what_it_is_for() -> None:
    assert not [module for module in MODULES if not ast.get_docstring(tree(module))]


# --- codemods ------------------------------------------------------------------------------------

RULES = [module for module in MODULES if PurePosixPath(module).parent.name == "rules"]
_HEADINGS = ("What it does", "Why is this bad?", "Fix safety")


@pytest.mark.parametrize("module", [module for module in RULES if not module.endswith("__init__.py")])
def test_a_file_of_rules_is_one_codemod(module: str) -> None:
    name = PurePosixPath(module).stem
    found = [kind for kind in registry().values() if kind.__module__ == f"devfix.rules.{name}"]
    assert [kind.id for kind in found] == [name.replace("_", "-")]


@pytest.mark.parametrize("kind", registry().values(), ids=registry().keys())
def test_codemod_is_documented(kind: type[Codemod]) -> None:
    text = kind.__doc__ or ""
    title, blank, *rest = text.strip().splitlines()
    assert title.endswith(".") and not blank
    lines = [line.strip() for line in rest if line.strip()]
    headings = [f"## {heading}" for heading in _HEADINGS]
    assert [line for line in lines if line in headings] == headings
    for heading in headings:
        assert not lines[lines.index(heading) + 1].startswith("#"), f"nothing under {heading}"


@pytest.mark.parametrize("kind", registry().values(), ids=registry().keys())
def test_codemod_is_shown(kind: type[Codemod]) -> None:
    """Examples of what it changes, and of what it leaves alone."""
    assert any(example.after is not None for example in kind.examples)
    assert any(example.after is None for example in kind.examples)
    assert kind.words and all(group and all(group) for group in kind.words)
    assert len({example.title for example in kind.examples}) == len(kind.examples)


@pytest.mark.parametrize("kind", registry().values(), ids=registry().keys())
def test_codemod_is_plain_data(kind: type[Codemod]) -> None:
    """Its fields are its options, and it crosses process borders."""
    made = kind()
    assert pickle.loads(pickle.dumps(made)) == made and hash(made) == hash(kind())
    with pytest.raises(FrozenInstanceError):
        made.id = "other"  # type: ignore[misc]
