"""From the inputs of the core to JSON schemas: the bounds that the converter enforces."""

import types
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

import attrs

from staffbooking_adapters.inputs import Price
from staffbooking_core.inputs import Amount, Instant, Items, Left, Text, Whole
from staffbooking_http.api.response_schemas import (
    CLOCK,
    CLOCK_END,
    DATE,
    INSTANT,
    RELATIVE_PATH,
    Schema,
    choice,
    nullable,
)

_FORMS: dict[str, Schema] = {
    "email": {"format": "email"},
    "timezone": {"description": "IANA name of a timezone"},
    "country": {"pattern": "^[A-Za-z]{2}$", "description": "ISO 3166, two letters"},
    "clock": {"pattern": CLOCK["pattern"]},
    "webhook": {"format": "iri"},
    "clock_end": {"pattern": CLOCK_END["pattern"]},
    "image": RELATIVE_PATH,
    "listed": {"pattern": "^[^,]*$"},
}


def of_class(cls: type) -> Schema:
    """The schema of an input; null is the same as absent unless it is told, unknown fields are
    ignored."""
    fields = fields_of(cls)
    required = [name for name, (_, needed) in fields.items() if needed]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in fields.items()},
    }
    return {**schema, "required": required} if required else schema


def fields_of(cls: type) -> dict[str, tuple[Schema, bool]]:
    """Each field with its schema, and whether it is required."""
    attrs.resolve_types(cls)
    return {
        field.name: (_with_default(field), field.default is attrs.NOTHING)
        for field in attrs.fields(cls)
    }


def _with_default(field: "attrs.Attribute[Any]") -> Schema:
    schema = of_type(field.type)
    if isinstance(field.default, Left):
        return nullable(schema) if type(None) in get_args(field.type) else schema
    if field.default in (attrs.NOTHING, None):
        return schema
    return {**schema, "default": field.default}


def of_type(kind: Any) -> Schema:
    """The schema of a field's type."""
    if get_origin(kind) in (Union, types.UnionType):
        return of_type(next(one for one in get_args(kind) if one is not type(None)))
    if hasattr(kind, "__metadata__"):
        inner, bound = get_args(kind)[:2]
        return _bounded(inner, bound)
    if kind is bool:
        return {"type": "boolean"}
    if kind is date:
        return DATE
    if issubclass(kind, StrEnum):
        return choice(kind)
    return of_class(kind)


def _bounded(inner: Any, bound: Any) -> Schema:
    match bound:
        case Text():
            form = _FORMS.get(bound.form or "", {})
            return {"type": "string", "minLength": bound.min, "maxLength": bound.max, **form}
        case Whole():
            return {"type": "integer", "minimum": bound.ge, "maximum": bound.le}
        case Amount():
            above, most = _number(bound.gt), _number(bound.le)
            return {"type": "number", "exclusiveMinimum": above, "maximum": most}
        case Price():
            return {"type": "number", "minimum": 0, "maximum": _number(bound.le)}
        case Instant():
            return INSTANT
        case Items():
            return {
                "type": "array",
                "items": of_type(get_args(inner)[0]),
                "minItems": bound.min,
                "maxItems": bound.max,
                "uniqueItems": bound.unique,
            }
    raise TypeError(f"{bound} has no schema")


def _number(bound: Decimal) -> int | float:
    return int(bound) if bound == int(bound) else float(bound)
