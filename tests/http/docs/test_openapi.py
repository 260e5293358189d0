"""The OpenAPI document: it says what the service does, and answers are as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis
from attrs import evolve

from staffbooking_core.domain.bookings.lifecycle import (
    REFUSAL_CODES,
    BookingStatus,
    Party,
    Trigger,
    find_allowed_parties,
)
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_http.docs import asyncapi, openapi
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.api.endpoint_walks import (
    exercise_account_endpoints,
    exercise_calendar_endpoints,
    exercise_image_endpoints,
    exercise_staff_endpoints,
)
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, json_body
from tests.support.builders import DAY, HOUR, POLICY, add_booking, add_companion

pytestmark = pytest.mark.anyio

HOSTED_PAGES = {("POST", "/sandbox/checkout/{id}"), ("POST", "/sandbox/payees/{id}")}
ROWS = [
    row
    for family in (*ENDPOINTS_BY_TAG.values(), *SANDBOX_ENDPOINTS_BY_TAG.values())
    for row in family
]


async def document_of(world: HttpDeployment) -> dict[str, Any]:
    document: dict[str, Any] = json_body(await world.client().get("/openapi.json"))
    return document


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def schemas_in(node: Any) -> Iterator[dict[str, Any]]:
    """Every object under a `schema` key, wherever it stands."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "schema":
                yield value
            yield from schemas_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from schemas_in(value)


async def test_every_endpoint_is_documented(world: HttpDeployment) -> None:
    """Each row of the table is an operation, and each operation a row."""
    found = {(method, path) for method, path, _ in operations(await document_of(world))}
    assert found == {(row.method, row.path) for row in ROWS} | HOSTED_PAGES


def test_figures_are_those_of_the_deployment() -> None:
    """As its policy has them, counts and times alike."""
    policy = evolve(POLICY, max_portfolio_items=7, feed_history=9 * DAY, reset_lifetime=HOUR / 2)
    told = {
        (method, path): operation.get("description", "")
        for method, path, operation in operations(openapi.build_document(ENDPOINTS_BY_TAG, policy))
    }
    assert told["POST", "/staff/portfolio"].endswith("at most 7 items.")
    assert "from 9 days back on" in told["GET", "/calendars/{secret}.ics"]
    assert "once, for 30 minutes." in told["POST", "/auth/reset-password"]
    assert "once, for 7 days." in told["POST", "/auth/verify-email"]


async def test_the_document_is_openapi_3_1(world: HttpDeployment) -> None:
    """A reader of OpenAPI takes it, with all operations."""
    schema = schemathesis.openapi.from_dict(await document_of(world))
    assert schema.specification.version == "3.1.0"
    assert len(list(schema.get_all_operations())) == len(ROWS) + len(HOSTED_PAGES)


