"""What a person may ask of whoever keeps data about them: to see all of it, and to be
forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.privacy import blank, erased, is_open
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.ports import Ports, Reading, Writing
from staffbooking_core.representations.records import (
    Record,
    availability_record,
    booking_record,
    inquiry_record,
    instant,
    key_record,
    message_record,
    own_item_record,
    profile_record,
    review_record,
    user_record,
    webhook_record,
)
from staffbooking_core.usecases.accounts import login_throttling
from staffbooking_core.usecases.companions import images
from staffbooking_core.usecases.payments import payees
from staffbooking_core.usecases.webhooks.endpoints import forget_endpoint

PAGE = 100
"""Bookings, messages and reviews that are in memory at a time."""


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...


N = TypeVar("N", bound=_Numbered)
Pages = AsyncIterator[Sequence[N]]


async def export(ports: Ports, user_id: int) -> Record:
    """All that is kept about a person, as records. What others wrote is theirs, but for reviews
    of this person. Lists without a bound are iterators of their pages, which are read as they
    are asked for. Raises NotFound."""
    async with ports.store.reading() as view:
        user = await view.accounts.user(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound("User")
        return {
            "exported_at": instant(await ports.clock.business()),
            "user": user_record(user),
            **await _worked(ports, view, user),
            **_booked(ports, user),
            **await _said(ports, view, user),
            **await _kept(view, user),
            "last_seen_at": instant(await _last_seen(ports, view, user)),
        }


async def _pages(
    ports: Ports, read: Callable[[Reading, int], Awaitable[Sequence[N]]]
) -> AsyncIterator[Sequence[N]]:
    """All that is read by the id that comes before it, a page at a time."""
    after = 0
    while True:
        async with ports.store.reading() as view:
            page = await read(view, after)
        if not page:
            return
        yield page
        after = page[-1].id


async def _shown(pages: Pages[N], show: Callable[[N], Record]) -> AsyncIterator[Sequence[Record]]:
    async for page in pages:
        yield [show(each) for each in page]


async def _worked(ports: Ports, view: Reading, user: User) -> Record:
    """What a staff member says of themself, and where they are paid out to."""
    companion = await view.companions.companion(user.id)
    busy = companion.calendar.busy if companion else ()
    payee = await payees.account(ports, Actor(user.id, user.role))
    return {
        "profile": companion and profile_record(companion, ports.policy.currency),
        "availability": companion and availability_record(companion.calendar),
        "busy_times": [
            {"starts_at": instant(each.starts_at), "ends_at": instant(each.ends_at)}
            for each in busy
        ],
        "payout_account": payee
        and {
            "provider": payee.provider,
            "reference": payee.ref,
            "status": payee.status,
            "country": payee.command.country,
            "needs": list(payee.needs),
        },
    }


def _booked(ports: Ports, user: User) -> Record:
    """Their bookings and those that they made for others, what they complained of in them, and
    what they may book again for."""

    def bookings() -> Pages[Booking]:
        return _pages(ports, lambda view, after: view.people.bookings_of(user.id, after, PAGE))

    return {
        "bookings": _shown(bookings(), lambda each: booking_record(each, each.party_of(user.id))),
        "disputes_opened": _disputes(bookings(), user),
        "rebooking_credits": _credits(ports, bookings(), user),
    }


async def _disputes(bookings: Pages[Booking], user: User) -> AsyncIterator[Sequence[Record]]:
    async for page in bookings:
        yield [
            {"booking_code": each.code, "reason": each.dispute_reason}
            for each in page
            if each.disputed_by is not None and each.disputed_by is each.party_of(user.id)
        ]


async def _credits(
    ports: Ports, bookings: Pages[Booking], user: User
) -> AsyncIterator[Sequence[Record]]:
    async for page in bookings:
        async with ports.store.reading() as view:
            credits = [
                (each, await view.bookings.credit(each.id))
                for each in page
                if each.customer_id == user.id and each.cancelled_by is Party.STAFF
            ]
        yield [
            {
                "booking_code": each.code,
                "expires_at": instant(credit.expires_at),
                "used": credit.used_by is not None,
            }
            for each, credit in credits
            if credit is not None
        ]


async def _said(ports: Ports, view: Reading, user: User) -> Record:
    """What they wrote, and what was written of them."""
    # An address proves nothing unless it is known to be theirs.
    proved = user.email_verified_at is not None
    inquiries = await view.people.inquiries_by(user.email) if proved else ()
    messages = _pages(ports, lambda view, after: view.people.messages_by(user.id, after, PAGE))
    written = _pages(ports, lambda view, after: view.people.reviews_by(user.id, after, PAGE))
    return {
        "messages": _shown(messages, message_record),
        "reviews_written": _shown(written, review_record),
        "reviews_received": _received(ports, user),
        "inquiries": [inquiry_record(each) for each in inquiries],
    }


async def _received(ports: Ports, user: User) -> AsyncIterator[Sequence[Record]]:
    page = 1
    while True:
        async with ports.store.reading() as view:
            some = await view.reviews.reviews_of(user.id, page, PAGE)
        if not some:
            return
        yield [review_record(each) for each in some]
        page += 1


async def _kept(view: Reading, user: User) -> Record:
    """What is theirs alone: names of secrets, never the secrets."""
    sessions = await view.accounts.sessions_of(user.id)
    feed_since = await view.staff.feed_since(user.id)
    return {
        "sessions": [
            {"created_at": instant(each.created_at), "last_seen_at": instant(each.seen_at)}
            for each in sessions
        ],
        "api_keys": [key_record(each) for each in await view.accounts.keys_of(user.id)],
        "webhooks": [webhook_record(each) for each in await view.webhooks.endpoints_of(user.id)],
        "portfolio": [own_item_record(each) for each in await view.staff.portfolio_of(user.id)],
        "images": [each.path for each in await view.staff.images_of(user.id)],
        "calendar_feed": feed_since and {"created_at": instant(feed_since)},
        "refused_notices": sorted(await view.notices.mutes_of(user.id)),
    }


async def _last_seen(ports: Ports, view: Reading, user: User) -> datetime | None:
    [presence] = await view.presence.presence([user.id], ports.clock.wall())
    return presence.last_seen


# Being forgotten --------------------------------------------------------------------------


async def erase_myself(ports: Ports, user_id: int, password: str, address: str) -> None:
    """Be forgotten, by the password, which is throttled as logins are."""
    async with ports.store.reading() as view:
        user = await view.accounts.user(user_id)
    if user is None:
        raise NotFound("User")
    if not await login_throttling.verify(ports, user.email, password, user.password_hash, address):
        raise _wrong_password()
    await erase(ports, user_id, by=user.password_hash)


def _wrong_password() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The password is wrong")


async def erase(ports: Ports, user_id: int, by: str | None = None) -> User:
    """Forget a person: what is left has no name, and the ledger stays whole. Raises NotFound,
    also for who was erased already, and RuleBroken `open_bookings` while bookings are open or
    money is owed, on either side. `by` is the hash of the password that they showed, None where
    an operator does it: Unauthenticated where it is not theirs any more, or they are disabled.

    The files of images that can't be removed at once are removed later (`images.clear_files`).
    """
    now = ports.clock.wall()

    async def unit(tx: Writing) -> tuple[User, Sequence[str]]:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        if by is not None and (held.password_hash != by or held.disabled_at is not None):
            raise _wrong_password()  # It changed meanwhile, and all sessions ended.
        if any(map(is_open, await tx.people.lock_bookings_of(user_id))):
            raise RuleBroken("open_bookings", "Bookings are open, or money is owed for them")
        user = erased(held, now)
        companion = await tx.companions.lock_companion(user_id)
        names = [image.name for image in await tx.staff.images_of(user_id)]
        reviewed = await tx.people.reviewed_by(user_id)
        await tx.accounts.save_user(user)
        # Anybody may register with the address of somebody else.
        proved = held.email_verified_at is not None
        await tx.people.forget(user, held.email if proved else None)
        if companion is not None:
            await tx.companions.save_companion(blank(companion, user))
        await tx.staff.drop_images(names)
        await _remake(tx, reviewed)
        for endpoint in await tx.webhooks.endpoints_of(user_id):
            await forget_endpoint(tx, endpoint.id, now)
        return user, names

    user, names = await ports.store.write(unit)
    await images.remove_files(ports, names)
    return user


async def _remake(tx: Writing, companion_ids: Sequence[int]) -> None:
    """What is shown of companions tells of their reviews, and who wrote them."""
    for number in companion_ids:
        if (companion := await tx.companions.lock_companion(number)) is not None:
            await tx.companions.save_companion(companion)
