"""Reviews: once per party, one response, and the rating."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.reviews import RatingTotals, Review
from staffbooking_core.errors import (
    ConstraintViolated,
    Forbidden,
    NotFound,
    RuleBroken,
    Unauthenticated,
)
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import reviews
from tests.support.memory_deployment import actor_of, with_another_companion

pytestmark = pytest.mark.anyio

STRANGER = Actor(999, Role.CUSTOMER)


async def attended(scene, number):
    """One of several completed bookings, each on its own day."""
    return await scene.completed(event_date=date(2027, 3, 4 + number))


async def submit(scene, booking, by=None, **given):
    wanted = SubmitReview(**{"rating": 4, **given})
    return await reviews.submit_review(scene.ports, by or scene.customer, booking.id, wanted)


async def respond(scene, review, by=None, response="Thank you"):
    wanted = RespondToReview(response=response)
    return await reviews.respond_to_review(scene.ports, by or scene.staff, review.id, wanted)


async def listed(scene, actor, page=1, limit=50):
    return await reviews.list_reviews_of(scene.ports, actor.user_id, page, limit)


async def profile(scene):
    """The public detail of the companion."""
    async with scene.ports.store.read_view() as view:
        return json.loads(await view.companions.detail(scene.staff.user_id))["companion"]


async def events(scene, booking):
    async with scene.ports.store.read_view() as view:
        return [json.loads(body) for _, body in await view.bookings.events_of(booking.id)]


async def refused(call, kind, code):
    with pytest.raises(kind) as caught:
        await call
    assert caught.value.code == code


# Submitting -----------------------------------------------------------------------------


async def test_the_sides_review_each_other(scene):
    """Both parties submit one review, listed under the reviewed user."""
    booking = await scene.completed()
    of_staff = await submit(scene, booking, rating=5, comment="Great", communication=5)
    of_customer = await submit(scene, booking, scene.staff, rating=3)
    assert await listed(scene, scene.staff) == ([of_staff], RatingTotals(5, 1))
    assert await listed(scene, scene.customer) == ([of_customer], RatingTotals(3, 1))
    assert (of_staff.comment, of_staff.communication, of_staff.appearance) == ("Great", 5, None)
    assert of_staff.created_at == await scene.now()


async def test_the_rating_follows_at_once(scene):
    """Rating and newest review appear in summary and detail at once."""
    for number, mark in enumerate((5, 4, 4)):
        await submit(scene, await attended(scene, number), rating=mark, comment=f"No. {number}")
    shown = await profile(scene)
    assert (shown["rating_avg"], shown["total_reviews"]) == (4.33, 3)
    assert [review["comment"] for review in shown["reviews"]] == ["No. 2", "No. 1", "No. 0"]
    _, ratings = await listed(scene, scene.staff)
    assert (ratings.rating_sum, ratings.rating_avg) == (13, Decimal("4.33"))


async def test_a_review_of_the_customer_is_not_the_companions(scene):
    """A review of the customer does not change the companion."""
    booking = await scene.completed()
    before = await profile(scene)
    await submit(scene, booking, scene.staff, rating=1)
    assert await profile(scene) == before


@pytest.mark.parametrize("by", ["customer", "staff"])
async def test_nobody_reviews_a_booking_twice(scene, by):
    """A second review raises and stores nothing."""
    booking, actor = await scene.completed(), getattr(scene, by)
    await submit(scene, booking, actor)
    before = (await scene.booking(booking), await profile(scene))
    await refused(submit(scene, booking, actor, rating=1), RuleBroken, "already_reviewed")
    assert (await scene.booking(booking), await profile(scene)) == before


async def test_only_a_completed_booking_is_reviewed(scene):
    """A booking in another status cannot be reviewed."""
    booking = await scene.paid()
    await refused(submit(scene, booking), RuleBroken, "booking_not_completed")
    await scene.jump_to(booking.ends_at)
    await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    await scene.dispute(booking)
    for by in (scene.customer, scene.staff):
        await refused(submit(scene, booking, by), RuleBroken, "booking_not_completed")
    assert (await listed(scene, scene.staff))[0] == []


async def test_strangers_find_no_booking(scene):
    """Strangers and unknown bookings get NotFound."""
    booking = await scene.completed()
    other = (await with_another_companion(scene)).staff
    stranger = actor_of(await add_user(scene.ports.store))
    for by in (stranger, other):
        await refused(submit(scene, booking, by), NotFound, "not_found")
        await refused(reviews.authorize(scene.ports, by, booking.id), NotFound, "not_found")
    unknown = evolve(booking, id=booking.id + 1)
    await refused(submit(scene, unknown), NotFound, "not_found")


async def test_admins_do_not_review(scene):
    """Admins cannot review."""
    booking = await scene.completed()
    await refused(submit(scene, booking, scene.admin), Forbidden, "wrong_party")
    authorized = reviews.authorize(scene.ports, scene.admin, booking.id)
    await refused(authorized, Forbidden, "wrong_party")


async def test_who_may_review_is_authorized(scene):
    """Both parties are authorized in any status."""
    booking = await scene.request()
    for by in (scene.customer, scene.staff):
        await reviews.authorize(scene.ports, by, booking.id)


async def test_a_review_is_told_as_the_bookings_next_event(scene):
    """Each review emits the booking's next event and changes nothing else."""
    booking = await scene.completed()
    told = await events(scene, booking)
    review = await submit(scene, booking)
    await submit(scene, booking, scene.staff)
    first, second = (await events(scene, booking))[len(told) :]
    assert first["event"] == "review.created"
    assert first["data"]["booking_code"] == booking.code
    assert first["data"]["review"]["id"] == review.id
    assert second["data"]["review"]["reviewer_role"] == "staff"
    numbers = (booking.events + 1, booking.events + 2)
    assert (first["sequence"], second["sequence"]) == numbers
    changed = {"revision": booking.revision + 2, "events": booking.events + 2}
    assert await scene.booking(booking) == evolve(booking, **changed)