def test_the_version_is_known_without_a_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `make demo` runs the service; where it is installed its package says the same."""
    installed = metadata.version("staffbooking")

    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata.Distribution, "from_name", missing)
    documents = (openapi.build_document(ENDPOINTS_BY_TAG, POLICY), asyncapi.build_document(POLICY))
    assert [document["info"]["version"] for document in documents] == [installed] * 2


async def test_every_code_is_told(world: HttpDeployment) -> None:
    """Whatever the lifecycle, the guards and the rules refuse by is listed."""
    told = (await document_of(world))["x-codes"].keys()
    sources = [
        path
        for package in ("staffbooking_core", "staffbooking_http")
        for path in (Path(__file__).parents[3] / package).rglob("*.py")
    ]
    raised = re.compile(r"(?:RuleBroken|Forbidden|Unauthenticated|Refused)\((?:\d+, )?\"(\w+)\"")
    found = {code for path in sources for code in raised.findall(path.read_text("utf-8"))}
    by_people = {
        REFUSAL_CODES[trigger] for trigger in Trigger if find_allowed_parties(trigger) & PEOPLE
    }
    assert found | by_people <= told | BY_OPERATORS


PEOPLE = {Party.CUSTOMER, Party.STAFF}
BY_OPERATORS = {
    "import_running",
    "no_failed_refund",
    "not_staff",
    "processor_misconfigured",
    "profile_incomplete",
    "split_out_of_range",
}
"""Codes of what the command line alone can ask for."""


async def test_every_schema_is_a_schema(world: HttpDeployment) -> None:
    """Each schema of the document is valid JSON Schema 2020-12."""
    document = await document_of(world)
    for schema in (*schemas_in(document), *document["components"]["schemas"].values()):
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})


DIALECT = "https://json-schema.org/draft/2020-12/schema"


async def test_references_and_names_are_sound(world: HttpDeployment) -> None:
    """Every reference leads somewhere, and no two operations share a name."""
    answer = await world.client().get("/openapi.json")
    document = answer.json()
    for kind, name in re.findall(r'"#/components/(\w+)/([\w-]+)"', answer.text):
        assert name in document["components"][kind]
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)


async def test_limits_and_credentials_are_told(world: HttpDeployment) -> None:
    """Guarded operations name their credentials, 401, 403 and 429; changes by session the
    CSRF header; their answers the figures of a window."""
    document = await document_of(world)
    for method, path, operation in operations(document):
        for one in operation["security"]:
            assert {"401", "403", "429", "500"} <= operation["responses"].keys(), path
            by_session = "session" in one
            assert ("csrf" in one) is (by_session and method != "GET"), path
            for reply in operation["responses"].values():
                assert "X-RateLimit-Reset" in reply["headers"]


async def test_the_bounds_of_inputs_are_told(world: HttpDeployment) -> None:
    """Bounds, formats and required fields stand in the document as they are enforced."""
    document = await document_of(world)
    body = document["paths"]["/api/v1/bookings"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
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


async def test_the_webhooks_are_told(world: HttpDeployment) -> None:
    """The five events and the test, each with the shape of its body."""
    document = await document_of(world)
    assert set(document["webhooks"]) == {
        "booking.created",
        "booking.completed",
        "booking.cancelled",
        "payment.completed",
        "review.created",
        "webhook.test",
    }


async def test_stored_events_have_the_documented_shape(world: HttpDeployment) -> None:
    """What is told to receivers is as the document says."""
    document = await document_of(world)
    path, customer, _ = await accepted(world)
    json_body(await customer.post(f"{path}/cancel"))
    number = int(path.rpartition("/")[2])
    async with world.store.read_view() as view:
        told = [body for _, body in await view.bookings.events_of(number)]
    for body in told:
        name = re.search(rb'"event":"([a-z.]+)"', body)
        assert name
        item = document["webhooks"][name[1].decode()]["post"]
        schema = item["requestBody"]["content"]["application/json"]["schema"]
        validator(document, schema).validate(jsonschema_rs_value(body))
    assert len(told) == 2


def jsonschema_rs_value(body: bytes) -> Any:
    return httpx.Response(200, content=body).json()


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """A validator of a schema that refers to the document's components."""
    return jsonschema_rs.validator_for(
        {"$schema": DIALECT, "components": document["components"], **schema},
        validate_formats=True,
    )


