"""The service's clock, which testers move ahead, and what happened when they did."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import MAX_ID, IntegerBounds
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, TimerKind
from staffbooking_core.errors import NotFound, RuleBroken, StaffbookingError
from staffbooking_core.ports import Ports, SandboxMark
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.bookings.overview import get_overview
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    render,
    render_error,
)

_CLOCK_PATH = "/sandbox/clock"
_TEMPLATE = "testers/clock.html"
_MAX_HAPPENINGS = 40
_MAX_BOOKINGS = 8
_WORK_SECONDS = 1.2
"""How long a move of the clock does what became due before it answers; workers do the rest."""
_MAX_SECOND = 4 * 10**9

_TIMER_TEXTS: Mapping[TimerKind, str] = {
    TimerKind.EXPIRE: "an unanswered or unpaid booking lapses",
    TimerKind.REMIND: "both sides are reminded of an event",
    TimerKind.ASK_CHECK_IN: "a missing check-in is asked for",
    TimerKind.AUTO_COMPLETE: "a booking completes by itself",
    TimerKind.DISPUTE_OVERDUE: "a dispute becomes overdue",
    TimerKind.PAY_OUT: "a payout is made",
    TimerKind.PAYOUT_ALARM: "operators are alerted about a payout",
}
_EVENT_TEXTS: Mapping[str, str] = {
    EventName.BOOKING_CREATED: "Requested",
    EventName.BOOKING_ACCEPTED: "Accepted",
    EventName.BOOKING_COMPLETED: "Completed",
    EventName.BOOKING_CANCELLED: "Cancelled or lapsed",
    EventName.BOOKING_DISPUTED: "Disputed",
    EventName.BOOKING_UPDATED: "Updated",
    EventName.PAYMENT_COMPLETED: "Paid",
    EventName.PAYMENT_REFUNDED: "Refunded",
    EventName.PAYOUT_PAID: "Payout made",
    EventName.PAYOUT_FAILED: "Payout failed",
    EventName.REVIEW_CREATED: "Reviewed",
}
"""Message ids."""


class _Step(StrEnum):
    """A move of the clock: by a span, to the next timer, to the start or the end of a booking."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    NEXT = "next"
    START = "start"
    END = "end"


_SPANS = {
    _Step.HOUR: timedelta(hours=1),
    _Step.DAY: timedelta(days=1),
    _Step.WEEK: timedelta(days=7),
}


@frozen(kw_only=True)
class _ClockForm:
    """The wanted move; `booking` is the id of the booking to whose event the clock moves."""

    step: _Step
    booking: Annotated[int, IntegerBounds(1, MAX_ID)] | None = None


@frozen(kw_only=True)
class _MoveQuery:
    """The last move: the marks before it, and the time that it left, as a Unix time."""

    position: Annotated[int, IntegerBounds(0, MAX_ID)] | None = None
    mail: Annotated[int, IntegerBounds(0, MAX_ID)] = 0
    since: Annotated[int, IntegerBounds(0, _MAX_SECOND)] | None = None


@get(_CLOCK_PATH)
async def show_clock(request: PageRequest) -> Template:
    """Show the time, the moves, and what happened since the last one."""
    call = get_call(request)
    query = drop_empty_fields(call.scope["query_string"])
    moved = query_string.parse_query(_MoveQuery, query)
    visitor = await find_visitor(call)
    return render(_TEMPLATE, visitor, **await _context(call, visitor, moved))


