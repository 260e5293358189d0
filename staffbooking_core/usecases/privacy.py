"""Export and erasure of a person's data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.privacy import erase_companion, erase_user, has_open_obligations
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.ports import (
    MAX_SAVED_PEOPLE,
    CompanionsWritePort,
    Ports,
    ReadView,
    Transaction,
)
from staffbooking_core.representations.accounts import api_key_record, inquiry_record, user_record
from staffbooking_core.representations.bookings import BookingRecord, booking_record
from staffbooking_core.representations.calendars import (
    availability_record,
    busy_time_record,
    calendar_address_record,
    calendar_feed_record,
)
from staffbooking_core.representations.companions import (
    ReviewRecord,
    own_portfolio_record,
    profile_record,
    review_record,
)
from staffbooking_core.representations.disputes import (
    dispute_file_record,
    own_dispute_statement_record,
)
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.representations.messaging import message_record
from staffbooking_core.representations.personal_data import (
    AccountData,
    BookingsData,
    OpenedDisputeRecord,
    PersonalDataRecord,
    RebookingCreditRecord,
    StaffData,
    WritingsData,
)
from staffbooking_core.representations.webhooks import webhook_record
from staffbooking_core.usecases.accounts import login_throttling
from staffbooking_core.usecases.accounts.people import delete_endpoints_of
from staffbooking_core.usecases.companions import images
from staffbooking_core.usecases.payments import payees
from staffbooking_core.validation import validated

__all__ = ["erase_own_account", "erase_person", "export_user_data"]

EXPORT_PAGE_SIZE = 100
"""Maximum number of bookings, messages or reviews that are held in memory at a time."""


class _HasId(Protocol):
    @property
    def id(self) -> int: ...


N = TypeVar("N", bound=_HasId)
R = TypeVar("R")
Pages = AsyncIterator[Sequence[N]]


@validated
async def export_user_data(ports: Ports, user_id: int) -> PersonalDataRecord:
    """All data that is stored about a user, as records. Texts of others are left out, except
    reviews of this user and the reasons in a booking's timeline. Unbounded lists are iterators of
    pages, read on demand.

    Raises NotFound.
    """
    async with ports.store.read_view() as view:
        user = await view.accounts.user(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound("User")
        return {
            "exported_at": format_instant(await ports.clock.business()),
            "user": user_record(user),
            **await _staff_records(ports, view, user),
            **_booking_records(ports, user),
            **await _written_records(ports, view, user),
            **await _account_records(view, user),
            "last_seen_at": format_instant(await _last_seen(ports, view, user)),
        }


async def _read_pages(
    ports: Ports, read: Callable[[ReadView, int], Awaitable[Sequence[N]]]
) -> AsyncIterator[Sequence[N]]:
    """Pages of rows in the order of ids; each is read in a view of its own."""
    after = 0
    while True:
        async with ports.store.read_view() as view:
            page = await read(view, after)
        if not page:
            return
        yield page
        after = page[-1].id


async def _to_records(pages: Pages[N], to_record: Callable[[N], R]) -> AsyncIterator[Sequence[R]]:
    async for page in pages:
        yield [to_record(each) for each in page]


async def _staff_records(ports: Ports, view: ReadView, user: User) -> StaffData:
    """A staff member's profile, hours, other calendars and payout account."""
    companion = await view.companions.companion(user.id)
    busy = companion.calendar.busy if companion else ()
    subscriptions = await view.calendar_subscriptions.subscriptions_of(user.id)
    payee = await payees.get_payee(ports, Actor(user.id, user.role))
    return {
        "profile": profile_record(companion, ports.policy.currency) if companion else None,
        "availability": availability_record(companion.calendar) if companion else None,
        "busy_times": [busy_time_record(each) for each in busy],
        "calendar_addresses": [calendar_address_record(each) for each in subscriptions],
        "payout_account": _payout_account(payee) if payee else None,
    }


def _payout_account(payee: Payee) -> Mapping[str, object]:
    return {
        "provider": payee.provider,
        "reference": payee.ref,
        "status": payee.status,
        "country": payee.command.country,
        "needs": list(payee.needs),
    }


