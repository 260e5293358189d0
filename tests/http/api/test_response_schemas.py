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
    component_name,
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
    "title": "Point",
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
        (Color, {"title": "Color", "type": "string", "enum": ["red", "blue"]}),
        (Literal[Color.RED], {"const": "red"}),
        (Literal[True], {"const": True}),
        (int | None, {"type": ["integer", "null"]}),
        (Point | None, {"anyOf": [POINT_SCHEMA, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (AsyncIterator[Sequence[int]], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, object], {"type": "object"}),
        (Annotated[int, JsonSchema(minimum=1)], {"type": "integer", "minimum": 1}),
        (Annotated[Color, JsonSchema(enum=[Color.RED])], {"type": "string", "enum": ["red"]}),
        (Point, POINT_SCHEMA),
    ],
)
def test_a_type_has_a_schema(kind: Any, schema: Mapping[str, Any]) -> None:
    """A type has its schema, and a class its name as the title."""
    assert type_schema(kind) == schema


def test_later_keywords_replace_earlier_ones() -> None:
    """Keywords of a field replace those of its named type."""
    name = Annotated[str, JsonSchema(description="a name", minLength=1)]
    schema = type_schema(Annotated[name, JsonSchema(description="a first name")])
    assert schema == {"type": "string", "description": "a first name", "minLength": 1}


def test_a_reply_requires_each_of_its_fields() -> None:
    """A reply's schema requires each of its fields, with the schemas of their types."""
    schema = reply_schema("Reply", success=Literal[True], points=list[Point])
    assert schema["title"] == "Reply"
    assert schema["required"] == ["success", "points"]
    assert schema["properties"]["points"] == {"type": "array", "items": POINT_SCHEMA}


def test_a_name_is_that_of_the_class() -> None:
    """The published name of a record is that of its class without `Record`."""
    assert type_schema(UserRecord)["title"] == component_name(UserRecord) == "User"


def test_a_name_stays_with_its_schema() -> None:
    """A keyword beside a named schema leaves it as it is; one that replaces its own unnames it."""
    named = Annotated[Color, JsonSchema(description="the color")]
    assert type_schema(named) == {"allOf": [type_schema(Color)], "description": "the color"}
    assert "title" not in type_schema(Annotated[Color, JsonSchema(enum=[Color.RED])])
    renamed = Annotated[Color, JsonSchema(title="Warm", enum=[Color.RED])]
    assert type_schema(renamed)["title"] == "Warm"
