"""Contract of the stores: the data of one person, found and erased."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve, fields

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.reviews import NewReview
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.privacy import (
    erase_party_from_booking,
    erase_party_from_review,
    erase_user,
)
from staffbooking_core.ports import ImportProgress, SkippedRow
from tests.support.builders import (
    NOW,
    add_api_key,
    add_booking,
    add_companion,
    add_session,
    add_user,
)
from tests.support.messages import add_direct, add_messages_by
from tests.support.portfolio import add_portfolio_item
from tests.support.reviews import add_review

pytestmark = pytest.mark.anyio


async def read(store, work):
    async with store.read_view() as view:
        return list(await work(view))


async def forget(store, user):
    gone = erase_user(user, NOW)

    async def unit(tx):
        await tx.accounts.save_user(gone)
        await tx.personal_data.erase(gone, user.email)

    await store.run_transaction(unit)


@pytest.fixture
async def ada(store):
    return await add_user(store, email="ada@example.com")


@pytest.fixture
async def mia(store):
    return await add_companion(store)


async def test_bookings_are_found_by_either_side(store, ada, mia):
    """And by who made them for others, whose they are not when they are held to be changed."""
    one = await add_booking(store, mia, ada)
    two = await add_booking(store, await add_companion(store), ada)
    other = await add_booking(store, mia, await add_user(store), booked_by=ada.id)
    own = await add_booking(store, None, ada, booked_by=ada.id)
    found = await read(store, lambda view: view.personal_data.bookings_of(ada.id, 0, 9))
    assert found == [one, two, other, own]
    assert await read(store, lambda view: view.personal_data.bookings_of(mia.id, 0, 9)) == [
        one,
        other,
    ]
    locked = await store.run_transaction(lambda tx: tx.personal_data.lock_bookings_of(ada.id))
    assert list(locked) == [one, two, own]


async def test_what_somebody_wrote_is_found(store, ada, mia):
    """Reviews, messages, and questions from their address; nobody else's."""
    booking = await add_booking(store, mia, ada, status=BookingStatus.COMPLETED)
    written = await add_review(store, booking)
    received = await add_review(store, booking, Party.STAFF)
    talk = await add_direct(store)
    talk_of_ada = await add_direct(store, companion=mia.id, customer=ada)
    await add_messages_by(store, talk, "not mine")
    [mine] = await add_messages_by(store, talk_of_ada, "mine", by=ada.id)
    await add_messages_by(store, talk_of_ada, "theirs", by=mia.id)
    asked = await ask(store, "Ada@Example.com")
    await ask(store, "sam@example.com")
    assert await read(store, lambda view: view.personal_data.reviews_written_by(ada.id, 0, 9)) == [
        written
    ]
    assert await read(store, lambda view: view.personal_data.reviews_written_by(mia.id, 0, 9)) == [
        received
    ]
    assert await read(store, lambda view: view.personal_data.messages_sent_by(ada.id, 0, 9)) == [
        mine
    ]
    assert await read(store, lambda view: view.personal_data.inquiries_from("ADA@example.com")) == [
        asked
    ]


async def test_what_is_kept_has_pages(store, ada, mia):
    """Personal data is read in pages by id above the given one, up to the limit."""
    booked = [await add_booking(store, mia, ada, status=BookingStatus.COMPLETED) for _ in range(3)]
    reviewed = [await add_review(store, booking) for booking in booked]
    talk = await add_direct(store)
    said = await add_messages_by(store, talk, "one", "two", "three")
    for user in (ada, mia):
        await has_pages(store, "bookings_of", user.id, booked)
    await has_pages(store, "reviews_written_by", ada.id, reviewed)
    await has_pages(store, "messages_sent_by", said[0].sender_id, said)


async def has_pages(store, name, user_id, rows):
    async with store.read_view() as view:
        page = partial(getattr(view.personal_data, name), user_id)
        first, second, third = rows
        assert await page(0, 2) == [first, second]
        assert await page(first.id, 1) == [second]
        assert await page(first.id, 9) == [second, third]
        assert await page(third.id, 9) == []


async def test_whom_one_reviewed_is_found(store, ada, mia):
    """Each once, rising."""
    other = await add_companion(store)
    for companion in (other, mia, other):
        booking = await add_booking(store, companion, ada, status=BookingStatus.COMPLETED)
        await add_review(store, booking)
        await add_review(store, booking, Party.STAFF)
    assert await read(store, lambda view: view.personal_data.reviewee_ids_of(ada.id)) == [
        mia.id,
        other.id,
    ]
    assert await read(store, lambda view: view.personal_data.reviewee_ids_of(mia.id)) == [ada.id]


async def ask(store, email):
    new = NewInquiry("Ada", email, "", "How much?", NOW)
    return await store.run_transaction(lambda tx: tx.notifications.add_inquiry(new))


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_bookings_forget_a_side(store, ada, mia, side):
    """Erasing a side changes all of its bookings by the domain's rules, and no others."""
    said: dict[str, Any] = {
        "cancel_reason": "rain",
        "dispute_reason": "late",
        "status": BookingStatus.CANCELLED,
    }
    parties = [(by, by) for by in (Party.CUSTOMER, Party.STAFF, Party.SYSTEM)]
    mine = [
        await add_booking(store, mia, ada, cancelled_by=one, disputed_by=two, **said)
        for one, two in [*parties, (None, None)]
    ]
    other = await add_booking(store)
    async with store.read_view() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    await forget(store, user)
    left = await read(store, lambda view: view.personal_data.bookings_of(user.id, 0, 9))
    assert left == [erase_party_from_booking(booking, user.id) for booking in mine]
    async with store.read_view() as view:
        assert await view.bookings.booking(other.id) == other