def _booking_records(ports: Ports, user: User) -> BookingsData:
    """The user's bookings and those made for others, the disputes they opened, and their rebooking
    credits."""

    def bookings() -> Pages[Booking]:
        return _read_pages(
            ports,
            lambda view, after: view.personal_data.bookings_of(user.id, after, EXPORT_PAGE_SIZE),
        )

    def record_of(booking: Booking) -> BookingRecord:
        party = booking.party_of(user.id)
        assert party is not None, "these are bookings of the person"
        return booking_record(booking, party, ports.policy)

    return {
        "bookings": _to_records(bookings(), record_of),
        "disputes_opened": _disputes(bookings(), user),
        "rebooking_credits": _credits(ports, bookings(), user),
    }


async def _disputes(
    bookings: Pages[Booking], user: User
) -> AsyncIterator[Sequence[OpenedDisputeRecord]]:
    async for page in bookings:
        yield [
            {"booking_code": each.code, "reason": each.dispute_reason}
            for each in page
            if each.dispute_reason is not None and each.disputed_by is each.party_of(user.id)
        ]


async def _credits(
    ports: Ports, bookings: Pages[Booking], user: User
) -> AsyncIterator[Sequence[RebookingCreditRecord]]:
    async for page in bookings:
        async with ports.store.read_view() as view:
            credits = [
                (each, await view.bookings.rebooking_credit(each.id))
                for each in page
                if each.customer_id == user.id
                and (each.cancelled_by in (Party.STAFF, Party.ADMIN) or each.was_no_show)
            ]
        yield [
            {
                "booking_code": each.code,
                "expires_at": format_instant(credit.expires_at),
                "used": credit.used_by is not None,
            }
            for each, credit in credits
            if credit is not None
        ]


async def _written_records(ports: Ports, view: ReadView, user: User) -> WritingsData:
    """Messages, reviews, statements in disputes and inquiries of the user, and reviews of
    them."""
    # Inquiries are matched by e-mail address, which must be verified.
    is_email_verified = user.email_verified_at is not None
    inquiries = await view.personal_data.inquiries_from(user.email) if is_email_verified else ()
    messages = _read_pages(
        ports,
        lambda view, after: view.personal_data.messages_sent_by(user.id, after, EXPORT_PAGE_SIZE),
    )
    written = _read_pages(
        ports,
        lambda view, after: view.personal_data.reviews_written_by(user.id, after, EXPORT_PAGE_SIZE),
    )
    statements = _read_pages(
        ports,
        lambda view, after: view.personal_data.dispute_statements_by(
            user.id, after, EXPORT_PAGE_SIZE
        ),
    )
    files = await view.disputes.files_by(user.id)
    return {
        "messages": _to_records(messages, message_record),
        "reviews_written": _to_records(written, review_record),
        "reviews_received": _received_reviews(ports, user),
        "dispute_statements": _to_records(statements, own_dispute_statement_record),
        "dispute_files": [dispute_file_record(each) for each in files],
        "inquiries": [inquiry_record(each) for each in inquiries],
    }


async def _received_reviews(ports: Ports, user: User) -> AsyncIterator[Sequence[ReviewRecord]]:
    page = 1
    while True:
        async with ports.store.read_view() as view:
            some = await view.reviews.reviews_of(user.id, page, EXPORT_PAGE_SIZE)
        if not some:
            return
        yield [review_record(each) for each in some]
        page += 1


async def _account_records(view: ReadView, user: User) -> AccountData:
    """Sessions, keys, webhooks, images and settings; names of secrets, never the secrets."""
    sessions = await view.accounts.sessions_of(user.id)
    feed_since = await view.portfolio.calendar_feed_created_at(user.id)
    return {
        "sessions": [
            {
                "created_at": format_instant(each.created_at),
                "last_seen_at": format_instant(each.seen_at),
                "browser": each.browser,
                "system": each.system,
                "network": each.network,
            }
            for each in sessions
        ],
        "settings": {"language": user.language, "theme": user.theme, "timezone": user.timezone},
        "saved_people": [
            {"companion_id": each.companion_id, "saved_at": format_instant(each.saved_at)}
            for each in await view.saved.saved_people(user.id, MAX_SAVED_PEOPLE)
        ],
        "api_keys": [api_key_record(each) for each in await view.accounts.api_keys_of(user.id)],
        "webhooks": [webhook_record(each) for each in await view.webhooks.endpoints_of(user.id)],
        "portfolio": [
            own_portfolio_record(each) for each in await view.portfolio.portfolio_items_of(user.id)
        ],
        "images": [each.path for each in await view.portfolio.images_of(user.id)],
        "calendar_feed": calendar_feed_record(feed_since),
        "refused_notices": sorted(await view.notifications.muted_kinds_of(user.id)),
    }


