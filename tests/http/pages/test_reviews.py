"""Tests of the review form of a completed booking and of the staff's response pages."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, add_booking, add_companion
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.companions import reviews
from tests.http.companions.test_reviews import completed, sides
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

LIST = "/staff/reviews"


def page(booking: Booking) -> str:
    return f"/bookings/{booking.id}/review"


async def fill(client: httpx.AsyncClient, booking: Booking, **given: str) -> httpx.Response:
    """Submit the review form, without the API's header."""
    token = client.headers.pop("x-csrf-token")
    answer = await client.post(page(booking), data={"csrf": token, **given})
    client.headers["x-csrf-token"] = token
    return answer


async def given_to(world: HttpDeployment, user_id: int) -> list[dict[str, Any]]:
    browser = await world.signed_in_client(world.stranger.id)
    found: list[dict[str, Any]] = json_body(await browser.get(f"/reviews/user/{user_id}"))[
        "reviews"
    ]
    return found


async def test_both_sides_review_by_a_form(each_world: HttpDeployment) -> None:
    """Each party reviews from the booking page, which then shows the review."""
    booking = await completed(each_world)
    others = (booking.companion_id, booking.customer_id)
    for browser, other in zip(await sides(each_world), others, strict=True):
        shown = (await browser.get(f"/bookings/{booking.id}/return")).text
        assert f'href="{page(booking)}"' in shown
        assert 'name="rating"' in (await browser.get(page(booking))).text
        sent = await fill(
            browser, booking, rating="4", comment="Calm,\r\nand kind", punctuality="5"
        )
        assert (sent.status_code, sent.headers["location"]) == (
            303,
            f"/bookings/{booking.id}/return",
        )
        shown = (await browser.get(sent.headers["location"])).text
        assert ("4 of 5" in shown, "Write a review" in shown) == (True, False)
        [review] = await given_to(each_world, other)
        said = (review["rating"], review["comment"], review["punctuality"], review["appearance"])
        assert said == (4, "Calm,\nand kind", 5, None)


async def test_what_is_left_empty_is_not_said(world: HttpDeployment) -> None:
    """Empty fields, as browsers send them, count as missing."""
    booking = await completed(world)
    customer, _ = await sides(world)
    empty = dict.fromkeys(("comment", "punctuality", "professionalism"), "")
    assert (await fill(customer, booking, rating="5", **empty)).status_code == 303
    [review] = await given_to(world, booking.companion_id)
    assert (review["comment"], review["punctuality"]) == (None, None)


async def test_invalid_input_is_an_error_in_the_form(world: HttpDeployment) -> None:
    """Invalid input is an error in the form, which keeps all submitted fields."""
    booking = await completed(world)
    customer, _ = await sides(world)
    words = 'So "calm" \n<b>' + "x" * 2000
    missing = await fill(customer, booking, comment="Kind", appearance="2")
    assert (missing.status_code, "All in all : Fill this in." in page_text(missing.text)) == (
        400,
        True,
    )
    assert '<option value="2" selected>' in missing.text
    long = await fill(customer, booking, rating="3", comment=words)
    assert (long.status_code, "Use at most 2000 characters." in long.text) == (422, True)
    assert re.search('name="rating" value="3" required checked', long.text)
    kept = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", long.text, re.DOTALL)
    assert kept
    assert html.unescape(kept[1]) == words
    assert await given_to(world, booking.companion_id) == []


async def test_a_review_is_given_once(each_world: HttpDeployment) -> None:
    """After a review, the form and whatever is submitted by it lead to the booking; the first
    review stays."""
    booking = await completed(each_world)
    customer, _ = await sides(each_world)
    await fill(customer, booking, rating="4")
    for again in (
        await customer.get(page(booking)),
        await fill(customer, booking, rating="4"),
        await fill(customer, booking, rating="1"),
    ):
        way = (again.status_code, again.headers["location"])
        assert way == (303, f"/bookings/{booking.id}/return")
    assert [each["rating"] for each in await given_to(each_world, booking.companion_id)] == [4]