@post(f"{_CLOCK_PATH}/forward", status_code=200)
async def move_clock(request: PageRequest) -> Template | Redirect:
    """Move the clock, do what became due for a moment, and show what happened."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    visitor = await find_visitor(call)
    wanted = query_string.parse_form(_ClockForm, drop_empty_fields(await request_body.read(call)))
    mark = await sandbox.get_mark(call.ports)
    left = await call.ports.clock.business()
    try:
        await _move(call, visitor, wanted)
    except RuleBroken as error:
        context = await _context(call, visitor, _MoveQuery())
        return render_error(_TEMPLATE, visitor, _in_words(error), **context)
    await do_due_work(call.ports)
    since = int(left.timestamp())
    query = f"position={mark.position}&mail={mark.mail_id}&since={since}"
    return Redirect(f"{_CLOCK_PATH}?{query}", status_code=303)


async def do_due_work(ports: Ports) -> None:
    """Do for a moment what became due by a move of the clock. Workers do the rest."""
    with suppress(StaffbookingError):
        await due_work.run_due_for(ports, _WORK_SECONDS)


async def _move(call: Call, visitor: SignedInUser | None, wanted: _ClockForm) -> None:
    ports = call.ports
    if (span := _SPANS.get(wanted.step)) is not None:
        await sandbox.advance_clock(ports, span)
    elif wanted.step is _Step.NEXT:
        timer = await sandbox.find_next_timer(ports)
        if timer is not None:
            await sandbox.set_clock(ports, timer.due_at + timedelta(seconds=1))
    else:
        booking = await _booking(call, visitor, wanted.booking)
        is_start = wanted.step is _Step.START
        await sandbox.set_clock(ports, booking.starts_at if is_start else booking.ends_at)


async def _booking(call: Call, visitor: SignedInUser | None, number: int | None) -> Booking:
    if visitor is None or number is None:
        raise NotFound("Booking")
    return (await actions.get_by_id(call.ports, visitor.actor, number))[0]


def _in_words(error: RuleBroken) -> RuleBroken:
    if error.code != "clock_backwards":
        return error
    return RuleBroken(error.code, "That is past already: the clock only runs forward")


async def _context(
    call: Call, visitor: SignedInUser | None, moved: _MoveQuery
) -> Mapping[str, Any]:
    ports = call.ports
    timer = await sandbox.find_next_timer(ports)
    context: dict[str, Any] = {
        "now": await ports.clock.business(),
        "timer": timer,
        "timer_text": _TIMER_TEXTS[timer.kind] if timer else "",
        "bookings": await _bookings_ahead(call, visitor),
        "since": None,
    }
    if moved.position is not None:
        mark = SandboxMark(moved.position, moved.mail)
        found = await sandbox.list_happenings(ports, mark, _MAX_HAPPENINGS)
        own = visitor.user.id if visitor else None
        context["events"] = [_happening(each, own) for each in found.events]
        context["mails"] = found.mails
        context["has_more"] = found.has_more
        context["since"] = moved.since and datetime.fromtimestamp(moved.since, UTC)
        context["again"] = call.scope["query_string"].decode("latin-1")
    context["has_moved"] = moved.position is not None
    return context


async def _bookings_ahead(call: Call, visitor: SignedInUser | None) -> list[Booking]:
    """The visitor's bookings with an event to go to, the nearest first."""
    if visitor is None:
        return []
    overview = await get_overview(call.ports, visitor.actor)
    now = await call.ports.clock.business()
    found = [
        guided.booking
        for guided in (*overview.needs_you, *overview.ahead)
        if guided.booking.ends_at > now
        and guided.booking.status in (BookingStatus.ACCEPTED, BookingStatus.PAID)
    ]
    return sorted(found, key=lambda booking: booking.starts_at)[:_MAX_BOOKINGS]


def _happening(envelope: bytes, own_id: int | None) -> Mapping[str, Any]:
    """An event as a row: what happened, when, and the booking's code and sides."""
    event = request_body.parse_object(envelope)
    data = event["data"]
    booking = data.get("booking", {})
    is_party = own_id in (booking.get("customer_id"), booking.get("companion_id"))
    return {
        "text": _EVENT_TEXTS.get(event["event"], "Updated"),
        "at": event["created_at"],
        "code": booking.get("booking_code") or data.get("booking_code", ""),
        "booking_id": booking.get("id") if own_id and is_party else None,
        "customer": booking.get("customer_name", ""),
        "staff": booking.get("companion_name", ""),
    }


PAGES = (show_clock, move_clock)
