"""Servers with pull requests, through the real client libraries; see `standin.py` for what stands in for them."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from devfix.migrate.forges import Checks, ForgeError, Proposal
from devfix.migrate.forges import patience as patience_module
from devfix.migrate.forges.places import Forges, Place, parse_forge, place_of
from devfix.migrate.model import MigrateError, Settings
from devfix.migrate.state import Row, Store
from making import CLEAN, FIXABLE, commit, git, repository
from standin import ME, TOKEN, VARIABLES, Fault, Pull, Standin, serving

KINDS = ("github", "gitlab", "gitea")
Migrate = Callable[..., int]


@pytest.fixture(params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Standin]:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", *VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLES[request.param], TOKEN)
    with serving(request.param, tmp_path / "server") as server:
        yield server


def only_at(kind: str) -> pytest.MarkDecorator:
    """For what campaigns do whatever the server is; what each server has of its own, the tests for all of them show."""
    return pytest.mark.parametrize("server", [kind], indirect=True)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What is waited for, without waiting."""
    found: list[float] = []
    monkeypatch.setattr(patience_module, "sleep", found.append)
    return found


def filled(server: Standin, path: str, n: int = 2, **values: object) -> Path:
    at = repository(server.add(path, **values), {"train.py": FIXABLE % n})
    git(at, "config", "http.receivepack", "true")
    return at


def campaign(migrate: Migrate, server: Standin, *more: str) -> None:
    assert (
        migrate(
            "init", "--organisation", f"{server.url}/org", "--forge", f"{server.kind}={server.url}", *more
        )
        == 0
    )
    assert migrate("run") == 0


def push(migrate: Migrate, *more: str) -> int:
    return migrate("push", "--all", "--pause", "0", *more)


def row(name: str) -> Row:
    with Store("camp/campaign.db") as store:
        return store.row(store.find(name))


def forge(server: Standin):
    return Forges(Settings("c", "b"), 0).at(Place(server.kind, server.url, "org/a"))  # type: ignore[arg-type]


PROPOSAL = Proposal("fix", "main", "A title", "A body", "0" * 40, ("bug",), ("boss",), True)


def proposed(server: Standin, branch: str = "fix") -> Proposal:
    if not server.repositories:
        filled(server, "org/a")
    commit(server.folder / "org" / "a.git", {"x": b"x"}, on=branch)
    return replace(PROPOSAL, branch=branch)


# --- where a repository is, and the token ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "forges", "place"),
    [
        ("https://github.com/o/r.git", (), ("github", "https://github.com", "o/r")),
        ("git@github.com:o/r.git", (), ("github", "https://github.com", "o/r")),
        ("ssh://git@github.com:22/o/r", (), ("github", "https://github.com", "o/r")),
        ("https://me:secret@gitlab.com/g/sub/r/", (), ("gitlab", "https://gitlab.com", "g/sub/r")),
        ("https://codeberg.org/o/r", (), ("gitea", "https://codeberg.org", "o/r")),
        ("https://notgithub.com/o/r", (), None),
        ("https://gitlab.evil.example/o/r", (), None),
        ("/home/github.com/o/r", (), None),
        ("file:///github.com/o/r", (), None),
        ("https://git.example.org/lab/g/r", ("gitlab=https://git.example.org/lab",),
         ("gitlab", "https://git.example.org/lab", "g/r")),
        ("git@git.example.org:g/r.git", ("gitea=https://git.example.org",),
         ("gitea", "https://git.example.org", "g/r")),
        ("https://git.example.org:8443/g/r", ("gitea=https://git.example.org",), None),
    ],
)  # fmt: skip
def test_where_a_repository_is(url: str, forges: tuple[str, ...], place: tuple[str, str, str] | None) -> None:
    assert place_of(url, forges) == (Place(*place) if place else None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["github", "bitbucket=https://b.org", "gitea=b.org", "gitea=http://b.org", "gitea=https://me:x@b.org"],
)
def test_servers_that_are_refused(text: str) -> None:
    """A token goes nowhere but over https, or to this machine."""
    with pytest.raises(MigrateError):
        parse_forge(text)


def test_the_token_of_github_com_is_for_no_other_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each kind of server has a variable of its own."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    for kind, variable in VARIABLES.items():
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(MigrateError, match=rf"no token for git\.example\.org: set {variable}\b"):
            at_example_org(kind)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, variable in VARIABLES.items():
        monkeypatch.setenv(variable, TOKEN)
        without_libraries(monkeypatch)
        with pytest.raises(
            MigrateError, match=r"git\.example\.org need more .* pip install 'devfix\[forges\]'"
        ):
            at_example_org(kind)


