"""JSON schemas of responses, derived from the record classes of the core.

Every record and enumeration has a name, as its `title`. The documents collect what is named as
their components (`docs.components`).
"""

import types
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from staffbooking_core.representations.json_types import JsonSchema

Schema: TypeAlias = Mapping[str, Any]

_PRIMITIVE_TYPES = {
    str: "string",
    int: "integer",
    bool: "boolean",
    Decimal: "number",
    type(None): "null",
}


def type_schema(kind: Any) -> Schema:
    """The schema of a type: of a field of a record, or of a record itself."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated_schema(*arguments)
    if origin is Literal:
        [value] = arguments
        return {"const": _plain_value(value)}
    if origin in (Union, types.UnionType):
        forms = [type_schema(each) for each in arguments]
        return nullable_schema(forms[0]) if arguments[1:] == (type(None),) else {"anyOf": forms}
    if origin in (list, Sequence):
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is AsyncIterator:  # `codec.iterate_json` writes its pages as one list.
        return type_schema(arguments[0])
    if origin is Mapping:
        return {"type": "object"}
    if kind in _PRIMITIVE_TYPES:
        return {"type": _PRIMITIVE_TYPES[kind]}
    return enum_schema(kind) if issubclass(kind, Enum) else _record_schema(kind)


def _annotated_schema(inner: Any, *metadata: JsonSchema) -> Schema:
    schema = type_schema(inner)
    for each in metadata:
        keywords = {name: _plain_value(value) for name, value in each.keywords.items()}
        schema = extended_schema(schema, keywords)
    return schema


def extended_schema(schema: Schema, keywords: Schema) -> Schema:
    """A schema with more keywords. One that has a name keeps it, unless they replace its own."""
    if "title" not in schema or "title" in keywords:
        return {**schema, **keywords}
    if schema.keys() & keywords.keys():
        return {name: value for name, value in {**schema, **keywords}.items() if name != "title"}
    return {"allOf": [schema], **keywords}


def _plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_value(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def component_name(record: type) -> str:
    """The published name of a class."""
    return record.__name__.lstrip("_").removesuffix("Record")


@cache
def _record_schema(record: type) -> Schema:
    """An object with the fields of a record class; fields may be added to it later."""
    required: dict[str, Schema] = {}
    optional: dict[str, Schema] = {}
    for name, kind in get_type_hints(record, include_extras=True).items():
        if get_origin(kind) is NotRequired:
            optional[name] = type_schema(get_args(kind)[0])
        else:
            required[name] = type_schema(kind)
    return {"title": component_name(record), **object_schema(required, optional)}


@cache
def enum_schema(members: type[Enum]) -> Schema:
    """A string that is one of the values of an enumeration."""
    values = [str(member.value) for member in members]
    return {"title": component_name(members), "type": "string", "enum": values}


def reply_schema(title: str, /, **fields: Any) -> Schema:
    """An object with fields of these types, and the name that the documents give it."""
    return {"title": title, **object_schema({n: type_schema(kind) for n, kind in fields.items()})}


def nullable_schema(schema: Schema) -> Schema:
    """The schema, or null."""
    kind = schema.get("type")
    if not isinstance(kind, str) or schema.keys() & {"enum", "properties"}:
        return {"anyOf": [schema, {"type": "null"}]}
    name = {"title": f"{schema['title']}OrNull"} if "title" in schema else {}
    return {**schema, "type": [kind, "null"], **name}


def object_schema(
    fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object with required and optional fields; more may be added later."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }


PAGE_SCHEMA = reply_schema("Page", page=int, limit=int, has_more=bool)
"""What every page of a list has besides its items."""