async def test_a_booking_is_completed_first(world: HttpDeployment) -> None:
    """Before completion there is no form and no link, and a forged form is rejected."""
    booking = await add_booking(
        world.store, world.companion, world.customer, status=BookingStatus.PAID
    )
    customer, _ = await sides(world)
    assert page(booking) not in (await customer.get(f"/bookings/{booking.id}/return")).text
    assert "<textarea" not in (await customer.get(page(booking))).text
    sent = await fill(customer, booking, rating="5")
    assert (sent.status_code, "Only a completed booking" in sent.text) == (400, True)


async def test_it_is_for_the_two_sides_alone(world: HttpDeployment) -> None:
    """Strangers are 404, admins 403, signed-out users sign in, and a missing token is 403."""
    booking = await completed(world)
    for who, status in ((world.stranger, 404), (world.admin, 403)):
        browser = await world.signed_in_client(who.id)
        assert (await browser.get(page(booking), headers=PEOPLE)).status_code == status
        assert (await fill(browser, booking, rating="5")).status_code == status
        assert (await fill(browser, booking)).status_code == status
    for asked in (
        await world.client().get(page(booking)),
        await world.client().post(page(booking)),
    ):
        assert asked.status_code == 303
        assert httpx.URL(asked.headers["location"]).params["next"] == page(booking)
    customer, _ = await sides(world)
    assert (await fill(customer, booking, rating="5", csrf="x")).status_code == 403
    assert await given_to(world, booking.companion_id) == []


async def test_a_spent_window_loses_no_words(world: HttpDeployment) -> None:
    """Over the rate limit, the form shows the retry time and keeps the text."""
    booking = await completed(world)
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    customer, _ = await sides(world)
    await fill(customer, booking, rating="9")
    refused = await fill(customer, booking, rating="4", comment="Kind")
    assert (refused.status_code, ">\nKind</textarea>" in refused.text) == (429, True)


# Responses ------------------------------------------------------------------------------


async def respond(client: httpx.AsyncClient, path: str, text: str, **more: str) -> httpx.Response:
    """Submit the response form of a review, without the API's header."""
    token = client.headers.pop("x-csrf-token")
    answer = await client.post(path, data={"csrf": token, "response": text, **more})
    client.headers["x-csrf-token"] = token
    return answer


def forms(answer: httpx.Response) -> list[str]:
    """The links of a page to response forms."""
    return re.findall(r'action="(/staff/reviews/[^"]*)"', answer.text)


async def test_staff_read_what_is_said_of_them_and_respond(each_world: HttpDeployment) -> None:
    """Every staff page links to the reviews; an answered review has no form link."""
    comment = "Calm,\nand <b>kind"
    review = await add_review(
        each_world.store, await completed(each_world), comment=comment, punctuality=3
    )
    _, staff = await sides(each_world)
    assert f'href="{LIST}"' in (await staff.get("/")).text
    shown = await staff.get(LIST)
    assert [html.escape(comment) in shown.text, "On time 3/5" in shown.text] == [True, True]
    assert "Rating 4 (1 review)" in page_text(shown.text)
    [form] = forms(shown)
    sent = await respond(staff, form, "Thank\r\n<i>you")
    assert sent.status_code == 303
    assert sent.headers["location"] == f"{LIST}?page=1#review-{review.id}"
    shown = await staff.get(sent.headers["location"])
    assert (forms(shown), "Thank\n&lt;i&gt;you" in shown.text) == ([], True)
    [known] = await given_to(each_world, each_world.companion.id)
    assert known["response"] == "Thank\n<i>you"


