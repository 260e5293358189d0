"""Contract of the stores: the data of one person, found and erased."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve, fields

from staffbooking_adapters.testing.builders import (
    NOW,
    add_api_key,
    add_booking,
    add_companion,
    add_payee,
    add_session,
    add_user,
    make_checkout_command,
    make_refund_order,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.builders_messages import add_direct, add_messages_by
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.bookings.booking import Booking, TimelineEntry
from staffbooking_core.domain.bookings.disputes import NewDisputeStatement
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.reviews import NewReview
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.payments.operations import OperationOrder, OperationStatus
from staffbooking_core.domain.privacy import (
    erase_checkout_command,
    erase_party_from_booking,
    erase_party_from_review,
    erase_payee,
    erase_statement,
    erase_user,
)
from staffbooking_core.ports import ImportProgress, SkippedRow

pytestmark = pytest.mark.anyio


async def read(store, work):
    async with store.read_view() as view:
        return list(await work(view))


async def erase_person(store, user):
    erased_user = erase_user(user, NOW, "t0ken")

    async def unit(tx):
        await tx.accounts.save_user(erased_user)
        await tx.personal_data.erase(erased_user, user.email)

    await store.run_transaction(unit)


@pytest.fixture
async def ada(store):
    return await add_user(store, email="ada@example.com")


@pytest.fixture
async def mia(store):
    return await add_companion(store)


async def test_bookings_are_found_by_each_party(store, ada, mia):
    """A user's bookings are those as customer, companion or booker; the last are not locked."""
    one = await add_booking(store, mia, ada)
    two = await add_booking(store, await add_companion(store), ada)
    other = await add_booking(store, mia, await add_user(store), booked_by=ada.id)
    own_booking = await add_booking(store, None, ada, booked_by=ada.id)
    found = await read(store, lambda view: view.personal_data.bookings_of(ada.id, 0, 9))
    assert found == [one, two, other, own_booking]
    assert await read(store, lambda view: view.personal_data.bookings_of(mia.id, 0, 9)) == [
        one,
        other,
    ]
    locked = await store.run_transaction(lambda tx: tx.personal_data.lock_bookings_of(ada.id))
    assert list(locked) == [one, two, own_booking]


async def test_written_texts_are_found(store, ada, mia):
    """Reviews, messages and inquiries are found by their author only."""
    booking = await add_booking(store, mia, ada, status=BookingStatus.COMPLETED)
    written = await add_review(store, booking)
    received = await add_review(store, booking, Party.STAFF)
    conversation = await add_direct(store)
    conversation_of_ada = await add_direct(store, companion=mia.id, customer=ada)
    await add_messages_by(store, conversation, "not mine")
    [mine] = await add_messages_by(store, conversation_of_ada, "mine", by=ada.id)
    await add_messages_by(store, conversation_of_ada, "theirs", by=mia.id)
    submitted = await submit_inquiry(store, "Ada@Example.com")
    await submit_inquiry(store, "sam@example.com")
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
        submitted
    ]


async def test_personal_data_has_pages(store, ada, mia):
    """Personal data is read in pages by id above the given one, up to the limit."""
    booked = [await add_booking(store, mia, ada, status=BookingStatus.COMPLETED) for _ in range(3)]
    reviewed = [await add_review(store, booking) for booking in booked]
    conversation = await add_direct(store)
    messages = await add_messages_by(store, conversation, "one", "two", "three")
    for user in (ada, mia):
        await check_pages(store, "bookings_of", user.id, booked)
    await check_pages(store, "reviews_written_by", ada.id, reviewed)
    await check_pages(store, "messages_sent_by", messages[0].sender_id, messages)


async def check_pages(store, name, user_id, rows):
    async with store.read_view() as view:
        page = partial(getattr(view.personal_data, name), user_id)
        first, second, third = rows
        assert await page(0, 2) == [first, second]
        assert await page(first.id, 1) == [second]
        assert await page(first.id, 9) == [second, third]
        assert await page(third.id, 9) == []


async def test_reviewees_are_found(store, ada, mia):
    """The ids of the users whom a user reviewed are distinct and ascending."""
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


