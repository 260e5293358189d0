"""Operational endpoints and the sandbox (CONTRACT 9)."""

from __future__ import annotations

import pytest
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families

from staffbooking_adapters.testing.builders import HOUR, NOW, SECOND
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    place_events,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from staffbooking_core.errors import StoreUnavailable
from tests.http.api.test_errors import Failing
from tests.http.bookings.test_booking_flow import accepted, paid
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio


async def test_a_live_process_is_ok(world: HttpDeployment) -> None:
    """/healthz is ok without the store."""
    world.restart(store=Failing(StoreUnavailable("gone")))
    assert json_body(await world.client().get("/healthz")) == {"status": "ok"}


async def test_readiness_needs_the_store(world: HttpDeployment) -> None:
    """/readyz is 503 with a Retry-After header while the store is unavailable."""
    assert json_body(await world.client().get("/readyz")) == {"status": "ok"}
    world.restart(store=Failing(StoreUnavailable("gone")))
    answer = await world.client().get("/readyz")
    error_body(answer, 503, "unavailable")
    assert answer.headers["retry-after"]


async def samples(world: HttpDeployment) -> dict[tuple[str, ...], float]:
    """The samples of /metrics, by name and by label values in alphabetical order of the labels."""
    answer = await world.client().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def test_requests_are_counted_by_route_and_status(world: HttpDeployment) -> None:
    """Requests are counted by the path of their endpoint, not by the requested path."""
    program = world.client_with_key()
    for path in ("/api/v1/companions/999", f"/api/v1/companions/{world.companion.id}", "/nope"):
        await program.get(path)
    found = await samples(world)
    route = ("GET", "/api/v1/companions/{id}")
    counted = "staffbooking_http_requests_total"
    assert (found[counted, *route, "200"], found[counted, *route, "404"]) == (1, 1)
    assert found[counted, "", "", "404"] == 1
    assert found["staffbooking_http_request_seconds_count", *route] == 2
    assert found["staffbooking_http_request_seconds_bucket", "+Inf", *route] == 2


async def test_due_work_is_counted_by_kind(world: HttpDeployment) -> None:
    """Due work is counted by kind with the age of the oldest, and cached for some seconds."""
    await accepted(world)
    name, kind = "staffbooking_due_work", "open_checkout"
    assert (await samples(world))[name, kind] == 1
    await accepted(world, event_date="2027-03-04")
    assert (await samples(world))[name, kind] == 1
    world.clock.advance(30 * SECOND)
    found = await samples(world)
    assert (found[name, kind], found[f"{name}_oldest_seconds", kind]) == (2, 30)
    await accepted(world, event_date="2027-03-05")
    assert (await samples(world))[name, kind] == 2


async def test_due_work_is_counted_after_the_clock_went_back(world: HttpDeployment) -> None:
    """A clock that goes back does not keep the former counts."""
    counted = "staffbooking_due_work", "open_checkout"
    await accepted(world)
    await accepted(world, event_date="2027-03-04")
    assert (await samples(world))[counted] == 2
    world.clock.advance(-HOUR)
    await accepted(world, event_date="2027-03-05")
    assert (await samples(world))[counted] == 1


async def test_webhooks_are_counted(world: HttpDeployment) -> None:
    """Webhook attempts are counted by result and deliveries by status, with the lag and the
    unplaced events."""
    store, name = world.ports.store, "staffbooking_webhook"
    first = await add_endpoint(store, succeeded=3, failed=1)
    second = await add_endpoint(store, succeeded=4)
    await add_delivery(store, first)
    await add_delivery(store, second, status=DeliveryStatus.HELD, held_at=NOW)
    await place_events(store)
    await add_event(store)
    world.clock.advance(7 * SECOND)
    found = await samples(world)
    attempts = f"{name}_attempts_total"
    assert (found[attempts, "succeeded"], found[attempts, "failed"]) == (7, 1)
    deliveries = f"{name}_deliveries"
    assert (found[deliveries, "pending"], found[deliveries, "held"]) == (1, 1)
    assert found[f"{name}_lag_seconds",] == 7
    assert found[f"{name}_events_unplaced",] == 1


async def test_metrics_need_no_store(world: HttpDeployment) -> None:
    """Without the store /metrics has the figures of the process only, and due work once the store
    is back."""
    await accepted(world)
    store = world.ports.store
    world.restart(store=Failing(StoreUnavailable("gone")))
    await world.client().get("/healthz")
    found = await samples(world)
    assert found["staffbooking_http_requests_total", "GET", "/healthz", "200"] == 1
    of_process = ("staffbooking_http", "staffbooking_channel", "staffbooking_clock")
    assert not [sample for sample in found if not sample[0].startswith(of_process)]
    world.restart(store=store)
    assert ("staffbooking_due_work", "open_checkout") in await samples(world)


# The sandbox ----------------------------------------------------------------------------


async def test_the_clock_moves_ahead(world: HttpDeployment) -> None:
    """The clock moves by seconds or to an instant, and the response has the new time."""
    client = world.client()
    moved = await client.post("/sandbox/clock", json={"advance_seconds": 3600})
    assert json_body(moved) == {"now": "2027-03-01T13:00:00Z"}
    moved = await client.post("/sandbox/clock", json={"set_to": "2027-03-02T00:00:00Z"})
    assert json_body(moved) == {"now": "2027-03-02T00:00:00Z"}
    same = await client.post("/sandbox/clock", json={"advance_seconds": 0})
    assert json_body(same) == {"now": "2027-03-02T00:00:00Z"}