def at_example_org(kind: str) -> None:
    Forges(Settings("c", "b")).at(Place(kind, "https://git.example.org", "o/r"))  # type: ignore[arg-type]


def without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("github", "gitlab", "requests"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in KINDS:
        monkeypatch.delitem(sys.modules, f"devfix.migrate.forges.{module}", raising=False)


def test_a_token_from_the_command_line_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from devfix.migrate.forges.places import token_of

    program = tmp_path / "gh"
    program.write_text(f'#!/bin/sh\n[ "$*" = "auth token --hostname github.com" ] && echo {TOKEN}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert token_of(Place("github", "https://github.com", "o/r")) == TOKEN


# --- requests --------------------------------------------------------------------------------------------------


def test_a_request_is_made_once_and_then_updated(server: Standin) -> None:
    proposal, hub = proposed(server), forge(server)
    made = hub.ensure("org/a", "org/a", proposal)
    assert made.number == 1 and made.state == "draft" and made.commit == server.tip("org/a", "fix")
    pull = server.pulls[0]
    assert (pull.title, pull.body, pull.labels, pull.draft) == ("A title", "A body", ["bug"], True)
    assert len(pull.reviewers) == 1
    again = Proposal("fix", "main", "Another", "Text", "0" * 40)
    assert hub.ensure("org/a", "org/a", again).number == 1 and server.created == 1
    assert (pull.title, pull.body, pull.draft) == ("Another", "Text", True), (
        "who made it ready is who decides"
    )


STANDINGS: list[tuple[dict[str, object], tuple[str, Checks, bool]]] = [
    ({}, ("open", "", False)),
    ({"draft": True, "checks": "pending"}, ("draft", "pending", False)),
    ({"review": "approved", "checks": "passed"}, ("approved", "passed", False)),
    ({"review": "refused", "checks": "failed", "conflicts": True}, ("changes requested", "failed", True)),
    ({"state": "merged"}, ("merged", "", False)),
    ({"state": "closed"}, ("closed", "", False)),
]


def test_what_has_become_of_it(server: Standin) -> None:
    proposed(server)
    hub = forge(server)
    for values, expected in STANDINGS:
        server.pulls[:] = [Pull(1, "org/a", "org/a", "fix", "main", "t", "b", **values)]  # type: ignore[arg-type]
        found = hub.request("org/a", 1)
        assert (found.state, found.checks, found.conflicts) == expected


def test_it_is_closed_with_a_word_and_opened_again(server: Standin) -> None:
    hub = forge(server)
    made = hub.ensure("org/a", "org/a", proposed(server))
    (pull,) = server.pulls
    hub.comment("org/a", made.number, "Later.")
    hub.close("org/a", made.number)
    assert (pull.state, pull.comments) == ("closed", ["Later."])
    hub.reopen("org/a", made.number)
    assert pull.state == "open"


# --- faults ----------------------------------------------------------------------------------------------------


PASSING = [
    (Fault(429, headers={"Retry-After": "7"}), [7.0]),
    (Fault(403, headers={"Retry-After": "9"}), [9.0]),
    (Fault(403, message="You have exceeded a secondary rate limit"), [60.0]),
    (Fault(403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}), [0.0]),
    (Fault(500, times=3), [1.0, 2.0, 4.0]),
    (Fault(502), [1.0]),
    (Fault(0), [1.0]),
    (Fault(0, verb="POST", path="pulls$|merge_requests$", after=True), []),
    (Fault(500, verb="POST", path="pulls$|merge_requests$", after=True), []),
]


def test_what_is_tried_again(server: Standin, slept: list[float]) -> None:
    """And nothing is made twice, also where the answer was lost after the work was done."""
    hub = forge(server)
    for number, (fault, waits) in enumerate(PASSING, 1):
        proposal = proposed(server, f"fix{number}")
        slept.clear()
        server.faults[:] = [replace(fault)]
        assert hub.ensure("org/a", "org/a", proposal).number == number
        assert slept == waits and server.faults[0].times == 0 and server.created == number, fault


def test_what_is_an_error_at_once(server: Standin, slept: list[float]) -> None:
    proposal, hub = proposed(server), forge(server)
    for status in (401, 403, 404, 409, 422):
        server.faults[:] = [Fault(status, times=99, message="this is why")]
        with pytest.raises(ForgeError, match=rf"this is why \({status}\)"):
            hub.ensure("org/a", "org/a", proposal)
        assert not slept and not server.created


def test_it_gives_up(server: Standin, slept: list[float]) -> None:
    proposal, hub = proposed(server), forge(server)
    server.faults.append(Fault(500, times=99))
    with pytest.raises(ForgeError, match="500"):
        hub.ensure("org/a", "org/a", proposal)
    assert len(slept) == patience_module.TRIES - 1
    server.faults[:] = [Fault(429, times=99, headers={"Retry-After": "86400"})]
    slept.clear()
    with pytest.raises(ForgeError, match="429"):
        hub.ensure("org/a", "org/a", proposal)
    assert not slept, "nobody waits for a day"


# --- campaigns -------------------------------------------------------------------------------------------------


def test_from_an_organisation_to_requests(server: Standin, migrate: Migrate) -> None:
    for name in "abc":
        filled(server, f"org/{name}")
    repository(server.add("org/done"), {"train.py": CLEAN % 2})
    campaign(migrate, server)
    assert push(migrate, "--label", "device", "--reviewer", "boss", "--draft") == 0
    assert [(one.path, one.draft, one.labels) for one in server.pulls] == [
        (f"org/{name}", True, ["device"]) for name in "abc"
    ]
    pull = server.pulls[0]
    folder = Path("camp/results") / row("org/a").id
    assert (pull.title, pull.body) == (row("org/a").subject, (folder / "body.md").read_text())
    assert row("org/a").pull_request.startswith(f"{server.url}/org/a/") and row("org/a").request == "draft"
    assert server.tip("org/a", "devfix/camp") == row("org/a").commit == row("org/a").pushed
    assert push(migrate) == 0 and server.created == 3
    with Store("camp/campaign.db") as store:  # as if it had been killed before it was recorded
        store.change(row("org/a").id, "test", state="changed", pushed="", pull_request="", request="")
    assert push(migrate) == 0 and server.created == 3 and row("org/a").request == "draft"


CHOSEN = [
    ([], "abc"),
    (["--archived"], "abcx"),
    (["--topic", "torch"], "a"),
    (["--pushed-since", "2026-02-01"], "ac"),
    (["--max-size", "1"], "ab"),
    (["--containing", "import torch"], "b"),
    (["--language", "python"], "ab"),
]


def test_discovery(server: Standin, migrate: Migrate) -> None:
    repository(server.add("org/a", topics=["torch", "x"]), {"x": b"x"})
    repository(server.add("org/b", pushed="2026-01-31", text="import torch"), {"x": b"x"})
    repository(server.add("org/c", language="C", size=2000), {"x": b"x"})
    repository(server.add("org/x", archived=True), {"x": b"x"})
    organisation = ("--organisation", f"{server.url}/org", "--forge", f"{server.kind}={server.url}")
    for options, names in CHOSEN:
        code = migrate("init", *organisation, *options)
        if server.kind == "gitea" and "--containing" in options:
            assert code == 2
            continue
        if server.kind == "gitlab" and "--max-size" in options:
            names = "abc"  # it tells sizes to nobody but members
        assert code == 0
        with Store("camp/campaign.db") as store:
            assert "".join(one.name[-1] for one in store.rows()) == names, options
        shutil.rmtree("camp")


@only_at("gitlab")
def test_a_person_of_gitlab_is_no_group(server: Standin) -> None:
    server.persons.append("boss")
    server.add("boss/a")
    server.add("org/a")
    assert [one.path for one in forge(server).owned("boss")] == ["boss/a"]


def test_long_lists_have_pages(server: Standin) -> None:
    for number in range(230):
        server.add(f"org/r{number:03}")
    server.pulls += [
        Pull(number, "org/r001", "org/r001", f"b{number}", "main", "t", "b") for number in range(1, 121)
    ]
    repository(server.folder / "org" / "r001.git", {"x": b"x"})
    hub = forge(server)
    assert len(hub.owned("org")) == 230
    found = hub.latest("org/r001", "org/r001", "b1")
    assert found is not None and found.number == 1


@only_at("github")
def test_a_request_of_a_client_that_was_killed_is_none(server: Standin) -> None:
    repository(server.add("org/a"), {"x": b"x"})
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST /api/v3/repos/org/a/pulls HTTP/1.1\r\nAuthorization: token {TOKEN}\r\nContent-Length: 99\r\n\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode())
        client.shutdown(socket.SHUT_WR)
        assert client.recv(99) == b"" and not server.seen and not server.wrong


