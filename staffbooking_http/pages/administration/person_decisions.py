"""What operators decide about a person: disabling and enabling, subscription, role, API keys."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.accounts.users import AccountState, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import NotFound, RuleBroken, invalid_field
from staffbooking_core.operator_inputs import (
    DisablePerson,
    OperatorDecision,
    SetRole,
    SetSubscription,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, api_keys, people
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.bookings.disabling import BookingsDecision, Obligations
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import (
    Decision,
    show_decision,
    take_decision,
)
from staffbooking_http.pages.session import PageRequest, get_call

_PERSON_PATH = "/admin/people/{number:str}"


async def _find_person(call: Call) -> User:
    """The person in the path, who is not erased. Raises NotFound."""
    person = await administration.get_user_by_id(call.ports, call.path_id("User"))
    if person.state is AccountState.ERASED:
        raise NotFound("User")
    return person


def _path_of(person: User, flash: str) -> str:
    return f"/admin/people/{person.id}?{flash}"


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
    known = {each.id: each for each in (*obligations.bookings, *obligations.payouts)}

    def follows(booking: Booking) -> str:
        if booking.id in ahead:
            return "decide"
        if booking.status is BookingStatus.PENDING:
            return "ends"
        held = {each.id for each in obligations.payouts}
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


async def _ask_to_disable(call: Call) -> Decision:
    person = await _find_person(call)
    obligations = await disabling.find_obligations(call.ports, person.id)
    now = await call.ports.clock.business()
    return Decision(
        template="admin/person_disable.html",
        act="disable",
        subject=AuditSubject.PERSON,
        subject_id=person.id,
        leads_to=_path_of(person, "disabled"),
        form=DisablePerson,
        context={
            "person": person,
            "open_bookings": _open_bookings(obligations, now),
            "needs_decision": obligations.need_decision(now),
        },
    )


@get(_PERSON_PATH + "/disable")
async def ask_to_disable(request: PageRequest) -> Template:
    """Show what disabling the account means for each of its bookings, and ask for the reason."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_to_disable(call))


@post(_PERSON_PATH + "/disable", status_code=200)
async def disable(request: PageRequest) -> Template | Redirect:
    """Disable the account, and do to its bookings what was chosen."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_to_disable(call)

    async def change(ports: Ports, given: DisablePerson) -> None:
        person: User = decision.context["person"]
        if person.id == visitor.user.id:
            raise RuleBroken("own_account", "Nobody can disable their own account")
        chosen = None if given.bookings is None else BookingsDecision(given.bookings)
        await disabling.disable_user(
            ports, person.email, chosen, given.reason, actor_id=visitor.user.id
        )

    return await take_decision(call, visitor, decision, change)


@get(_PERSON_PATH + "/enable")
async def ask_to_enable(request: PageRequest) -> Template:
    """Show what enabling the account means, and ask for the reason."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_to_enable(call))


async def _ask_to_enable(call: Call) -> Decision:
    person = await _find_person(call)
    return Decision(
        template="admin/person_enable.html",
        act="enable",
        subject=AuditSubject.PERSON,
        subject_id=person.id,
        leads_to=_path_of(person, "enabled"),
        context={"person": person},
    )


@post(_PERSON_PATH + "/enable", status_code=200)
async def enable(request: PageRequest) -> Template | Redirect:
    """Enable the account."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_to_enable(call)

    async def change(ports: Ports, _: OperatorDecision) -> None:
        await administration.enable_user(ports, decision.context["person"].email)

    return await take_decision(call, visitor, decision, change)


# Subscription and role ------------------------------------------------------------------


async def _ask_for_subscription(call: Call) -> Decision:
    person = await _find_person(call)
    return Decision(
        template="admin/person_subscription.html",
        act="subscribe",
        subject=AuditSubject.PERSON,
        subject_id=person.id,
        leads_to=_path_of(person, "subscription"),
        form=SetSubscription,
        context={
            "person": person,
            "tiers": list(Subscription),
            "last_day": _last_day(person.subscription_expires_at),
            "today": call.now.date().isoformat(),
        },
    )


def _last_day(expires_at: datetime | None) -> str:
    """The last whole day in UTC before an expiry; empty without one."""
    return "" if expires_at is None else (expires_at - timedelta(microseconds=1)).date().isoformat()


@get(_PERSON_PATH + "/subscription")
async def ask_for_subscription(request: PageRequest) -> Template:
    """Show the subscription, and ask for another one and the reason."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_for_subscription(call))


