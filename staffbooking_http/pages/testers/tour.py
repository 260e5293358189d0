"""The tour of three minutes: a booking from the search to the payout, by turns as its customer and
as its staff member. What is done is read from the booking; a cookie holds when the tour began and
which steps were opened."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlencode

from attrs import evolve, frozen
from litestar import get, post
from litestar.datastructures import Cookie
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import Actor, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import local_date
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.companions import reviews, search
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import PageRequest, find_visitor, get_call, render
from staffbooking_http.pages.testers.clock import do_due_work
from staffbooking_http.pages.testers.sign_in import signed_in_redirect

_TOUR_PATH = "/sandbox/tour"
_COOKIE = "demo-tour"
_COOKIE_SECONDS = 7 * 24 * 60 * 60
_PROGRESS = re.compile(r"([0-9]{1,11})-([a-z]{0,16})")
_MAX_BOOKINGS = 50
_DAYS_AHEAD, _DAYS = 14, 21
_START_TIME, _END_TIME, _HOURS = "18:00", "22:00", "4"


class _Step(StrEnum):
    """The steps, in their order."""

    SEARCH = "search"
    REQUEST = "request"
    ACCEPT = "accept"
    PAY = "pay"
    MESSAGE = "message"
    EVENT = "event"
    REVIEW = "review"
    PAYOUT = "payout"


_OF_STAFF = frozenset({_Step.ACCEPT, _Step.EVENT, _Step.PAYOUT})
"""The steps of the staff member; the others are the customer's."""
_LETTERS = {step: chr(ord("a") + number) for number, step in enumerate(_Step)}
_AFTER_ACCEPTING = frozenset(
    {
        BookingStatus.ACCEPTED,
        BookingStatus.PAID,
        BookingStatus.COMPLETED,
        BookingStatus.DISPUTED,
    }
)


@frozen
class _Progress:
    """When the tour began (Unix time of the service's clock; 0: not yet), and the letters of the
    steps that were opened."""

    since: int = 0
    opened: str = ""


@frozen
class _Tour:
    """The two people, their booking once there is one, and the steps that are done."""

    customer: User
    staff: User
    booking: Booking | None
    done: frozenset[_Step]

    def person_of(self, step: _Step) -> User:
        return self.staff if step in _OF_STAFF else self.customer

    @property
    def current(self) -> _Step | None:
        return next((step for step in _Step if step not in self.done), None)


@get(_TOUR_PATH)
async def show_tour(request: PageRequest) -> Template:
    """Show the steps, what is done, and the button of the next one."""
    call = get_call(request)
    progress = _read_progress(call)
    tour = await _find_tour(call.ports, progress)
    visitor = await find_visitor(call)
    return render(
        "testers/tour.html",
        visitor,
        customer=tour.customer,
        staff=tour.staff,
        booking=tour.booking,
        steps=[(step.value, step in tour.done, tour.person_of(step)) for step in _Step],
        current=tour.current and tour.current.value,
        has_begun=progress.since > 0,
    )


@frozen(kw_only=True)
class _StepForm:
    """The step to open."""

    step: _Step


