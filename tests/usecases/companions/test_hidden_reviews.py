"""Reviews hidden by an operator are neither shown nor counted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import add_booking, add_companion, add_user
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.domain.companions.reviews import RatingTotals, Review
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.representations.companions import review_record
from staffbooking_core.usecases.companions import reviews, search
from tests.support.memory_deployment import actor_of, memory_ports
from tests.usecases.companions.test_reviews import (
    attended,
    events,
    listed,
    profile,
    refused,
    respond,
    submit,
)

pytestmark = pytest.mark.anyio


async def hide(scene, review, hidden=True):
    return await reviews.set_review_hidden(scene.ports, review.id, hidden)


async def said(scene, *marks):
    """Reviews of the companion, the oldest first."""
    return [
        await submit(scene, await attended(scene, number), rating=mark, comment=f"No. {number}")
        for number, mark in enumerate(marks)
    ]


async def test_a_hidden_review_is_neither_listed_nor_counted(scene):
    """A hidden review is missing in list, profile and search, and returns when shown."""
    first, bad, last = await said(scene, 5, 1, 4)
    before = await profile(scene)
    assert await hide(scene, bad) == evolve(bad, hidden=True)
    assert await listed(scene, scene.staff) == ([last, first], RatingTotals(9, 2))
    shown = await profile(scene)
    assert shown["reviews"] == [review_record(last), review_record(first)]
    assert (shown["rating_avg"], shown["total_reviews"]) == (4.5, 2)
    [summary] = await search.search(scene.ports, CompanionQuery())
    assert json.loads(summary)["rating_avg"] == 4.5
    assert await hide(scene, bad, hidden=False) == bad
    assert await listed(scene, scene.staff) == ([last, bad, first], RatingTotals(10, 3))
    assert await profile(scene) == before


async def test_the_only_review_leaves_no_rating(scene):
    """Hiding the only review resets the rating."""
    [review] = await said(scene, 2)
    await hide(scene, review)
    assert await listed(scene, scene.staff) == ([], RatingTotals())
    shown = await profile(scene)
    assert (shown["rating_avg"], shown["total_reviews"], shown["reviews"]) == (0, 0, [])


async def test_an_older_review_comes_up(scene):
    """The detail shows the ten newest visible reviews."""
    made = await said(scene, *[4] * 11)
    await hide(scene, made[5])
    shown = [review["comment"] for review in (await profile(scene))["reviews"]]
    assert shown == [f"No. {number}" for number in range(10, -1, -1) if number != 5]


@pytest.mark.parametrize("hidden", [True, False])
async def test_hiding_or_showing_twice_changes_nothing(scene, hidden):
    """Hiding or showing twice changes the rating once."""
    review, _ = await said(scene, 1, 5)
    await hide(scene, review, hidden)
    before = (await profile(scene), await listed(scene, scene.staff))
    assert await hide(scene, review, hidden) == evolve(review, hidden=hidden)
    assert (await profile(scene), await listed(scene, scene.staff)) == before


async def test_a_hidden_review_of_a_customer_counts_no_more(scene):
    """Hiding a review of a customer keeps the companion unchanged."""
    booking, before = await scene.completed(), await profile(scene)
    review = await submit(scene, booking, scene.staff, rating=1)
    await hide(scene, review)
    assert await listed(scene, scene.customer) == ([], RatingTotals())
    await hide(scene, review, hidden=False)
    assert await listed(scene, scene.customer) == ([review], RatingTotals(1, 1))
    assert await profile(scene) == before


@pytest.mark.parametrize("by", ["customer", "staff"])
async def test_a_hidden_review_is_not_given_again(scene, by):
    """The author of a hidden review cannot submit another one."""
    booking, actor = await scene.completed(), getattr(scene, by)
    await hide(scene, await submit(scene, booking, actor))
    await refused(submit(scene, booking, actor), RuleBroken, "already_reviewed")
    assert (await listed(scene, scene.staff))[1] == RatingTotals()


async def test_a_hidden_review_is_not_responded_to(scene):
    """A hidden review raises NotFound for responses until it is shown."""
    [review] = await said(scene, 1)
    await hide(scene, review)
    for by in (scene.staff, scene.customer):
        await refused(respond(scene, review, by), NotFound, "not_found")
        authorized = reviews.authorize_response(scene.ports, by, review.id)
        await refused(authorized, NotFound, "not_found")
    await hide(scene, review, hidden=False)
    assert (await respond(scene, review)).response == "Thank you"


async def test_a_response_stays_with_its_review(scene):
    """A response is hidden and shown with its review."""
    [review] = await said(scene, 3)
    answered = await respond(scene, review)
    assert await hide(scene, review) == evolve(answered, hidden=True)
    assert await hide(scene, review, hidden=False) == answered
    assert (await profile(scene))["reviews"] == [review_record(answered)]


async def test_hiding_tells_nobody(scene):
    """Hiding changes no booking and emits no event."""
    booking = await scene.completed()
    review = await submit(scene, booking)
    before = (await scene.booking(booking), await events(scene, booking))
    await hide(scene, review)
    assert (await scene.booking(booking), await events(scene, booking)) == before


async def test_an_unknown_review_is_not_hidden(scene):
    """An unknown review raises NotFound."""
    [review] = await said(scene, 3)
    for hidden in (True, False):
        unknown = evolve(review, id=review.id + 1)
        await refused(hide(scene, unknown, hidden), NotFound, "not_found")


async def test_operators_read_all_of_them(scene):
    """Operators list all reviews by id, hidden ones too."""
    one, two = await said(scene, 5, 1)
    three = await submit(scene, await attended(scene, 3), scene.staff)
    hidden = await hide(scene, two)
    assert await reviews.list_all_reviews(scene.ports) == [one, hidden, three]
    assert await reviews.list_all_reviews(scene.ports, limit=1) == [one, hidden]
    assert await reviews.list_all_reviews(scene.ports, 2, 1) == [hidden, three]
    assert await reviews.list_reviews_after(scene.ports, one.id, 1) == [hidden]


# Properties -------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 5), st.integers(1, 5)),
        st.tuples(st.sampled_from(["hide", "show", "respond"]), st.integers(0, 5), st.just(0)),
    ),
    max_size=30,
)


class History:
    """Reviews of one companion, changed by their parties and an operator."""

    def __init__(self) -> None:
        self.ports: Any = memory_ports()
        self.kept: dict[int, Review] = {}
        """By the index of the booking, oldest first."""

    async def open(self):
        store = self.ports.store
        self.companion, self.customer = await add_companion(store), await add_user(store)
        people = self.companion, self.customer
        self.bookings = [
            await add_booking(store, *people, status=BookingStatus.COMPLETED) for _ in range(6)
        ]

    async def take(self, step, place, mark):
        known = self.kept.get(place)
        if known is None and step != "submit":
            return
        expected = self.expected(step, known)
        try:
            self.kept[place] = await self.call(step, place, known, mark)
            outcome = "done"
        except (RuleBroken, NotFound) as error:
            outcome = error.code
        assert outcome == expected

    def expected(self, step, known):
        if step == "submit" and known is not None:
            return "already_reviewed"
        if step == "respond" and known.hidden:
            return "not_found"
        return "already_responded" if step == "respond" and known.response else "done"

    async def call(self, step, place, known, mark):
        if step == "submit":
            wanted, by = SubmitReview(rating=mark), actor_of(self.customer)
            return await reviews.submit_review(self.ports, by, self.bookings[place].id, wanted)
        if step == "respond":
            thanks, by = RespondToReview(response="Thank you"), actor_of(self.companion)
            return await reviews.respond_to_review(self.ports, by, known.id, thanks)
        return await reviews.set_review_hidden(self.ports, known.id, step == "hide")

    async def check(self):
        """What is listed, summed and shown is what was kept and is not hidden."""
        rows = [review for review in self.kept.values() if not review.hidden][::-1]
        exact = RatingTotals(sum(review.rating for review in rows), len(rows))
        assert await reviews.list_reviews_of(self.ports, self.companion.id, 1, 50) == (rows, exact)
        async with self.ports.store.read_view() as view:
            companion = await view.companions.companion(self.companion.id)
            detail = json.loads(await view.companions.detail(self.companion.id))["companion"]
        assert (companion.rating_sum, companion.total_reviews) == (exact.rating_sum, len(rows))
        assert detail["reviews"] == [review_record(review) for review in rows]
        assert detail["rating_avg"] == float(exact.rating_avg)


@given(STEPS)
def test_any_history_keeps_the_rating_exact(steps):
    """After any history of reviews, responses and hiding, the rating is that of the visible
    ones."""

    async def play():
        history = History()
        await history.open()
        for step in steps:
            await history.take(*step)
            await history.check()

    asyncio.run(play())