@pytest.mark.parametrize(
    "body",
    [{"advance_seconds": -1}, {"set_to": "2027-03-01T11:59:59Z"}, {"set_to": "1970-01-01T00:00Z"}],
)
async def test_the_clock_never_moves_back(world: HttpDeployment, body: dict[str, object]) -> None:
    """Moving the clock back is 400 `clock_backwards`."""
    error_body(await world.client().post("/sandbox/clock", json=body), 400, "clock_backwards")


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({}, 400, {"advance_seconds", "set_to"}),
        ({"advance_seconds": 1, "set_to": "2027-03-02T00:00:00Z"}, 422, {"set_to"}),
        ({"advance_seconds": "1"}, 422, {"advance_seconds"}),
        ({"advance_seconds": 1.5}, 422, {"advance_seconds"}),
        ({"advance_seconds": 10**30}, 422, {"advance_seconds"}),
        ({"advance_seconds": 3_000_000_000}, 422, {"advance_seconds"}),
        ({"set_to": "2027-03-02"}, 422, {"set_to"}),
        ({"set_to": "2027-03-02T00:00:00+0100"}, 422, {"set_to"}),
        ({"set_to": "2027-02-30T00:00:00Z"}, 422, {"set_to"}),
        ({"set_to": "9999-12-31T23:59:59Z"}, 422, {"set_to"}),
    ],
)
async def test_the_clock_is_strict(
    world: HttpDeployment, body: dict[str, object], status: int, named: set[str]
) -> None:
    """A clock request without exactly one valid field is refused, and names the fields."""
    answer = await world.client().post("/sandbox/clock", json=body)
    assert (answer.status_code, error_fields(answer)) == (status, named)


async def test_a_chargeback_is_applied_at_once(world: HttpDeployment) -> None:
    """An opened chargeback disputes the booking, and a lost one cancels it."""
    path, customer, _ = await paid(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    for outcome, status in (("open", "disputed"), ("lost", "cancelled")):
        body = {"booking_code": code, "outcome": outcome}
        json_body(await world.client().post("/sandbox/chargebacks", json=body))
        assert json_body(await customer.get(path))["booking"]["status"] == status


async def test_an_invalid_chargeback_is_refused(world: HttpDeployment) -> None:
    """A chargeback of an unknown booking is 404, of an unpaid one 400, with an unknown outcome
    422."""
    path, customer, _ = await accepted(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    client = world.client()
    for body, status in (
        ({"booking_code": "BK000000000000", "outcome": "open"}, 404),
        ({"booking_code": code, "outcome": "open"}, 400),
        ({"booking_code": code, "outcome": "drawn"}, 422),
        ({"booking_code": code}, 400),
    ):
        assert (await client.post("/sandbox/chargebacks", json=body)).status_code == status


async def test_faults_are_checked(world: HttpDeployment) -> None:
    """Unknown operations and invalid counts of faults are named."""
    client = world.client()
    answer = await client.post("/sandbox/payments/faults", json={"op": "fly", "kind": "slow"})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"op"}
    fault = {"op": "any", "kind": "slow", "times": 0}
    assert error_fields(await client.post("/sandbox/payments/faults", json=fault)) == {"times"}


# The hosted page ------------------------------------------------------------------------


async def test_the_hosted_page_checks_requests(world: HttpDeployment) -> None:
    """An unknown page is 404 before the body is checked, and invalid outcomes, bodies and methods
    are refused."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    client = world.client()
    error_body(await client.post(f"{url}x", content=b"{"), 404, "not_found")
    error_body(await client.post(url, json={}), 400, "missing_field")
    error_body(await client.post(url, json={"outcome": "steal"}), 422, "invalid_field")
    error_body(await client.post(url, data={"outcome": "steal"}), 422, "invalid_field")
    error_body(await client.post(url, content=b"{}"), 415, "unsupported_media_type")
    error_body(await client.post(url, content=b"x" * 70_000), 413, "body_too_large")
    error_body(await client.put(url), 405, "method_not_allowed")


async def test_a_challenge_is_passed_on_the_page(world: HttpDeployment) -> None:
    """A challenged card pays once the challenge is passed."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert (
        json_body(await customer.post(url, json={"outcome": "challenge"}))["state"] == "challenge"
    )
    assert "is it you?" in (await customer.get(url)).text
    assert json_body(await customer.post(url, json={"outcome": "succeed"}))["state"] == "paid"


async def test_names_are_escaped(world: HttpDeployment) -> None:
    """Markup in a name is escaped on pages."""

    marked = evolve(world.customer, first_name="<b onclick=x>")
    await world.store.run_transaction(lambda tx: tx.accounts.save_user(marked))
    page = (await (await world.signed_in_client(marked.id)).get("/")).text
    assert "&lt;b onclick=x&gt;" in page
    assert "<b onclick" not in page


async def test_an_internal_error_of_a_page_reveals_nothing(world: HttpDeployment) -> None:
    """An unexpected error of a page is 500 with error, code and request id only."""
    world.restart(sandbox=Failing(RuntimeError("secret")))
    answer = await world.client().get("/sandbox/checkout/abc")
    assert set(error_body(answer, 500, "internal")) == {"error", "code", "request_id"}
