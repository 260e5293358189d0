"""Reviews over HTTP (SPECIFICATION 4.9, CONTRACT 5)."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import pytest

from staffbooking_adapters.testing.builders import HOUR, add_booking, add_companion
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.representations.companions import review_record
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import reviews
from tests.http.api.test_errors import JSON, Failing
from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of, jsonschema_rs_value, validator

pytestmark = pytest.mark.anyio

LEAST = {"rating": 4}
UNSAID = ("comment", "punctuality", "professionalism", "communication", "appearance")


async def completed(world: HttpDeployment, **given: Any) -> Booking:
    """A booking of the customer and the companion that can be reviewed."""
    given = {"status": BookingStatus.COMPLETED, **given}
    return await add_booking(world.store, world.companion, world.customer, **given)


async def sides(world: HttpDeployment) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    return await world.signed_in_client(world.customer.id), await world.signed_in_client(
        world.companion.id
    )


def about(booking: Booking) -> str:
    return f"/reviews/booking/{booking.id}"


# The main flow --------------------------------------------------------------------------


async def test_a_booking_is_reviewed_from_both_sides(each_world: HttpDeployment) -> None:
    """A review of a completed booking is in the list, the profile and the events, with its
    response."""
    path, customer, staff = await paid(each_world)
    await set_clock(each_world, "2027-03-03T22:00:00Z")
    code = json_body(await customer.post(f"{path}/confirm"))["booking"]["booking_code"]
    number = int(path.rpartition("/")[2])
    said = {"rating": 5, "comment": "Great", "punctuality": 4, "appearance": 5}
    made = json_body(await customer.post(f"/reviews/booking/{number}", json=said), 201)
    review = made["review"]
    assert made["success"] is True
    assert review == {
        **dict.fromkeys(UNSAID),
        **said,
        "id": review["id"],
        "booking_id": number,
        "reviewer_id": each_world.customer.id,
        "reviewer_name": "Ada Okoro",
        "reviewer_role": "customer",
        "reviewee_id": each_world.companion.id,
        "response": None,
        "responded_at": None,
        "created_at": "2027-03-03T22:00:00Z",
    }
    other = json_body(await staff.post(f"/reviews/booking/{number}", json=LEAST), 201)["review"]
    assert (other["reviewer_role"], other["reviewee_id"]) == ("staff", each_world.customer.id)

    thanks = {"response": "Thank you"}
    answer = json_body(await staff.post(f"/reviews/{review['id']}/respond", json=thanks))
    answered = {**review, **thanks, "responded_at": "2027-03-03T22:00:00Z"}
    assert answer == {"success": True, "review": answered}

    listed = json_body(await customer.get(f"/reviews/user/{each_world.companion.id}"))
    totals = {"rating_avg": 5, "total_reviews": 1}
    assert listed == {"reviews": [answered], **totals, "page": 1, "limit": 12}
    profile = await each_world.client_with_key().get(
        f"/api/v1/companions/{each_world.companion.id}"
    )
    shown = json_body(profile)["companion"]
    assert (shown["reviews"], shown["rating_avg"], shown["total_reviews"]) == ([answered], 5, 1)

    async with each_world.store.read_view() as view:
        told = [json.loads(body) for _, body in await view.bookings.events_of(number)]
    assert [one["event"] for one in told[-2:]] == ["review.created"] * 2
    assert told[-2]["data"] == {"review": review, "booking_code": code}
    assert [one["sequence"] for one in told] == list(range(1, len(told) + 1))


async def test_the_event_has_the_documented_shape(world: HttpDeployment) -> None:
    """The review event matches the schema in the document."""
    booking, (customer, _) = await completed(world), await sides(world)
    json_body(await customer.post(about(booking), json={**LEAST, "comment": "Fine"}), 201)
    async with world.store.read_view() as view:
        ((_, body),) = await view.bookings.events_of(booking.id)
    document = await document_of(world)
    item = document["webhooks"]["review.created"]["post"]
    schema = item["requestBody"]["content"]["application/json"]["schema"]
    validator(document, schema).validate(jsonschema_rs_value(body))


# Submitting -----------------------------------------------------------------------------


async def test_a_second_review_is_one_too_many(each_world: HttpDeployment) -> None:
    """A second review by the same party is 400, also when both are sent concurrently."""
    booking, (customer, staff) = await completed(each_world), await sides(each_world)
    met: list[str] = []

    async def submit(side: httpx.AsyncClient) -> None:
        answer = await side.post(about(booking), json=LEAST)
        met.append(answer.json().get("code", str(answer.status_code)))

    async with anyio.create_task_group() as tasks:
        for side in (customer, staff) * 3:
            tasks.start_soon(submit, side)
    assert sorted(met) == ["201"] * 2 + ["already_reviewed"] * 4


@pytest.mark.parametrize("status", sorted(set(BookingStatus) - {BookingStatus.COMPLETED}))
async def test_only_completed_bookings_are_reviewed(
    world: HttpDeployment, status: BookingStatus
) -> None:
    """A review is 400 in every other booking status, for both parties."""
    booking = await completed(world, status=status)
    for side in await sides(world):
        error_body(await side.post(about(booking), json=LEAST), 400, "booking_not_completed")


async def test_agencies_and_admins_do_not_review(world: HttpDeployment) -> None:
    """The agency that booked, and an admin, are 403 before the body is parsed."""
    booking = await completed(world, booked_by=world.subscriber.id)
    for user in (world.subscriber, world.admin):
        browser = await world.signed_in_client(user.id)
        error_body(await browser.post(about(booking), json=LEAST), 403, "wrong_party")
        error_body(await browser.post(about(booking), json={}), 403, "wrong_party")
        error_body(await browser.post(about(booking), content=b"{"), 403, "wrong_party")


@pytest.mark.parametrize("body", [b'{"rating":4}', b"{}", b"["])
async def test_a_booking_of_others_is_404(world: HttpDeployment, body: bytes) -> None:
    """A booking of other users is 404, like an unknown one, whatever else is wrong."""
    booking = await completed(world)
    stranger = await world.signed_in_client(world.stranger.id)
    customer, _ = await sides(world)
    for browser, path in (
        (stranger, about(booking)),
        (customer, "/reviews/booking/999"),
        (customer, "/reviews/booking/0"),
        (customer, f"/reviews/booking/{2**63}"),
    ):
        error_body(await browser.post(path, content=body, headers=JSON), 404, "not_found")


async def test_reviewing_takes_a_session(world: HttpDeployment) -> None:
    """Reviewing and responding are 401 for keys and without credentials, and 403 without the CSRF
    token."""
    booking = await completed(world)
    paths = (about(booking), "/reviews/1/respond")
    for path in paths:
        error_body(await world.client().post(path, json=LEAST), 401, "unauthenticated")
        error_body(await world.client_with_key().post(path, json=LEAST), 401, "session_required")
    for browser, path in zip(await sides(world), paths, strict=True):
        del browser.headers["x-csrf-token"]
        error_body(await browser.post(path, json=LEAST), 403, "csrf_failed")


async def test_a_rating_is_required(world: HttpDeployment) -> None:
    """A missing rating is reported alone; the other fields are not checked."""
    booking, (customer, _) = await completed(world), await sides(world)
    for body in ({}, {"rating": None}, {"comment": "Great", "punctuality": 9}):
        answer = await customer.post(about(booking), json=body)
        error_body(answer, 400, "missing_field")
        assert error_fields(answer) == {"rating"}


async def test_every_invalid_field_is_listed(world: HttpDeployment) -> None:
    """Marks other than integers from 1 to 5, and invalid comments, are 422 and all listed."""
    booking, (customer, _) = await completed(world), await sides(world)
    wrong = {
        "rating": 0,
        "comment": "x" * 2001,
        "punctuality": 6,
        "professionalism": "5",
        "communication": True,
    }
    body = json.dumps(wrong)[:-1] + ',"appearance":4.0}'
    answer = await customer.post(about(booking), content=body, headers=JSON)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {*wrong, "appearance"}
    for comment in ("a\0b", "\ud800", 7):
        raw = json.dumps({**LEAST, "comment": comment})
        answer = await customer.post(about(booking), content=raw, headers=JSON)
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"comment"}


async def test_the_form_goes_before_the_rules(world: HttpDeployment) -> None:
    """Faults of the body are reported before faults of the booking's state."""
    booking, (customer, _) = await completed(world, status=BookingStatus.PAID), await sides(world)
    error_body(await customer.post(about(booking), json={"rating": 9}), 422, "invalid_field")
    error_body(await customer.post(about(booking), json={}), 400, "missing_field")
    error_body(await customer.post(about(booking), content=b"{}"), 415, "unsupported_media_type")
    large = await customer.post(about(booking), content=b"x" * 70_000, headers=JSON)
    error_body(large, 413, "body_too_large")