@post(_PERSON_PATH + "/subscription", status_code=200)
async def set_subscription(request: PageRequest) -> Template | Redirect:
    """Set the subscription."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_for_subscription(call)

    async def change(ports: Ports, given: SetSubscription) -> None:
        expires_at = _expiry(given, call.now)
        email = decision.context["person"].email
        await administration.set_subscription(ports, email, given.subscription, expires_at)

    return await take_decision(call, visitor, decision, change)


def _expiry(given: SetSubscription, now: datetime) -> datetime | None:
    """The end of the last day. Raises InvalidField for a day in the past."""
    if given.last_day is None or given.subscription is Subscription.NONE:
        return None
    if given.last_day < now.date():
        raise invalid_field("last_day", "must lie in the future")
    if given.last_day.year > now.year + _MAX_YEARS_OF_SUBSCRIPTION:
        raise invalid_field("last_day", "is too far ahead")
    return datetime.combine(given.last_day, time(), UTC) + timedelta(days=1)


_MAX_YEARS_OF_SUBSCRIPTION = 20


async def _ask_for_role(call: Call) -> Decision:
    person = await _find_person(call)
    if person.role is Role.STAFF:
        raise NotFound("Page")
    wanted = Role.CUSTOMER if person.role is Role.ADMIN else Role.ADMIN
    return Decision(
        template="admin/person_role.html",
        act="set_role",
        subject=AuditSubject.PERSON,
        subject_id=person.id,
        leads_to=_path_of(person, "role"),
        form=SetRole,
        context={"person": person, "wanted": wanted},
    )


@get(_PERSON_PATH + "/role")
async def ask_for_role(request: PageRequest) -> Template:
    """Show what the other role means, and ask for the reason."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_for_role(call))


@post(_PERSON_PATH + "/role", status_code=200)
async def set_role(request: PageRequest) -> Template | Redirect:
    """Make a customer an operator, or an operator a customer."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_for_role(call)

    async def change(ports: Ports, given: SetRole) -> None:
        await people.set_role(ports, decision.subject_id, given.role, visitor.user.id)

    return await take_decision(call, visitor, decision, change)


# API keys -------------------------------------------------------------------------------


async def _ask_to_revoke(call: Call) -> Decision:
    person = await _find_person(call)
    key_id = call.path_id("API key", 1)
    key = await api_keys.get_key(call.ports, person, key_id)
    return Decision(
        template="admin/key_revoke.html",
        act="revoke",
        subject=AuditSubject.API_KEY,
        subject_id=key_id,
        leads_to=_path_of(person, "key"),
        context={"person": person, "key": key},
    )


@get(_PERSON_PATH + "/keys/{key:str}/revoke")
async def ask_to_revoke_key(request: PageRequest) -> Template:
    """Show an API key, and ask for the reason to revoke it."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask_to_revoke(call))


@post(_PERSON_PATH + "/keys/{key:str}/revoke", status_code=200)
async def revoke_key(request: PageRequest) -> Template | Redirect:
    """Revoke an API key for good."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask_to_revoke(call)

    async def change(ports: Ports, _: OperatorDecision) -> None:
        await api_keys.revoke(ports, None, decision.subject_id)

    return await take_decision(call, visitor, decision, change)


PAGES: tuple[Any, ...] = (
    *(ask_to_disable, disable, ask_to_enable, enable),
    *(ask_for_subscription, set_subscription, ask_for_role, set_role),
    *(ask_to_revoke_key, revoke_key),
)
