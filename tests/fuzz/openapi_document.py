"""The published OpenAPI document: the source of valid requests, and the check of responses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import httpx
import jsonschema_rs
from attrs import field, frozen

from staffbooking_core.representations.json_types import ClockEndTime, ClockTime
from staffbooking_http.api.error_codes import STATUSES_BY_CODE
from staffbooking_http.api.response_schemas import type_schema
from staffbooking_http.docs.references import plain_schema, with_inlined_parts
from tests.support.openapi_replies import reply_of

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
HOSTED_PAGE_PREFIXES = ("/sandbox/checkout/", "/sandbox/payees/")
"""Pages of the fake processor, which are 404 for unknown names whatever else is invalid."""

JsonPath = tuple[str | int, ...]
"""The names and indices that lead to a value in a body."""


@frozen(eq=False, slots=False)
class ApiOperation:
    """One method of one path."""

    method: str
    path: str
    description: dict[str, Any] = field(repr=False)
    document: dict[str, Any] = field(repr=False)

    @cached_property
    def body(self) -> Any:
        """A valid JSON body with every field, or None without a body."""
        schema = self._media("application/json")
        return None if schema is None else make_valid_value(self.document, schema)

    @property
    def queries(self) -> list[dict[str, Any]]:
        return [one for one in self.description.get("parameters", ()) if one["in"] == "query"]

    @property
    def takes_key(self) -> bool:
        return any("key" in way for way in self.description["security"])

    @property
    def takes_session(self) -> bool:
        return any("session" in way for way in self.description["security"])

    def _media(self, media: str) -> Any:
        content = self.description.get("requestBody", {}).get("content", {})
        return content.get(media, {}).get("schema")


class ApiDocument:
    """The OpenAPI document of a deployment."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content = with_inlined_parts(content)
        self.operations = [
            ApiOperation(method.upper(), path, described, content)
            for path, methods in content["paths"].items()
            for method, described in methods.items()
            if not path.startswith(HOSTED_PAGE_PREFIXES)
        ]
        self._validators: dict[tuple[ApiOperation, int], Any] = {}

    def check_response(self, operation: ApiOperation, answer: httpx.Response) -> None:
        """Fail for a response that the document does not allow, and for a 5xx status."""
        assert answer.status_code < 500, answer.text
        reply = reply_of(operation.description, answer.status_code)
        for name, header in reply.get("headers", {}).items():
            assert name.lower() in answer.headers or not header.get("required", True)
        if "application/json" in reply.get("content", ()):
            self._validator(operation, answer.status_code).validate(answer.json())
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/json"
            assert STATUSES_BY_CODE[answer.json()["code"]] == answer.status_code

    def _validator(self, operation: ApiOperation, status: int) -> Any:
        if (known := self._validators.get((operation, status))) is None:
            reply = reply_of(operation.description, status)
            schema = reply["content"]["application/json"]["schema"]
            known = self._validators[operation, status] = jsonschema_rs.validator_for(
                {
                    "$schema": JSON_SCHEMA_DIALECT,
                    "components": self.content["components"],
                    **schema,
                },
                validate_formats=True,
            )
        return known


# Valid values ---------------------------------------------------------------------------

_EXAMPLES_BY_PATTERN = {
    type_schema(ClockTime)["pattern"]: "10:00",
    type_schema(ClockEndTime)["pattern"]: "12:00",
    "^[A-Za-z]{2}$": "PT",
}
_EXAMPLES_BY_FORMAT = {
    "date": "2027-03-03",
    "date-time": "2030-01-01T00:00:00Z",
    "email": "nobody@example.com",
    "iri": "https://hooks.example.com/in",
}


def make_valid_value(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """A value that satisfies a schema; an object has all of its fields."""
    schema = plain_schema(document, schema)
    if "anyOf" in schema:
        return make_valid_value(document, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case [kind, "null"]:
            return make_valid_value(document, {**schema, "type": kind})
        case "object":
            fields = schema["properties"].items()
            return {name: make_valid_value(document, inner) for name, inner in fields}
        case "array":
            return [make_valid_value(document, schema["items"])]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    if "IANA" in schema.get("description", ""):
        return "UTC"
    known = _EXAMPLES_BY_FORMAT.get(schema.get("format", "")) or _EXAMPLES_BY_PATTERN.get(
        schema.get("pattern", "")
    )
    return known or "x" * max(1, schema.get("minLength", 1))


def json_paths(body: Any, above: JsonPath = ()) -> Iterator[JsonPath]:
    """The paths of all values within a body."""
    inner = body.items() if isinstance(body, dict) else enumerate(body)
    for key, value in inner:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from json_paths(value, (*above, key))


def replace_at(body: Any, place: JsonPath, value: Any) -> Any:
    """A copy of the body with another value at a path."""
    made = node = json.loads(json.dumps(body))
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return made


def path_parameters(path: str) -> list[str]:
    """The names of a path's parameters, in their order."""
    return re.findall(r"{(\w+)}", path)
