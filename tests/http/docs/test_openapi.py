"""The OpenAPI document and its page match the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, POLICY
from staffbooking_core import errors
from staffbooking_core.domain.bookings.lifecycle import (
    REFUSAL_CODES,
    EventName,
    Party,
    Trigger,
    find_allowed_parties,
)
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.representations.errors import STATUS_BY_ERROR
from staffbooking_http.api.error_codes import STATUSES_BY_CODE
from staffbooking_http.docs import asyncapi, openapi
from staffbooking_http.docs.references import plain_schema, with_inlined_parts
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment
from tests.http.docs.openapi_validation import DIALECT, ROWS, document_of, operations

pytestmark = pytest.mark.anyio

HOSTED_PAGES = {("POST", "/sandbox/checkout/{id}"), ("POST", "/sandbox/payees/{id}")}


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Every object under a `schema` key, at any depth."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "schema":
                yield value
            yield from schemas_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value)


async def test_every_endpoint_is_documented(world: HttpDeployment) -> None:
    """The documented operations are the rows of the endpoint table and the hosted pages."""
    found = {(method, path) for method, path, _ in operations(await document_of(world))}
    assert found == {(row.method, row.path) for row in ROWS} | HOSTED_PAGES


def test_figures_are_those_of_the_deployment() -> None:
    """Counts and periods in the document are those of the policy."""
    policy = evolve(
        POLICY,
        max_portfolio_items=7,
        feed_history=9 * DAY,
        reset_lifetime=HOUR / 2,
        max_image_bytes=3 * 2**20,
        max_calendar_bytes=2**19,
        webhook_retry_delays=(MINUTE, 5 * MINUTE),
        limits=evolve(POLICY.limits, bookings=RateLimit("bookings", 4, 20 * MINUTE)),
    )
    document = openapi.build_document(ENDPOINTS_BY_TAG, policy)
    told = {
        (method, path): operation.get("description", "")
        for method, path, operation in operations(document)
    }
    assert told["POST", "/staff/portfolio"].endswith("at most 7 items.")
    assert "of the last 9 days and all later ones" in told["GET", "/calendars/{secret}.ics"]
    assert "once, for 30 minutes." in told["POST", "/auth/reset-password"]
    assert "once, for 7 days." in told["POST", "/auth/verify-email"]
    assert told["POST", "/bookings"] == "4 in 20 minutes."
    assert "an image over 3 MiB, a calendar over 512 KiB" in document["x-codes"]["body_too_large"]
    responses = with_inlined_parts(document)["webhooks"]["booking.created"]["post"]["responses"]
    assert "again after 1 and 5 minutes," in responses["default"]["description"]


def test_descriptions_have_no_literal_figures() -> None:
    """The only numbers in the texts of endpoints are HTTP statuses and the limits of images."""
    typed = {
        (row.path, number)
        for row in ROWS
        for number in re.findall(r"\b[0-9][0-9,]*\b", f"{row.summary} {row.description}")
        if number not in map(str, HTTPStatus)
    }
    assert typed == {("/staff/images", number) for number in ("2,048", "50", "25")}


async def test_the_document_is_openapi_3_1(world: HttpDeployment) -> None:
    """The document parses as OpenAPI 3.1.0 with all operations."""
    schema = schemathesis.openapi.from_dict(await document_of(world))
    assert schema.specification.version == "3.1.0"
    assert len(list(schema.get_all_operations())) == len(ROWS) + len(HOSTED_PAGES)


def test_the_version_is_known_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documents have the installed version also if no distribution is found."""
    installed = metadata.version("staffbooking")

    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata.Distribution, "from_name", missing)
    documents = (openapi.build_document(ENDPOINTS_BY_TAG, POLICY), asyncapi.build_document(POLICY))
    assert [document["info"]["version"] for document in documents] == [installed] * 2


