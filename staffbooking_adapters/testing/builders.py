"""Values of the core with defaults: a test gives only the fields that it is about.

`make_…` builds a value, `add_…` adds it to a store together with the rows that it refers to.
Everything happens around `NOW`, a Monday.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from attrs import asdict, evolve

from staffbooking_core.domain.accounts.api_keys import (
    ApiKey,
    Permission,
    build_api_key,
    digest_api_key,
    mask_api_key,
)
from staffbooking_core.domain.accounts.audit import AuditSubject, NewAuditEntry
from staffbooking_core.domain.accounts.users import (
    Role,
    Session,
    Subscription,
    User,
    hash_session_token,
)
from staffbooking_core.domain.bookings.booking import (
    Booking,
    CompanionRates,
    TimelineEntry,
    TransitionResult,
    quote_price,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, Party, Trigger
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.domain.companions.availability import Calendar, Slot, WeeklySlot
from staffbooking_core.domain.companions.companion import Approval, Companion
from staffbooking_core.domain.payments.ledger import Account, Leg, Posting
from staffbooking_core.domain.payments.operations import Operation, OperationOrder
from staffbooking_core.domain.payments.payees import OpenPayee, Payee
from staffbooking_core.domain.payments.processor import (
    OpenCheckout,
    PayOut,
    ProcessorEvent,
    RefundPayment,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    BookingWrite,
    Lease,
    NewApiKey,
    NewUser,
    RebookingCredit,
    Store,
    StoredResponse,
)
from staffbooking_core.representations.events import DomainEvent, booking_event

NOW = datetime(2027, 3, 1, 12, 0, tzinfo=UTC)
TODAY = NOW.date()
SECOND, MINUTE, HOUR, DAY = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)
POLICY = Policy()

_sequence: Iterator[int] = count(1)
"""Makes e-mails, codes and keys unique within one run of the tests."""


def _with_defaults(defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {**defaults, **given}


# Users ------------------------------------------------------------------------------------


def make_new_user(**given: Any) -> NewUser:
    """A customer to be added."""
    defaults = {
        "email": f"user{next(_sequence)}@example.com",
        "first_name": "Ada",
        "last_name": "Okoro",
        "role": Role.CUSTOMER,
        "created_at": NOW - 30 * DAY,
    }
    return NewUser(**_with_defaults(defaults, given))


def make_user(**given: Any) -> User:
    """A customer with an account; the id is 1."""
    known: dict[str, Any] = {
        name: given.pop(name) for name in ("id", "disabled_at") if name in given
    }
    return User(**_with_defaults({"id": 1, **asdict(make_new_user(**given), recurse=False)}, known))


async def add_user(store: Store, **given: Any) -> User:
    """A customer in the store, with the store's id."""
    new = make_new_user(**given)
    return await store.run_transaction(lambda unit: unit.accounts.add_user(new))


async def add_subscriber(store: Store, **given: Any) -> User:
    """A customer whose API keys work."""
    return await add_user(store, **_with_defaults({"subscription": Subscription.ENTERPRISE}, given))


def make_session(user_id: int = 1, token: str | None = None, **given: Any) -> Session:
    """A session that began and was seen at NOW."""
    token = token or f"token{next(_sequence)}"
    defaults = {
        "digest": hash_session_token(token),
        "user_id": user_id,
        "created_at": NOW,
        "seen_at": NOW,
    }
    return Session(**_with_defaults(defaults, given))


async def add_session(store: Store, user_id: int, **given: Any) -> Session:
    session = make_session(user_id, **given)
    await store.run_transaction(lambda unit: unit.accounts.add_session(session))
    return session


def make_api_key_text() -> str:
    """A well-formed key, different on each call."""
    return build_api_key(f"{next(_sequence):059d}")


def make_new_api_key(owner_id: int = 1, text: str | None = None, **given: Any) -> NewApiKey:
    """A key with both permissions, to be added."""
    text = text or make_api_key_text()
    defaults = {
        "owner_id": owner_id,
        "name": "Back office",
        "digest": digest_api_key(text),
        "masked_key": mask_api_key(text),
        "permissions": frozenset(Permission),
        "created_at": NOW,
    }
    return NewApiKey(**_with_defaults(defaults, given))


async def add_api_key(store: Store, owner_id: int, text: str | None = None, **given: Any) -> ApiKey:
    new = make_new_api_key(owner_id, text, **given)
    return await store.run_transaction(lambda unit: unit.accounts.add_api_key(new))


# Companions -------------------------------------------------------------------------------


