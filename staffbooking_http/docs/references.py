"""Reading of an OpenAPI document whose parts refer to its components."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

_SCHEMAS = "#/components/schemas/"


def resolve(document: JsonObject, node: JsonObject) -> JsonObject:
    """What a node refers to, with the node's own fields in place of those of the target."""
    while "$ref" in node:
        target: Any = document
        for name in node["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        node = {**target, **{name: value for name, value in node.items() if name != "$ref"}}
    return node


def with_inlined_parts(document: JsonObject) -> JsonObject:
    """The document with its operations' parameters, bodies, responses and headers in place of the
    references to them, and what each needs; schemas stay components."""
    parts = {name: _inline(document, document[name]) for name in ("paths", "webhooks")}
    for methods in parts["paths"].values():
        for operation in methods.values():
            operation.setdefault("security", document.get("security", []))
    return {**document, **parts}


def _inline(document: JsonObject, node: Any) -> Any:
    if isinstance(node, list):
        return [_inline(document, each) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str) and not reference.startswith(_SCHEMAS):
        node = resolve(document, node)
    return {name: _inline(document, each) for name, each in node.items()}


def plain_schema(document: JsonObject, schema: JsonObject) -> JsonObject:
    """A schema without reference and `allOf`: the fields of all its parts."""
    schema = resolve(document, schema)
    merged = {name: value for name, value in schema.items() if name != "allOf"}
    for part in schema.get("allOf", ()):
        for name, value in plain_schema(document, part).items():
            if name == "properties":
                merged[name] = {**value, **merged.get(name, {})}
            elif name == "required":
                merged[name] = [*value, *merged.get(name, [])]
            else:
                merged.setdefault(name, value)
    return merged


def plain_document(document: JsonObject) -> JsonObject:
    """The document with each part in its place, bodies and components without `allOf`: what a
    page shows. The fields of bodies still refer to components."""
    parts = with_inlined_parts(document)
    for methods in parts["paths"].values():
        for operation in methods.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                media["schema"] = plain_schema(document, media["schema"])
    schemas = document["components"]["schemas"]
    plain = {name: plain_schema(document, schema) for name, schema in schemas.items()}
    return {**parts, "components": {**document["components"], "schemas": plain}}
