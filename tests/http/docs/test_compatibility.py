"""Nothing published is taken away or changed within v1 (CONTRACT 10)."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_core.policy import Policy
from staffbooking_http import app
from staffbooking_http.api.endpoint import Deprecation
from staffbooking_http.docs.openapi import build_document
from staffbooking_http.docs.references import resolve, with_inlined_parts
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment
from tests.http.docs.compatibility import Json, find_breaks, present_document, recorded_document

PRESENT = present_document()
COMPANIONS, BOOKINGS, WEBHOOKS = "/api/v1/companions", "/api/v1/bookings", "/api/webhooks"


def test_nothing_published_is_gone() -> None:
    """The present document keeps all of the recorded one."""
    assert find_breaks(recorded_document(), PRESENT) == []


def test_the_record_is_of_this_version() -> None:
    """A new version records its document: see docs/compatibility.md."""
    assert recorded_document()["info"]["version"] == PRESENT["info"]["version"]


# The rules ------------------------------------------------------------------------------


def schema(document: Json, path: str, method: str = "post") -> Json:
    """The component of a request's body that has its fields."""
    found: Json = document["paths"][path][method]["requestBody"]["content"]["application/json"]
    return resolved(document, found["schema"])


def reply(document: Json, path: str, method: str, status: str = "200") -> Json:
    """The schema of a response."""
    found: Json = resolve(document, document["paths"][path][method]["responses"][status])["content"]
    return resolved(document, found["application/json"]["schema"])


def resolved(document: Json, found: Json) -> Json:
    """The component that a reference leads to; of an extension the first one of the chain."""
    while "$ref" in found or "allOf" in found:
        found = found["allOf"][0] if "allOf" in found else component(document, found["$ref"])
    return found


def component(document: Json, reference: str) -> Json:
    """A component of the document itself, which a test may change."""
    found: Json = document["components"]["schemas"][reference.rpartition("/")[2]]
    return found


def changed(change: Any) -> list[str]:
    """The breaks of a present document to which `change` is done."""
    document = deepcopy(PRESENT)
    change(document)
    return find_breaks(PRESENT, document)


BREAKS = {
    "a path": lambda it: it["paths"].pop(COMPANIONS),
    "a method": lambda it: it["paths"][WEBHOOKS].pop("post"),
    "a parameter": lambda it: it["paths"][COMPANIONS]["get"].pop("parameters"),
    "a required parameter": lambda it: it["paths"][COMPANIONS]["get"]["parameters"][0].update(
        required=True
    ),
    "a required field": lambda it: schema(it, WEBHOOKS)["required"].append("description"),
    "an input field": lambda it: schema(it, WEBHOOKS)["properties"].pop("events"),
    "a narrower input": lambda it: schema(it, WEBHOOKS)["properties"]["url"].update(maxLength=9),
    "an input's type": lambda it: schema(it, BOOKINGS)["properties"]["duration_hours"].update(
        type="string"
    ),
    "a value of an input": lambda it: resolved(
        it, schema(it, WEBHOOKS)["properties"]["events"]["items"]
    )["enum"].pop(),
    "a field": lambda it: reply(it, WEBHOOKS, "get")["properties"].pop("webhooks"),
    "a field that may be missing": lambda it: reply(it, WEBHOOKS, "get")["required"].clear(),
    "a field's type": lambda it: reply(it, WEBHOOKS, "get")["properties"].update(
        webhooks={"type": "string"}
    ),
    "a field that may be null": lambda it: reply(it, "/api/events", "get")["properties"].update(
        has_more={"anyOf": [{"type": "boolean"}, {"type": "null"}]}
    ),
    "a success": lambda it: it["paths"][WEBHOOKS]["get"]["responses"].pop("200"),
    "a header": lambda it: it["paths"][WEBHOOKS]["get"]["responses"]["200"]["headers"].pop(
        "X-RateLimit-Limit"
    ),
    "a way to sign in": lambda it: it["paths"][WEBHOOKS]["get"]["security"].pop(0),
    "an event": lambda it: it["webhooks"].pop("booking.created"),
    "an error code": lambda it: it["x-codes"].pop("missing_field"),
    "an operation's name": lambda it: it["paths"][WEBHOOKS]["get"].update(operationId="other"),
    "a shared parameter": lambda it: it["components"]["parameters"]["Page"].update(required=True),
    "a shared header": lambda it: it["components"]["responses"]["Refusal"]["headers"].pop(
        "X-RateLimit-Reset"
    ),
}


