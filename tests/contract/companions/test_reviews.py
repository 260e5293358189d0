"""Contract of the stores: reviews, rating totals, and the reviews in a detail."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.memory.doubles import SeededIds, VirtualClock
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    add_user,
)
from staffbooking_adapters.testing.builders_reviews import add_review, make_new_review
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.companion import CompanionQuery, rating_average
from staffbooking_core.domain.companions.reviews import RatingTotals, Review
from staffbooking_core.errors import ConstraintViolated, NotFound, RuleBroken
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.ports import ALREADY_REVIEWED
from staffbooking_core.representations.companions import review_record
from staffbooking_core.usecases.companions import reviews
from tests.contract.stores import STORES, open_sql_store, store_url
from tests.support.memory_deployment import actor_of, memory_ports

pytestmark = pytest.mark.anyio

FINE = NOW + timedelta(microseconds=123_456)


async def find(store, review_id):
    return await read_store(store, lambda view: view.reviews.review(review_id))


async def by(store, booking_id, reviewer_id):
    return await read_store(store, lambda view: view.reviews.review_by(booking_id, reviewer_id))


async def listed(store, user_id, page=1, limit=50):
    return list(await read_store(store, lambda view: view.reviews.reviews_of(user_id, page, limit)))


async def ratings(store, user_id):
    return await read_store(store, lambda view: view.reviews.ratings_of(user_id))


async def add(store, new):
    """Add a review without saving its companion."""
    return await store.run_transaction(lambda unit: unit.reviews.add_review(new))


async def respond(store, review):
    return await store.run_transaction(lambda unit: unit.reviews.save_response(review))


async def hide(store, review):
    return await store.run_transaction(lambda unit: unit.reviews.save_hidden(review))


async def shown(store, companion_id):
    detail = await read_store(store, lambda view: view.companions.detail(companion_id))
    return json.loads(detail)["companion"]


# One review -------------------------------------------------------------------------------


async def test_a_review_is_stored_as_added(store):
    """A review is stored with every field, times to the microsecond."""
    given = {
        "rating": 5,
        "comment": ' "Great"\n\N{GRINNING FACE} ',
        "punctuality": 1,
        "professionalism": 2,
        "communication": 3,
        "appearance": 4,
        "reviewer_name": "Mía Lindqvist",
        "created_at": FINE,
    }
    new = make_new_review(await add_booking(store), Party.STAFF, **given)
    review = await add(store, new)
    assert review == Review(id=review.id, **asdict(new))
    assert await find(store, review.id) == review
    assert await listed(store, review.reviewee_id) == [review]


async def test_an_unset_field_stays_unset(store):
    """A review without text and subratings is stored with None for them."""
    review = await add(store, make_new_review(await add_booking(store)))
    assert await find(store, review.id) == review
    assert (review.comment, review.appearance, review.response) == (None, None, None)


async def test_an_unknown_review_is_none(store):
    """An unknown review is None, and saving a response to it returns False."""
    review = await add_review(store)
    unknown = evolve(review, id=review.id + 1, response="Hello")
    assert await find(store, unknown.id) is None
    assert await respond(store, unknown) is False


async def test_a_party_finds_its_own_review(store):
    """`review_by` gives the review of a booking by its own author only, hidden or not."""
    booking = await add_booking(store)
    review = await add_review(store, booking)
    other = await add_booking(store, booking.companion_id, booking.customer_id)
    await add_review(store, other, Party.STAFF)
    sides = [
        (each.id, who) for each in (booking, other) for who in (each.customer_id, each.companion_id)
    ]
    found = [await by(store, *side) for side in sides]
    assert [each and each.reviewer_role for each in found] == ["customer", None, None, "staff"]
    hidden = evolve(review, hidden=True)
    await hide(store, hidden)
    assert await by(store, booking.id, booking.customer_id) == hidden


async def test_a_party_reviews_a_booking_once(store):
    """A second review by the same party raises ConstraintViolated(ALREADY_REVIEWED)."""
    booking = await add_booking(store)
    review = await add_review(store, booking)
    with pytest.raises(ConstraintViolated) as caught:
        await add_review(store, booking, rating=1)
    assert caught.value.constraint == ALREADY_REVIEWED
    assert await listed(store, booking.companion_id) == [review]
    await add_review(store, booking, Party.STAFF)
    await add_review(store, await add_booking(store, booking.companion_id, booking.customer_id))


async def test_a_response_is_saved_once(store):
    """The first response is stored with its time, changes nothing else, and is final."""
    review = await add_review(store)
    answered = review.with_response("Thank you", FINE)
    assert await respond(store, evolve(answered, rating=1, comment="forged")) is True
    found = await find(store, review.id)
    assert (found.response, found.responded_at) == ("Thank you", FINE)
    assert await respond(store, review.with_response("Or not", FINE + HOUR)) is False
    assert await find(store, review.id) == found


async def test_a_review_is_hidden_and_shown(store):
    """`save_hidden` changes only `hidden`, and returns whether it changed anything."""
    review = await add_review(store, rating=5)
    hidden = evolve(review, hidden=True)
    assert await hide(store, evolve(hidden, rating=1, comment="forged", response="mine")) is True
    assert await hide(store, hidden) is False
    assert await find(store, review.id) == hidden
    assert await hide(store, review) is True
    assert await hide(store, review) is False
    assert await find(store, review.id) == review
    assert await hide(store, evolve(hidden, id=review.id + 1)) is False


async def test_a_rollback_leaves_no_review(store):
    """A rolled-back transaction leaves no review."""
    booking = await add_booking(store)

    async def unit(tx):
        await tx.reviews.add_review(make_new_review(booking))
        raise RuleBroken("any", "any")

    with pytest.raises(RuleBroken):
        await store.run_transaction(unit)
    assert await listed(store, booking.companion_id) == []
    await add_review(store, booking)


# Many -------------------------------------------------------------------------------------


async def test_reviews_come_by_pages(store):
    """Pages of reviews are newest first, and empty past the end."""
    companion = await add_companion(store)
    made = [await add_review(store, await add_booking(store, companion)) for _ in range(5)]
    await add_review(store)
    newest = made[::-1]
    pages = [await listed(store, companion.id, page, 2) for page in (1, 2, 3, 4, 100_000)]
    assert pages == [newest[:2], newest[2:4], newest[4:], [], []]
    assert await listed(store, companion.id, 1, 4) == newest[:4]


async def test_hidden_reviews_are_left_out(store):
    """Hidden reviews are left out of pages, rating totals, and the detail saved next."""
    companion = await add_companion(store)
    made = [await add_review(store, await add_booking(store, companion)) for _ in range(14)]
    other = await add_review(store)
    for one in (made[13], made[8], made[0]):
        await hide(store, evolve(one, hidden=True))
    rest = [*made[1:8], *made[9:13]][::-1]
    pages = [await listed(store, companion.id, page, 4) for page in (1, 2, 3, 4)]
    assert pages == [rest[:4], rest[4:8], rest[8:], []]
    assert await ratings(store, companion.id) == RatingTotals(44, 11)
    assert await ratings(store, other.reviewee_id) == RatingTotals(4, 1)

    async def save(tx):
        await tx.companions.save_companion(await tx.companions.lock_companion(companion.id))

    await store.run_transaction(save)
    detail = await shown(store, companion.id)
    assert detail["reviews"] == [review_record(review) for review in rest[:10]]


async def test_only_hidden_reviews_are_no_ratings(store):
    """A user whose reviews are all hidden has zero totals and an empty list."""
    review = await add_review(store)
    await hide(store, evolve(review, hidden=True))
    assert await ratings(store, review.reviewee_id) == RatingTotals()
    assert await listed(store, review.reviewee_id) == []


async def test_all_reviews_come_in_the_order_of_ids(store):
    """`reviews` gives the reviews of all users by id above the given one, hidden ones too."""
    made = [await add_review(store) for _ in range(3)]
    made.append(await add_review(store, await add_booking(store), Party.STAFF))
    made[1] = evolve(made[1], hidden=True)
    await hide(store, made[1])

    async def after(review_id, limit):
        return list(await read_store(store, lambda view: view.reviews.reviews(review_id, limit)))

    assert await after(0, 50) == made
    assert await after(0, 2) == made[:2]
    assert await after(made[1].id, 2) == made[2:]
    assert await after(made[3].id, 2) == []


async def test_ratings_are_of_one_user(store):
    """Rating totals are those of the reviews that the user received, in either role."""
    companion, customer = await add_companion(store), await add_user(store)
    for rating in (5, 4, 2):
        booking = await add_booking(store, companion, customer)
        await add_review(store, booking, rating=rating)
    await add_review(store, booking, Party.STAFF, rating=1)
    assert await ratings(store, companion.id) == RatingTotals(11, 3)
    assert await ratings(store, customer.id) == RatingTotals(1, 1)


async def test_a_user_without_reviews_has_no_ratings(store):
    """A user without reviews has zero totals, and an unknown user has None."""
    user = await add_user(store)
    assert await ratings(store, user.id) == RatingTotals(0, 0)
    assert await ratings(store, user.id + 1) is None


async def test_the_detail_shows_the_newest_ten(store):
    """The detail has the newest ten reviews, with the responses at the time of the last save."""
    companion = await add_companion(store)
    made = [await add_review(store, await add_booking(store, companion)) for _ in range(12)]
    newest = made[:1:-1]
    detail = await shown(store, companion.id)
    assert detail["reviews"] == [review_record(review) for review in newest]
    assert (detail["total_reviews"], detail["rating_avg"]) == (12, 4)
    answered = newest[3].with_response("Thank you", NOW + DAY)
    assert await respond(store, answered)

    async def rename(tx):
        user = await tx.accounts.lock_user(companion.id)
        await tx.accounts.save_user(evolve(user, first_name="Noa"))

    await store.run_transaction(rename)
    detail = await shown(store, companion.id)
    assert detail["first_name"] == "Noa"
    assert detail["reviews"][3] == review_record(answered)
    assert len(detail["reviews"]) == 10


async def test_a_better_rating_ranks_first(store):
    """A review changes its companion's rank and summary in searches."""
    plain, other = await add_companion(store), await add_companion(store)
    await add_review(store, await add_booking(store, plain), rating=3)
    await add_review(store, await add_booking(store, other), rating=5)
    found = await read_store(store, lambda view: view.companions.search(CompanionQuery()))
    first, second = found.summaries
    assert (json.loads(first)["id"], json.loads(first)["rating_avg"]) == (other.id, 5)
    assert (json.loads(second)["id"], json.loads(second)["total_reviews"]) == (plain.id, 1)


