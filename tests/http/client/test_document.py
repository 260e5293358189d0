"""The client is held to the OpenAPI document."""

from __future__ import annotations

from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from staffbooking_adapters.testing.builders import POLICY
from staffbooking_http.client import Client, shapes
from staffbooking_http.client.exchange import Listing, _to_json_values
from staffbooking_http.docs.openapi import build_document
from staffbooking_http.docs.references import plain_document, plain_schema
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.http.client.samples import SAMPLES, method_names, sample_call

DOCUMENT = plain_document(build_document(ENDPOINTS_BY_TAG, POLICY))
ADMINS_ONLY = {"platform_fee", "payout_amount", "payout_status", "payout_due_at", "actor_id"}


def operation(name: str) -> dict[str, Any]:
    call = sample_call(name)
    found: dict[str, Any] = DOCUMENT["paths"][call.path][call.method.lower()]
    return found


def resolved(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The alternatives of a schema, without references and null."""
    schema = plain_schema(DOCUMENT, schema)
    if "anyOf" in schema:
        return [found for each in schema["anyOf"] for found in resolved(each)]
    return [] if schema.get("type") == "null" else [schema]


def faults(shape: Any, schema: dict[str, Any], where: str) -> list[str]:
    """Where a shape has keys that the schema has not, requires ones that it does not, or lacks
    ones that it has."""
    if get_origin(shape) is NotRequired:
        return faults(get_args(shape)[0], schema, where)
    if get_origin(shape) is list:
        items = [each["items"] for each in resolved(schema)]
        return [fault for each in items for fault in faults(get_args(shape)[0], each, where)]
    if not is_typeddict(shape):
        return []
    options = resolved(schema)
    hints = get_type_hints(shape)
    known = {name: each for option in options for name, each in option["properties"].items()}
    required = set.intersection(*(set(option["required"]) for option in options))
    found = [f"{where}.{name} is unknown" for name in hints.keys() - known.keys()]
    found += [f"{where}.{name} may be absent" for name in shape.__required_keys__ - required]
    lacking = known.keys() - hints.keys() - ADMINS_ONLY - {"success"}
    found += [f"{where}.{name} is lacking" for name in lacking]
    for name in hints.keys() & known.keys():
        found += faults(hints[name], known[name], f"{where}.{name}")
    return found


def test_shapes_have_the_names_of_the_document() -> None:
    """Each shape of the client is called as the component that it is."""
    names = {name for name in vars(shapes) if is_typeddict(vars(shapes)[name])} - {"TypedDict"}
    assert {name for name in names if name[0] != "_"} <= DOCUMENT["components"]["schemas"].keys()


def test_every_method_has_a_sample() -> None:
    """The samples are the methods of the client."""
    assert set(SAMPLES) == method_names()


def test_every_call_by_key_has_a_method() -> None:
    """The client has a method for each operation that takes a key."""
    by_key = {
        (method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method, found in methods.items()
        if any("key" in each for each in found.get("security", ()))
    }
    calls = map(sample_call, SAMPLES)
    assert {(call.method, call.path) for call in calls} == by_key


@pytest.mark.parametrize("name", SAMPLES)
def test_parameters_are_documented(name: str) -> None:
    """A method sends the required parameters, and with all arguments every one there is."""
    call, parameters = sample_call(name), operation(name).get("parameters", [])
    in_query = {each["name"] for each in parameters if each["in"] == "query"}
    assert set(call.query) | ({"after"} if name == "get_events" else set()) == in_query
    assert set(call.path_values) == {each["name"] for each in parameters if each["in"] == "path"}
    takes_key = any(each["name"] == "Idempotency-Key" for each in parameters)
    assert takes_key == (call.method == "POST" and call.changes)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_changing_post_takes_a_key(name: str) -> None:
    """A method that sends an idempotency key takes one of the caller's."""
    call = sample_call(name)
    sends_key = call.method == "POST" and call.changes
    assert call.idempotency_key == ("order-1" if sends_key else None)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_body_is_documented(name: str) -> None:
    """A method sends the required fields, and with all arguments every field there is."""
    body = sample_call(name).body
    content = operation(name).get("requestBody", {"content": {"application/json": {}}})["content"]
    schema = content["application/json"].get("schema", {"properties": {}})
    sent = _to_json_values(body or {})
    assert set(sent) == set(schema["properties"])
    assert set(schema.get("required", ())) <= set(sent)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shapes_are_documented(name: str) -> None:
    """What a method returns has the fields of the documented response."""
    call, answers = sample_call(name), operation(name)["responses"]
    (success,) = (answers[status] for status in answers if status < "3")
    schema = plain_schema(DOCUMENT, success["content"]["application/json"]["schema"])
    assert call.result in schema["required"]
    made = get_type_hints(getattr(Client, name))["return"]
    (shape,) = get_args(made)
    if get_origin(made) is Listing:
        args, kwargs = SAMPLES[name]
        assert "has_more" in schema["required"]
        schema = schema["properties"][getattr(Client, name)(*args, **kwargs).items_field]["items"]
    elif not call.is_whole:
        schema = schema["properties"][call.result]
    assert faults(shape, schema, name) == []
