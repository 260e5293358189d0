"""`/api/admin`: what operators list and decide, and its audit (CONTRACT 10)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import add_booking, add_user
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.usecases import privacy
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.support.memory_deployment import BookingScenario, actor_of

pytestmark = pytest.mark.anyio

REASON = {"reason": "Asked by phone"}


@pytest.fixture
async def admin(world: HttpDeployment) -> httpx.AsyncClient:
    return await world.signed_in_client(world.admin.id)


async def audit(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    entries = json_body(await client.get("/api/admin/audit"))["audit"]
    assert isinstance(entries, list)
    return entries


# Access -----------------------------------------------------------------------------------


async def test_others_are_refused(world: HttpDeployment) -> None:
    """A customer is 403 before the path's target is looked up."""
    client = await world.signed_in_client(world.customer.id)
    error_body(await client.get("/api/admin/people"), 403, "admins_only")
    answer = await client.post("/api/admin/people/999/disable", json={})
    error_body(answer, 403, "admins_only")


async def test_an_unknown_target_comes_before_the_input(admin: httpx.AsyncClient) -> None:
    """An unknown person, item or code is 404, also with an invalid body."""
    for path in ("people/99/disable", "reviews/99/hide", "payouts/BK/hold", "companions/0/approve"):
        error_body(await admin.post(f"/api/admin/{path}", json={}), 404, "not_found")


@pytest.mark.parametrize("act", ["disable", "enable"])
async def test_an_erased_person_comes_before_the_input(
    world: HttpDeployment, admin: httpx.AsyncClient, act: str
) -> None:
    """An erased person is 404, also with an invalid body."""
    await privacy.erase_person(world.ports, world.stranger.id)
    path = f"/api/admin/people/{world.stranger.id}/{act}"
    error_body(await admin.post(path, json={}), 404, "not_found")


async def test_a_staff_member_without_a_profile_is_a_target(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """The approval of a newly registered staff member is refused for the input, then for the
    profile: the target is known."""
    maja = await add_user(world.store, role=Role.STAFF)
    path = f"/api/admin/companions/{maja.id}/approve"
    error_body(await admin.post(path, json={}), 400, "missing_field")
    error_body(await admin.post(f"{path}?x=1&x=1", json=REASON), 422, "invalid_field")
    error_body(await admin.post(path, json=REASON), 400, "profile_incomplete")


async def test_a_reason_is_required(world: HttpDeployment, admin: httpx.AsyncClient) -> None:
    """A change without a reason is 400, and with a blank one 422."""
    path = f"/api/admin/people/{world.customer.id}/disable"
    answer = await admin.post(path, json={})
    error_body(answer, 400, "missing_field")
    assert error_fields(answer) == {"reason"}
    answer = await admin.post(path, json={"reason": " ", "bookings": "burn"})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"reason", "bookings"}


async def test_lists_come_in_pages(world: HttpDeployment, admin: httpx.AsyncClient) -> None:
    """A list has its rows under its own name, the page, the limit and whether there are more."""
    first = json_body(await admin.get("/api/admin/people?limit=1"))
    assert {name: first[name] for name in ("page", "limit", "has_more")} == {
        "page": 1,
        "limit": 1,
        "has_more": True,
    }
    second = json_body(await admin.get("/api/admin/people?limit=1&page=2"))
    assert first["people"][0]["id"] < second["people"][0]["id"]
    assert error_fields(await admin.get("/api/admin/people?limit=0&page=x")) == {"limit", "page"}


@pytest.mark.parametrize(
    "name",
    [
        *("disputes", "payouts", "refunds", "companions", "portfolio"),
        *("people", "reviews", "webhooks", "alerts", "audit"),
    ],
)
async def test_every_list_is_bounded(admin: httpx.AsyncClient, name: str) -> None:
    """Every list answers a far page with no rows."""
    found = json_body(await admin.get(f"/api/admin/{name}?page=100000&limit=50"))
    assert found == {name: [], "page": 100000, "limit": 50, "has_more": False}


# Changes ----------------------------------------------------------------------------------


async def test_a_person_is_disabled(world: HttpDeployment, admin: httpx.AsyncClient) -> None:
    """Disabling ends the person's sessions; the change is in the audit."""
    theirs = await world.signed_in_client(world.customer.id)
    path = f"/api/admin/people/{world.customer.id}"
    body = json_body(await admin.post(f"{path}/disable", json={**REASON, "bookings": "keep"}))
    assert body["success"] is True
    assert body["person"]["email"] == world.customer.email
    assert body["person"]["disabled_at"] is not None
    assert (await theirs.get("/auth/session")).status_code == 401
    [entry] = await audit(admin)
    assert entry == {
        "id": 1,
        "at": "2027-03-01T12:00:00Z",
        "actor_id": world.admin.id,
        "actor": world.admin.email,
        "act": "disable",
        "subject": "person",
        "subject_id": world.customer.id,
        "reason": REASON["reason"],
        "from": "203.0.113.9",
    }
    enabled = json_body(await admin.post(f"{path}/enable", json=REASON))
    assert enabled["person"]["disabled_at"] is None


