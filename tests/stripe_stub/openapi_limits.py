"""Length limits from Stripe's OpenAPI document of 2023, which the SDK's types do not have.

The document is in a folder beside the project. Without it there are no such limits.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.stripe_stub.contract import StripeOperation
from tests.stripe_stub.errors import InvalidRequestError

DOCUMENTS_FOLDER = Path(__file__).parents[2].parent / "shared" / "stripe"
OPENAPI_FILE = DOCUMENTS_FOLDER / "openapi.trimmed.json"
FIXTURES_FILE = DOCUMENTS_FOLDER / "fixtures.trimmed.json"

NEWER_FIELDS = frozenset({"allowed_payment_method_types", "adaptive_pricing"})
"""Parameters that we send and that are newer than the document."""

OLDER_FIELDS = {
    "checkout.session": ".currency_conversion.fx_rate cannot be '291452898'",
    "dispute": ".evidence_details.submission_method is missing",
}
"""Differences of the sample objects from the installed SDK's types, by kind of object."""

OpenApiSchema = dict[str, Any]


def sample_objects() -> dict[str, dict[str, Any]]:
    """Stripe's sample objects by kind; empty if the file is missing."""
    if not FIXTURES_FILE.exists():
        return {}
    return dict(json.loads(FIXTURES_FILE.read_bytes())["resources"])


@cache
def _schemas() -> dict[tuple[str, str], OpenApiSchema]:
    """The parameter schema by verb and path; empty if the document is missing."""
    if not OPENAPI_FILE.exists():
        return {}
    document = json.loads(OPENAPI_FILE.read_bytes())
    return {
        (verb, _without_param_names(path)): _schema(verb, call)
        for path, calls in document["paths"].items()
        for verb, call in calls.items()
        if verb in ("get", "post")
    }


def _schema(verb: str, call: dict[str, Any]) -> OpenApiSchema:
    if verb == "post":
        [content] = call["requestBody"]["content"].values()
        return dict(content["schema"])
    named = {each["name"]: each["schema"] for each in call.get("parameters", ())}
    return {"type": "object", "properties": named, "additionalProperties": False}


def _without_param_names(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def schema_of(operation: StripeOperation) -> OpenApiSchema:
    """The document's schema of an operation's parameters; empty if unknown."""
    return _schemas().get((operation.verb, _without_param_names(operation.path)), {})


def check_length_limits(schema: OpenApiSchema, value: Any, name: str = "") -> None:
    """Raise InvalidRequestError for a text that is too long, and for a parameter that is neither in
    the document nor in `NEWER_FIELDS`."""
    if "anyOf" in schema:
        _check_alternative(schema["anyOf"], value, name)
    elif isinstance(value, dict):
        for key, each in value.items():
            where = f"{name}[{key}]" if name else key
            inner = schema.get("properties", {}).get(key)
            if inner is not None:
                check_length_limits(inner, each, where)
            elif schema.get("additionalProperties") is False and where not in NEWER_FIELDS:
                raise InvalidRequestError(
                    f"{where} is neither in the document nor known as newer", param=where
                )
    elif isinstance(value, list):
        for index, each in enumerate(value):
            check_length_limits(schema.get("items", {}), each, f"{name}[{index}]")
    elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        raise InvalidRequestError(
            f"Invalid string: must be at most {schema['maxLength']} characters",
            code="parameter_invalid_string",
            param=name,
        )


def _check_alternative(alternatives: list[OpenApiSchema], value: Any, name: str) -> None:
    kinds: dict[type, str] = {dict: "object", list: "array"}
    wanted = kinds.get(type(value), "string")
    fitting = [each for each in alternatives if each.get("type") == wanted]
    if len(fitting) == 1:
        check_length_limits(fitting[0], value, name)