@pytest.mark.parametrize("name", list(BREAKS))
def test_what_a_client_misses_is_named(name: str) -> None:
    """Each thing that is taken away or narrowed is found."""
    assert changed(BREAKS[name])


ADDITIONS = {
    "a path": lambda it: it["paths"].update({"/api/v2": {"get": {}}}),
    "a parameter": lambda it: it["paths"][COMPANIONS]["get"]["parameters"].append(
        {"in": "query", "name": "new", "required": False, "schema": {"type": "string"}}
    ),
    "an input field": lambda it: schema(it, WEBHOOKS)["properties"].update(new={"type": "string"}),
    "a wider input": lambda it: schema(it, WEBHOOKS)["properties"]["url"].update(maxLength=9999),
    "a field": lambda it: reply(it, WEBHOOKS, "get")["properties"].update(new={"type": "null"}),
    "an event": lambda it: it["webhooks"].update({"booking.new": {}}),
    "a kind of event": lambda it: it["components"]["schemas"]["Event"]["anyOf"].append(
        {"type": "object", "properties": {}}
    ),
    "a response": lambda it: it["paths"][WEBHOOKS]["get"]["responses"].update({"418": {}}),
    "an error code": lambda it: it["x-codes"].update(new="new"),
}


@pytest.mark.parametrize("name", list(ADDITIONS))
def test_additions_pass(name: str) -> None:
    """What is only added breaks nothing."""
    assert changed(ADDITIONS[name]) == []


# Deprecation ----------------------------------------------------------------------------

SINCE = datetime(2027, 3, 1, 12, tzinfo=UTC)


def test_a_deprecated_endpoint_says_so() -> None:
    """The headers of a deprecated endpoint have the formats of RFC 9745 and RFC 8594."""
    assert Deprecation(SINCE, datetime(2028, 3, 1, tzinfo=UTC)).headers == (
        (b"deprecation", b"@1803902400"),
        (b"sunset", b"Wed, 01 Mar 2028 00:00:00 GMT"),
    )


def test_an_endpoint_does_not_go_within_a_year() -> None:
    """A sunset within 12 months of the deprecation is refused."""
    with pytest.raises(ValueError, match="12 months"):
        Deprecation(SINCE, SINCE + timedelta(days=364))


def test_a_deprecated_endpoint_is_documented() -> None:
    """The document marks a deprecated operation, and its responses have both headers."""
    row = ENDPOINTS_BY_TAG["Webhooks"][0]
    row = evolve(row, deprecation=Deprecation(SINCE, SINCE + timedelta(days=366)))
    document = with_inlined_parts(build_document({"Webhooks": [row]}, Policy()))
    operation = document["paths"][row.path]["post"]
    assert operation["deprecated"] is True
    for reply in operation["responses"].values():
        assert reply["headers"].keys() >= {"Deprecation", "Sunset"}


@pytest.mark.anyio
async def test_each_response_of_a_deprecated_endpoint_says_so(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A success and an error of a deprecated endpoint have the headers, other endpoints do not."""
    gone = Deprecation(SINCE, SINCE + timedelta(days=366))
    rows = tuple(
        evolve(row, deprecation=gone) if (row.method, row.path) == ("GET", WEBHOOKS) else row
        for row in ENDPOINTS_BY_TAG["Webhooks"]
    )
    monkeypatch.setattr(app, "ENDPOINTS_BY_TAG", {**ENDPOINTS_BY_TAG, "Webhooks": rows})
    world.restart()
    for client in (world.client_with_key(), world.client()):
        told = (await client.get(WEBHOOKS)).headers
        assert (told["deprecation"], told["sunset"]) == tuple(
            value.decode() for _, value in gone.headers
        )
        assert "deprecation" not in (await client.post(WEBHOOKS, json={})).headers