@pytest.mark.parametrize(
    "comment, kept", [("", None), (" \n", None), ("\N{GRINNING FACE}" * 2000, "same")]
)
async def test_a_comment_may_be_empty_or_long(
    world: HttpDeployment, comment: str, kept: str | None
) -> None:
    """A blank comment is stored as null, and one of 2,000 four-byte characters unchanged."""
    booking, (customer, _) = await completed(world), await sides(world)
    body = {**LEAST, "comment": comment, "id": 7, "reviewee_id": 7, "response": "mine"}
    review = json_body(await customer.post(about(booking), json=body), 201)["review"]
    assert review["comment"] == (comment if kept else None)
    assert (review["reviewee_id"], review["response"]) == (world.companion.id, None)


async def test_every_mark_is_kept_as_its_own(world: HttpDeployment) -> None:
    """The four marks besides the rating are stored for both parties, and are in lists and
    profiles."""
    booking = await completed(world)
    one = dict(zip(("rating", *UNSAID[1:]), (3, 1, 2, 4, 5), strict=True))
    other = dict(zip(("rating", *UNSAID[1:]), (5, 4, 3, 2, 1), strict=True))
    for side, marks in zip(await sides(world), (one, other), strict=True):
        review = json_body(await side.post(about(booking), json=marks), 201)["review"]
        assert {name: review[name] for name in marks} == marks
    client = world.client_with_key()
    for user, marks in ((world.companion, one), (world.customer, other)):
        [review] = json_body(await client.get(f"/reviews/user/{user.id}"))["reviews"]
        assert {name: review[name] for name in marks} == marks
    profile = json_body(await client.get(f"/api/v1/companions/{world.companion.id}"))["companion"]
    assert {name: profile["reviews"][0][name] for name in one} == one


