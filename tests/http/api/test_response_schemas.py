"""JSON schemas of record classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from staffbooking_core.representations.accounts import UserRecord
from staffbooking_core.representations.json_types import JsonSchema
from staffbooking_http.api.response_schemas import (
    COMPONENT_SCHEMAS,
    reply_schema,
    type_schema,
)


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(TypedDict):
    x: int
    label: NotRequired[str]


POINT_SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "label": {"type": "string"}},
    "required": ["x"],
}


@pytest.mark.parametrize(
    "kind, schema",
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (Decimal, {"type": "number"}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (Literal[Color.RED], {"const": "red"}),
        (Literal[True], {"const": True}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[Sequence[int]], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, object], {"type": "object"}),
        (Annotated[int, JsonSchema(minimum=1)], {"type": "integer", "minimum": 1}),
        (Annotated[Color, JsonSchema(enum=[Color.RED])], {"type": "string", "enum": ["red"]}),
        (Point, POINT_SCHEMA),
        (UserRecord, {"$ref": "#/components/schemas/User"}),
    ],
)
def test_a_type_has_a_schema(kind: Any, schema: Mapping[str, Any]) -> None:
    """A component class becomes a reference, and any other type its schema inline."""
    assert type_schema(kind) == schema


def test_later_keywords_replace_earlier_ones() -> None:
    """Keywords of a field replace those of its named type."""
    name = Annotated[str, JsonSchema(description="a name", minLength=1)]
    schema = type_schema(Annotated[name, JsonSchema(description="a first name")])
    assert schema == {"type": "string", "description": "a first name", "minLength": 1}


def test_a_reply_requires_each_of_its_fields() -> None:
    """A reply's schema requires each of its fields, with the schemas of their types."""
    schema = reply_schema(success=Literal[True], points=list[Point])
    assert schema["required"] == ["success", "points"]
    assert schema["properties"]["points"] == {"type": "array", "items": POINT_SCHEMA}


def test_every_component_is_an_object() -> None:
    """The schema of every component is an object, not a reference."""
    assert all(schema["type"] == "object" for schema in COMPONENT_SCHEMAS.values())
