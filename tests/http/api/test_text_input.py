"""Texts with control or bidirectional characters over HTTP (CONTRACT 1)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_booking
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.http.api.test_errors import JSON
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

CONTROLS = ("\0", "\x07", "\x1b[31m", "\x7f", "\x85", "\x9b1m", "\rb")
BIDI = ("\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069")
BREAKS = ("\n", "\r\n", "\t", "\u2028", "\u2029")
FINE = "\N{MAN}\u200d\N{WOMAN} \u05e9\u05dc\u05d5\u05dd\u200f! \u200eÅsa\u061c"


async def assert_refused(
    client: httpx.AsyncClient, path: str, field: str, body: Any, bad: str
) -> None:
    """Assert a 422 that names the field and the character."""
    answer = await client.post(
        path, content=json.dumps({**body, field: f"So{bad}so"}), headers=JSON
    )
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {field}
    assert f"U+{ord(bad[0]):04X}" in answer.json()["errors"][0]["message"]


async def test_a_name_with_control_characters_is_refused(each_world: HttpDeployment) -> None:
    """A name with control, bidirectional or line break characters is refused; other text is
    accepted."""
    client = each_world.client()
    given = {"email": "noa@example.com", "password": "long enough", "first_name": FINE}
    given = {**given, "last_name": "Levi", "role": "customer"}
    for field in ("first_name", "last_name"):
        for bad in (*CONTROLS, *BIDI, *BREAKS):
            await assert_refused(client, "/auth/register", field, given, bad)
    async with each_world.store.read_view() as view:
        assert await view.accounts.user_by_email("noa@example.com") is None
    assert (
        json_body(await client.post("/auth/register", json=given), 201)["user"]["first_name"]
        == FINE
    )


async def test_a_review_with_control_characters_is_refused(each_world: HttpDeployment) -> None:
    """A review comment or response with control or bidirectional characters is refused; line breaks
    are accepted."""
    people = each_world.companion, each_world.customer
    booking = await add_booking(each_world.store, *people, status=BookingStatus.COMPLETED)
    customer = await each_world.signed_in_client(each_world.customer.id)
    staff = await each_world.signed_in_client(each_world.companion.id)
    about, listed = f"/reviews/booking/{booking.id}", f"/reviews/user/{each_world.companion.id}"
    for bad in (*CONTROLS, *BIDI):
        await assert_refused(customer, about, "comment", {"rating": 5}, bad)
    assert json_body(await staff.get(listed))["total_reviews"] == 0
    text = "".join(("Great", *BREAKS, FINE))
    review = json_body(await customer.post(about, json={"rating": 5, "comment": text}), 201)[
        "review"
    ]
    assert review["comment"] == text

    respond = f"/reviews/{review['id']}/respond"
    for bad in (*CONTROLS, *BIDI):
        await assert_refused(staff, respond, "response", {}, bad)
    assert json_body(await staff.get(listed))["reviews"] == [review]
    assert (
        json_body(await staff.post(respond, json={"response": text}))["review"]["response"] == text
    )


async def test_a_booking_request_with_control_characters_is_refused(
    each_world: HttpDeployment,
) -> None:
    """A booking request with control or bidirectional characters is refused, and names every such
    field."""
    customer = await each_world.signed_in_client(each_world.customer.id)
    for bad in (CONTROLS[2], BIDI[4]):
        wrong = dict.fromkeys(("location", "event_ref", "service_type"), f"So{bad}so")
        answer = await customer.post("/bookings", json={**each_world.request_body(), **wrong})
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == set(wrong)
    assert json_body(await customer.get("/bookings"))["bookings"] == []


async def test_a_reason_with_control_characters_is_refused(world: HttpDeployment) -> None:
    """A cancellation reason with control characters is refused, and the booking stays pending; one
    with a line break is accepted."""
    booking = await add_booking(world.store, world.companion, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    path = f"/bookings/{booking.id}"
    for bad in (CONTROLS[1], BIDI[0]):
        await assert_refused(customer, f"{path}/cancel", "reason", {}, bad)
    assert json_body(await customer.get(path))["booking"]["status"] == "pending"
    json_body(await customer.post(f"{path}/cancel", json={"reason": "It rains.\nSorry!"}))


async def test_a_search_with_control_characters_is_refused(world: HttpDeployment) -> None:
    """A search with control, bidirectional or line break characters names every such parameter."""
    for bad in (CONTROLS[2], BIDI[6], *BREAKS):
        sought = quote(f"Lis{bad}bon")
        answer = await world.client_with_key().get(
            f"/api/v1/companions?location={sought}&service={sought}"
        )
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"location", "service"}


async def test_stored_text_is_returned_unchanged(world: HttpDeployment) -> None:
    """A stored comment with bidirectional characters is returned unchanged."""
    people = world.companion, world.customer
    booking = await add_booking(world.store, *people, status=BookingStatus.COMPLETED)
    await add_review(world.store, booking, comment="old \u202etext")
    found = json_body(await world.client_with_key().get(f"/reviews/user/{world.companion.id}"))
    assert found["reviews"][0]["comment"] == "old \u202etext"