async def submit_inquiry(store, email):
    new = NewInquiry("Ada", email, "", "How much?", NOW)
    return await store.run_transaction(lambda tx: tx.notifications.add_inquiry(new))


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_a_party_is_erased_from_bookings(store, ada, mia, side):
    """Erasing a party changes all of its bookings by `erase_party_from_booking`, and no others."""
    booking_fields: dict[str, Any] = {
        "cancel_reason": "rain",
        "dispute_reason": "late",
        "status": BookingStatus.CANCELLED,
        "timeline": tuple(
            TimelineEntry(
                NOW, None, BookingStatus.CANCELLED, Trigger.CANCEL, by, "\u201crain\u201d", 7
            )
            for by in (Party.CUSTOMER, Party.STAFF, Party.ADMIN)
        ),
    }
    parties = [(by, by) for by in (Party.CUSTOMER, Party.STAFF, Party.SYSTEM)]
    mine = [
        await add_booking(store, mia, ada, cancelled_by=one, disputed_by=two, **booking_fields)
        for one, two in [*parties, (None, None)]
    ]
    other = await add_booking(store)
    async with store.read_view() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    await erase_person(store, user)
    remaining = await read(store, lambda view: view.personal_data.bookings_of(user.id, 0, 9))
    assert remaining == [erase_party_from_booking(booking, user.id) for booking in mine]
    async with store.read_view() as view:
        assert await view.bookings.booking(other.id) == other


def texts(kind):
    """A text for each field of a class that has the type `str | None`."""
    found = [field.name for field in fields(kind) if field.type == "str | None"]
    return {name: f"hush {name}" for name in found}


async def full_review(store, booking, by):
    added = await add_review(store, booking, by, **texts(NewReview))
    review = added.with_response("hush response", NOW)
    await store.run_transaction(lambda unit: unit.reviews.save_response(review))
    return review


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_every_text_is_erased_by_the_domain_rules(store, ada, mia, side):
    """Erasure changes every optional text of bookings and reviews as the domain's functions do."""
    async with store.read_view() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    party = Party.CUSTOMER if side == "customer" else Party.STAFF
    booking_fields: dict[str, Any] = {**texts(Booking), "cancelled_by": party, "disputed_by": party}
    booking = await add_booking(store, mia, ada, status=BookingStatus.CANCELLED, **booking_fields)
    reviews = [await full_review(store, booking, by) for by in (Party.CUSTOMER, Party.STAFF)]
    await erase_person(store, user)
    async with store.read_view() as view:
        assert await view.bookings.booking(booking.id) == erase_party_from_booking(booking, user.id)
        for review in reviews:
            assert await view.reviews.review(review.id) == erase_party_from_review(review, user.id)
        assert await view.accounts.user(user.id) == erase_user(user, NOW, "t0ken")


async def test_reviews_and_messages_are_erased(store, ada, mia):
    """Erasure replaces the name and text of a person's reviews and messages only."""
    booking = await add_booking(store, mia, ada, status=BookingStatus.COMPLETED)
    written = await add_review(store, booking, comment="fine")
    received = await add_review(store, booking, Party.STAFF, comment="fine")
    conversation = await add_direct(store, companion=mia.id, customer=ada)
    [mine] = await add_messages_by(store, conversation, "hush", by=ada.id)
    [theirs] = await add_messages_by(store, conversation, "hello", by=mia.id)
    await erase_person(store, ada)
    async with store.read_view() as view:
        unsigned = evolve(written, reviewer_name="Erased", comment="Erased")
        assert await view.reviews.review(written.id) == unsigned
        assert await view.reviews.review(received.id) == received
        changed = evolve(mine, sender_name="Erased", content="Erased")
        assert list(await view.messages.all_messages_after(0, 10)) == [changed, theirs]


async def test_statements_in_disputes_are_erased(store, ada, mia):
    """Erasure replaces the text and files of a person's statements in disputes only."""
    booking = await add_booking(store, mia, ada, status=BookingStatus.COMPLETED)

    async def unit(tx):
        for author, party in ((ada.id, Party.CUSTOMER), (mia.id, Party.STAFF)):
            await tx.disputes.add_statement(
                NewDisputeStatement(booking.id, 1, author, party, "hush", ("a",), NOW)
            )
        return await tx.disputes.statements_of(booking.id, 1)

    mine, theirs = await store.run_transaction(unit)
    await erase_person(store, ada)
    found = await read(store, lambda view: view.disputes.statements_of(booking.id, 1))
    assert found == [erase_statement(mine), theirs]