def test_a_fork_where_nobody_lets_us_write(server: Standin, migrate: Migrate) -> None:
    upstream = filled(server, "org/a", writable=False)
    campaign(migrate, server)
    assert push(migrate) == 0
    (pull,) = server.pulls
    assert (pull.path, pull.head) == ("org/a", f"{ME}/a") and server.tip(pull.head, pull.branch) == row(
        "a"
    ).commit
    assert not server.tip("org/a", "devfix/camp")
    for n in (3, 4):  # the fork stays behind
        commit(upstream, {"other.py": CLEAN % n}, "later")
    assert migrate("run", "--refresh") == 0 and push(migrate) == 0
    assert server.created == 1 and server.tip(pull.head, pull.branch) == row("org/a").commit


@only_at("gitea")
def test_templates(server: Standin, migrate: Migrate, tmp_path: Path) -> None:
    filled(server, "org/a")
    campaign(migrate, server)
    (tmp_path / "body.txt").write_text("Hello {{ repository }},\n\n{{ body }}")
    assert push(migrate, "--title", "{{ nonsense }}") == 2 and not server.pulls
    assert push(migrate, "--title", "fix: {{ title }}", "--body", "body.txt") == 0
    (pull,) = server.pulls
    assert pull.title == f"fix: {row('org/a').subject}"
    assert pull.body.startswith("Hello org/a,\n\nThis fixes 1 device bug")