async def test_an_operator_keeps_the_own_account(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """Disabling one's own account is 400 `own_account`, and the session goes on."""
    answer = await admin.post(f"/api/admin/people/{world.admin.id}/disable", json=REASON)
    error_body(answer, 400, "own_account")
    assert json_body(await admin.get("/auth/session"))["user"]["id"] == world.admin.id


async def test_a_companion_is_approved_and_rejected(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """A rejected companion is suspended; companions are listed by status with their e-mails."""
    number = world.companion.id
    for act, status in (("reject", "suspended"), ("approve", "approved")):
        answer = await admin.post(f"/api/admin/companions/{number}/{act}", json=REASON)
        assert json_body(answer)["companion"]["status"] == status
    found = json_body(await admin.get("/api/admin/companions?status=approved"))["companions"]
    assert "@" in next(each for each in found if each["id"] == number)["email"]
    assert json_body(await admin.get("/api/admin/companions?status=pending"))["companions"] == []


async def test_a_portfolio_item_is_decided(world: HttpDeployment, admin: httpx.AsyncClient) -> None:
    """An item is approved or rejected, and listed with its companion."""
    item = await add_portfolio_item(world.store, world.companion.id)
    for act in ("approve", "reject"):
        answer = await admin.post(f"/api/admin/portfolio/{item.id}/{act}", json=REASON)
        assert json_body(answer)["item"]["status"] == f"{act.removesuffix('e')}ed"
    [listed] = json_body(await admin.get("/api/admin/portfolio"))["portfolio"]
    assert listed["companion_id"] == world.companion.id


async def test_a_review_is_hidden_and_shown(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """A hidden review stays in the operators' list."""
    booking = await add_booking(world.store, world.companion, world.customer)
    review = await add_review(world.store, booking)
    for act in ("hide", "show"):
        answer = await admin.post(f"/api/admin/reviews/{review.id}/{act}", json=REASON)
        assert json_body(answer)["review"]["hidden"] is (act == "hide")
    [listed] = json_body(await admin.get("/api/admin/reviews"))["reviews"]
    assert listed["reviewer_email"] == world.customer.email


async def test_a_webhook_is_disabled_and_enabled(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """An operator pauses and enables anybody's endpoint."""
    hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
    for act, state in (("disable", "paused"), ("enable", "active")):
        answer = await admin.post(f"/api/admin/webhooks/{hook.id}/{act}", json=REASON)
        assert json_body(answer)["webhook"]["state"] == state
    [listed] = json_body(await admin.get("/api/admin/webhooks"))["webhooks"]
    assert listed["owner_email"] == world.subscriber.email
    assert "secret" not in str(listed)


async def test_a_refused_change_is_not_in_the_audit(
    world: HttpDeployment, admin: httpx.AsyncClient
) -> None:
    """A rule that forbids the change leaves no entry."""
    booking = await add_booking(world.store, world.companion, world.customer)
    for path, code in (
        ("payouts/{}/hold", "payout_not_pending"),
        ("payouts/{}/release", "payout_not_on_hold"),
        ("payouts/{}/retry", "payout_not_failed"),
        ("refunds/{}/retry", "no_failed_refund"),
    ):
        answer = await admin.post(f"/api/admin/{path.format(booking.code)}", json=REASON)
        error_body(answer, 400, code)
    assert await audit(admin) == []


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({"outcome": "split"}, 400, "amount"),
        ({"outcome": "refund", "amount": 5}, 422, "amount"),
        ({"outcome": "split", "amount": 0.001}, 422, "amount"),
        ({"outcome": "keep"}, 422, "outcome"),
    ],
)
async def test_a_resolution_needs_its_amount(
    world: HttpDeployment, admin: httpx.AsyncClient, given: Any, status: int, field: str
) -> None:
    """The amount is required for a split, and for a split alone."""
    booking = await add_booking(world.store, world.companion, world.customer)
    path = f"/api/admin/disputes/{booking.code}/resolve"
    answer = await admin.post(path, json={**REASON, **given})
    assert (answer.status_code, error_fields(answer)) == (status, {field})


@pytest.fixture
def scene(world: HttpDeployment) -> BookingScenario:
    """The bookings of the deployment's customer and companion."""
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    return BookingScenario(world.ports, *parties)


async def test_a_split_is_in_the_currency_of_the_booking(
    world: HttpDeployment, scene: BookingScenario
) -> None:
    """A split counts in the booking's currency, also once the service has another one."""
    booking = await scene.completed()
    await scene.dispute(booking)
    world.restart(policy=evolve(world.ports.policy, currency=Currency("jpy")))
    admin = await world.signed_in_client(world.admin.id)
    path = f"/api/admin/disputes/{booking.code}/resolve"
    given = {**REASON, "outcome": "split", "amount": 120.5}
    dispute = json_body(await admin.post(path, json=given))["dispute"]
    assert dispute["refunded_amount"] == 120.5


async def test_a_dispute_is_split(scene: BookingScenario, admin: httpx.AsyncClient) -> None:
    """A split refunds its amount; the dispute is listed until then, its ledger is readable."""
    booking = await scene.completed()
    await scene.dispute(booking)
    [listed] = json_body(await admin.get("/api/admin/disputes"))["disputes"]
    assert (listed["booking_code"], listed["disputed_by"]) == (booking.code, "customer")
    path = f"/api/admin/disputes/{booking.code}/resolve"
    given = {**REASON, "outcome": "split", "amount": 120.5}
    dispute = json_body(await admin.post(path, json=given))["dispute"]
    assert (dispute["status"], dispute["refunded_amount"]) == ("completed", 120.5)
    assert json_body(await admin.get("/api/admin/disputes"))["disputes"] == []
    error_body(await admin.post(path, json=given), 400, "booking_not_disputed")
    resolved = json_body(await admin.get(f"/bookings/{booking.id}"))["booking"]
    assert resolved["timeline"][-1]["actor_id"] == scene.admin.user_id
    ledger = json_body(await admin.get(f"/api/admin/ledger/{booking.code}"))["ledger"]
    legs = [leg for each in ledger["postings"] for leg in each["legs"]]
    assert sum(round(leg["amount"] * 100) for leg in legs) == 0
    assert {each["kind"] for each in ledger["operations"]} >= {"refund"}
    [entry] = await audit(admin)
    assert (entry["act"], entry["subject"], entry["subject_id"]) == (
        "resolve",
        "dispute",
        booking.code,
    )


async def test_a_payout_is_held_and_released(
    scene: BookingScenario, admin: httpx.AsyncClient
) -> None:
    """A held payout is frozen, a released one scheduled; it is listed with its companion."""
    booking = await scene.completed()
    for act, status in (("hold", "frozen"), ("release", "scheduled")):
        answer = await admin.post(f"/api/admin/payouts/{booking.code}/{act}", json=REASON)
        assert json_body(answer)["payout"]["payout_status"] == status
    [listed] = json_body(await admin.get("/api/admin/payouts"))["payouts"]
    assert listed["companion_id"] == scene.staff.user_id
    assert "@" in listed["companion_email"]


async def test_a_payout_has_its_version(scene: BookingScenario, admin: httpx.AsyncClient) -> None:
    """The version of a listed payout is the one that If-Match takes, and rises with a change."""
    booking = await scene.completed()
    [listed] = json_body(await admin.get("/api/admin/payouts"))["payouts"]
    assert listed["version"] == booking.version
    path, given = f"/api/admin/payouts/{booking.code}/hold", {"if-match": f'"{listed["version"]}"'}
    held = json_body(await admin.post(path, json=REASON, headers=given))["payout"]
    assert held["version"] > listed["version"]


async def test_a_refund_has_its_version(scene: BookingScenario, admin: httpx.AsyncClient) -> None:
    """The version of a listed refund is the one that If-Match takes."""
    booking = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(booking)
    await scene.drain()
    [listed] = json_body(await admin.get("/api/admin/refunds"))["refunds"]
    path = f"/api/admin/refunds/{booking.code}/retry"
    old, now = ({"if-match": f'"{listed["version"] - ago}"'} for ago in (1, 0))
    error_body(await admin.post(path, json=REASON, headers=old), 412, "version_mismatch")
    assert (
        json_body(await admin.post(path, json=REASON, headers=now))["booking"]["id"] == booking.id
    )


async def test_a_failed_refund_is_retried(scene: BookingScenario, admin: httpx.AsyncClient) -> None:
    """A refused refund is listed with its customer and an alert, until it is ordered again."""
    booking = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(booking)
    await scene.drain()
    [listed] = json_body(await admin.get("/api/admin/refunds"))["refunds"]
    assert (listed["booking_code"], listed["customer_email"]) == (booking.code, "ada@example.com")
    assert booking.code in {
        each["booking_code"] for each in json_body(await admin.get("/api/admin/alerts"))["alerts"]
    }
    path = f"/api/admin/refunds/{booking.code}/retry"
    assert json_body(await admin.post(path, json=REASON))["booking"]["id"] == booking.id
    assert json_body(await admin.get("/api/admin/refunds"))["refunds"] == []
    [entry] = await audit(admin)
    assert (entry["act"], entry["subject"]) == ("retry", "refund")
