"""All that is kept about one person, found and forgotten on every store alike."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_core.domain.erasure import erased, forgotten
from staffbooking_core.domain.inquiries import NewInquiry
from staffbooking_core.domain.lifecycle import Party, Status
from staffbooking_core.domain.notices import NoticeKind
from staffbooking_core.domain.portfolio import Image
from tests.support.builders import (
    NOW,
    add_booking,
    add_companion,
    add_key,
    add_session,
    add_user,
)
from tests.support.messages import add_direct, say
from tests.support.portfolio import add_item
from tests.support.reviews import add_review

pytestmark = pytest.mark.anyio


async def read(store, work):
    async with store.reading() as view:
        return list(await work(view))


async def forget(store, user):
    gone = erased(user, NOW)

    async def unit(tx):
        await tx.accounts.save_user(gone)
        await tx.people.forget(gone, user.email)

    await store.write(unit)


@pytest.fixture
async def ada(store):
    return await add_user(store, email="ada@example.com")


@pytest.fixture
async def mia(store):
    return await add_companion(store)


async def test_bookings_are_found_by_either_side(store, ada, mia):
    """In the order of their ids; not those that one booked for others."""
    one = await add_booking(store, mia, ada)
    two = await add_booking(store, await add_companion(store), ada)
    other = await add_booking(store, mia, await add_user(store), booked_by=ada.id)
    assert await read(store, lambda view: view.people.bookings_of(ada.id)) == [one, two]
    assert await read(store, lambda view: view.people.bookings_of(mia.id)) == [one, other]
    locked = await store.write(lambda tx: tx.people.lock_bookings_of(ada.id))
    assert list(locked) == [one, two]


async def test_what_somebody_wrote_is_found(store, ada, mia):
    """Reviews, messages, and questions from their address; nobody else's."""
    booking = await add_booking(store, mia, ada, status=Status.COMPLETED)
    written = await add_review(store, booking)
    received = await add_review(store, booking, Party.STAFF)
    talk = await add_direct(store)
    talk_of_ada = await add_direct(store, companion=mia.id, customer=ada)
    await say(store, talk, "not mine")
    [mine] = await say(store, talk_of_ada, "mine", by=ada.id)
    await say(store, talk_of_ada, "theirs", by=mia.id)
    asked = await ask(store, "Ada@Example.com")
    await ask(store, "sam@example.com")
    assert await read(store, lambda view: view.people.reviews_by(ada.id)) == [written]
    assert await read(store, lambda view: view.people.reviews_by(mia.id)) == [received]
    assert await read(store, lambda view: view.people.messages_by(ada.id)) == [mine]
    assert await read(store, lambda view: view.people.inquiries_by("ADA@example.com")) == [asked]


async def ask(store, email):
    new = NewInquiry("Ada", email, "", "How much?", NOW)
    return await store.write(lambda tx: tx.notices.add_inquiry(new))


@pytest.mark.parametrize("side", ["customer", "companion"])
async def test_bookings_forget_a_side(store, ada, mia, side):
    """As the domain says, all of them; bookings of others stay as they are."""
    said: dict[str, Any] = {
        "cancel_reason": "rain",
        "dispute_reason": "late",
        "status": Status.CANCELLED,
    }
    parties = [(by, by) for by in (Party.CUSTOMER, Party.STAFF, Party.SYSTEM)]
    mine = [
        await add_booking(store, mia, ada, cancelled_by=one, disputed_by=two, **said)
        for one, two in [*parties, (None, None)]
    ]
    other = await add_booking(store)
    async with store.reading() as view:
        user = ada if side == "customer" else await view.accounts.user(mia.id)
    await forget(store, user)
    left = await read(store, lambda view: view.people.bookings_of(user.id))
    assert left == [forgotten(booking, user.id) for booking in mine]
    async with store.reading() as view:
        assert await view.bookings.booking(other.id) == other


async def test_words_lose_their_names(store, ada, mia):
    """What they say goes, too; others' stay."""
    booking = await add_booking(store, mia, ada, status=Status.COMPLETED)
    written = await add_review(store, booking, comment="fine")
    received = await add_review(store, booking, Party.STAFF, comment="fine")
    talk = await add_direct(store, companion=mia.id, customer=ada)
    [mine] = await say(store, talk, "hush", by=ada.id)
    [theirs] = await say(store, talk, "hello", by=mia.id)
    await forget(store, ada)
    async with store.reading() as view:
        unsigned = evolve(written, reviewer_name="Erased", comment="Erased")
        assert await view.reviews.review(written.id) == unsigned
        assert await view.reviews.review(received.id) == received
        said = evolve(mine, sender_name="Erased", content="Erased")
        assert list(await view.messages.tail(0, 10)) == [said, theirs]


async def test_what_was_theirs_alone_is_gone(store, mia):
    """Sessions, keys, portfolio, images, feed, mutes and questions; of nobody else."""
    async with store.reading() as view:
        user = await view.accounts.user(mia.id)
    other = await add_companion(store)
    for each in (mia, other):
        await own(store, each.id)
    await ask(store, user.email)
    await forget(store, user)
    assert await owned(store, mia.id) == [0, 0, 0, 0, None, 0]
    assert await owned(store, other.id) == [1, 1, 1, 1, NOW, 1]
    assert await read(store, lambda view: view.people.inquiries_by(user.email)) == []


async def own(store, user_id):
    """One of everything."""
    await add_session(store, user_id)
    await add_key(store, user_id)
    await add_item(store, user_id)

    async def unit(tx):
        await tx.staff.add_image(Image(f"image{user_id}.png", user_id, 1, NOW))
        await tx.staff.save_feed(user_id, bytes([user_id]) * 32, NOW)
        await tx.notices.mute(user_id, NoticeKind.PAYOUT)

    await store.write(unit)


async def owned(store, user_id):
    """How much there is of each."""
    async with store.reading() as view:
        return [
            len(await view.accounts.sessions_of(user_id)),
            len(await view.accounts.keys_of(user_id)),
            len(await view.staff.portfolio_of(user_id)),
            len(await view.staff.images_of(user_id)),
            await view.staff.feed_since(user_id),
            len(await view.notices.mutes_of(user_id)),
        ]