# Reading --------------------------------------------------------------------------------


async def test_reviews_are_read_by_key_or_by_session(world: HttpDeployment) -> None:
    """Reading takes a session, or a key with the read permission and a subscription."""
    path = f"/reviews/user/{world.companion.id}"
    json_body(await world.client_with_key().get(path))
    stranger = await world.signed_in_client(world.stranger.id)
    json_body(await stranger.get(path))
    error_body(await world.client().get(path), 401, "unauthenticated")
    error_body(await world.client_with_key("ps_x").get(path), 401, "invalid_api_key")
    booker = world.client_with_key(await world.add_api_key(world.subscriber, Permission.BOOK))
    error_body(await booker.get(path), 403, "permission_required")
    lapsed = world.client_with_key(await world.add_api_key(world.customer))
    error_body(await lapsed.get(path), 403, "subscription_required")


async def test_a_key_is_checked_instead_of_a_session(world: HttpDeployment) -> None:
    """With an API key and a session, only the key is checked."""
    path = f"/reviews/user/{world.companion.id}"
    stranger = await world.signed_in_client(world.stranger.id)
    stranger.headers["authorization"] = "Bearer ps_x"
    error_body(await stranger.get(path), 401, "invalid_api_key")
    program = world.client_with_key()
    program.headers["cookie"] = "connect.sid=garbage"
    json_body(await program.get(path))