async def test_the_payout_still_comes(scene):
    """A review keeps the booking's timer."""
    booking = await scene.completed()
    await submit(scene, booking)
    await scene.jump_to(booking.ends_at + 25 * HOUR)
    await scene.drain()
    assert (await scene.booking(booking)).paid_out == booking.payout_amount
    assert await scene.faults() == []


async def test_a_reviewer_twice_at_once_is_one_review(scene):
    """Of concurrent reviews one is stored and the others raise."""
    booking, results = await scene.completed(), []

    async def call():
        try:
            results.append(await submit(scene, booking))
        except RuleBroken as error:
            results.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(call)
    assert results.count("already_reviewed") == 7
    assert (await profile(scene))["total_reviews"] == 1


async def test_another_broken_constraint_is_not_a_second_review(scene, monkeypatch):
    """Another violated constraint is raised unchanged."""
    booking = await scene.completed()

    async def fail(*_):
        raise ConstraintViolated("other")

    monkeypatch.setattr(reviews, "_save_review_event", fail)
    await refused(submit(scene, booking), ConstraintViolated, "constraint_violated")
    assert (await listed(scene, scene.staff))[0] == []


# Reading --------------------------------------------------------------------------------


async def test_reviews_come_by_pages(scene):
    """Reviews are paged, the newest first, with totals over all."""
    made: list[Review] = []
    for number in range(5):
        booking = await attended(scene, number)
        made.insert(0, await submit(scene, booking, rating=1 + number))
    pages = [await listed(scene, scene.staff, page, 2) for page in (1, 2, 3, 4)]
    assert [found for found, _ in pages] == [made[:2], made[2:4], made[4:], []]
    assert {ratings for _, ratings in pages} == {RatingTotals(15, 5)}


