"""Compares an OpenAPI document with the recorded one: nothing published is taken away or changed
within v1 (CONTRACT 10, docs/compatibility.md).

    .venv/bin/python -m tests.http.docs.compatibility

records the present document, after all of it was found compatible with the recorded one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from staffbooking_core.policy import Policy
from staffbooking_http.docs.openapi import build_document
from staffbooking_http.docs.references import plain_schema, with_inlined_parts
from staffbooking_http.routes import ENDPOINTS_BY_TAG

Json: TypeAlias = dict[str, Any]

RECORD = Path(__file__).parent / "recorded-openapi.json"

_TEXTS = ("description", "examples", "summary", "tags")
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_NULL = {"type": "null"}


def present_document() -> Json:
    """The document of this version without its texts."""
    document: Json = _without_texts(build_document(ENDPOINTS_BY_TAG, Policy()))
    return document


def recorded_document() -> Json:
    """The document of the last recorded version."""
    document: Json = json.loads(RECORD.read_text(encoding="utf-8"))
    return document


def _without_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_texts(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_texts(each)
        for name, each in value.items()
        if name not in _TEXTS or isinstance(each, dict)
    }


def find_breaks(old: Json, new: Json) -> list[str]:
    """What a client of the old document loses with the new one, as lines that name the place."""
    return list(_Comparison(with_inlined_parts(old), with_inlined_parts(new)).breaks())


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self.old, self.new = old, new
        self.compared: set[tuple[str, str, bool]] = set()
        """Pairs of components that are being compared, for requests or not."""

    def breaks(self) -> Iterator[str]:
        for code in self.old["x-codes"].keys() - self.new["x-codes"].keys():
            yield f"error code {code} is gone"
        for path, methods in self.old["paths"].items():
            for method, operation in methods.items():
                where = f"{method.upper()} {path}"
                present = self.new["paths"].get(path, {}).get(method)
                yield from self._operation(where, operation, present)
        for event, item in self.old["webhooks"].items():
            where, present = f"webhook {event}", self.new["webhooks"].get(event)
            if present is None:
                yield f"{where} is gone"
                continue
            yield from self._event(where, item["post"], present["post"])

    def _event(self, where: str, old: Json, new: Json) -> Iterator[str]:
        """A receiver reads what the service sends: as in a response."""
        names = {each["name"] for each in new.get("parameters", [])}
        for header in old.get("parameters", []):
            if header["name"] not in names:
                yield f"{where}: header {header['name']} is gone"
        yield from self._content(where, old["requestBody"], new["requestBody"], is_request=False)

    def _operation(self, where: str, old: Json, new: Json | None) -> Iterator[str]:
        if new is None:
            yield f"{where} is gone"
            return
        if (was := old.get("operationId")) not in (None, new["operationId"]):
            yield f"{where}: {was} is called {new['operationId']} now"
        yield from self._parameters(where, old, new)
        yield from self._request_body(where, old.get("requestBody"), new.get("requestBody"))
        for scheme in old["security"]:
            if not any(each.keys() <= scheme.keys() for each in new["security"] or [{}]):
                yield f"{where}: signing in by {'+'.join(scheme)} is gone"
        for status, reply in old["responses"].items():
            present = new["responses"].get(status) or new["responses"].get(f"{status[0]}XX")
            if present is None:
                if status.startswith("2"):
                    yield f"{where}: response {status} is gone"
                continue
            place = f"{where} {status}"
            for header in reply.get("headers", {}).keys() - present.get("headers", {}).keys():
                yield f"{place}: header {header} is gone"
            yield from self._content(place, reply, present, is_request=False)

    def _parameters(self, where: str, old: Json, new: Json) -> Iterator[str]:
        before = {(each["in"], each["name"]): each for each in old.get("parameters", [])}
        after = {(each["in"], each["name"]): each for each in new.get("parameters", [])}
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"{where}: parameter {key[1]} is newly required"
        for key, parameter in before.items():
            if key not in after:
                yield f"{where}: parameter {key[1]} is gone"
            else:
                schemas = parameter["schema"], after[key]["schema"]
                yield from self._schema(f"{where}: {key[1]}", *schemas, is_request=True)

    def _request_body(self, where: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if new is not None and new["required"] and not (old or {"required": False})["required"]:
            yield f"{where}: the body is newly required"
        if old is not None and new is None:
            yield f"{where}: the body is gone"
        if old is not None and new is not None:
            yield from self._content(where, old, new, is_request=True)

    def _content(self, where: str, old: Json, new: Json, *, is_request: bool) -> Iterator[str]:
        for media, content in old.get("content", {}).items():
            if media not in new.get("content", {}):
                yield f"{where}: {media} is gone"
                continue
            schemas = content["schema"], new["content"][media]["schema"]
            yield from self._schema(where, *schemas, is_request=is_request)

    # Schemas --------------------------------------------------------------------------

    def _schema(self, where: str, old: Json, new: Json, *, is_request: bool) -> Iterator[str]:
        if "$ref" in old and "$ref" in new:
            pair = (old["$ref"], new["$ref"], is_request)
            if pair in self.compared:
                return
            self.compared.add(pair)
        old, new = plain_schema(self.old, old), plain_schema(self.new, new)
        if len(_forms(old)) > 1 or len(_forms(new)) > 1:
            yield from self._alternatives(where, old, new, is_request)
            return
        yield from _compare_types(where, old, new, is_request)
        yield from _compare_values(where, old, new, is_request)
        yield from self._fields(where, old, new, is_request)
        if "items" in old and "items" in new:
            yield from self._schema(f"{where}[]", old["items"], new["items"], is_request=is_request)

    def _alternatives(self, where: str, old: Json, new: Json, is_request: bool) -> Iterator[str]:
        before, after = _forms(old), _forms(new)
        for each in before:
            if each == _NULL and not is_request:
                continue
            if not any(self._fits(each, other, is_request) for other in after):
                yield f"{where}: one of its forms is gone or changed: {json.dumps(each)[:80]}"
        if is_request:
            return
        for other in after:  # New kinds of objects may come; another type of value may not.
            is_object = "properties" in plain_schema(self.new, other)
            if not is_object and not any(self._fits(each, other, is_request) for each in before):
                yield f"{where}: has a new form: {json.dumps(other)[:80]}"

    def _fits(self, old: Json, new: Json, is_request: bool) -> bool:
        known = set(self.compared)
        fits = not any(self._schema("", old, new, is_request=is_request))
        self.compared = known if not fits else self.compared
        return fits

    def _fields(self, where: str, old: Json, new: Json, is_request: bool) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        required_before, required_after = (set(each.get("required", ())) for each in (old, new))
        if is_request:
            for name in sorted(required_after - required_before):
                yield f"{where}.{name} is newly required"
        else:
            for name in sorted((required_before - required_after) & after.keys()):
                yield f"{where}.{name} may be missing now"
        for name, schema in before.items():
            if name not in after:
                yield f"{where}.{name} is gone"
            else:
                yield from self._schema(
                    f"{where}.{name}", schema, after[name], is_request=is_request
                )


def _forms(schema: Json) -> list[Json]:
    """The alternatives of a schema: of `anyOf`, or of a list of types."""
    if isinstance(types := schema.get("type"), list):
        return [_NULL if each == "null" else {**schema, "type": each} for each in types]
    forms: list[Json] = schema.get("anyOf", [schema])
    return forms


def _compare_types(where: str, old: Json, new: Json, is_request: bool) -> Iterator[str]:
    before, after = _types(old), _types(new)
    wider, narrower = (after, before) if is_request else (before, after)
    if wider is not None and (narrower is None or not narrower <= wider):
        yield f"{where}: type {_names(before)} became {_names(after)}"
    if old.get("format") != new.get("format"):
        yield f"{where}: format {old.get('format')} became {new.get('format')}"


def _types(schema: Json) -> set[str] | None:
    """The types; None for any. Every integer is a number."""
    if "type" not in schema:
        return None
    named = schema["type"]
    types = {named} if isinstance(named, str) else set(named)
    return types | {"integer"} if "number" in types else types


def _names(types: set[str] | None) -> str:
    return "any" if types is None else "/".join(sorted(types))


def _compare_values(where: str, old: Json, new: Json, is_request: bool) -> Iterator[str]:
    """Enumerations may grow; only for requests, bounds may widen, and enumerations be dropped."""
    before, after = _values(old), _values(new)
    if before is not None and after is not None and not before <= after:
        yield f"{where}: {', '.join(sorted(before - after))} is gone"
    if (after is not None and before is None) if is_request else (before and after is None):
        yield f"{where}: its values changed"
    if not is_request:
        return
    if new.get("pattern") not in (None, old.get("pattern")):
        yield f"{where}: the pattern changed"
    for name in _LOWER_BOUNDS:
        if name in new and not (name in old and new[name] <= old[name]):
            yield f"{where}: {name} is {new[name]} now"
    for name in _UPPER_BOUNDS:
        if name in new and not (name in old and new[name] >= old[name]):
            yield f"{where}: {name} is {new[name]} now"


def _values(schema: Json) -> set[str] | None:
    """The values of an enumeration or a constant, as JSON; None for any."""
    if "const" in schema:
        return {json.dumps(schema["const"])}
    return {json.dumps(each) for each in schema["enum"]} if "enum" in schema else None


def record() -> None:
    """Record the present document, unless it breaks the recorded one."""
    present = present_document()
    if RECORD.exists() and (breaks := find_breaks(recorded_document(), present)):
        sys.exit("\n".join(breaks))
    text = json.dumps(present, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    RECORD.write_text(text.replace('"/', '\n"/') + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()
