"""The named schemas of a document, collected as its components."""

from collections.abc import Mapping
from typing import Any

from staffbooking_http.api.response_schemas import Schema
from staffbooking_http.docs.examples import with_example

_MIN_SHARED_FIELDS = 3
"""From how many fields on a schema is described as an extension of another."""


class Components:
    """The schemas of a document that have names."""

    def __init__(self) -> None:
        self._sources: dict[str, Schema] = {}
        self._schemas: dict[str, Schema] = {}

    @property
    def schemas(self) -> dict[str, Schema]:
        """The collected schemas by name, in alphabetical order. One that has all fields of another
        extends it."""
        return {name: self._extend(name) for name in sorted(self._schemas)}

    def refer(self, node: Any) -> Any:
        """The node with a reference in place of each schema within it that has a name. Raises
        ValueError where two different schemas have one name."""
        if isinstance(node, list):
            return [self.refer(each) for each in node]
        if not isinstance(node, Mapping):
            return node
        title = node.get("title")
        if not isinstance(title, str):
            return {name: self.refer(each) for name, each in node.items()}
        if title not in self._sources:
            self._sources[title] = node
            schema = {name: self.refer(each) for name, each in node.items() if name != "title"}
            if "properties" in schema:
                fields = schema["properties"].items()
                schema["properties"] = {name: with_example(name, each) for name, each in fields}
            self._schemas[title] = schema
        elif self._sources[title] != node:
            raise ValueError(f"two different schemas are called {title}")
        return {"$ref": f"#/components/schemas/{title}"}

    def _extend(self, name: str) -> Schema:
        schema = self._schemas[name]
        bases = [other for other, base in self._schemas.items() if _is_extended(base, schema)]
        if not bases:
            return schema
        base = max(bases, key=lambda other: (len(self._schemas[other]["properties"]), other))
        known = self._schemas[base]
        fields = {
            field: each
            for field, each in schema["properties"].items()
            if field not in known["properties"]
        }
        required = [field for field in schema["required"] if field not in known["required"]]
        more = {"type": "object", "properties": fields, "required": required}
        reference = {"$ref": f"#/components/schemas/{base}"}
        return {"allOf": [reference, {key: value for key, value in more.items() if value}]}


def _is_extended(base: Schema, schema: Schema) -> bool:
    """Whether a schema has all fields of another and more, and requires no less."""
    fields, more = base.get("properties", {}), schema.get("properties", {})
    return (
        _MIN_SHARED_FIELDS <= len(fields) < len(more)
        and set(base.get("required", ())) <= set(schema.get("required", ()))
        and all(name in more and more[name] == field for name, field in fields.items())
    )
