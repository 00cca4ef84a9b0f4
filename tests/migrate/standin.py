"""A stand-in for a server with pull requests: the documented HTTP of GitHub, GitLab and Gitea, as far as devfix uses
it, in front of real bare repositories that git's own `http-backend` serves. It can be told to fail.

Shapes are those of https://docs.github.com/en/rest, https://docs.gitlab.com/api/ and Gitea's /swagger.v1.json: the
fields that devfix and the client libraries read, and the documented status codes. Each request and each answer is
compared with what the servers' OpenAPI descriptions say (`published.py`), and a test that sees a difference fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from making import ENVIRONMENT, git
from published import wrong

VARIABLES = {"github": "GH_ENTERPRISE_TOKEN", "gitlab": "GITLAB_TOKEN", "gitea": "GITEA_TOKEN"}
TOKEN = "canary-6b1f5c0e-token"
ME = "robot"


@dataclass
class Fault:
    """What the next requests get: `status` 0 cuts the connection off. `after`: the work is done."""

    status: int
    times: int = 1
    verb: str = ""  # of the requests that it is for
    path: str = ""  # a regular expression, searched for
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "no"
    after: bool = False
    seconds: float = 0.0


@dataclass
class Pull:
    """A pull request, as all three know it."""

    number: int
    path: str
    head: str  # the path of the repository with the branch
    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    state: str = "open"  # open, closed, merged
    labels: list[str] = field(default_factory=list)
    reviewers: list[str] = field(default_factory=list)
    review: str = ""  # approved, refused
    checks: str = ""  # passed, failed, pending
    conflicts: bool = False
    comments: list[str] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, address: Any) -> None:
        """A client that was killed is no error; what goes wrong here is one of the client's tests."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, address)


class Standin:
    """The server. Everything about a repository is in `repositories` and `pulls`, for tests to look at and change."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.repositories: dict[str, dict[str, Any]] = {}
        self.persons: list[str] = []  # owners that are no group, where that makes a difference
        self.pulls: list[Pull] = []
        self.faults: list[Fault] = []
        self.seen: list[tuple[str, str]] = []  # verb and path of the API's requests
        self.wrong: list[str] = []  # what is not as the server's own description has it
        self.created = 0
        self.writes = 0  # requests that were to change something, git's pushes too
        self.lock = threading.RLock()
        self.httpd = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"
        threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.httpd.shutdown()
        self.httpd.server_close()

    def add(self, path: str, **values: Any) -> Path:
        """Make a repository known; where its bare repository is, for the caller to fill."""
        standard = {"topics": [], "archived": False, "language": "Python", "pushed": "2026-03-01", "size": 7}
        self.repositories[path] = {**standard, "writable": True, "parent": "", "text": "", **values}
        return self.folder / f"{path}.git"

    def fork(self, path: str) -> str:
        """The fork of `path` in the robot's account."""
        mine = f"{ME}/{path.rpartition('/')[2]}"
        if mine not in self.repositories:
            at = self.add(mine, parent=path)
            at.parent.mkdir(parents=True, exist_ok=True)
            git(self.folder, "clone", "-q", "--bare", str(self.folder / f"{path}.git"), str(at))
            git(at, "config", "http.receivepack", "true")
        return mine

    def commit(self, pull: Pull) -> str:
        return self.tip(pull.head, pull.branch)

    def tip(self, path: str, branch: str) -> str:
        """Read from the files of git, which is asked for it often."""
        at = self.folder / f"{path}.git"
        with suppress(OSError):
            return (at / "refs" / "heads" / branch).read_text().strip()
        with suppress(OSError):
            lines = (at / "packed-refs").read_text().splitlines()
            return next((one[:40] for one in lines if one[41:] == f"refs/heads/{branch}"), "")
        return ""

    def merge(self, pull: Pull) -> None:
        """As a maintainer does, who has the commit at the tip of the base."""
        into = self.folder / f"{pull.path}.git"
        git(
            into,
            "fetch",
            "-q",
            str(self.folder / f"{pull.head}.git"),
            f"+{pull.branch}:refs/heads/{pull.base}",
        )
        pull.state = "merged"

    def open_of(self, path: str, head: str, branch: str) -> Pull | None:
        return next(
            (p for p in self.pulls if (p.path, p.head, p.branch, p.state) == (path, head, branch, "open")),
            None,
        )

    def create(
        self, path: str, head: str, branch: str, base: str, title: str, body: str, draft: bool
    ) -> Pull | None:
        """None where there is an open one already, as all three refuse it."""
        if self.open_of(path, head, branch):
            return None
        number = 1 + sum(1 for pull in self.pulls if pull.path == path)
        self.created += 1
        self.pulls.append(Pull(number, path, head, branch, base, title, body, draft))
        return self.pulls[-1]

    def pull(self, path: str, number: str) -> Pull:
        return next(pull for pull in self.pulls if (pull.path, pull.number) == (path, int(number)))

    def result(self) -> list[dict[str, Any]]:
        """All requests in an order of their own, to compare two servers."""
        found = [{**asdict(pull), "commit": self.commit(pull)} for pull in self.pulls]
        return sorted(found, key=lambda one: (one["path"], one["number"]))

    def fault(self, verb: str, path: str, after: bool) -> Fault | None:
        with self.lock:
            for one in self.faults:
                fits = one.after == after and one.verb in ("", verb) and re.search(one.path, path)
                if one.times and fits:
                    one.times -= 1
                    return one
        return None


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[Standin]:
    server = Standin(kind, folder)
    try:
        yield server
    finally:
        server.close()
    assert not server.wrong, sorted(set(server.wrong))


