"""JSON schemas of the core's input classes, with the bounds that the converter enforces."""

import types
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

import attrs

from staffbooking_adapters.inputs import QueryDate, QueryPriceBound
from staffbooking_core.bounds import (
    AmountBounds,
    IntegerBounds,
    ListBounds,
    TextBounds,
    Unset,
    UtcInstant,
)
from staffbooking_core.representations.json_types import (
    ClockEndTime,
    ClockTime,
    Date,
    ImagePath,
)
from staffbooking_http.api.response_schemas import (
    Schema,
    enum_schema,
    extended_schema,
    nullable_schema,
    type_schema,
)


def _keywords_of(kind: Any) -> Schema:
    """The schema of a named type, without its name: an input has bounds of its own."""
    return {name: value for name, value in type_schema(kind).items() if name != "title"}


_FORM_KEYWORDS: dict[str, Schema] = {
    "email": {"format": "email"},
    "timezone": {"description": "IANA name of a timezone", "examples": ["Europe/Lisbon"]},
    "country": {
        "pattern": "^[A-Za-z]{2}$",
        "examples": ["PT"],
        "description": "ISO 3166, two letters",
    },
    "clock": _keywords_of(ClockTime),
    "webhook": {"format": "iri"},
    "clock_end": _keywords_of(ClockEndTime),
    "image": _keywords_of(ImagePath),
    "listed": {"pattern": "^[^,]*$"},
}


def class_schema(cls: type, title: str = "") -> Schema:
    """Return the schema of an input class, with a name if it is given one. Unknown fields are
    allowed. Null equals absent unless the input class distinguishes them."""
    fields = field_schemas(cls)
    required = [name for name, (_, needed) in fields.items() if needed]
    schema: dict[str, Any] = {
        **({"title": title} if title else {}),
        "type": "object",
        "properties": {name: schema for name, (schema, _) in fields.items()},
    }
    return {**schema, "required": required} if required else schema


def field_schemas(cls: type) -> dict[str, tuple[Schema, bool]]:
    """Return each field's schema, and whether it is required."""
    attrs.resolve_types(cls)
    return {
        field.name: (_field_schema(field), field.default is attrs.NOTHING)
        for field in attrs.fields(cls)
    }


def _field_schema(field: "attrs.Attribute[Any]") -> Schema:
    schema = _input_schema(field.type)
    if isinstance(field.default, Unset):
        return nullable_schema(schema) if type(None) in get_args(field.type) else schema
    if field.default in (attrs.NOTHING, None):
        return schema
    return extended_schema(schema, {"default": field.default})


def _input_schema(kind: Any) -> Schema:
    if get_origin(kind) in (Union, types.UnionType):
        return _input_schema(next(one for one in get_args(kind) if one is not type(None)))
    if hasattr(kind, "__metadata__"):
        inner, bound = get_args(kind)[:2]
        return _bounded_schema(inner, bound)
    if kind is bool:
        return {"type": "boolean"}
    if kind is date:
        return type_schema(Date)
    if issubclass(kind, StrEnum):
        return enum_schema(kind)
    return class_schema(kind, f"{kind.__name__}Input")


def _bounded_schema(inner: Any, bound: Any) -> Schema:
    match bound:
        case TextBounds():
            form = _FORM_KEYWORDS.get(bound.form or "", {})
            return {"type": "string", "minLength": bound.min, "maxLength": bound.max, **form}
        case IntegerBounds():
            return {"type": "integer", "minimum": bound.ge, "maximum": bound.le}
        case AmountBounds():
            above, most = _to_json_number(bound.gt), _to_json_number(bound.le)
            return {"type": "number", "exclusiveMinimum": above, "maximum": most}
        case QueryPriceBound():
            return {"type": "number", "minimum": 0}
        case QueryDate():
            return {"type": "string", "format": "date"}
        case UtcInstant():
            return {"type": "string", "format": "date-time"}
        case ListBounds():
            return {
                "type": "array",
                "items": _input_schema(get_args(inner)[0]),
                "minItems": bound.min,
                "maxItems": bound.max,
                "uniqueItems": bound.unique,
            }
    raise TypeError(f"{bound} has no schema")


def _to_json_number(bound: Decimal) -> int | float:
    return int(bound) if bound == int(bound) else float(bound)
