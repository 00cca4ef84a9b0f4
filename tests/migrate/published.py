"""What the servers' own OpenAPI descriptions say of the routes that devfix uses, and what in the stand-in's traffic
differs from it. `published.json` has facts only: names, types and status codes.

    python tests/migrate/published.py github api.github.com.json     # writes them anew from a description

Where the descriptions are from stands in `published.json`. Of several, each route is of the first that has it; one that
none has stays as it is. GitLab's answers are put together by hand, since its older description has wrong types and its
newer one does not say what may be null; its routes that name no failure may have any of its `failures`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("published.json")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "object": (dict,),
    "array": (list,), "null": (type(None),),
}  # fmt: skip
_DEPTH = 3  # of objects in an answer: repository, head.repo, head.repo.permissions


def wrong(
    kind: str, verb: str, path: str, query: Mapping[str, str], data: Any, status: int, found: Any
) -> list[str]:
    """What in a request and its answer is not as published."""
    routes, failures = _PUBLISHED[kind]["routes"], _PUBLISHED[kind].get("failures", ())
    fitting = [route for name, route in routes.items() if _fits(name, f"{verb} {path}")]
    if not fitting:
        return [f"{verb} {path}: there is no such route"]
    route = fitting[0]
    said = [f"there is no parameter {name}" for name in query if name not in route["query"]]
    given = {**query, **(data if isinstance(data, dict) else {})}
    values = route.get("values", {})
    said += [f"{name} cannot be {one}" for name, one in given.items() if one not in values.get(name, (one,))]
    if isinstance(data, dict):
        said += [f"{name} is missing" for name in route["required"] if name not in data]
        said += _differs(data, route["body"], "in the request, ")
    if status < 300 and str(status) in route["answers"]:
        said += _differs(found, route["answers"][str(status)], "in the answer, ")
    elif str(status) not in (*route["answers"], *(failures if max(route["answers"]) < "3" else ())):
        said.append(f"{status} is no answer")
    return [f"{verb} {path}: {one}" for one in said]


def _fits(template: str, request: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", r"[^/]+", re.escape(template)).replace(r"\(\-/\)", "(-/)?")
    return re.fullmatch(pattern, request) is not None


def _differs(value: Any, shape: Any, where: str) -> Iterator[str]:
    """A shape is a list of types, or of those and one object with the shapes of fields (`*` is any), or [[shape]] for a
    list."""
    if shape is None:
        return
    types = [one for one in shape if isinstance(one, str)]
    fields = next((one for one in shape if isinstance(one, dict)), None)
    items = next((one for one in shape if isinstance(one, list)), None)
    allowed = [*types, *(["object"] if fields is not None else []), *(["array"] if items is not None else [])]
    if allowed and not isinstance(value, tuple(kind for name in allowed for kind in _TYPES[name])):
        yield f"{where}a {type(value).__name__}, not {' or '.join(allowed)}"
    elif isinstance(value, dict) and fields is not None:
        for name, one in value.items():
            if name not in fields and "*" not in fields:
                yield f"{where}there is no {name}"
            else:
                yield from _differs(one, fields.get(name, fields.get("*")), f"{where}{name}: ")
    elif isinstance(value, list) and items is not None:
        for one in value:
            yield from _differs(one, items, where)


# --- from a description ----------------------------------------------------------------------------------------


def facts(description: dict[str, Any], names: list[str], prefix: str, kept: list[str]) -> dict[str, Any]:
    """Of each route: parameters, fields of the body (and which are required), the values of those that have a list of
    them, and of each answer the fields of `kept`."""
    found = {}
    for name in names:
        verb, path = name.split(" ", 1)
        route = description["paths"].get(prefix + path, {})
        if verb.lower() not in route:
            continue
        one = route[verb.lower()]
        given = [
            _resolved(description, p) for p in (*route.get("parameters", ()), *one.get("parameters", ()))
        ]
        body: Any = {}
        if "requestBody" in one:
            content = _resolved(description, one["requestBody"])["content"]
            body = content["application/json"].get("schema", {})
        for parameter in given:
            body = parameter["schema"] if parameter["in"] == "body" else body
        shape = _shape(description, body, 1, None) if body else None
        of_body = _merged(description, body)
        lists = {p["name"]: {**p, **p.get("schema", {})}.get("enum") for p in given if p["in"] == "query"}
        lists |= {
            field: _resolved(description, one).get("enum") for field, one in of_body["properties"].items()
        }
        found[name] = {
            "query": sorted(p["name"] for p in given if p["in"] == "query"),
            "body": shape,
            "required": sorted(of_body.get("required", ())),
            "values": {field: values for field, values in lists.items() if values},
            "answers": {
                status: _answer(description, answer, kept) if status < "300" else None
                for status, answer in one["responses"].items()
            },
        }
    return found


def _answer(description: dict[str, Any], answer: Any, kept: list[str]) -> Any:
    answer = _resolved(description, answer)
    content = answer.get("content", {}).get("application/json", answer)
    return _shape(description, content["schema"], _DEPTH, kept) if "schema" in content else None


def _resolved(description: dict[str, Any], value: Any) -> Any:
    while "$ref" in value:
        at: Any = description
        for part in value["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        value = at
    return value


def _merged(description: dict[str, Any], schema: Any) -> dict[str, Any]:
    """A schema with all that `allOf` and its alternatives add."""
    schema = _resolved(description, schema)
    made = {**schema, "properties": dict(schema.get("properties", {}))}
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, ()):
            other = _merged(description, part)
            made["properties"] |= other["properties"]
            made.setdefault("types", set()).update(_types(other))
            made.setdefault("items", other["items"]) if "items" in other else None
    return made


def _types(schema: dict[str, Any]) -> set[str]:
    kind = schema.get("type", "object" if schema["properties"] else "")
    found = {*kind} if isinstance(kind, list) else {kind} if kind else set()
    if schema.get("nullable") or schema.get("x-nullable"):
        found.add("null")
    return found | schema.get("types", set())


def _shape(description: dict[str, Any], schema: Any, depth: int, kept: list[str] | None) -> Any:
    schema = _merged(description, schema)
    shape: list[Any] = sorted(_types(schema) - {"file"})
    if "swagger" in description and (shape or "items" in schema):
        shape.append("null")  # Swagger 2.0 has no word for it
    if schema["properties"] and depth:
        wanted = sorted(name for name in schema["properties"] if kept is None or name in kept)
        fields = {name: _shape(description, schema["properties"][name], depth - 1, kept) for name in wanted}
        shape = [*(one for one in shape if one != "object"), fields]
    if "items" in schema:
        shape = [one for one in shape if one != "array"]
        shape.append(_shape(description, schema["items"], depth, kept))
    return shape


_PUBLISHED: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}


def main(kind: str, *paths: str) -> None:
    own = _PUBLISHED[kind]
    for path in reversed(paths):
        text = Path(path).read_text()
        if path.endswith(".json"):
            description = json.loads(text)
        else:
            import yaml

            description = yaml.safe_load(text)
        own["routes"] |= facts(description, list(own["routes"]), own["prefix"], own["fields"])
    text = json.dumps(_PUBLISHED)  # a line for each route
    begins = r'(?="(?:(?:GET|POST|PATCH|PUT) /|(?:github|gitlab|gitea|fields|routes)":))'
    FILE.write_text(re.sub(begins, "\n", text) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