async def test_the_detail_shows_the_newest_ten(scene):
    """The detail shows ten of twelve reviews, and all count."""
    for number in range(12):
        booking = await attended(scene, number)
        await submit(scene, booking, rating=1 + number % 5, comment=f"No. {number}")
    shown = await profile(scene)
    said = [review["comment"] for review in shown["reviews"]]
    assert said == [f"No. {number}" for number in range(11, 1, -1)]
    assert (shown["total_reviews"], shown["rating_avg"]) == (12, 2.75)


async def test_an_unknown_user_has_no_reviews(scene):
    """An unknown user raises NotFound; one without reviews has an empty list."""
    await refused(listed(scene, STRANGER), NotFound, "not_found")
    assert await listed(scene, scene.admin) == ([], RatingTotals())


async def test_who_is_locked_out_meanwhile_says_nothing(scene):
    """A user disabled or erased since authentication can neither review nor respond."""
    first, second = await attended(scene, 1), await attended(scene, 2)
    review = await submit(scene, first)
    for actor in (scene.customer, scene.staff):
        async with scene.ports.store.read_view() as view:
            user = await view.accounts.user(actor.user_id)
        await disabling.disable_user(scene.ports, user.email)
    await refused(submit(scene, second), Unauthenticated, "unauthenticated")
    await refused(respond(scene, review), Unauthenticated, "unauthenticated")


async def test_reviews_outlive_an_account(scene):
    """Reviews of a disabled user stay listed."""
    booking = await scene.completed()
    review = await submit(scene, booking)
    async with scene.ports.store.read_view() as view:
        email = (await view.accounts.user(scene.staff.user_id)).email
    await disabling.disable_user(scene.ports, email)
    assert (await listed(scene, scene.staff))[0] == [review]
    await administration.enable_user(scene.ports, email)
    assert len((await profile(scene))["reviews"]) == 1


# Responding -----------------------------------------------------------------------------


async def test_the_staff_member_reviewed_responds(scene):
    """A response is shown with its review, and the rating stays."""
    review = await submit(scene, await scene.completed())
    answered = await respond(scene, review)
    assert answered == review.with_response("Thank you", await scene.now())
    assert await listed(scene, scene.staff) == ([answered], RatingTotals(4, 1))
    (shown,) = (await profile(scene))["reviews"]
    assert shown["response"] == "Thank you"


async def test_a_response_is_given_once(scene):
    """A second response raises and keeps the first."""
    review = await submit(scene, await scene.completed())
    answered = await respond(scene, review)
    again = respond(scene, review, response="I changed my mind")
    await refused(again, RuleBroken, "already_responded")
    assert (await listed(scene, scene.staff))[0] == [answered]


async def test_nobody_else_responds(scene):
    """Only the reviewed staff member can respond."""
    review = await submit(scene, await scene.completed())
    other = (await with_another_companion(scene)).staff
    profileless = actor_of(await add_user(scene.ports.store, role=Role.STAFF))
    stranger = actor_of(await add_user(scene.ports.store))
    for by in (scene.customer, other, profileless, scene.admin, stranger):
        await refused(respond(scene, review, by), Forbidden, "wrong_party")
        authorized = reviews.authorize_response(scene.ports, by, review.id)
        await refused(authorized, Forbidden, "wrong_party")
    assert (await listed(scene, scene.staff))[0] == [review]


async def test_a_customer_who_was_reviewed_does_not_respond(scene):
    """A reviewed customer cannot respond."""
    review = await submit(scene, await scene.completed(), scene.staff)
    await refused(respond(scene, review, scene.customer), Forbidden, "wrong_party")


async def test_an_unknown_review_is_not_found(scene):
    """An unknown review raises NotFound for everybody."""
    review = await submit(scene, await scene.completed())
    unknown = evolve(review, id=review.id + 1)
    await refused(respond(scene, unknown), NotFound, "not_found")
    authorized = reviews.authorize_response(scene.ports, scene.staff, unknown.id)
    await refused(authorized, NotFound, "not_found")
    await reviews.authorize_response(scene.ports, scene.staff, review.id)
