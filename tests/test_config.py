from __future__ import annotations

from pathlib import Path

import pytest
from devfix import config
from devfix.config import Config, ConfigError, Option
from stubs import STUBS, Rename


@pytest.fixture(autouse=True)
def stub_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devfix.codemod.registry", lambda: STUBS)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    return path


def test_everything(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [tool.devfix]
        codemods = ["rename-alpha", "flip"]
        exclude-codemods = ["flip"]
        include = ["src/**"]
        exclude = ["old/"]
        unsafe = true
        jobs = 3
        project = false
        project-root = "src"
        [tool.devfix.options.rename-alpha]
        safety = "unsafe"
        times = 2
        """,
    )
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = config.load(str(tmp_path / "a" / "b" / "x.py"))
    assert found == Config(
        ("rename-alpha", "flip"),
        ("flip",),
        ("src/**",),
        ("old/",),
        True,
        3,
        False,
        str(tmp_path / "src"),
        (Option("rename-alpha", "safety", "unsafe"), Option("rename-alpha", "times", 2)),
        str(tmp_path),
        str(path),
    )
    assert config.choose(found, STUBS) == (Rename(safety="unsafe", times=2),)


def test_nearest_file_only(tmp_path: Path) -> None:
    write(tmp_path, "[tool.devfix]\nunsafe = true\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    write(inner, "[project]\nname = 'x'\n")
    assert config.load(str(tmp_path)).unsafe
    assert config.load(str(inner)) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exclud = []", "tool.devfix.exclud: unknown setting; did you mean 'exclude'?"),
        ("unsafe = 1", "tool.devfix.unsafe: must be true or false, not 1"),
        ("jobs = true", "tool.devfix.jobs: must be a whole number from 0, not True"),
        ("project = 1", "tool.devfix.project: must be true or false, not 1"),
        ("project-root = true", "tool.devfix.project-root: must be the path of a folder, not True"),
        ("jobs = -1", "tool.devfix.jobs: must be"),
        ("exclude = 'x'", "tool.devfix.exclude: must be a list of texts, not 'x'"),
        ("codemods = ['rename-alfa']", "unknown codemod 'rename-alfa'; did you mean 'rename-alpha'?"),
        ("options.rename-alpha = 1", "tool.devfix.options.rename-alpha: must be a table"),
        ("options.rename-alpha.lou = true", "has no option 'lou'; did you mean 'loud'?"),
        (
            "options.rename-alpha.loud = 'maybe'",
            "option rename-alpha.loud must be true or false, not 'maybe'",
        ),
        ("options.rename-alpha.times = 'x'", "option rename-alpha.times must be a whole number, not 'x'"),
        ("options.rename-alpha.to = 1", "option rename-alpha.to must be text, not 1"),
        ("options.rename-alpha.safety = 'x'", "must be one of safe, unsafe, manual, not 'x'"),
        ("options.flip.x = 1", "codemod flip has no option 'x'; it has no options"),
        ("x = [", "is not valid TOML"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, f"[tool.devfix]\n{text}\n")
    with pytest.raises(ConfigError) as error:
        config.load(str(tmp_path))
    assert message in str(error.value)
    assert str(path) in str(error.value)


def test_other_peoples_broken_file_is_not_ours(tmp_path: Path) -> None:
    write(tmp_path, "{{ cookiecutter }}")
    assert config.load(str(tmp_path)) == Config()


def test_options_from_the_command_line() -> None:
    chosen = Config(
        ("rename-alpha",),
        options=tuple(
            config.parse_option(text)
            for text in ("rename-alpha.loud=yes", "rename-alpha.times=2", "rename-alpha.times=3")
        ),
    )
    assert config.choose(chosen, STUBS) == (Rename(loud=True, times=3),)
    for text in ("x", "x=1", "x.y", ".y=1"):
        with pytest.raises(ConfigError, match=r"must be ID\.NAME=VALUE"):
            config.parse_option(text)


def test_defaults_and_exclusion() -> None:
    assert config.choose(Config(), STUBS) == (Rename(),)
    assert config.choose(Config(exclude_codemods=("rename-alpha",)), STUBS) == ()