async def add_operations(store, booking, *orders):
    """Add operations of a booking, which the processor refused in words that name the customer."""
    await save_booking(store, next_revision(booking), orders=orders)
    ordered = await read(store, lambda view: view.operations.operations_of(booking.id))
    refused = [evolve(each, status=OperationStatus.REFUSED, last_error="hush") for each in ordered]

    async def unit(tx):
        for operation in refused:
            await tx.operations.save_operation(operation)

    await store.run_transaction(unit)
    return refused


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_checkouts_are_erased(store, ada, mia, side):
    """Erasure of either side replaces the names in a finished checkout and deletes the processor's
    words; other operations stay."""
    async with store.read_view() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    booking = await add_booking(store, mia, ada, status=BookingStatus.CANCELLED)
    order = OperationOrder(1, make_checkout_command())
    checkout, refund = await add_operations(store, booking, order, make_refund_order(2))
    await erase_person(store, user)
    command = erase_checkout_command(checkout.command)
    found = await read(store, lambda view: view.operations.operations_of(booking.id))
    assert found == [evolve(checkout, command=command, last_error=None), refund]


async def test_payees_are_erased(store, mia):
    """Erasure changes a person's payees by `erase_payee`, and no others."""
    other = await add_payee(store, last_error="hush")
    payee = await add_payee(store, companion_id=mia.id, last_error="hush")
    async with store.read_view() as view:
        user = await view.accounts.user(mia.id)
    await erase_person(store, user)
    async with store.read_view() as view:
        for each in (erase_payee(payee), other):
            assert await view.payees.payee(each.provider, each.companion_id) == each


async def test_personal_rows_are_deleted(store, mia):
    """Erasure deletes the user's sessions, login addresses, keys, portfolio, feed, mutes and
    inquiries only."""
    async with store.read_view() as view:
        user = await view.accounts.user(mia.id)
    other = await add_companion(store)
    for each in (mia, other):
        await add_personal_rows(store, each.id)
    await submit_inquiry(store, user.email)
    await erase_person(store, user)
    assert await count_personal_rows(store, mia.id) == [0, False, 0, 0, None, 0]
    assert await count_personal_rows(store, other.id) == [1, True, 1, 1, NOW, 1]
    assert await read(store, lambda view: view.personal_data.inquiries_from(user.email)) == []


async def test_the_id_of_an_erased_inquiry_is_not_reused(store, mia):
    """The id of an erased inquiry is not reused, so a later one is listed after it."""
    async with store.read_view() as view:
        user = await view.accounts.user(mia.id)
    first, kept = (
        await submit_inquiry(store, user.email),
        await submit_inquiry(store, "sam@example.com"),
    )
    last = await submit_inquiry(store, user.email)
    await erase_person(store, user)
    later = await submit_inquiry(store, "sam@example.com")
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


async def test_skipped_rows_lose_an_erased_email(store, ada):
    """Erasure clears an e-mail of skipped rows in any case, and none if none is given."""
    emails = ["ADA@example.com", "ada@EXAMPLE.com", "bo@example.com", None]
    await skip(store, *emails)
    erased_user = erase_user(ada, NOW, "t0ken")
    await store.run_transaction(lambda unit: unit.personal_data.erase(erased_user, None))
    assert await skipped(store) == emails
    await store.run_transaction(lambda unit: unit.personal_data.erase(erased_user, ada.email))
    assert await skipped(store) == [None, None, "bo@example.com", None]


async def add_personal_rows(store, user_id):
    """Add one row of each kind that belongs to one user."""
    await add_session(store, user_id)
    await add_api_key(store, user_id)
    await add_portfolio_item(store, user_id)

    async def unit(tx):
        await tx.accounts.add_login_address(user_id, b"here", NOW)
        await tx.portfolio.save_calendar_feed(user_id, bytes([user_id]) * 32, NOW)
        await tx.notifications.mute(user_id, NotificationKind.PAYOUT)

    await store.run_transaction(unit)


async def count_personal_rows(store, user_id):
    """The number of the user's rows of each kind; for the calendar feed, its creation time."""
    async with store.read_view() as view:
        user = await view.accounts.user(user_id)
        return [
            len(await view.accounts.sessions_of(user_id)),
            await view.accounts.has_logged_in_from(user.email, b"here"),
            len(await view.accounts.api_keys_of(user_id)),
            len(await view.portfolio.portfolio_items_of(user_id)),
            await view.portfolio.calendar_feed_created_at(user_id),
            len(await view.notifications.muted_kinds_of(user_id)),
        ]