async def test_reviews_come_in_pages(world: HttpDeployment) -> None:
    """A page has 20 reviews, newest first; a response returns to the page it came from."""
    made = [await add_review(world.store, await completed(world)) for _ in range(21)]
    _, staff = await sides(world)
    first, second = [await staff.get(f"{LIST}{query}") for query in ("", "?page=2")]
    numbers = [re.findall(r'id="review-(\d+)"', each.text) for each in (first, second)]
    assert [*numbers[0], *numbers[1]] == [str(each.id) for each in reversed(made)]
    assert len(numbers[0]) == 20
    assert ('href="?page=2"' in first.text, 'href="?page=3"' in second.text) == (True, False)
    sent = await respond(staff, forms(second)[0], "Thank you")
    assert sent.headers["location"] == f"{LIST}?page=2#review-{made[0].id}"
    assert "There are no more" in (await staff.get(f"{LIST}?page=3")).text
    assert (await staff.get(f"{LIST}?page=0")).status_code == 422


async def test_who_was_never_reviewed_is_told_so(world: HttpDeployment) -> None:
    """Without reviews, no average is shown."""
    _, staff = await sides(world)
    shown = (await staff.get(LIST)).text
    assert ("Nobody has reviewed you yet" in shown, 'class="rating"' in shown) == (True, False)


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("", 400, "Your answer : Fill this in."),
        (" \n", 422, "Your answer : Fill this in."),
        ('So "calm" <b>' + "x" * 2000, 422, "Your answer : Use at most 2000 characters."),
    ],
)
async def test_what_is_no_response_stays_in_the_form(
    world: HttpDeployment, text: str, status: int, told: str
) -> None:
    """An invalid response stays in the form with the error and is not stored."""
    review = await add_review(world.store, await completed(world), comment="Kind")
    _, staff = await sides(world)
    path = f"{LIST}/{review.id}?page=3"
    refused = await respond(staff, path, text)
    assert (refused.status_code, told in page_text(refused.text)) == (status, True)
    assert "Kind" in refused.text
    kept = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", refused.text, re.DOTALL)
    assert kept
    assert html.unescape(kept[1]) == text
    assert f'href="{LIST}?page=3"' in refused.text
    assert (await given_to(world, world.companion.id))[0]["response"] is None


async def test_a_second_response_is_handed_back(world: HttpDeployment) -> None:
    """A second response is rejected with its text shown, and the first one stays."""
    review = await add_review(world.store, await completed(world))
    _, staff = await sides(world)
    path = f"{LIST}/{review.id}"
    await respond(staff, path, "Thank you")
    second = await respond(staff, path, "Thanks again")
    assert (second.status_code, "has a response already" in second.text) == (400, True)
    assert re.search(r"readonly>\nThanks again</textarea>", second.text)
    assert 'name="response"' not in second.text
    assert (await given_to(world, world.companion.id))[0]["response"] == "Thank you"


async def test_a_response_submitted_twice_is_given_once(each_world: HttpDeployment) -> None:
    """The same response again, as by a double click, leads to the list as the first one does."""
    review = await add_review(each_world.store, await completed(each_world))
    _, staff = await sides(each_world)
    for _ in range(2):
        sent = await respond(staff, f"{LIST}/{review.id}?page=2", "Thank\r\nyou")
        way = (sent.status_code, sent.headers.get("location"))
        assert way == (303, f"{LIST}?page=2#review-{review.id}")


async def test_a_spent_window_loses_no_response(world: HttpDeployment) -> None:
    """Over the rate limit, the form shows the retry time and keeps the response."""
    review = await add_review(world.store, await completed(world))
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    _, staff = await sides(world)
    await respond(staff, f"{LIST}/{review.id}", " ")
    refused = await respond(staff, f"{LIST}/{review.id}", "Thank you")
    assert (refused.status_code, ">\nThank you</textarea>" in refused.text) == (429, True)


async def test_responses_are_for_the_staff_member_reviewed_alone(world: HttpDeployment) -> None:
    """Others than the reviewed staff member and forms without the token are 403."""
    review = await add_review(world.store, await completed(world), comment="Kind")
    path = f"{LIST}/{review.id}"
    other = await add_companion(world.store)
    for who in (world.customer, world.admin, other):
        browser = await world.signed_in_client(who.id)
        shown = await browser.get(path, headers=PEOPLE)
        assert (shown.status_code, "Kind" in shown.text) == (403, False)
        for text in ("Thank you", ""):
            assert (await respond(browser, path, text)).status_code == 403
        assert (await browser.get(LIST)).status_code == (200 if who is other else 403)
    _, staff = await sides(world)
    assert (await respond(staff, path, "Thank you", csrf="x")).status_code == 403
    assert (await given_to(world, world.companion.id))[0]["response"] is None
    customer, _ = await sides(world)
    assert LIST not in (await customer.get("/")).text


