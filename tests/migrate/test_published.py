"""What the stand-in does is compared with what the servers publish: these differences are seen."""

from __future__ import annotations

import pytest
from published import wrong

PULL = {
    "number": 1,
    "html_url": "https://x",
    "state": "open",
    "title": "t",
    "draft": False,
    "head": {"sha": "0" * 40},
}
PROPOSED = {"title": "t", "head": "o:b", "base": "main"}


@pytest.mark.parametrize(
    ("kind", "verb", "path", "query", "data", "status", "found", "said"),
    [
        ("github", "POST", "/repos/o/r/pulls", {}, PROPOSED, 201, PULL, ""),
        ("github", "POST", "/repos/o/r/pull", {}, PROPOSED, 201, PULL, "there is no such route"),
        ("github", "POST", "/repos/o/r/pulls", {}, {"title": "t", "base": "main"}, 201, PULL, "head is missing"),
        ("github", "POST", "/repos/o/r/pulls", {}, {**PROPOSED, "label": "x"}, 201, PULL, "there is no label"),
        ("github", "POST", "/repos/o/r/pulls", {}, PROPOSED, 409, {}, "409 is no answer"),
        ("github", "GET", "/repos/o/r/pulls", {"status": "all"}, None, 200, [PULL], "there is no parameter status"),
        ("github", "GET", "/repos/o/r/pulls", {}, None, 200, PULL, "in the answer, a dict, not array"),
        ("github", "GET", "/repos/o/r/pulls", {}, None, 200, [{**PULL, "iid": 1}], "in the answer, there is no iid"),
        ("gitea", "GET", "/repos/o/r/pulls/1", {}, None, 200, {**PULL, "number": "1"}, "number: a str"),
        ("gitlab", "POST", "/projects/o%2Fr/merge_requests", {}, {"title": "t"}, 201, {}, "source_branch is missing"),
        ("gitlab", "GET", "/groups/o/projects", {"with_programming_language": "C"}, None, 200, [], "there is no param"),
        ("gitlab", "GET", "/groups/o/projects", {}, None, 200, [{"permissions": {}}], "there is no permissions"),
        ("gitlab", "GET", "/groups/o/search", {"scope": "blobs"}, None, 200, [{"project_id": 1}], ""),
        ("gitlab", "GET", "/groups/o/search", {"scope": "blobs"}, None, 200, [{"project_id": "1"}], "id: a str"),
        ("gitlab", "GET", "/groups/o/search", {"scope": "code"}, None, 200, [], "scope cannot be code"),
        ("gitlab", "PUT", "/projects/1/merge_requests/1", {}, {"state_event": "open"}, 200, {}, "cannot be open"),
        ("gitlab", "GET", "/groups/o", {}, None, 404, {}, ""),
        ("gitlab", "GET", "/groups/o", {}, None, 418, {}, "418 is no answer"),
        ("gitlab", "GET", "/projects/1/languages", {}, None, 200, {"C": 99.5, "Shell": 0.5}, ""),
        ("gitlab", "GET", "/projects/1/languages", {}, None, 200, {"C": "99.5"}, "C: a str, not number"),
        ("gitlab", "POST", "/projects/1/merge_requests/1/notes", {}, {}, 201, {"id": 1}, "body is missing"),
        ("gitlab", "GET", "/projects/1/merge_requests/1/approvals", {}, None, 409, {}, "409 is no answer"),
        ("gitlab", "GET", "/projects/1/merge_requests", {}, None, 200, [{"draft": True, "iid": "1"}], "iid: a str"),
        ("gitlab", "GET", "/projects/1/merge_requests", {}, None, 200, [{"draft": "true", "iid": 1}], "draft: a str"),
        ("gitlab", "GET", "/projects/1/merge_requests", {}, None, 200, {"iid": 1}, "a dict, not array"),
        ("gitlab", "GET", "/projects/1/merge_requests/1", {}, None, 200, {"head_pipeline": None, "sha": None}, ""),
        ("gitlab", "GET", "/projects/1/nowhere", {}, None, 404, {}, "there is no such route"),
    ],
)  # fmt: skip
def test_differences_are_seen(
    kind: str,
    verb: str,
    path: str,
    query: dict[str, str],
    data: object,
    status: int,
    found: object,
    said: str,
) -> None:
    seen = wrong(kind, verb, path, query, data, status, found)
    assert any(said in one for one in seen) if said else not seen, seen