# Races ------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
async def ports(request):
    """The ports of two processes on one database."""
    name, ids = request.param, SeededIds()
    async with STORES[name](request) as one, open_sql_store(store_url(request, name)) as other:
        yield [
            memory_ports(store=store, admission=store.admission, clock=VirtualClock(NOW), ids=ids)
            for store in (one, other)
        ]


async def at_once(calls):
    """The result or the error code of each call, all started together."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call):
        await barrier.wait()
        try:
            return await call()
        except (RuleBroken, NotFound) as error:
            return error.code

    return await asyncio.gather(*map(run, calls))


async def completed(store, companion, customer):
    return await add_booking(store, companion, customer, status=BookingStatus.COMPLETED)


async def test_concurrent_reviews_of_a_party_store_one(ports):
    """Concurrent reviews from two processes store one review and one event of each party."""
    store = ports[0].store
    companion, customer = await add_companion(store), await add_user(store)
    booking = await completed(store, companion, customer)
    wanted = SubmitReview(rating=4)
    calls = [
        partial(reviews.submit_review, ports[n % 2], actor_of(by), booking.id, wanted)
        for n in range(8)
        for by in (companion, customer)
    ]
    results = await at_once(calls)
    assert results.count("already_reviewed") == 14
    assert (
        await ratings(store, companion.id)
        == await ratings(store, customer.id)
        == RatingTotals(4, 1)
    )
    found = await read_store(store, lambda view: view.bookings.booking(booking.id))
    stored_events = await read_store(store, lambda view: view.bookings.events_of(booking.id))
    assert (found.revision, found.events) == (booking.revision + 2, booking.events + 2)
    assert [sequence for sequence, _ in stored_events] == [booking.events + 1, booking.events + 2]


async def test_concurrent_reviews_of_a_companion_all_count(ports):
    """Concurrent reviews of 32 bookings and two responses, from two processes, leave exact rating
    totals and the newest ten reviews in the detail."""
    store = ports[0].store
    companion = await add_companion(store)
    customers = [await add_user(store) for _ in range(4)]
    first = await add_review(store, await add_booking(store, companion, customers[0]), rating=5)
    marks = [random.Random(n).randint(1, 5) for n in range(32)]
    calls = []
    for n, mark in enumerate(marks):
        customer = customers[n % 4]
        booking = await completed(store, companion, customer)
        wanted = SubmitReview(rating=mark)
        calls.append(
            partial(reviews.submit_review, ports[n % 2], actor_of(customer), booking.id, wanted)
        )
    thanks, staff = RespondToReview(response="Thank you"), actor_of(companion)
    calls += [partial(reviews.respond_to_review, each, staff, first.id, thanks) for each in ports]
    results = await at_once(calls)
    assert Counter(result for result in results if isinstance(result, str)) == {
        "already_responded": 1
    }
    exact = RatingTotals(sum(marks) + 5, 33)
    assert await ratings(store, companion.id) == exact
    found = await read_store(store, lambda view: view.companions.companion(companion.id))
    assert (found.rating_sum, found.total_reviews) == (exact.rating_sum, 33)
    detail = await shown(store, companion.id)
    assert detail["rating_avg"] == float(rating_average(exact.rating_sum, 33))
    newest = await listed(store, companion.id, limit=10)
    assert detail["reviews"] == [review_record(review) for review in newest]


async def test_hiding_during_reviews_keeps_exact_ratings(ports):
    """Reviews concurrent with hiding and showing others, from two processes, leave the companion
    with the rating totals of the visible reviews."""
    store = ports[0].store
    companion, customer = await add_companion(store), await add_user(store)
    dice, calls, known = random.Random(4), [], []
    for _ in range(8):
        booking = await add_booking(store, companion, customer)
        known.append(await add_review(store, booking, rating=dice.randint(1, 5)))
    for n in range(16):
        booking = await completed(store, companion, customer)
        wanted = SubmitReview(rating=dice.randint(1, 5))
        calls.append(
            partial(reviews.submit_review, ports[n % 2], actor_of(customer), booking.id, wanted)
        )
    for n, review in enumerate(known * 4):
        calls.append(partial(reviews.set_review_hidden, ports[n % 2], review.id, n % 16 < 12))
    thanks, staff = RespondToReview(response="Thank you"), actor_of(companion)
    calls += [
        partial(reviews.respond_to_review, ports[0], staff, one.id, thanks) for one in known[:4]
    ]
    dice.shuffle(calls)
    await at_once(calls)
    everything = await read_store(store, lambda view: view.reviews.reviews(0, 100))
    rows = [review for review in everything if not review.hidden]
    assert len(everything) == 24
    assert len(rows) >= 16
    exact = RatingTotals(sum(review.rating for review in rows), len(rows))
    assert await ratings(store, companion.id) == exact
    found = await read_store(store, lambda view: view.companions.companion(companion.id))
    assert (found.rating_sum, found.total_reviews) == (exact.rating_sum, exact.total_reviews)
    detail = await shown(store, companion.id)
    newest = await listed(store, companion.id, limit=10)
    assert newest == rows[:-11:-1]
    assert detail["reviews"] == [review_record(review) for review in newest]


async def test_concurrent_hiding_counts_once(ports):
    """Hiding a review 8 times concurrently, from two processes, subtracts its rating once."""
    store = ports[0].store
    companion = await add_companion(store)
    one, two = [
        await add_review(store, await add_booking(store, companion), rating=rating)
        for rating in (5, 1)
    ]
    results = await at_once(
        [partial(reviews.set_review_hidden, ports[n % 2], two.id, True) for n in range(8)]
    )
    assert results == [evolve(two, hidden=True)] * 8
    found = await read_store(store, lambda view: view.companions.companion(companion.id))
    assert (found.rating_sum, found.total_reviews) == (5, 1)
    assert await listed(store, companion.id) == [one]