async def test_a_review_that_is_not_there_is_404(world: HttpDeployment) -> None:
    """Missing and hidden reviews are 404, whatever is submitted."""
    review = await add_review(world.store, await completed(world))
    await reviews.set_review_hidden(world.ports, review.id, True)
    _, staff = await sides(world)
    assert forms(await staff.get(LIST)) == []
    for number in (str(review.id), "999", "0", "x", str(2**63)):
        path = f"{LIST}/{number}"
        assert (await staff.get(path)).status_code == 404
        for text in ("Thank you", ""):
            assert (await respond(staff, path, text)).status_code == 404


async def test_signed_out_requests_lead_to_sign_in(world: HttpDeployment) -> None:
    """Signed-out visitors are led to sign-in and back."""
    for path in (LIST, f"{LIST}/1"):
        answer = await world.client().get(path)
        assert answer.status_code == 303
        assert httpx.URL(answer.headers["location"]).params["next"] == path


# Ended sessions -------------------------------------------------------------------------

WORDS = [
    ("/bookings/1/review", "comment"),
    ("/bookings/1/cancellation", "reason"),
    ("/bookings/1/problem", "text"),
    ("/conversations/1", "content"),
    ("/staff/reviews/1", "response"),
]


@pytest.mark.parametrize(("path", "field"), WORDS)
async def test_words_that_come_after_the_session_are_handed_back(
    world: HttpDeployment, path: str, field: str
) -> None:
    """Text submitted after the session ended is kept escaped, to be sent after signing in."""
    for headers in ({}, {"sec-fetch-site": "same-origin"}):
        words = 'So "calm"\n</textarea><b>'
        sent = await world.client().post(path, data={"csrf": "x", field: words}, headers=headers)
        assert (sent.status_code, "Your session has ended" in sent.text) == (401, True)
        kept = re.search(r'name="resumed" value="([^"]*)"', sent.text)
        assert kept
        assert parse_qs(html.unescape(kept[1])) == {field: [words]}
        assert f'action="/account/sign-in?next={path}"' in sent.text


async def test_long_words_are_handed_back_after_signing_in(world: HttpDeployment) -> None:
    """5,000 characters outside the Latin alphabet, which are sent encoded twice, come back."""
    path, field = WORDS[0]
    words = "字" * 5000
    sent = await world.client().post(path, data={"csrf": "x", field: words})
    kept = re.search(r'name="resumed" value="([^"]*)"', sent.text)
    assert kept
    given = {"email": "ada@example.com", "password": TEST_PASSWORD}
    given["resumed"] = html.unescape(kept[1])
    answer = await world.client().post(f"/account/sign-in?next={path}", data=given)
    assert answer.status_code == 200
    assert words in answer.text


@pytest.mark.parametrize(("path", "field"), WORDS)
async def test_words_of_a_foreign_page_are_not_shown(
    world: HttpDeployment, path: str, field: str
) -> None:
    """Text of a cross-site form is not shown; the visitor is led to sign-in."""
    for site in ("cross-site", "same-site", "none"):
        headers = {"sec-fetch-site": site}
        sent = await world.client().post(path, data={field: "Call 555"}, headers=headers)
        assert sent.status_code == 303
        assert httpx.URL(sent.headers["location"]).params["next"] == path


@pytest.mark.parametrize(("path", "_"), WORDS)
async def test_who_wrote_nothing_signs_in(world: HttpDeployment, path: str, _: str) -> None:
    """A form without content leads to sign-in."""
    sent = await world.client().post(path, data={"csrf": "x", "comment": ""})
    assert sent.status_code == 303