class _Answer(Exception):
    def __init__(self, status: int, data: Any = None) -> None:
        self.status, self.data = status, data


def _handler(server: Standin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for headers and body

        def log_message(self, *_: Any) -> None:
            pass

        def handle_all(self) -> None:
            parts = urlsplit(self.path)
            data = self._data()
            server.writes += self.command != "GET" and not parts.path.endswith("/git-upload-pack")
            if not parts.path.startswith("/api/"):
                return self._git(parts.path, parts.query, data)
            path = parts.path.split("/", 3)[3]
            server.seen.append((self.command, path))
            if fault := server.fault(self.command, path, after=False):
                return self._fail(fault)
            given = self.headers.get("Authorization", "")
            if given not in (f"token {TOKEN}", f"Bearer {TOKEN}"):
                return self._send(401, {"message": "Bad credentials"})
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            try:
                with server.lock:
                    status, found = _API[server.kind](
                        server, self.command, path, query, json.loads(data or b"{}")
                    )
            except _Answer as answer:
                status, found = answer.status, answer.data
            except (KeyError, StopIteration):
                status, found = 404, {"message": "Not Found"}
            server.wrong += wrong(
                server.kind, self.command, f"/{path}", query, json.loads(data or b"null"), status, found
            )
            if fault := server.fault(self.command, path, after=True):
                return self._fail(fault)
            headers = {}
            if isinstance(found, list):
                page, size = int(query.get("page", 1)), int(query.get("per_page", query.get("limit", 30)))
                if len(found) > page * size:  # as GitHub and GitLab have it; Gitea's clients count
                    query["page"] = str(page + 1)
                    headers["Link"] = f'<{server.url}{parts.path}?{urlencode(query)}>; rel="next"'
                found = found[(page - 1) * size : page * size]
            self._send(status, found, headers)

        do_GET = do_POST = do_PATCH = do_PUT = handle_all

        def _data(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                length = int(self.headers.get("Content-Length") or 0)
                data = self.rfile.read(length)
                if len(data) < length:
                    raise ConnectionAbortedError  # the client was killed: it has asked for nothing
                return data
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def _fail(self, fault: Fault) -> None:
            time.sleep(fault.seconds)
            if fault.status:
                return self._send(fault.status, {"message": fault.message}, fault.headers)
            self.close_connection = True
            self.wfile.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{"
            )

        def _send(self, status: int, found: Any, headers: dict[str, str] | None = None) -> None:
            data = b"" if status == 204 else json.dumps(found).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _git(self, path: str, query: str, data: bytes) -> None:
            """By CGI, as git's own documentation of `http-backend` has it."""
            env = {
                **ENVIRONMENT, "GIT_PROJECT_ROOT": str(server.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(data)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }  # fmt: skip
            done = subprocess.run(["git", "http-backend"], input=data, env=env, capture_output=True)
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


# --- GitHub ----------------------------------------------------------------------------------------------------


def _github(
    server: Standin, verb: str, path: str, query: dict[str, str], data: dict[str, Any]
) -> tuple[int, Any]:
    parts = path.split("/")
    if parts[0] == "orgs":
        owned = [one for one in server.repositories if one.startswith(f"{parts[1]}/")]
        if len(parts) == 2:
            if not owned:
                raise KeyError
            return 200, {"login": parts[1], "url": f"{server.url}/api/v3/orgs/{parts[1]}"}
        return 200, [_hub_repository(server, one) for one in owned]
    if path == "search/code":
        text, owner = re.fullmatch(r'"(.*)" user:(\S+)', query["q"]).groups()  # type: ignore[union-attr]
        found = [
            {"name": "x.py", "repository": _hub_repository(server, one)}
            for one, values in server.repositories.items()
            if one.startswith(f"{owner}/") and text in values["text"]
        ]
        return 200, {"total_count": len(found), "incomplete_results": False, "items": found}
    at, rest = "/".join(parts[1:3]), parts[3:]
    repository = server.repositories[at]
    if not rest:
        return 200, _hub_repository(server, at)
    if rest == ["forks"]:
        return 202, _hub_repository(server, server.fork(at))
    if rest[0] == "commits":
        pull = next(one for one in reversed(server.pulls) if one.path == at and server.commit(one) == rest[1])
        word = {"passed": "success", "failed": "failure"}.get(pull.checks, pull.checks)
        if rest[2:] == ["status"]:
            return 200, {"state": "pending", "statuses": [], "total_count": 0}
        if rest[2:] == ["check-runs"]:
            done = word in ("success", "failure")
            run = {"status": "completed" if done else "in_progress", "conclusion": word if done else None}
            return 200, {"total_count": bool(word), "check_runs": [{"id": 1, **run}] if word else []}
        return 200, {"sha": rest[1], "url": f"{server.url}/api/v3/{path}"}
    if rest[0] == "issues":
        pull = server.pull(at, rest[1])
        if rest[2] == "labels":
            given = data["labels"] if isinstance(data, dict) else data  # both are documented
            pull.labels += [name for name in given if name not in pull.labels]
            return 200, [{"name": name} for name in pull.labels]
        pull.comments.append(data["body"])
        return 201, {"id": 1}
    if rest == ["pulls"] and verb == "GET":
        owner, _, branch = query["head"].partition(":")
        found = [one for one in server.pulls if one.path == at and one.branch == branch]
        found = [one for one in found if one.head.startswith(f"{owner}/")]
        return 200, [_hub_short(server, one) for one in reversed(found)]
    if rest == ["pulls"]:
        owner, _, branch = data["head"].partition(":")
        head = at if at.startswith(f"{owner}/") else f"{owner}/{at.rpartition('/')[2]}"
        made = server.create(
            at, head, branch, data["base"], data["title"], data["body"], data.get("draft", False)
        )
        if made is None or not server.tip(head, branch):
            why = "A pull request already exists" if made is None else "head is invalid"
            raise _Answer(
                422, {"message": "Validation Failed", "errors": [{"message": f"{why} for {data['head']}."}]}
            )
        return 201, _hub_pull(server, made)
    pull = server.pull(at, rest[1])
    if rest[2:] == ["requested_reviewers"]:
        pull.reviewers += [name for name in data["reviewers"] if name not in pull.reviewers]
        return 201, _hub_short(server, pull)
    if rest[2:] == ["reviews"]:
        state = {"approved": "APPROVED", "refused": "CHANGES_REQUESTED"}.get(pull.review)
        return 200, [{"id": 1, "state": state, "user": {"login": "boss"}}] if state else []
    if verb == "PATCH":
        _edited(pull, data, "body", {"open": "open", "closed": "closed"}.get(data.get("state", "")))
    assert repository
    return 200, _hub_pull(server, pull)


def _hub_repository(server: Standin, path: str) -> dict[str, Any]:
    values = server.repositories[path]
    return {
        "full_name": path, "name": path.rpartition("/")[2], "url": f"{server.url}/api/v3/repos/{path}",
        "clone_url": f"{server.url}/{path}.git", "ssh_url": f"git@127.0.0.1:{path}.git", "default_branch": "main",
        "language": values["language"], "topics": values["topics"], "archived": values["archived"],
        "pushed_at": f"{values['pushed']}T10:00:00Z", "size": values["size"],
        "permissions": {"pull": True, "push": values["writable"], "admin": False},
    }  # fmt: skip


def _hub_pull(server: Standin, pull: Pull) -> dict[str, Any]:
    url = f"repos/{pull.path}/pulls/{pull.number}"
    return {
        "number": pull.number, "url": f"{server.url}/api/v3/{url}",
        "issue_url": f"{server.url}/api/v3/repos/{pull.path}/issues/{pull.number}",
        "html_url": f"{server.url}/{pull.path}/pull/{pull.number}", "title": pull.title, "body": pull.body,
        "state": "open" if pull.state == "open" else "closed", "draft": pull.draft,
        "merged_at": "2026-03-02T10:00:00Z" if pull.state == "merged" else None,
        "mergeable": not pull.conflicts, "base": {"ref": pull.base, "sha": "0" * 40},
        "head": {
            "ref": pull.branch, "sha": server.commit(pull), "repo": _hub_repository(server, pull.head),
            "label": f"{pull.head.partition('/')[0]}:{pull.branch}",
        },
    }  # fmt: skip


def _hub_short(server: Standin, pull: Pull) -> dict[str, Any]:
    """As it stands in lists."""
    return _without(_hub_pull(server, pull), "mergeable")


def _without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


def _edited(pull: Pull, data: dict[str, Any], body: str, state: str | None) -> None:
    pull.title, pull.body = data.get("title", pull.title), data.get(body, pull.body)
    if state and pull.state == "merged":
        raise _Answer(422, {"message": "Validation Failed"})
    pull.state = state or pull.state


# --- GitLab ----------------------------------------------------------------------------------------------------


def _gitlab(
    server: Standin, verb: str, path: str, query: dict[str, str], data: dict[str, Any]
) -> tuple[int, Any]:
    ids = list(server.repositories)
    parts = [unquote(part) for part in path.split("/")]
    if parts[0] == "users" and parts[2:] == ["projects"]:
        owned = [one for one in ids if one.startswith(f"{server.persons[int(parts[1]) - 70]}/")]
        return 200, [_lab_listed(server, one, "archived") for one in owned]
    if parts[0] == "users":
        name = query["username"]
        if name not in server.persons:
            server.persons.append(name)
        return 200, [{"id": 70 + server.persons.index(name), "username": name}]
    if parts[0] == "groups":
        groups = sorted({one.partition("/")[0] for one in ids})
        group = groups[int(parts[1])] if parts[1].isdigit() else parts[1]
        owned = [one for one in ids if one.startswith(f"{group}/")]
        if not owned or group in server.persons:
            raise _Answer(404, {"message": "404 Group Not Found"})
        if parts[2:] == ["projects"]:
            return 200, [_lab_listed(server, one) for one in owned]
        if parts[2:] == ["search"]:
            text = query["search"].strip('"')
            return 200, [
                {"project_id": ids.index(o)} for o in owned if text in server.repositories[o]["text"]
            ]
        return 200, {"id": groups.index(group), "full_path": group}
    at = ids[int(parts[1])] if parts[1].isdigit() else parts[1]
    if at not in server.repositories:
        raise _Answer(404, {"message": "404 Project Not Found"})
    rest = parts[2:]
    if not rest:
        return 200, _lab_project(server, at)
    if rest == ["languages"]:
        return 200, {"Shell": 1.5, server.repositories[at]["language"]: 98.5}
    if rest[0] in ("forks", "fork"):
        if verb == "GET":
            mine = [one for one, values in server.repositories.items() if values["parent"] == at]
            return 200, [_lab_listed(server, one) for one in mine]
        return 201, _lab_listed(server, server.fork(at))
    if rest == ["merge_requests"] and verb == "GET":
        found = [one for one in server.pulls if one.path == at and one.branch == query["source_branch"]]
        return 200, [_without(_lab_pull(server, one), "head_pipeline") for one in reversed(found)]
    if rest == ["merge_requests"]:
        target, title = ids[data["target_project_id"]], data["title"]
        branch, draft = data["source_branch"], title.startswith("Draft: ")
        title = title.removeprefix("Draft: ")
        made = server.create(target, at, branch, data["target_branch"], title, data["description"], draft)
        if made is None:
            raise _Answer(
                409, {"message": ["Another open merge request already exists for this source branch: !1"]}
            )
        return 201, _lab_pull(server, made)
    pull = server.pull(at, rest[1])
    if rest[2:] == ["approvals"]:
        return 200, {
            "approved": True,
            "approved_by": [{"user": {"id": 1}}] if pull.review == "approved" else [],
        }
    if rest[2:] == ["notes"]:
        pull.comments.append(data["body"])
        return 201, {"id": 1}
    if verb == "PUT":
        if "title" in data:
            pull.draft = data["title"].startswith("Draft: ")
            data["title"] = data["title"].removeprefix("Draft: ")
        _edited(
            pull, data, "description", {"close": "closed", "reopen": "open"}.get(data.get("state_event", ""))
        )
        pull.labels += [name for name in data.get("add_labels", ()) if name not in pull.labels]
        pull.reviewers = (
            [f"#{id}" for id in data["reviewer_ids"]] if "reviewer_ids" in data else pull.reviewers
        )
    return 200, _lab_pull(server, pull)


def _lab_project(server: Standin, path: str) -> dict[str, Any]:
    values = server.repositories[path]
    return {
        "id": list(server.repositories).index(path), "path_with_namespace": path, "default_branch": "main",
        "http_url_to_repo": f"{server.url}/{path}.git", "ssh_url_to_repo": f"git@127.0.0.1:{path}.git",
        "topics": values["topics"], "archived": values["archived"],
        "last_activity_at": f"{values['pushed']}T10:00:00.000Z",
        "permissions": {"project_access": {"access_level": 40 if values["writable"] else 20}, "group_access": None},
    }  # fmt: skip


def _lab_listed(server: Standin, path: str, *more: str) -> dict[str, Any]:
    """As it stands in lists, and where it has just been made; `more` is left out, too."""
    return _without(_lab_project(server, path), "permissions", *more)


def _lab_pull(server: Standin, pull: Pull) -> dict[str, Any]:
    word = {"passed": "success", "pending": "running"}.get(pull.checks, pull.checks)
    return {
        "iid": pull.number, "id": 1000 + pull.number, "title": "Draft: " * pull.draft + pull.title,
        "state": {"open": "opened"}.get(pull.state, pull.state), "draft": pull.draft, "description": pull.body,
        "web_url": f"{server.url}/{pull.path}/-/merge_requests/{pull.number}", "sha": server.commit(pull),
        "source_branch": pull.branch, "target_branch": pull.base, "has_conflicts": pull.conflicts,
        "project_id": list(server.repositories).index(pull.path), "reviewers": [],
        "source_project_id": list(server.repositories).index(pull.head),
        "detailed_merge_status": "requested_changes" if pull.review == "refused" else "mergeable",
        "head_pipeline": {"id": 5, "status": word} if word else None,
    }  # fmt: skip


# --- Gitea -----------------------------------------------------------------------------------------------------


def _gitea(
    server: Standin, verb: str, path: str, query: dict[str, str], data: dict[str, Any]
) -> tuple[int, Any]:
    parts = path.split("/")
    if path == "user":
        return 200, {"login": ME}
    if parts[0] in ("orgs", "users"):
        owned = [one for one in server.repositories if one.startswith(f"{parts[1]}/")]
        if not owned:
            raise KeyError
        return 200, [_tea_repository(server, one) for one in owned]
    at, rest = "/".join(parts[1:3]), parts[3:]
    if at not in server.repositories:
        raise KeyError
    if not rest:
        return 200, _tea_repository(server, at)
    if rest == ["forks"] and verb == "GET":
        mine = [one for one, values in server.repositories.items() if values["parent"] == at]
        return 200, [_tea_repository(server, one) for one in mine]
    if rest == ["forks"]:
        return 202, _tea_repository(server, server.fork(at))
    if rest == ["labels"]:
        known = server.repositories[at].setdefault("labels", [])
        if verb == "POST":
            known.append(data["name"])
            return 201, {"id": len(known), "name": data["name"]}
        return 200, [{"id": number, "name": name} for number, name in enumerate(known, 1)]
    if rest[0] == "commits":
        pull = next(one for one in reversed(server.pulls) if one.path == at and server.commit(one) == rest[1])
        word = {"passed": "success", "failed": "failure"}.get(pull.checks, pull.checks)
        return 200, {"state": word, "statuses": [{"status": word}] if word else []}
    if rest[0] == "issues":
        pull = server.pull(at, rest[1])
        if rest[2] == "labels":
            names = [server.repositories[at]["labels"][id - 1] for id in data["labels"]]
            pull.labels += [name for name in names if name not in pull.labels]
            return 200, []
        pull.comments.append(data["body"])
        return 201, {"id": 1}
    if rest == ["pulls"] and verb == "GET":
        return 200, [_tea_pull(server, one) for one in server.pulls if one.path == at]
    if rest == ["pulls"]:
        owner, colon, branch = data["head"].rpartition(":")
        head = f"{owner}/{at.rpartition('/')[2]}" if colon else at
        draft, title = data["title"].startswith("WIP: "), data["title"].removeprefix("WIP: ")
        made = server.create(at, head, branch, data["base"], title, data["body"], draft)
        if made is None:
            raise _Answer(409, {"message": "pull request already exists for these targets"})
        return 201, _tea_pull(server, made)
    pull = server.pull(at, rest[1])
    if rest[2:] == ["requested_reviewers"]:
        pull.reviewers += [name for name in data["reviewers"] if name not in pull.reviewers]
        return 201, []
    if rest[2:] == ["reviews"]:
        state = {"approved": "APPROVED", "refused": "REQUEST_CHANGES"}.get(pull.review)
        return 200, [{"id": 1, "state": state, "user": {"login": "boss"}}] if state else []
    if verb == "PATCH":
        if "title" in data:
            pull.draft = data["title"].startswith("WIP: ")
            data["title"] = data["title"].removeprefix("WIP: ")
        _edited(pull, data, "body", {"open": "open", "closed": "closed"}.get(data.get("state", "")))
        return 201, _tea_pull(server, pull)
    return 200, _tea_pull(server, pull)


def _tea_repository(server: Standin, path: str) -> dict[str, Any]:
    found = _hub_repository(server, path)
    found["updated_at"] = found.pop("pushed_at")
    return {**found, "owner": {"login": path.partition("/")[0]}}


def _tea_pull(server: Standin, pull: Pull) -> dict[str, Any]:
    found = _hub_pull(server, pull)
    del found["issue_url"]
    found["head"]["repo"] = _tea_repository(server, pull.head)
    return {**found, "merged": pull.state == "merged", "title": "WIP: " * pull.draft + pull.title}


_API: dict[str, Callable[..., tuple[int, Any]]] = {"github": _github, "gitlab": _gitlab, "gitea": _gitea}
