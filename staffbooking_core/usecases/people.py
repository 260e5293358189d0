"""What a person may ask of whoever keeps data about them: to see all of it, and to be
forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staffbooking_core.domain.accounts import User
from staffbooking_core.domain.erasure import blank, erased, is_open
from staffbooking_core.domain.records import (
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
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.ports import Ports, Reading, Writing
from staffbooking_core.usecases import throttles
from staffbooking_core.usecases.webhooks import forget_endpoint

REVIEWS = 50
"""Received ones that are read at a time."""


async def export(ports: Ports, user_id: int) -> Record:
    """All that is kept about a person, as records. What others wrote is theirs, but for reviews
    of this person. Raises NotFound."""
    async with ports.store.reading() as view:
        user = await view.accounts.user(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound("User")
        companion = await view.companions.companion(user_id)
        bookings = await view.people.bookings_of(user_id)
        return {
            "exported_at": instant(await ports.clock.business()),
            "user": user_record(user),
            "profile": companion and profile_record(companion, ports.policy.currency),
            "availability": companion and availability_record(companion.calendar),
            "bookings": [booking_record(each, each.party_of(user_id)) for each in bookings],
            **await _said(view, user),
            **await _kept(view, user),
        }


async def _said(view: Reading, user: User) -> Record:
    """What they wrote, and what was written of them."""
    # An address proves nothing unless it is known to be theirs.
    proved = user.email_verified_at is not None
    inquiries = await view.people.inquiries_by(user.email) if proved else ()
    received: list[Any] = []
    page = 1
    while some := await view.reviews.reviews_of(user.id, page, REVIEWS):
        received += some
        page += 1
    return {
        "messages": [message_record(each) for each in await view.people.messages_by(user.id)],
        "reviews_written": [review_record(each) for each in await view.people.reviews_by(user.id)],
        "reviews_received": [review_record(each) for each in received],
        "inquiries": [inquiry_record(each) for each in inquiries],
    }


async def _kept(view: Reading, user: User) -> Record:
    """What is theirs alone: names of secrets, never the secrets."""
    sessions = await view.accounts.sessions_of(user.id)
    return {
        "sessions": [
            {"created_at": instant(each.created_at), "last_seen_at": instant(each.seen_at)}
            for each in sessions
        ],
        "api_keys": [key_record(each) for each in await view.accounts.keys_of(user.id)],
        "webhooks": [webhook_record(each) for each in await view.webhooks.endpoints_of(user.id)],
        "portfolio": [own_item_record(each) for each in await view.staff.portfolio_of(user.id)],
        "images": [each.path for each in await view.staff.images_of(user.id)],
        "refused_notices": sorted(await view.notices.mutes_of(user.id)),
    }


async def erase_myself(ports: Ports, user_id: int, password: str, address: str) -> None:
    """Be forgotten, by the password, which is throttled as logins are."""
    async with ports.store.reading() as view:
        user = await view.accounts.user(user_id)
    if user is None:
        raise NotFound("User")
    if not await throttles.verify(ports, user.email, password, user.password_hash, address):
        raise Unauthenticated("bad_credentials", "The password is wrong")
    await erase(ports, user_id)


async def erase(ports: Ports, user_id: int) -> User:
    """Forget a person: what is left has no name, and the ledger stays whole. Raises NotFound,
    also for who was erased already, and RuleBroken `open_bookings` while bookings are open or
    money is owed, on either side; and an ExceptionGroup of the faults where images could not be
    removed, after all else is done."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> tuple[User, list[str]]:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        if any(map(is_open, await tx.people.lock_bookings_of(user_id))):
            raise RuleBroken("open_bookings", "Bookings are open, or money is owed for them")
        user = erased(held, now)
        companion = await tx.companions.lock_companion(user_id)
        images = [image.name for image in await tx.staff.images_of(user_id)]
        reviewed = {review.reviewee_id for review in await tx.people.reviews_by(user_id)}
        await tx.accounts.save_user(user)
        # Anybody may register with the address of somebody else.
        proved = held.email_verified_at is not None
        await tx.people.forget(user, held.email if proved else None)
        if companion is not None:
            await tx.companions.save_companion(blank(companion, user))
        await _remake(tx, reviewed)
        for endpoint in await tx.webhooks.endpoints_of(user_id):
            await forget_endpoint(tx, endpoint.id, now)
        return user, images

    user, images = await ports.store.write(unit)
    await _remove(ports, images)
    return user


async def _remove(ports: Ports, images: Sequence[str]) -> None:
    faults: list[Exception] = []
    for name in images:
        try:
            await ports.files.remove(name)
        except Exception as fault:
            faults.append(fault)
    if faults:
        raise ExceptionGroup("images were not removed", faults)


async def _remake(tx: Writing, companion_ids: set[int]) -> None:
    """What is shown of companions tells of their reviews, and who wrote them."""
    for number in sorted(companion_ids):
        if (companion := await tx.companions.lock_companion(number)) is not None:
            await tx.companions.save_companion(companion)
