"""The published document: where requests of every operation come from, and what answers are
held to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx
import jsonschema_rs
from attrs import field, frozen

from staffbooking_http.api.response_schemas import CLOCK, CLOCK_END

DIALECT = "https://json-schema.org/draft/2020-12/schema"
HOSTED_PAGES = ("/sandbox/checkout/", "/sandbox/payees/")
"""Of the pretended processor: whatever else is wrong, there is none of that name."""

Place = tuple[str | int, ...]
"""Of a value in a body: names and indices on the way to it."""


@frozen(eq=False, slots=False)
class Operation:
    """What can be asked for at one path by one method."""

    method: str
    path: str
    described: dict[str, Any] = field(repr=False)

    @cached_property
    def body(self) -> Any:
        """A body of JSON with every field, each well-formed; None where there is none."""
        schema = self._media("application/json")
        return None if schema is None else plain(schema)

    @property
    def queries(self) -> list[dict[str, Any]]:
        return [one for one in self.described.get("parameters", ()) if one["in"] == "query"]

    @property
    def takes_key(self) -> bool:
        return any("key" in way for way in self.described["security"])

    @property
    def takes_session(self) -> bool:
        return any("session" in way for way in self.described["security"])

    def _media(self, media: str) -> Any:
        content = self.described.get("requestBody", {}).get("content", {})
        return content.get(media, {}).get("schema")


class Document:
    """The document of a deployment."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.operations = [
            Operation(method.upper(), path, described)
            for path, methods in content["paths"].items()
            for method, described in methods.items()
            if not path.startswith(HOSTED_PAGES)
        ]
        self._validators: dict[tuple[Operation, int], Any] = {}

    def judge(self, operation: Operation, answer: httpx.Response) -> None:
        """Fail where the document doesn't allow an answer, and where it is a fault of ours."""
        assert answer.status_code < 500, answer.text
        replies = operation.described["responses"]
        assert str(answer.status_code) in replies, (answer.status_code, answer.text)
        reply = replies[str(answer.status_code)]
        assert all(name.lower() in answer.headers for name in reply.get("headers", ()))
        if "application/json" in reply.get("content", ()):
            self._validator(operation, answer.status_code).validate(answer.json())
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/json"
            assert answer.json()["code"] in self.content["x-codes"]

    def _validator(self, operation: Operation, status: int) -> Any:
        if (known := self._validators.get((operation, status))) is None:
            reply = operation.described["responses"][str(status)]
            schema = reply["content"]["application/json"]["schema"]
            known = self._validators[operation, status] = jsonschema_rs.validator_for(
                {"$schema": DIALECT, "components": self.content["components"], **schema},
                validate_formats=True,
            )
        return known


# Well-formed values ---------------------------------------------------------------------

_BY_PATTERN = {
    CLOCK["pattern"]: "10:00",
    CLOCK_END["pattern"]: "12:00",
    "^[A-Za-z]{2}$": "PT",
}
_BY_FORMAT = {
    "date": "2027-03-03",
    "date-time": "2030-01-01T00:00:00Z",
    "email": "nobody@example.com",
    "iri": "https://hooks.example.com/in",
}


def plain(schema: dict[str, Any]) -> Any:
    """A value that is as a schema has it: an object with all of its fields."""
    if "anyOf" in schema:
        return plain(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "object":
            return {name: plain(inner) for name, inner in schema["properties"].items()}
        case "array":
            return [plain(schema["items"])]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    if "IANA" in schema.get("description", ""):
        return "UTC"
    known = _BY_FORMAT.get(schema.get("format", "")) or _BY_PATTERN.get(schema.get("pattern", ""))
    return known or "x" * max(1, schema.get("minLength", 1))


def places(body: Any, above: Place = ()) -> Iterator[Place]:
    """Every place of a value in a body, but the body's own."""
    inner = body.items() if isinstance(body, dict) else enumerate(body)
    for key, value in inner:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from places(value, (*above, key))


def put(body: Any, place: Place, value: Any) -> Any:
    """The body with another value at that place."""
    made = node = json.loads(json.dumps(body))
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return made


def parameters(path: str) -> list[str]:
    """The names of a path's parameters, in their order."""
    return re.findall(r"{(\w+)}", path)
