"""What operators decide about a person: disabling and enabling, subscription, role, API keys."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from attrs import frozen

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.accounts.users import AccountState, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import NotFound, invalid_field
from staffbooking_core.operator_inputs import (
    DisablePerson,
    OperatorDecision,
    SetRole,
    SetSubscription,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, api_keys, people
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.bookings.disabling import Obligations
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.administration.decision_pages import Decision, decision_page

_PERSON_PATH = "/admin/people/{number:str}"
_MAX_YEARS_OF_SUBSCRIPTION = 20


async def _find_person(call: Call) -> User:
    """The person in the path, who is not erased. Raises NotFound."""
    person = await administration.get_user_by_id(call.ports, call.path_id("User"))
    if person.state is AccountState.ERASED:
        raise NotFound("User")
    return person


def _path_of(person: User, flash_code: str) -> str:
    return f"/admin/people/{person.id}?{flash_code}"


def _decision(
    person: User,
    act: str,
    flash_code: str,
    template: str,
    change: Callable[[Ports, Any], Awaitable[None]],
    form: type[OperatorDecision] = OperatorDecision,
    **context: Any,
) -> Decision:
    """A decision about the person, whose page follows it."""
    return Decision(
        template=template,
        act=act,
        subject=AuditSubject.PERSON,
        subject_id=person.id,
        leads_to=_path_of(person, flash_code),
        form=form,
        change=change,
        context={"person": person, **context},
    )


# Disabling ------------------------------------------------------------------------------


@frozen
class _OpenBooking:
    """A booking that hangs on the account, and what disabling means for it."""

    booking: Booking
    follows: str
    """`ends`, `decide` (cancelled or kept), `goes_on`, or `payout_held`."""
    total: Decimal
    is_paid: bool


def _open_bookings(obligations: Obligations, now: datetime) -> Sequence[_OpenBooking]:
    ahead = {each.id for each in obligations.ahead(now)}
    held = {each.id for each in obligations.payouts}
    known = {each.id: each for each in (*obligations.bookings, *obligations.payouts)}

    def follows(booking: Booking) -> str:
        if booking.id in ahead:
            return "decide"
        if booking.status is BookingStatus.PENDING:
            return "ends"
        return "payout_held" if booking.id in held else "goes_on"

    return [
        _OpenBooking(
            each,
            follows(each),
            Currency(each.currency).to_decimal(each.total_amount),
            each.status is BookingStatus.PAID,
        )
        for each in sorted(known.values(), key=lambda one: (one.starts_at, one.id))
    ]


async def _ask_to_disable(call: Call, operator: SignedInUser) -> Decision:
    """Whether the account is disabled, with what that means for each of its bookings."""
    person = await _find_person(call)
    obligations = await disabling.find_obligations(call.ports, person.id)
    now = await call.ports.clock.business()

    async def disable(ports: Ports, given: DisablePerson) -> None:
        await disabling.disable_user(
            ports, person.email, given.bookings, given.reason, actor_id=operator.user.id
        )

    return _decision(
        *(person, "disable", "disabled", "admin/person_disable.html", disable, DisablePerson),
        open_bookings=_open_bookings(obligations, now),
        needs_decision=obligations.need_decision(now),
    )


async def _ask_to_enable(call: Call, _: SignedInUser) -> Decision:
    """Whether the account is enabled."""
    person = await _find_person(call)

    async def enable(ports: Ports, _: OperatorDecision) -> None:
        await administration.enable_user(ports, person.email)

    return _decision(person, "enable", "enabled", "admin/person_enable.html", enable)


# Subscription and role ------------------------------------------------------------------


async def _ask_for_subscription(call: Call, _: SignedInUser) -> Decision:
    """Which subscription the account has, and until when."""
    person = await _find_person(call)

    async def set_subscription(ports: Ports, given: SetSubscription) -> None:
        expires_at = _expiry(given, call.now)
        await administration.set_subscription(ports, person.email, given.subscription, expires_at)

    return _decision(
        *(person, "subscribe", "subscription", "admin/person_subscription.html"),
        *(set_subscription, SetSubscription),
        last_day=_last_day(person.subscription_expires_at),
        today=call.now.date().isoformat(),
    )


def _last_day(expires_at: datetime | None) -> str:
    """The last whole day in UTC before an expiry; empty without one."""
    return "" if expires_at is None else (expires_at - timedelta(microseconds=1)).date().isoformat()


def _expiry(given: SetSubscription, now: datetime) -> datetime | None:
    """The end of the last day. Raises InvalidField for a day in the past, or too far ahead."""
    if given.last_day is None or given.subscription is Subscription.NONE:
        return None
    if given.last_day < now.date():
        raise invalid_field("last_day", "must lie in the future")
    if given.last_day.year > now.year + _MAX_YEARS_OF_SUBSCRIPTION:
        raise invalid_field("last_day", "is too far ahead")
    return datetime.combine(given.last_day, time(), UTC) + timedelta(days=1)


async def _ask_for_role(call: Call, operator: SignedInUser) -> Decision:
    """Whether a customer becomes an operator, or an operator a customer."""
    person = await _find_person(call)
    if person.role is Role.STAFF:
        raise NotFound("Page")
    wanted = Role.CUSTOMER if person.role is Role.ADMIN else Role.ADMIN

    async def set_role(ports: Ports, given: SetRole) -> None:
        await people.set_role(ports, person.id, given.role, operator.user.id)

    return _decision(
        *(person, "set_role", "role", "admin/person_role.html", set_role, SetRole), wanted=wanted
    )


# API keys -------------------------------------------------------------------------------


async def _ask_to_revoke_key(call: Call, _: SignedInUser) -> Decision:
    """Whether an API key is revoked for good."""
    person = await _find_person(call)
    key_id = call.path_id("API key", 1)
    key = await api_keys.get_key(call.ports, person, key_id)

    async def revoke(ports: Ports, _: OperatorDecision) -> None:
        await api_keys.revoke(ports, None, key_id)

    return Decision(
        template="admin/key_revoke.html",
        act="revoke",
        subject=AuditSubject.API_KEY,
        subject_id=key_id,
        leads_to=_path_of(person, "key"),
        change=revoke,
        context={"person": person, "key": key},
    )


PAGES = (
    *decision_page(f"{_PERSON_PATH}/disable", _ask_to_disable),
    *decision_page(f"{_PERSON_PATH}/enable", _ask_to_enable),
    *decision_page(f"{_PERSON_PATH}/subscription", _ask_for_subscription),
    *decision_page(f"{_PERSON_PATH}/role", _ask_for_role),
    *decision_page(f"{_PERSON_PATH}/keys/{{key:str}}/revoke", _ask_to_revoke_key),
)