@only_at("gitlab")
def test_an_error_is_about_one_repository(
    server: Standin, migrate: Migrate, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        filled(server, f"org/{name}")
    campaign(migrate, server)
    server.faults.append(Fault(409, 99, "POST", "org(/|%2F)b/(pulls|merge_requests)$", message="not now"))
    assert push(migrate) == 2
    assert [row(f"org/{name}").state for name in "abc"] == ["pushed", "changed", "pushed"]
    assert row("org/b").pushed == row("org/b").commit
    assert "org/b: the branch is there, but no pull request" in capsys.readouterr().err
    server.faults.clear()
    assert push(migrate) == 0 and row("org/b").state == "pushed" and server.created == 3


@only_at("github")
def test_what_is_missing_is_named(
    server: Standin, migrate: Migrate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(server, "org/a")
    campaign(migrate, server)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.delenv(VARIABLES[server.kind])
    monkeypatch.setattr("devfix.migrate.forges.places._COMMANDS", {})
    assert push(migrate) == 2 and f"set {VARIABLES[server.kind]}" in capsys.readouterr().err
    monkeypatch.setenv(VARIABLES[server.kind], TOKEN)
    without_libraries(monkeypatch)
    assert push(migrate) == 2 and "pip install 'devfix[forges]'" in capsys.readouterr().err
    assert not server.tip("org/a", "devfix/camp"), "nothing was pushed"
    assert push(migrate, "--no-pull-request") == 0 and server.tip("org/a", "devfix/camp")


def test_no_token_anywhere(
    server: Standin, migrate: Migrate, slept: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Not in a file, a command line, a remote's URL, or what is said, also where everything fails."""
    import subprocess

    started: list[str] = []
    real = subprocess.Popen.__init__
    monkeypatch.setattr(
        subprocess.Popen,
        "__init__",
        lambda self, command, *given, **named: (
            started.append(str(command)),
            real(self, command, *given, **named),
        )[1],
    )
    filled(server, "org/a", writable=False)
    filled(server, "org/b")
    campaign(migrate, server)
    server.faults.append(Fault(422, verb="POST", path="pulls$|merge_requests$"))
    assert push(migrate) == 2 and push(migrate) == 0
    server.faults.append(Fault(0, times=5))
    migrate("status", "--refresh-requests")
    assert migrate("close", "--all", "--comment", "sorry") == 0
    monkeypatch.setenv(VARIABLES[server.kind], f"{TOKEN}-wrong")
    with Store("camp/campaign.db") as store:
        for one in store.rows():
            store.change(one.id, "test", state="changed", request="")
    assert push(migrate) == 2
    said = capfd.readouterr()
    assert "401" in said.err and "push" in "".join(started)
    for text in (said.out, said.err, *started):
        assert TOKEN not in text
    for path in tmp_path.rglob("*"):
        assert TOKEN not in str(path) and (not path.is_file() or TOKEN.encode() not in path.read_bytes()), (
            path
        )


# --- the life of a request -------------------------------------------------------------------------------------


@only_at("github")
def test_the_life_of_a_request(server: Standin, migrate: Migrate, capsys: pytest.CaptureFixture[str]) -> None:
    path = filled(server, "org/a")
    campaign(migrate, server)
    assert push(migrate) == 0
    (pull,) = server.pulls
    pull.review, pull.checks, pull.conflicts = "approved", "failed", True
    assert migrate("status", "--refresh-requests") == 0
    said = capsys.readouterr().out
    assert "pull requests: 1 approved, 1 with failed checks" in said
    assert migrate("status", "--all") == 0
    assert "(pull request approved, checks failed, conflicts)" in capsys.readouterr().out
    assert migrate("report", "--html", "page.html", "--markdown", "issue.md", "--csv", "all.csv") == 0
    assert "(approved, checks failed, conflicts)" in Path("issue.md").read_text()
    assert '"approved","failed",1' in Path("all.csv").read_text()

    first = row("org/a").commit
    commit(path, {"other.py": CLEAN % 3}, "the base moves")
    assert migrate("run", "--refresh") == 0 and row("org/a").commit != first
    assert push(migrate) == 0 and server.created == 1
    assert server.tip("org/a", pull.branch) == row("org/a").commit != first
    server.merge(pull)
    assert migrate("status", "--refresh-requests") == 0 and row("org/a").request == "merged"
    assert migrate("run", "--refresh") == 0 and row("org/a").state == "merged"


@only_at("gitlab")
def test_where_the_maintainers_said_no(
    server: Standin, migrate: Migrate, capsys: pytest.CaptureFixture[str]
) -> None:
    path = filled(server, "org/a")
    campaign(migrate, server)
    assert push(migrate) == 0
    (pull,) = server.pulls
    tip = server.tip("org/a", pull.branch)
    pull.state = "closed"
    commit(path, {"other.py": CLEAN % 3}, "the base moves")
    assert migrate("run", "--refresh") == 0 and row("org/a").state == "changed"
    assert push(migrate) == 0, "it is found out before anything is pushed"
    assert (row("org/a").request, server.tip("org/a", pull.branch), server.created) == ("closed", tip, 1)
    commit(path, {"other.py": CLEAN % 4}, "and again")
    head = row("org/a").head
    assert migrate("run", "--refresh") == 0 and row("org/a").head == head, "nobody looks at it again"
    assert (
        push(migrate, "org/a") == 0
        and "left alone, since its pull request was closed" in capsys.readouterr().err
    )
    assert server.tip("org/a", pull.branch) == tip
    assert migrate("reopen", "org/a") == 0 and pull.state == "open" and row("org/a").request == "open"
    assert migrate("retry", "org/a") == 0 and migrate("run") == 0 and push(migrate) == 0
    assert server.tip("org/a", pull.branch) == row("org/a").commit != tip and server.created == 1


@only_at("gitea")
def test_a_request_that_cannot_be_opened_again(server: Standin, migrate: Migrate) -> None:
    filled(server, "org/a")
    campaign(migrate, server)
    assert push(migrate) == 0 and migrate("close", "org/a", "--comment", "Later.") == 0
    (pull,) = server.pulls
    assert (pull.state, pull.comments, row("org/a").request) == ("closed", ["Later."], "closed")
    assert migrate("close", "org/a") == 2 and migrate("close") == 2
    server.faults.append(Fault(422, verb="PUT" if server.kind == "gitlab" else "PATCH"))
    assert migrate("reopen", "org/a") == 0 and row("org/a").request == "reopened"
    assert push(migrate) == 0 and server.created == 2 and row("org/a").request == "open"


@only_at("gitea")
def test_watching_ends_with_the_last_request(
    server: Standin, migrate: Migrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        filled(server, f"org/{name}")
    campaign(migrate, server)
    assert push(migrate) == 0
    slept: list[float] = []

    def later(seconds: float) -> None:
        slept.append(seconds)
        server.pulls[len(slept) - 1].state = "closed"

    monkeypatch.setattr("devfix.commands.campaign.sleep", later)
    assert migrate("status", "--watch", "30") == 0 and slept == [30.0, 30.0]