async def test_reading_is_counted_by_key_and_by_user(world: HttpDeployment) -> None:
    """Reading reviews counts in the caller's general window, which the answer shows."""
    world.raise_limits(general=RateLimit("general", 2, HOUR))
    path = f"/reviews/user/{world.companion.id}"
    program, browser = world.client_with_key(), await world.signed_in_client(world.subscriber.id)
    for client in (program, browser):
        left = [(await client.get(path)).headers["x-ratelimit-remaining"] for _ in "ab"]
        assert left == ["1", "0"]
        assert error_body(await client.get(path), 429, "rate_limited")["retry_after"] == 3600


async def test_reviews_come_by_pages(world: HttpDeployment) -> None:
    """Reviews are listed newest first, 12 to a page by default."""
    made = [review_record(await add_review(world.store, await completed(world))) for _ in range(14)]
    path, client, newest = (
        f"/reviews/user/{world.companion.id}",
        world.client_with_key(),
        made[::-1],
    )
    for query, wanted, page, limit in (
        ("", newest[:12], 1, 12),
        ("?page=2", newest[12:], 2, 12),
        ("?limit=5&page=3", newest[10:], 3, 5),
        ("?limit=50&page=100000", [], 100_000, 50),
    ):
        found = json_body(await client.get(path + query))
        assert found == {
            "reviews": wanted,
            "rating_avg": 4,
            "total_reviews": 14,
            "page": page,
            "limit": limit,
        }


@pytest.mark.parametrize(
    "query", ["page=0", "page=100001", "limit=0", "limit=51", "limit=x", "limit=1&limit=2"]
)
async def test_a_page_has_its_bounds(world: HttpDeployment, query: str) -> None:
    """An invalid page or limit is 422 and named, and 404 for an unknown user."""
    client = world.client_with_key()
    answer = await client.get(f"/reviews/user/{world.companion.id}?{query}")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {query.partition("=")[0]}
    error_body(await client.get(f"/reviews/user/999?{query}"), 404, "not_found")


@pytest.mark.parametrize("number", ["999", "0", "01", "x", "-1", str(2**63)])
async def test_an_unknown_user_is_404(world: HttpDeployment, number: str) -> None:
    """An unknown user is 404; an existing user without reviews has an empty list."""
    client = world.client_with_key()
    error_body(await client.get(f"/reviews/user/{number}"), 404, "not_found")
    found = json_body(await client.get(f"/reviews/user/{world.admin.id}"))
    assert (found["reviews"], found["rating_avg"], found["total_reviews"]) == ([], 0, 0)


async def test_reviews_of_disabled_users_are_listed(world: HttpDeployment) -> None:
    """Reviews of a disabled user are listed."""
    await add_review(world.store, await completed(world), Party.STAFF, rating=2)
    await disabling.disable_user(world.ports, world.customer.email)
    client = world.client_with_key()
    found = json_body(await client.get(f"/reviews/user/{world.customer.id}"))
    assert (found["rating_avg"], found["total_reviews"]) == (2, 1)


# Responding -----------------------------------------------------------------------------


async def test_a_response_is_given_once(each_world: HttpDeployment) -> None:
    """A second response is 400, also when both are sent concurrently."""
    review = await add_review(each_world.store, await completed(each_world))
    _, staff = await sides(each_world)
    met: list[str] = []

    async def respond(text: str) -> None:
        answer = await staff.post(f"/reviews/{review.id}/respond", json={"response": text})
        met.append(answer.json().get("code", text))

    async with anyio.create_task_group() as tasks:
        for text in "abc":
            tasks.start_soon(respond, text)
    (given,) = set(met) - {"already_responded"}
    (found,) = json_body(await staff.get(f"/reviews/user/{each_world.companion.id}"))["reviews"]
    assert (len(met), found["response"]) == (3, given)