@post(f"{_TOUR_PATH}/step", status_code=200)
async def open_step(request: PageRequest) -> Redirect:
    """Sign in as the person of a step, move the clock if the step is of a later time, and lead to
    the page of the step. A step that needs the booking leads back to the tour without one."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    step = query_string.parse_form(_StepForm, await request_body.read(call)).step
    progress = _read_progress(call)
    if not progress.since:
        progress = _Progress(int((await call.ports.clock.business()).timestamp()))
    tour = await _find_tour(call.ports, progress)
    way = await _way(call.ports, tour, step)
    if way is None:
        return Redirect(_TOUR_PATH, status_code=303)
    onward = await signed_in_redirect(call, tour.person_of(step).id, way)
    opened = "".join(sorted({*progress.opened, _LETTERS[step]}))
    onward.set_cookie(_progress_cookie(evolve(progress, opened=opened)))
    return onward


@post(f"{_TOUR_PATH}/again", status_code=200)
async def start_again(request: PageRequest) -> Redirect:
    """Forget the progress."""
    await SignedOutAccess().admit(get_call(request))
    onward = Redirect(_TOUR_PATH, status_code=303)
    onward.set_cookie(_progress_cookie(None))
    return onward


# Progress -------------------------------------------------------------------------------


def _read_progress(call: Call) -> _Progress:
    """The progress in the cookie; none where that is forged."""
    text = b"; ".join(call.headers(b"cookie")).decode("latin-1")
    try:
        morsel = SimpleCookie(text).get(_COOKIE)
    except CookieError:
        return _Progress()
    found = _PROGRESS.fullmatch(morsel.value) if morsel is not None else None
    return _Progress(int(found[1]), found[2]) if found else _Progress()


def _progress_cookie(progress: _Progress | None) -> Cookie:
    value = f"{progress.since}-{progress.opened}" if progress else ""
    age = _COOKIE_SECONDS if progress else 0
    return Cookie(_COOKIE, value=value, max_age=age, path="/", httponly=True, samesite="lax")


async def _find_tour(ports: Ports, progress: _Progress) -> _Tour:
    """Raises NotFound without a sample that has a customer and a staff member."""
    accounts = await sandbox.list_sample_accounts(ports)
    customer = _first(accounts, Role.CUSTOMER)
    staff = _first(accounts, Role.STAFF)
    booking = await _find_booking(ports, customer, staff, progress) if progress.since else None
    opened = {step for step, letter in _LETTERS.items() if letter in progress.opened}
    return _Tour(customer, staff, booking, await _done_steps(ports, customer, booking, opened))


def _first(accounts: Sequence[User], role: Role) -> User:
    for user in accounts:
        if user.role is role and user.subscription is Subscription.NONE:
            return user
    raise NotFound("Tour")


async def _find_booking(
    ports: Ports, customer: User, staff: User, progress: _Progress
) -> Booking | None:
    """The newest booking of the two that was made since the tour began and is not cancelled."""
    found = await actions.list_bookings(
        ports,
        Actor(customer.id, customer.role),
        role="customer",
        status=None,
        page=1,
        limit=_MAX_BOOKINGS,
    )
    began = datetime.fromtimestamp(progress.since, UTC)
    own = [
        booking
        for booking in found
        if booking.companion_id == staff.id
        and booking.created_at >= began
        and booking.status is not BookingStatus.CANCELLED
    ]
    return max(own, key=lambda booking: booking.id, default=None)


async def _done_steps(
    ports: Ports, customer: User, booking: Booking | None, opened: set[_Step]
) -> frozenset[_Step]:
    done = opened & {_Step.SEARCH}
    if booking is None:
        return frozenset(done)
    actor = Actor(customer.id, customer.role)
    facts = {
        _Step.SEARCH: True,
        _Step.REQUEST: True,
        _Step.ACCEPT: booking.status in _AFTER_ACCEPTING,
        _Step.PAY: booking.status in _AFTER_ACCEPTING - {BookingStatus.ACCEPTED},
        _Step.MESSAGE: _Step.MESSAGE in opened,
        _Step.EVENT: booking.checked_in_at is not None,
        _Step.REVIEW: await reviews.get_own_review(ports, actor, booking.id) is not None,
        _Step.PAYOUT: booking.payout_status is PayoutStatus.PAID,
    }
    return frozenset(step for step, is_done in facts.items() if is_done)


# Steps ----------------------------------------------------------------------------------


async def _way(ports: Ports, tour: _Tour, step: _Step) -> str | None:
    """The page of a step; None for a step that needs the booking, without one."""
    if step is _Step.SEARCH:
        details = await _details(ports, tour.staff)
        return f"/find?{urlencode({'location': details['location_city']})}"
    if step is _Step.REQUEST:
        return await _request_way(ports, tour.staff)
    if (booking := tour.booking) is None:
        return None
    if step is _Step.EVENT:
        await _reach(ports, booking.starts_at)
    elif step is _Step.REVIEW:
        await _reach(ports, booking.ends_at + timedelta(minutes=1))
        if booking.status is BookingStatus.COMPLETED:
            return f"/bookings/{booking.id}/review"
    elif step is _Step.PAYOUT:
        done_at = booking.completed_at or booking.ends_at + ports.policy.auto_complete_after
        await _reach(ports, done_at + ports.policy.payout_delay + timedelta(minutes=1))
        return "/staff/payouts"
    elif step is _Step.MESSAGE:
        return f"/conversations/with/{tour.staff.id}"
    return f"/bookings/{booking.id}/return"


async def _reach(ports: Ports, moment: datetime) -> None:
    """Move the clock ahead to a moment, and do what became due; nothing if it is past."""
    if moment > await ports.clock.business():
        await sandbox.set_clock(ports, moment)
        await do_due_work(ports)


async def _details(ports: Ports, staff: User) -> Mapping[str, Any]:
    found = request_body.parse_object(await search.get_detail(ports, staff.id))
    details: Mapping[str, Any] = found["companion"]
    return details


async def _request_way(ports: Ports, staff: User) -> str:
    """The form of a request, filled in for a free evening about two weeks ahead."""
    details = await _details(ports, staff)
    city = details["location_city"]
    draft = {
        "start_time": _START_TIME,
        "duration_hours": _HOURS,
        "service_type": details["service_types"].split(",")[0],
        "location": city,
    }
    today = local_date(details["timezone"], await ports.clock.business())
    if day := await _free_evening(ports, staff, today + timedelta(days=_DAYS_AHEAD)):
        draft["event_date"] = day
    return f"/companions/{staff.id}/request?{urlencode(draft)}"


async def _free_evening(ports: Ports, staff: User, first: date) -> str | None:
    last = first + timedelta(days=_DAYS)
    found = await search.get_availability(ports, staff.id, first, last)
    for day in found["availability"]:
        if any(slot["start"] <= _START_TIME and slot["end"] >= _END_TIME for slot in day["slots"]):
            return day["date"]
    return None


PAGES = (show_tour, open_step, start_again)