async def _last_seen(ports: Ports, view: ReadView, user: User) -> datetime | None:
    [presence] = await view.presence.presence([user.id], ports.clock.wall())
    return presence.last_seen


# Erasure ----------------------------------------------------------------------------------


@validated
async def erase_own_account(ports: Ports, user_id: int, password: str, ip_address: str) -> None:
    """Erase the user's own account, confirmed by the password.

    Raises NotFound, Unauthenticated `bad_credentials`, RateLimitExceeded after too many wrong
    passwords, and RuleBroken `open_bookings`.
    """
    async with ports.store.read_view() as view:
        user = await view.accounts.user(user_id)
    if user is None:
        raise NotFound("User")
    if not await login_throttling.verify_password(
        ports, user.email, password, user.password_hash, ip_address
    ):
        raise _wrong_password()
    await erase_person(ports, user_id, password_hash=user.password_hash)


def _wrong_password() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The password is wrong")


@validated
async def erase_person(ports: Ports, user_id: int, password_hash: str | None = None) -> User:
    """Erase a person: their name, texts, files and endpoints are removed, bookings and the ledger
    stay without a name. Returns the erased user.

    `password_hash` is the hash of the password that confirmed the call; None for an operator. Locks
    the user, their bookings, their companion, the companions whom they reviewed, and their
    endpoints, in this order. Image files that cannot be removed now are removed later
    (`images.remove_orphaned_files`).

    Raises NotFound, also for an erased user; RuleBroken `open_bookings` while bookings are open,
    money is owed by either side, or a checkout is still to be opened; Unauthenticated where the
    password changed or the user was disabled.
    """
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> tuple[User, Sequence[str]]:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        if password_hash is not None and (
            held.password_hash != password_hash or held.disabled_at is not None
        ):
            raise _wrong_password()  # The password changed since it was verified.
        bookings = await tx.personal_data.lock_bookings_of(user_id)
        if any(map(has_open_obligations, bookings)) or await _has_open_checkout(tx, bookings):
            raise RuleBroken("open_bookings", "Bookings are open, or money is owed for them")
        user = erase_user(held, now, ports.ids.token())
        companion = await tx.companions.lock_companion(user_id)
        names = [image.name for image in await tx.portfolio.images_of(user_id)]
        file_names = [file.storage_name for file in await tx.disputes.files_by(user_id)]
        reviewee_ids = await tx.personal_data.reviewee_ids_of(user_id)
        await tx.accounts.save_user(user)
        # Anybody may register with another person's address: unverified, it matches no inquiries.
        is_email_verified = held.email_verified_at is not None
        await tx.personal_data.erase(user, held.email if is_email_verified else None)
        await tx.reconciliations.forget_operator(held.email)
        if companion is not None:
            await tx.companions.save_companion(erase_companion(companion, user))
        await tx.portfolio.delete_images(names)
        await tx.disputes.delete_files_by(user_id)
        await _refresh_companions(tx.companions, reviewee_ids)
        await delete_endpoints_of(tx.webhooks, user_id, now)
        await tx.sandbox.delete_sent_mails()  # Those to others may name the person.
        return user, [*names, *file_names]

    user, names = await ports.store.run_transaction(unit)
    await images.remove_files(ports, names)
    return user


async def _has_open_checkout(tx: Transaction, bookings: Sequence[Booking]) -> bool:
    """Whether a checkout, whose order names both sides, is still to be opened."""
    ordered = await tx.operations.operations_of_bookings([booking.id for booking in bookings])
    return any(
        operation.kind is OperationKind.OPEN_CHECKOUT and not operation.is_finished
        for operations in ordered.values()
        for operation in operations
    )


async def _refresh_companions(
    companions: CompanionsWritePort, companion_ids: Sequence[int]
) -> None:
    """Save companions again, whose encoded details contain the names of reviewers."""
    for number in companion_ids:
        if (companion := await companions.lock_companion(number)) is not None:
            await companions.save_companion(companion)