async def test_only_the_staff_member_reviewed_responds(world: HttpDeployment) -> None:
    """Others than the reviewed staff member are 403 before the body is checked."""
    review = await add_review(world.store, await completed(world))
    other = await world.signed_in_client((await add_companion(world.store)).id)
    path = f"/reviews/{review.id}/respond"
    for body in ({"response": "Hello"}, {}):
        error_body(await other.post(path, json=body), 403, "wrong_party")
        for user in (world.customer, world.admin):
            browser = await world.signed_in_client(user.id)
            error_body(await browser.post(path, json=body), 403, "staff_only")
            error_body(await browser.post("/reviews/999/respond", json=body), 403, "staff_only")
    _, staff = await sides(world)
    json_body(await staff.post(path, json={"response": "Hello"}))


@pytest.mark.parametrize("body", [{"response": "Hello"}, {}])
@pytest.mark.parametrize("number", ["999", "0", str(2**63)])
async def test_an_unknown_review_is_404(
    world: HttpDeployment, number: str, body: dict[str, str]
) -> None:
    """An unknown review is 404, whatever is wrong with the body."""
    _, staff = await sides(world)
    error_body(await staff.post(f"/reviews/{number}/respond", json=body), 404, "not_found")


async def test_a_response_has_its_bounds(world: HttpDeployment) -> None:
    """A response is required, not blank, and has at most 2,000 characters."""
    review = await add_review(world.store, await completed(world))
    _, staff = await sides(world)
    path = f"/reviews/{review.id}/respond"
    error_body(await staff.post(path, json={}), 400, "missing_field")
    for response in ("", " \n", "x" * 2001, 7, ["x"]):
        answer = await staff.post(path, json={"response": response})
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"response"}
    body = {"response": "é" * 2000}
    assert json_body(await staff.post(path, json=body))["review"]["response"] == body["response"]


async def test_a_hidden_review_is_left_out_until_it_is_shown(each_world: HttpDeployment) -> None:
    """A hidden review is left out of lists, profiles and searches, but the booking still counts as
    reviewed."""
    booking, (customer, staff) = await completed(each_world), await sides(each_world)
    await add_review(each_world.store, await completed(each_world), rating=5)
    made = json_body(await customer.post(about(booking), json={"rating": 1}), 201)["review"]
    listed, client = f"/reviews/user/{each_world.companion.id}", each_world.client_with_key()
    profile = f"/api/v1/companions/{each_world.companion.id}"

    async def check(*marks: int) -> None:
        """Assert the marks shown, newest first, and their mean, in all representations."""
        found, detail = (
            json_body(await client.get(listed)),
            json_body(await client.get(profile))["companion"],
        )
        summary = json_body(await client.get("/api/v1/companions"))["companions"][0]
        for one in (found, detail, summary):
            total = (sum(marks) / len(marks), len(marks))
            assert (one["rating_avg"], one["total_reviews"]) == total
        for one in (found, detail):
            assert tuple(review["rating"] for review in one["reviews"]) == marks

    await check(1, 5)
    await reviews.set_review_hidden(each_world.ports, made["id"], True)
    await check(5)
    answer = await staff.post(f"/reviews/{made['id']}/respond", json={"response": "Hello"})
    error_body(answer, 404, "not_found")
    error_body(await customer.post(about(booking), json={"rating": 1}), 400, "already_reviewed")
    await reviews.set_review_hidden(each_world.ports, made["id"], False)
    await check(1, 5)
    assert json_body(await client.get(listed))["reviews"][0] == made


async def test_an_unavailable_store_is_503(world: HttpDeployment) -> None:
    """An unavailable store is 503."""
    customer, _ = await sides(world)
    world.restart(store=Failing(StoreUnavailable("gone")))
    there = world.client(**dict(customer.headers))
    error_body(await there.get("/reviews/user/1"), 503, "unavailable")