def make_calendar(
    timezone: str = "UTC",
    days: Sequence[int] = (),
    start: int = 9,
    end: int = 17,
    **given: Any,
) -> Calendar:
    """Hours from `start` to `end` on these weekdays (Monday 0); without any, always free."""
    slot = Slot(start * 60, end * 60)
    weekly = tuple(WeeklySlot(weekday, slot) for weekday in days)
    return Calendar(**_with_defaults({"timezone": timezone, "weekly": weekly}, given))


def make_companion(**given: Any) -> Companion:
    """A listed companion in Lisbon for 100.00 an hour, always free; the id is 2."""
    defaults = {
        "id": 2,
        "first_name": "Mia",
        "last_name": "Lindqvist",
        "hourly_rate": 10_000,
        "daily_rate": 70_000,
        "location_city": "Lisbon",
        "location_country": "Portugal",
        "calendar": make_calendar(),
        "member_since": NOW - 300 * DAY,
        "service_types": ("Gala dinner", "Trade fair"),
        "languages": ("English", "Portuguese"),
        "approval": Approval.APPROVED,
        "payout_account": "acct_mia",
    }
    return Companion(**_with_defaults(defaults, given))


async def add_companion(store: Store, **given: Any) -> Companion:
    """A listed companion in the store, with its staff user; the id is the user's."""
    companion = make_companion(**given)
    new = make_new_user(
        role=Role.STAFF, first_name=companion.first_name, last_name=companion.last_name
    )

    async def unit(tx: Any) -> Companion:
        user = await tx.accounts.add_user(new)
        added = evolve(companion, id=user.id)
        await tx.companions.save_companion(added)
        return added

    return await store.run_transaction(unit)


# Bookings ---------------------------------------------------------------------------------


def make_booking(**given: Any) -> Booking:
    """A pending request of user 1 for companion 2: four hours, two days after NOW.

    Derived fields (times, prices, the timeline) follow the others unless they are given.
    """
    starts_at = given.get("starts_at", NOW + 2 * DAY)
    hours = given.get("duration_hours", 4)
    insured = given.get("cancellation_insurance", False)
    price = quote_price(CompanionRates(10_000, None), hours, insured, POLICY)
    created_at = given.get("created_at", NOW - DAY)
    defaults = {
        "id": 1,
        "code": f"BK{next(_sequence):012d}",
        "status": BookingStatus.PENDING,
        "companion_id": 2,
        "companion_name": "Mia Lindqvist",
        "customer_id": 1,
        "customer_name": "Ada Okoro",
        "booked_by": None,
        "service_type": "Gala dinner",
        "location": "Rua Augusta 1, Lisbon",
        "event_date": starts_at.date(),
        "start_time": f"{starts_at:%H:%M}",
        "duration_hours": hours,
        "timezone": "UTC",
        "starts_at": starts_at,
        "ends_at": starts_at + hours * HOUR,
        "currency": POLICY.currency.code,
        "fee_ppm": POLICY.platform_fee_ppm,
        "created_at": created_at,
        "timeline": (
            TimelineEntry(created_at, None, BookingStatus.PENDING, Trigger.REQUEST, Party.CUSTOMER),
        ),
        **asdict(price),
    }
    return Booking(**_with_defaults(defaults, given))


def make_booking_write(booking: Booking | None = None, **given: Any) -> BookingWrite:
    """The write of a transition at NOW, with the timer of the booking's status."""
    booking = booking or make_booking()
    defaults = {
        "booking": booking,
        "due": next_timer(booking, POLICY),
        "operations_due_at": NOW,
    }
    return BookingWrite(**_with_defaults(defaults, given))


def make_event(booking: Booking, **given: Any) -> DomainEvent:
    """The event `booking.created` of a booking at NOW."""
    result = TransitionResult(booking, EventName.BOOKING_CREATED)
    event = booking_event(f"evt_{next(_sequence):026d}", None, result, NOW, POLICY)
    return evolve(event, **given)


async def next_booking_id(store: Store) -> int:
    """The id of the store's next booking."""
    async with store.read_view() as view:
        return (await view.bookings.request_context(0, None, None, TODAY)).booking_id


async def add_booking(
    store: Store,
    companion: Companion | int | None = None,
    customer: User | int | None = None,
    *,
    change: dict[str, Any] | None = None,
    **given: Any,
) -> Booking:
    """A booking in the store; a missing companion or customer is created.

    `change` has fields of the BookingWrite that it is added with.
    """
    companion = companion if companion is not None else await add_companion(store)
    customer = customer if customer is not None else await add_user(store)
    defaults = {
        "id": await next_booking_id(store),
        "companion_id": companion if isinstance(companion, int) else companion.id,
        "customer_id": customer if isinstance(customer, int) else customer.id,
    }
    booking = make_booking(**_with_defaults(defaults, given))
    await store.add_booking(make_booking_write(booking, **(change or {})))
    return booking