async def test_every_error_code_is_documented(world: HttpDeployment) -> None:
    """Every error code of the source and of the parties' triggers is explained, with its status,
    or is of what the interface does not offer."""
    told = (await document_of(world))["x-codes"]
    assert all(told.values())
    sources = [
        path
        for package in ("staffbooking_core", "staffbooking_http")
        for path in (Path(__file__).parents[3] / package).rglob("*.py")
    ]
    raised = re.compile(r"(RuleBroken|Forbidden|Unauthenticated|HttpError)\(\s*(\d*),?\s*\"(\w+)\"")
    found = {
        code: int(status or STATUS_BY_ERROR[getattr(errors, kind)])
        for path in sources
        for kind, status, code in raised.findall(path.read_text("utf-8"))
    }
    by_people = {
        REFUSAL_CODES[trigger] for trigger in Trigger if find_allowed_parties(trigger) & PEOPLE
    }
    assert found.keys() | by_people <= told.keys() | BY_OPERATORS | ON_PAGES
    assert {code: found[code] for code in found.keys() & told} == {
        code: STATUSES_BY_CODE[code] for code in found.keys() & told
    }


PEOPLE = {Party.CUSTOMER, Party.STAFF}
BY_OPERATORS = {
    "import_running",
    "not_staff",
    "processor_misconfigured",
}
"""Error codes of operations of the command line only."""
ON_PAGES = {
    "already_answered",
    "already_decided",
    "calendar_just_read",
    "key_not_active",
    "own_role",
    "role_is_fixed",
    "too_many_calendars",
    "too_many_saved",
}
"""Error codes of what only the pages offer."""


async def test_every_schema_is_a_schema(world: HttpDeployment) -> None:
    """Each schema of the document is valid JSON Schema 2020-12."""
    document = await document_of(world)
    for schema in (*schemas_in(document), *document["components"]["schemas"].values()):
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})


async def test_references_and_names_are_sound(world: HttpDeployment) -> None:
    """Every reference resolves, and operation ids are unique."""
    answer = await world.client().get("/openapi.json")
    document = answer.json()
    for kind, name in re.findall(r'"#/components/(\w+)/([\w-]+)"', answer.text):
        assert name in document["components"][kind]
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)


async def test_limits_and_credentials_are_documented(world: HttpDeployment) -> None:
    """Guarded operations document refusals, failures and rate limit headers, and changes by
    session the CSRF header."""
    document = await document_of(world)
    for method, path, operation in operations(document):
        for one in operation["security"]:
            assert {"4XX", "5XX"} <= operation["responses"].keys(), path
            by_session = "session" in one
            assert ("csrf" in one) is (by_session and method != "GET"), path
            for reply in operation["responses"].values():
                assert "X-RateLimit-Reset" in reply["headers"]


async def test_the_bounds_of_inputs_are_documented(world: HttpDeployment) -> None:
    """Bounds, defaults and required fields of inputs are in the document."""
    document = await document_of(world)
    body = document["paths"]["/api/v1/bookings"]["post"]["requestBody"]
    schema = plain_schema(document, body["content"]["application/json"]["schema"])
    assert schema["properties"]["duration_hours"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 24,
    }
    assert set(schema["required"]) == {
        "companion_id",
        "event_date",
        "start_time",
        "duration_hours",
        "service_type",
        "location",
        "customer_email",
    }
    search = document["paths"]["/api/v1/companions"]["get"]["parameters"]
    limit = next(one for one in search if one["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 50, "default": 12}


async def test_the_webhooks_are_documented(world: HttpDeployment) -> None:
    """The document has all events and the test event."""
    document = await document_of(world)
    assert set(document["webhooks"]) == {*EventName, "webhook.test"}


async def test_the_docs_page_lists_every_endpoint(world: HttpDeployment) -> None:
    """The docs page lists all paths, and has no inline scripts or external resources."""
    page = (await world.client().get("/docs")).text
    for row in ROWS:
        assert f"<code>{row.path}</code>" in page
    assert "<script>" not in page
    assert not re.search(r'(src|href)="https?://', page)
    assert POLICY.currency.code in page


async def test_the_docs_page_is_folded(world: HttpDeployment) -> None:
    """Each call and each shape is folded behind its name, and the contents lead to each part."""
    page = (await world.client().get("/docs")).text
    names = [f"{row.method} {row.path}" for row in ROWS]
    assert page.count('<details class="docs-call">') >= len(names)
    assert "<table" not in page
    parts = re.findall(r'<a href="#([^"]+)"', page)
    assert parts
    assert all(f'id="{part}"' in page for part in parts)


async def test_the_docs_page_renders_code(world: HttpDeployment) -> None:
    """The docs page renders code in descriptions as code and escapes nothing twice."""
    page = (await world.client().get("/docs")).text
    assert "<code>missing_field</code>" in page
    assert "&lt;code&gt;" not in page
    assert "&amp;#34;" not in page
