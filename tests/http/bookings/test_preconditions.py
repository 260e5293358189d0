"""ETag and If-Match of bookings over HTTP (CONTRACT 10)."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.usecases.payments import payouts
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_admin_disputes import scene_of
from tests.http.pages.test_admin_money import failed_refund

pytestmark = pytest.mark.anyio


async def requested(world: HttpDeployment):
    """A pending booking: its record, its path, and the staff member's browser."""
    staff = await world.signed_in_client(world.companion.id)
    answer = await world.client_with_key().post("/api/v1/bookings", json=world.request_body())
    booking = json_body(answer, 201)["booking"]
    return booking, f"/bookings/{booking['id']}", staff


async def test_a_booking_bears_its_version(world: HttpDeployment) -> None:
    """Both ways to read a booking give its version as ETag, to strangers with a key too."""
    booking, path, staff = await requested(world)
    by_code = f"/api/v1/bookings/{booking['booking_code']}"
    outsider = world.client_with_key(await world.add_api_key(world.outsider))
    for client, address in (
        (staff, path),
        (world.client_with_key(), by_code),
        (outsider, by_code),
    ):
        assert (await client.get(address)).headers["etag"] == f'"{booking["version"]}"'


async def test_a_booking_is_never_not_modified(world: HttpDeployment) -> None:
    """If-None-Match does not make a 304 of a booking."""
    _, path, staff = await requested(world)
    assert (await staff.get(path, headers={"if-none-match": '"1"'})).status_code == 200


@pytest.mark.parametrize(
    "value, status",
    [
        ('"1"', 200),
        ("*", 200),
        (' "7" , "1"', 200),
        ('"7,1", "1"', 200),
        (', "1",', 200),
        ('"2"', 412),
        ('W/"1"', 412),
        ('"01"', 412),
        ('"one"', 412),
        ('"7", W/"1"', 412),
        (f'"{"9" * 5000}"', 412),
        ("1", 400),
        ("", 400),
        ('"1', 400),
        ('*, "1"', 400),
        ('"1" "2"', 400),
        ('w/"1"', 400),
    ],
)
async def test_a_change_is_made_on_the_named_version(
    world: HttpDeployment, value: str, status: int
) -> None:
    """If-Match compares strongly, with a list or `*`; another version is 412, what is no list of
    tags 400."""
    _, path, staff = await requested(world)
    answer = await staff.post(f"{path}/accept", headers={"if-match": value})
    assert answer.status_code == status
    codes = {200: None, 412: "version_mismatch", 400: "if_match_invalid"}
    assert answer.json().get("code") == codes[status]
    found = json_body(await staff.get(path))["booking"]["status"]
    assert found == ("accepted" if status == 200 else "pending")


async def test_two_headers_are_one_list(world: HttpDeployment) -> None:
    """If-Match given twice is one list."""
    _, path, staff = await requested(world)
    headers = [("if-match", '"7"'), ("if-match", '"1"')]
    answer = await staff.request("POST", f"{path}/accept", headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "step",
    [
        *("accept", "decline", "checkout", "check-in", "confirm", "cancel"),
        *("dispute", "no-show", "dispute/withdraw"),
    ],
)
async def test_every_change_takes_if_match(world: HttpDeployment, step: str) -> None:
    """Each action on another version is 412, before any rule about the state."""
    booking, path, staff = await requested(world)
    customer = await world.signed_in_client(world.customer.id)
    actor = customer if step in ("checkout", "confirm", "no-show") else staff
    body = {"reason": "late"} if step == "dispute" else None
    answer = await actor.post(f"{path}/{step}", json=body, headers={"if-match": '"9"'})
    assert (answer.status_code, answer.json()["code"]) == (412, "version_mismatch")
    found = json_body(await staff.get(path))["booking"]
    assert (found["version"], found["status"]) == (booking["version"], "pending")


@pytest.mark.parametrize("value", ['"9"', "9"])
async def test_the_wrong_side_comes_first(world: HttpDeployment, value: str) -> None:
    """The wrong side is 403 under any If-Match, a malformed one too."""
    _, path, _ = await requested(world)
    customer = await world.signed_in_client(world.customer.id)
    answer = await customer.post(f"{path}/accept", headers={"if-match": value})
    assert answer.status_code == 403


async def test_a_fault_of_the_input_comes_first(world: HttpDeployment) -> None:
    """A faulty input is 422 before the version is compared."""
    _, path, staff = await requested(world)
    answer = await staff.post(f"{path}/cancel", json={"reason": 7}, headers={"if-match": '"9"'})
    assert answer.status_code == 422


async def test_a_stranger_gets_404_under_if_match(world: HttpDeployment) -> None:
    """A stranger gets 404 under any If-Match."""
    path, _, _ = await accepted(world)
    stranger = await world.signed_in_client(world.stranger.id)
    for value in ('"9"', "9"):
        answer = await stranger.post(f"{path}/cancel", headers={"if-match": value})
        assert answer.status_code == 404


@pytest.mark.parametrize(
    ("act", "body", "makes"),
    [
        ("payouts/{}/hold", {}, "completed"),
        ("payouts/{}/release", {}, "held"),
        ("payouts/{}/retry", {}, "unpaid"),
        ("refunds/{}/retry", {}, "not refunded"),
        ("disputes/{}/resolve", {"outcome": "refund"}, "disputed"),
    ],
)
async def test_an_operators_change_is_made_on_the_named_version(
    world: HttpDeployment, act: str, body: dict[str, str], makes: str
) -> None:
    """A change of a booking by an operator under If-Match of another version is 412 and changes
    nothing; under its own version it is made."""
    booking = await booking_that_is(world, makes)
    admin = await world.signed_in_client(world.admin.id)
    address = f"/api/admin/{act.format(booking.code)}"
    for version, status in ((booking.version + 1, 412), (booking.version, 200)):
        stored = await scene_of(world).booking(booking)
        assert stored.version == booking.version
        answer = await admin.post(
            address, json={"reason": "as agreed", **body}, headers={"if-match": f'"{version}"'}
        )
        assert answer.status_code == status, answer.text
        assert answer.json().get("code") == {412: "version_mismatch", 200: None}[status]


async def booking_that_is(world: HttpDeployment, state: str) -> Booking:
    scene = scene_of(world)
    if state == "not refunded":
        booking = await failed_refund(world)
        await scene.clear_faults()
        return await scene.booking(booking)
    if state == "disputed":
        return await scene.dispute(await scene.completed())
    booking = await scene.completed()
    if state == "held":
        return await payouts.hold_payout(world.ports, booking.code, "wait")
    if state == "unpaid":
        await scene.fault("pay_out", "refuse")
        scene.pass_time(2 * DAY)
        await scene.drain()
        await scene.clear_faults()
    return await scene.booking(booking)