def next_revision(booking: Booking, **fields: Any) -> Booking:
    """The next revision of a booking."""
    return evolve(booking, **{"revision": booking.revision + 1, **fields})


async def save_booking(store: Store, booking: Booking, **change: Any) -> Booking:
    """Save a version of a booking and return it."""
    changed = make_booking_write(booking, **change)
    await store.run_transaction(lambda unit: unit.bookings.save_booking(changed))
    return booking


def make_stored_response(**given: Any) -> StoredResponse:
    """The stored response of a call that was made at NOW."""
    defaults = {
        "scope": "key:1",
        "key": f"call-{next(_sequence)}",
        "fingerprint": b"\x01" * 32,
        "status": 201,
        "headers": "",
        "body": b'{"success":true}',
        "is_sealed": False,
        "expires_at": NOW + POLICY.idempotency_lifetime,
    }
    return StoredResponse(**_with_defaults(defaults, given))


def make_rebooking_credit(booking: Booking, **given: Any) -> RebookingCredit:
    """The rebooking credit that the customer gets for a cancelled booking."""
    defaults = {
        "booking_id": booking.id,
        "customer_id": booking.customer_id,
        "expires_at": NOW + POLICY.rebooking_credit,
    }
    return RebookingCredit(**_with_defaults(defaults, given))


# Money ------------------------------------------------------------------------------------


def make_posting(booking_id: int = 1, amount: int = 40_000, **given: Any) -> Posting:
    """A posting of the customer's payment to escrow."""
    defaults = {
        "key": f"pay:p{next(_sequence)}",
        "booking_id": booking_id,
        "at": NOW,
        "legs": (Leg(Account.PROCESSOR_BALANCE, amount), Leg(Account.ESCROW, -amount)),
    }
    return Posting(**_with_defaults(defaults, given))


def make_checkout_command(**given: Any) -> OpenCheckout:
    defaults = {
        "amount": 40_000,
        "currency": "usd",
        "booking_code": "BK000000000001",
        "customer_email": "ada@example.com",
        "description": "Gala dinner with Mia Lindqvist",
        "success_url": "http://127.0.0.1:8000/paid",
        "cancel_url": "http://127.0.0.1:8000/back",
        "expires_at": NOW + 23 * HOUR,
    }
    return OpenCheckout(**_with_defaults(defaults, given))


def make_refund_order(n: int = 1, amount: int = 20_000) -> OperationOrder:
    return OperationOrder(n, RefundPayment("pay_1", amount, "usd"))


def make_payout_order(n: int = 1, companion_id: int = 2, amount: int = 34_000) -> OperationOrder:
    return OperationOrder(n, PayOut("pay_1", companion_id, amount, "usd"))


def make_operation(order: OperationOrder | None = None, **given: Any) -> Operation:
    """The pending operation of an order, by default of a checkout."""
    order = order or OperationOrder(1, make_checkout_command())
    defaults = {
        "id": 1,
        "booking_id": 1,
        "kind": order.kind,
        "n": order.n,
        "command": order.command,
        "created_at": NOW,
        "next_at": NOW,
    }
    return Operation(**_with_defaults(defaults, given))


def make_lease(now: datetime = NOW, token: str | None = None) -> Lease:
    """A lease that starts at `now`, with a different token on each call."""
    return Lease(token or f"lease{next(_sequence)}", now + POLICY.lease_duration)


def make_processor_event(**given: Any) -> ProcessorEvent:
    return ProcessorEvent(
        **_with_defaults({"event_id": f"pevt_{next(_sequence)}", "intent_id": 1}, given)
    )


def make_payee(companion_id: int = 2, **given: Any) -> Payee:
    """A payee that is due to be opened at NOW."""
    command = OpenPayee(companion_id, "mia@example.com", "Mia Lindqvist", "PT", "usd")
    defaults = {
        "provider": "fake",
        "companion_id": companion_id,
        "command": command,
        "created_at": NOW,
        "next_at": NOW,
    }
    return Payee(**_with_defaults(defaults, given))


async def add_payee(store: Store, **given: Any) -> Payee:
    """A payee in the store; a missing companion is created."""
    if "companion_id" not in given:
        given["companion_id"] = (await add_companion(store)).id
    payee = make_payee(**given)
    await store.run_transaction(lambda unit: unit.payees.save_payee(payee))
    return payee


def make_audit_entry(**given: Any) -> NewAuditEntry:
    """An audit entry, by default of a disabled user 7 at the command line."""
    values = {
        "at": NOW,
        "actor_id": None,
        "actor": None,
        "act": "disable",
        "subject": AuditSubject.PERSON,
        "subject_id": "7",
        "reason": None,
        "origin": "cli",
    }
    return NewAuditEntry(**{**values, **given})