def texts(kind):
    """One for each field of a class that may hold a text or none."""
    found = [field.name for field in fields(kind) if field.type == "str | None"]
    return {name: f"hush {name}" for name in found}


async def full_review(store, booking, by):
    added = await add_review(store, booking, by, **texts(NewReview))
    review = added.with_response("hush response", NOW)
    await store.run_transaction(lambda unit: unit.reviews.save_response(review))
    return review


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_every_text_is_forgotten_as_the_domain_says(store, ada, mia, side):
    """A store that has the rules in words of its own has the same, also for fields to come."""
    async with store.read_view() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    party = Party.CUSTOMER if side == "customer" else Party.STAFF
    said: dict[str, Any] = {**texts(Booking), "cancelled_by": party, "disputed_by": party}
    booking = await add_booking(store, mia, ada, status=BookingStatus.CANCELLED, **said)
    reviews = [await full_review(store, booking, by) for by in (Party.CUSTOMER, Party.STAFF)]
    await forget(store, user)
    async with store.read_view() as view:
        assert await view.bookings.booking(booking.id) == erase_party_from_booking(booking, user.id)
        for review in reviews:
            assert await view.reviews.review(review.id) == erase_party_from_review(review, user.id)
        assert await view.accounts.user(user.id) == erase_user(user, NOW)


async def test_words_lose_their_names(store, ada, mia):
    """What they say goes, too; others' stay."""
    booking = await add_booking(store, mia, ada, status=BookingStatus.COMPLETED)
    written = await add_review(store, booking, comment="fine")
    received = await add_review(store, booking, Party.STAFF, comment="fine")
    talk = await add_direct(store, companion=mia.id, customer=ada)
    [mine] = await add_messages_by(store, talk, "hush", by=ada.id)
    [theirs] = await add_messages_by(store, talk, "hello", by=mia.id)
    await forget(store, ada)
    async with store.read_view() as view:
        unsigned = evolve(written, reviewer_name="Erased", comment="Erased")
        assert await view.reviews.review(written.id) == unsigned
        assert await view.reviews.review(received.id) == received
        said = evolve(mine, sender_name="Erased", content="Erased")
        assert list(await view.messages.all_messages_after(0, 10)) == [said, theirs]


async def test_what_was_theirs_alone_is_gone(store, mia):
    """Erasure deletes the user's sessions, keys, portfolio, feed, mutes and inquiries only."""
    async with store.read_view() as view:
        user = await view.accounts.user(mia.id)
    other = await add_companion(store)
    for each in (mia, other):
        await own(store, each.id)
    await ask(store, user.email)
    await forget(store, user)
    assert await owned(store, mia.id) == [0, 0, 0, None, 0]
    assert await owned(store, other.id) == [1, 1, 1, NOW, 1]
    assert await read(store, lambda view: view.personal_data.inquiries_from(user.email)) == []


async def test_the_number_of_an_erased_question_is_not_given_again(store, mia):
    """Neither to the next one, which would take another's place or be listed by nobody, nor to
    one that comes after all were erased."""
    async with store.read_view() as view:
        user = await view.accounts.user(mia.id)
    first, kept = await ask(store, user.email), await ask(store, "sam@example.com")
    last = await ask(store, user.email)
    await forget(store, user)
    later = await ask(store, "sam@example.com")
    assert first.id < kept.id < last.id < later.id
    assert await read(store, lambda view: view.notifications.inquiries(0, 9)) == [kept, later]
    assert await read(store, lambda view: view.notifications.inquiries(last.id, 9)) == [later]


async def skip(store, *emails):
    rows = [SkippedRow(line, email, "is odd") for line, email in enumerate(emails, 1)]
    progress = ImportProgress("file", len(rows), 0, 0, len(rows), NOW)
    await store.run_transaction(lambda unit: unit.imports.save_progress(progress, rows))


async def skipped(store):
    rows = await read(store, lambda view: view.imports.skipped_rows("file", 0, 9))
    return [row.email for row in rows]


async def test_skipped_rows_lose_an_address(store, ada):
    """Whatever its case, and no other; none where it is not known to be theirs."""
    emails = ["ADA@example.com", "ada@EXAMPLE.com", "bo@example.com", None]
    await skip(store, *emails)
    gone = erase_user(ada, NOW)
    await store.run_transaction(lambda unit: unit.personal_data.erase(gone, None))
    assert await skipped(store) == emails
    await store.run_transaction(lambda unit: unit.personal_data.erase(gone, ada.email))
    assert await skipped(store) == [None, None, "bo@example.com", None]


async def own(store, user_id):
    """One of everything."""
    await add_session(store, user_id)
    await add_api_key(store, user_id)
    await add_portfolio_item(store, user_id)

    async def unit(tx):
        await tx.portfolio.save_calendar_feed(user_id, bytes([user_id]) * 32, NOW)
        await tx.notifications.mute(user_id, NotificationKind.PAYOUT)

    await store.run_transaction(unit)


async def owned(store, user_id):
    """How much there is of each."""
    async with store.read_view() as view:
        return [
            len(await view.accounts.sessions_of(user_id)),
            len(await view.accounts.api_keys_of(user_id)),
            len(await view.portfolio.portfolio_items_of(user_id)),
            await view.portfolio.calendar_feed_created_at(user_id),
            len(await view.notifications.muted_kinds_of(user_id)),
        ]
