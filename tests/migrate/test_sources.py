"""What `--repos` names."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.migrate.git import check_ref, check_url, shown
from devfix.migrate.model import MigrateError, Source
from devfix.migrate.sources import named, sources


def bare(path: Path) -> Path:
    for name in ("objects", "refs"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    return path


def test_a_list_has_comments_refs_and_paths_beside_it(tmp_path: Path) -> None:
    here = bare(tmp_path / "here.git")
    (tmp_path / "list.txt").write_text(
        "# mine\n\nhere.git  # beside the list\nhttps://example.org/a/b#c\n  git@example.org:a/b.git v1.0\nhere.git\n"
    )
    assert sources([str(tmp_path / "list.txt")]) == [
        Source(str(here)),
        Source("https://example.org/a/b#c"),
        Source("git@example.org:a/b.git", "v1.0"),
    ]


def test_a_table_says_more(tmp_path: Path) -> None:
    (tmp_path / "repos.toml").write_text(
        '[[repository]]\nurl = "https://example.org/a"\nref = "dev"\nsubfolder = "./src/"\nsmoke = "python x.py"\n'
        'verify = "true"\nexclude = ["old/"]\n[[repository]]\nurl = "https://example.org/b"\nskip = "archived"\n'
    )
    assert sources([str(tmp_path / "repos.toml")]) == [
        Source("https://example.org/a", "dev", "src", "python x.py", "true", ("old/",)),
        Source("https://example.org/b", skip="archived"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[repository]]\nurll = "x"\n', "unknown setting 'urll'; did you mean 'url'?"),
        ("[[repository]]\n", "has no url"),
        ('[[repository]]\nurl = "https://e.org/a"\nexclude = "x"\n', "exclude must be a list of texts"),
        ('[[repository]]\nurl = "https://e.org/a"\nsubfolder = "../x"\n', "is not inside the repository"),
        ('[[repository]]\nurl = "https://e.org/a"\nref = "--upload-pack=x"\n', "is no name of a branch"),
        ('[[repository]]\nurl = "ext::sh -c id"\n', "only file, git, http, https and ssh URLs"),
        ("repository = 1\n", "must have tables [[repository]]"),
        ("[[repository\n", "is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "repos.toml"
    path.write_text(text)
    with pytest.raises(MigrateError) as error:
        sources([str(path)])
    assert str(path) in str(error.value) and said in str(error.value)


def test_a_folder_of_repositories(tmp_path: Path) -> None:
    """Bare ones and work trees; what only leads to one is not followed, and not dropped in silence."""
    bare(tmp_path / "top" / "a.git")
    (tmp_path / "top" / "deep" / "b" / ".git").mkdir(parents=True)
    bare(tmp_path / "top" / "deep" / "b" / "inner.git")
    (tmp_path / "top" / "c").mkdir()
    (tmp_path / "top" / "c" / ".git").write_text("gitdir: /somewhere/private\n")
    (tmp_path / "top" / "d" / ".git").mkdir(parents=True)
    (tmp_path / "top" / "d" / ".git" / "commondir").write_text("/somewhere/private\n")
    bare(tmp_path / "elsewhere.git")
    (tmp_path / "top" / "link").symlink_to(tmp_path / "elsewhere.git")
    found = sources([str(tmp_path / "top")])
    names = {Path(source.url).name: source.skip for source in found}
    assert set(names) == {"a.git", "b", "c", "d"} and "commondir" in names["d"]
    assert not names["a.git"] and not names["b"] and "may lead anywhere" in names["c"]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(MigrateError, match="none is found below it"):
        sources([str(tmp_path / "nothing")])


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c id", "fd::3", "foo::bar", "-oProxyCommand=id", "ssh://-oProxyCommand=id/x", "ssh://a@-b/x",
        "ssh://host/-x", "--upload-pack=id", "-u", "git@-host:x", "git@host:-x", "ftp://e.org/a", "file://h/a\nb",
        "", "a\0b",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(MigrateError):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://e.org/a/b.git", "ssh://git@e.org:22/a", "git@e.org:a/b", "e.org:a", "git://e.org/a"]
)
def test_urls_that_are_taken(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize("ref", ["-x", "a..b", "a b", "x@{1}", "a~1", "a.lock", "a\x1b"])
def test_refs_that_are_refused(ref: str) -> None:
    with pytest.raises(MigrateError):
        check_ref(ref)


def test_no_password_is_shown() -> None:
    assert shown("https://me:secret@e.org/a") == "https://e.org/a"
    ((id, name, _),) = named([Source("https://me:secret@e.org/a/b.git")])
    assert name == "a/b" and "secret" not in id


def test_names_and_ids_are_unique() -> None:
    found = [Source("https://a.org/x/y"), Source("https://b.org/x/y"), Source("https://a.org/x/y", "dev"),
             Source("https://a.org/x/y", shard="part/a"), Source("https://a.org/x/y", shard="part-a")]  # fmt: skip
    made = list(named(found))
    assert len({id for id, _, _ in made}) == len({name for _, name, _ in made}) == len(found)
    assert all("/" not in id and not id.startswith(("-", ".")) for id, _, _ in made)