class Checking(httpx.AsyncBaseTransport):
    """Holds every answer to what the document says of its operation."""

    def __init__(self, inner: httpx.AsyncBaseTransport, document: dict[str, Any]) -> None:
        self.inner, self.document = inner, document
        self.checked: set[tuple[str, str]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        body = await answer.aread()
        for method, path, operation in operations(self.document):
            pattern = re.sub(r"\{\w+\}", "[^/]+", path)
            if method == request.method and re.fullmatch(pattern, request.url.path):
                self.check(operation, answer.status_code, body)
                self.checked.add((str(answer.status_code), path))
        return answer

    def check(self, operation: dict[str, Any], status: int, body: bytes) -> None:
        content = operation["responses"][str(status)].get("content", {})
        if "application/json" not in content:
            return
        schema = content["application/json"]["schema"]
        validator(self.document, schema).validate(jsonschema_rs_value(body))
        if status >= 400:
            assert jsonschema_rs_value(body)["code"] in self.document["x-codes"]


def hold_to_document(
    world: HttpDeployment, document: dict[str, Any], monkeypatch: Any
) -> list[Checking]:
    """Let every client that is made from now on check its answers; what they check with."""
    plain, seen = world.client, []

    def checked(*given: Any, **headers: str) -> httpx.AsyncClient:
        client = plain(*given, **headers)
        client._transport = Checking(client._transport, document)
        seen.append(client._transport)
        return client

    monkeypatch.setattr(world, "client", checked)
    return seen


async def test_answers_are_as_the_document_says(world: HttpDeployment, monkeypatch: Any) -> None:
    """The main flow, and its usual errors, hold to the documented statuses and shapes."""
    world.raise_limits()
    seen = hold_to_document(world, await document_of(world), monkeypatch)
    await _walk(world)
    paths = {path for transport in seen for _, path in transport.checked}
    assert paths >= {row.path for row in ROWS} - {"/metrics", "/openapi.json", "/asyncapi.json"}


async def _walk(world: HttpDeployment) -> None:
    program, number = world.client_with_key(), world.companion.id
    search = "/api/v1/companions"
    for query in ("", "?limit=0", "?location=lisbon&page=2"):
        await program.get(search + query)
    days = "start_date=2027-03-01&end_date=2027-03-05"
    for tail in ("", "/availability", f"/availability?{days}"):
        for known in (number, 999):
            await program.get(f"{search}/{known}{tail}")
    await program.get("/api/v1/service-types")
    path, customer, staff = await accepted(world)
    for given in ({}, {"companion_id": 999}, {"event_date": "2020-01-01"}, {"duration_hours": 99}):
        await program.post("/api/v1/bookings", json=world.request_body(**given))
    await program.post("/api/v1/bookings", content=b"x" * 70_000)
    await program.post("/api/v1/bookings", content=b"{}")
    await program.get("/api/v1/bookings")
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    for client in (
        program,
        world.client_with_key(await world.add_api_key(world.outsider)),
        world.client(),
    ):
        await client.get(f"/api/v1/bookings/{code}")
    for client in (customer, staff, await world.signed_in_client(world.stranger.id)):
        await _operations(client, path)
    await _people(world)
    await _reviews(world)
    await _messages(world)
    await _webhooks(world)
    await exercise_staff_endpoints(world)
    await exercise_account_endpoints(world)
    await exercise_calendar_endpoints(world)
    await exercise_image_endpoints(world)
    await _payouts(world)
    await _bench(world, code)


async def _operations(client: httpx.AsyncClient, path: str) -> None:
    await client.get("/bookings?status=accepted")
    await client.get(path)
    await client.get(f"{path}/cancellation-quote")
    await client.post("/bookings", json={})
    for word in ("accept", "decline", "checkout", "check-in", "confirm", "cancel", "dispute"):
        await client.post(f"{path}/{word}", json={"quote": "forged", "reason": "none"})


async def _people(world: HttpDeployment) -> None:
    client = world.client()
    await client.post("/auth/register", json={})
    sign_in = {"email": world.customer.email, "password": TEST_PASSWORD}
    for password in (TEST_PASSWORD, "wrong"):
        await client.post("/auth/login", json={**sign_in, "password": password})
    await client.get("/auth/session")
    owner = await world.signed_in_client(world.subscriber.id)
    made = await owner.post("/api/keys", json={"name": "x", "permissions": ["read"]})
    await owner.get("/api/keys")
    for _ in range(2):
        await owner.delete(f"/api/keys/{json_body(made, 201)['api_key']['id']}")
    await owner.delete("/api/keys/999")
    for _ in range(2):
        await owner.post("/auth/logout")


async def _reviews(world: HttpDeployment) -> None:
    people = (world.customer, world.companion)
    booking = await add_booking(world.store, *people[::-1], status=BookingStatus.COMPLETED)
    customer, staff = [await world.signed_in_client(one.id) for one in people]
    path, number = f"/reviews/booking/{booking.id}", 0
    for body in ({}, {"rating": 6}, {"rating": 5, "comment": "Great"}, {"rating": 5}):
        made = await customer.post(path, json=body)
        number = made.json().get("review", {}).get("id", number)
    await (await world.signed_in_client(world.admin.id)).post(path, json={"rating": 1})
    await customer.post("/reviews/booking/999", json={"rating": 1})
    for client in (customer, staff):
        for said in ({}, {"response": ""}, {"response": "Thank you"}, {"response": "Again"}):
            await client.post(f"/reviews/{number}/respond", json=said)
    await staff.post("/reviews/999/respond", json={"response": "Thank you"})
    for client in (customer, world.client_with_key(), world.client()):
        for user in (world.companion.id, 999):
            await client.get(f"/reviews/user/{user}?limit=1")
            await client.get(f"/reviews/user/{user}?limit=0")
    await world.client_with_key().get(f"/api/v1/companions/{world.companion.id}")


async def _messages(world: HttpDeployment) -> None:
    await world.client().get("/ws")
    people = (world.customer, world.companion, world.stranger)
    for client in [await world.signed_in_client(one.id) for one in people]:
        for to in (world.companion.id, world.customer.id, 999):
            for body in ({}, {"content": ""}, {"content": "Hello"}):
                await client.post(f"/messages/send/{to}", json=body)
        for query in ("", "?limit=0", "?limit=1"):
            listed = await client.get(f"/messages{query}")
        for one in (*listed.json()["conversations"], {"id": 999}):
            path = f"/messages/conversation/{one['id']}"
            for query in ("", "?after=x", "?after=0&limit=1"):
                await client.get(f"{path}{query}")
            for body in ({}, {"content": ""}, {"content": "Hello"}):
                await client.post(path, json=body)


async def _webhooks(world: HttpDeployment) -> None:
    path, program = "/api/webhooks", world.client_with_key()
    for body in ({}, {"url": "http://10.0.0.1"}, {"url": "https://x.example", "events": ["x"]}):
        await program.post(path, json=body)
    made = json_body(await program.post(path, json={"url": "https://x.example/in"}), 201)["webhook"]
    sent = json_body(await program.post(f"{path}/{made['id']}/test"))["delivery"]
    for client in (program, await world.signed_in_client(world.admin.id), world.client()):
        await client.get(path)
        one = f"{path}/{made['id']}"
        for change in ({"active": False}, {"active": "no"}):
            await client.patch(one, json=change)
        for word in ("test", "rotate-secret", "activate-secret", "activate-secret"):
            await client.post(f"{one}/{word}")
        await client.post(f"{one}/deliveries/{sent['id']}/redeliver")
        await client.post(f"{one}/deliveries/999/redeliver")
        for query in ("", "?limit=0"):
            await client.get(f"{one}/deliveries{query}")
    await deliveries.publish_events(world.ports)
    for query in ("", "?limit=1", "?limit=0", "?after=evt_unknown"):
        await (await world.signed_in_client(world.admin.id)).get(f"/api/events{query}")
    for _ in range(2):
        await program.delete(f"{path}/{made['id']}")


async def _payouts(world: HttpDeployment) -> None:
    companion = await add_companion(world.store, payout_account=None)
    for who in (companion.id, world.customer.id):
        browser = await world.signed_in_client(who)
        await browser.get("/staff/payout-account")
        for body in ({}, {"country": "USA"}, {"country": "PT"}):
            await browser.post("/staff/payout-account", json=body)
    url = json_body(
        await (await world.signed_in_client(companion.id)).post("/staff/payout-account")
    )
    for reference in (url["onboarding_url"].rpartition("/")[2], "nope"):
        await world.client().post(f"/sandbox/payees/{reference}", json={})
    for provider in ("fake", "other"):
        await world.client().post(f"/processor/{provider}/webhook", content=b"{}")
    await world.client().post("/processor/fake/webhook", content=b"x" * 300_000)


async def _bench(world: HttpDeployment, code: str) -> None:
    client = world.client()
    for body in ({}, {"advance_seconds": 60}, {"advance_seconds": -60}):
        await client.post("/sandbox/clock", json=body)
    await client.post("/sandbox/chargebacks", json={"booking_code": code, "outcome": "open"})
    for fault in ({"op": "refund", "kind": "slow"}, {"op": "x", "kind": "y"}):
        await client.post("/sandbox/payments/faults", json=fault)
    await client.delete("/sandbox/payments/faults")
    await client.get("/healthz")
    await client.get("/readyz")


async def test_the_docs_page_tells_every_endpoint(world: HttpDeployment) -> None:
    """The page names all paths and needs nothing from elsewhere."""
    page = (await world.client().get("/docs")).text
    for row in ROWS:
        assert f"<code>{row.path}</code>" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="https?://', page)
    assert POLICY.currency.code in page


async def test_the_docs_page_reads_well(world: HttpDeployment) -> None:
    """Code in descriptions is set as code, and nothing is escaped twice."""
    page = (await world.client().get("/docs")).text
    assert "<code>missing_field</code>" in page
    assert "&lt;code&gt;" not in page
    assert "&amp;#34;" not in page
