"""The OpenAPI document is fit for generators of clients: named shapes, examples, a small size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from staffbooking_adapters import codec
from staffbooking_core.policy import Policy
from staffbooking_http.docs import openapi
from staffbooking_http.docs.components import Components
from staffbooking_http.docs.examples import TEXTS, example_of
from staffbooking_http.docs.openapi import build_document
from staffbooking_http.docs.references import plain_schema, with_inlined_parts
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.docs.openapi_validation import operations, validator

MAX_BYTES = 180_000
DOCUMENT = build_document({**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG}, Policy())
INLINED = with_inlined_parts(DOCUMENT)
OPERATIONS = {operation["operationId"]: operation for _, _, operation in operations(INLINED)}
EVENTS = {name: item["post"] for name, item in INLINED["webhooks"].items()}


def json_schemas(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of all JSON bodies and answers of an operation."""
    for part in (operation.get("requestBody", {}), *operation["responses"].values()):
        if (media := part.get("content", {}).get("application/json")) is not None:
            yield media["schema"]


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every object within a node."""
    for each in node.values() if isinstance(node, dict) else node:
        if isinstance(each, dict):
            yield each
        if isinstance(each, dict | list):
            yield from nodes(each)


def test_the_document_is_small() -> None:
    """As a deployment without the sandbox serves it, the document has less than 180 KB."""
    assert len(codec.encode(build_document(ENDPOINTS_BY_TAG, Policy()))) < MAX_BYTES


@pytest.mark.parametrize("name", OPERATIONS)
def test_bodies_and_answers_have_names(name: str) -> None:
    """The JSON body and the JSON answers of an operation are components, or one of several."""
    for schema in json_schemas(OPERATIONS[name]):
        options = schema.get("anyOf", [schema])
        assert all("$ref" in each for each in options) or schema == {"type": "object"}


def test_operations_have_human_names() -> None:
    """Operation ids, of events too, are unique and in camel case, without paths and methods."""
    names = [*OPERATIONS, *(event["operationId"] for event in EVENTS.values())]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)*", name) for name in names)
    assert not [name for name in names if re.match("(get|post|put|patch|delete)(Api|Auth)V1", name)]


def test_an_enumeration_is_written_once() -> None:
    """The values of an enumeration are in a component of its own, and nowhere else."""
    for schema in DOCUMENT["components"]["schemas"].values():
        assert not [each for each in nodes(schema) if "enum" in each]
    parts = (DOCUMENT["paths"], DOCUMENT["webhooks"], DOCUMENT["components"]["parameters"])
    assert not [each for part in parts for each in nodes(part) if "enum" in each]


def test_component_names_are_words() -> None:
    """The names of components are letters alone, which every generator takes as they are."""
    for kind, components in DOCUMENT["components"].items():
        if kind != "securitySchemes":
            assert all(re.fullmatch("([A-Z][a-z]*)+[0-9]*", name) for name in components), kind


def test_two_schemas_of_one_name_are_refused() -> None:
    """Two different schemas of the same name are an error."""
    components = Components()
    components.refer({"title": "Name", "type": "string"})
    with pytest.raises(ValueError, match="called Name"):
        components.refer({"title": "Name", "type": "integer"})


def test_a_schema_extends_another() -> None:
    """A schema with all fields of another refers to it, and describes its own fields alone."""
    extended = DOCUMENT["components"]["schemas"]["AdminCompanion"]
    reference, own = extended["allOf"]
    assert reference == {"$ref": "#/components/schemas/Profile"}
    assert own["required"] == list(own["properties"]) == ["email"]


def test_the_document_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application makes its document at the first request for it, and once."""
    made: list[object] = []

    def build(*given: object) -> dict[str, Any]:
        made.append(given)
        return {}

    monkeypatch.setattr(openapi, "build_document", build)
    served = openapi.ServedDocument(ENDPOINTS_BY_TAG, Policy())
    assert made == []
    assert (served.encode(), served.encode()) == (b"{}", b"{}")
    assert len(made) == 1


# Examples -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*OPERATIONS, *EVENTS])
def test_every_call_has_valid_examples(name: str) -> None:
    """The examples of each JSON body, answer and event satisfy their schemas."""
    operation = OPERATIONS.get(name) or EVENTS[name]
    for schema in json_schemas(operation):
        validator(DOCUMENT, schema).validate(example_of(DOCUMENT, schema))


def test_every_text_has_an_example() -> None:
    """Each field that is a text without further format has an example, and no example is of a
    field that there is not."""
    used, lacking = set(), set()
    for title, schema in DOCUMENT["components"]["schemas"].items():
        for name, field in plain_schema(DOCUMENT, schema).get("properties", {}).items():
            found = plain_schema(DOCUMENT, field)
            found = plain_schema(DOCUMENT, found.get("items", found))
            if found.get("type") == "string" and not found.keys() & {"enum", "format", "const"}:
                used |= {name} & TEXTS.keys()
                lacking |= {(title, name)} if "examples" not in found else set()
    for operation in OPERATIONS.values():
        used |= {each["name"] for each in operation.get("parameters", ())}
    assert lacking == set()
    assert TEXTS.keys() - used == set()


def test_parameters_of_a_path_have_examples() -> None:
    """Each text in a path has an example."""
    for operation in OPERATIONS.values():
        for each in operation.get("parameters", ()):
            schema = plain_schema(DOCUMENT, each["schema"])
            if each["in"] == "path" and schema["type"] == "string":
                assert "examples" in schema, operation["operationId"]


def test_the_document_is_the_same_each_time() -> None:
    """Two documents of one policy are equal to the byte."""
    again = build_document({**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG}, Policy())
    assert codec.encode(again) == codec.encode(DOCUMENT)
