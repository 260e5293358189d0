"""Bookings in every state, made through the API of a running marketplace."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.e2e.deployment import json_body
from tests.journeys.marketplace import Marketplace

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


def add_bookings(market: Marketplace) -> None:
    """Fill `booking_ids`, and end within the event of the booking `running`."""
    _add_past_bookings(market)
    _add_future_bookings(market)
    _add_messages(market)


def _add_past_bookings(market: Marketplace) -> None:
    """Pay bookings on days in this order, then walk the clock through their events."""
    names = ("completed", "reviewed", "disputed", "no_show", "withdrawn", "ended", "running")
    made = {name: market.paid_booking() for name in names}
    starts = {name: datetime.fromisoformat(each["starts_at"]) for name, each in made.items()}
    ends = {name: datetime.fromisoformat(each["ends_at"]) for name, each in made.items()}
    ids = {name: each["id"] for name, each in made.items()}
    market.move_clock(starts["completed"] - _HOUR)
    market.act("staff", ids["completed"], "check-in")
    market.move_clock(ends["completed"])
    market.act("customer", ids["completed"], "confirm")
    market.move_clock(ends["reviewed"])
    market.act("customer", ids["reviewed"], "confirm")
    _review(market, ids["reviewed"])
    market.move_clock(starts["disputed"] + _HOUR)
    market.act("customer", ids["disputed"], "dispute", reason="The bar was closed at nine.")
    market.move_clock(starts["no_show"] + 20 * _MINUTE)
    market.act("customer", ids["no_show"], "no-show")
    market.move_clock(starts["withdrawn"] + _HOUR)
    market.act("customer", ids["withdrawn"], "dispute", reason="Nobody is at the bar.")
    market.act("customer", ids["withdrawn"], "dispute/withdraw")
    market.move_clock(starts["ended"] - _HOUR)
    market.act("staff", ids["ended"], "check-in")
    market.move_clock(starts["running"] + 20 * _MINUTE)
    market.booking_ids |= ids


def _review(market: Marketplace, booking_id: int) -> None:
    given = {"rating": 5, "comment": "Calm, quick, and the guests loved the drinks."}
    answer = market.client("customer").post(f"/reviews/booking/{booking_id}", json=given)
    json_body(answer, 201)


def _add_future_bookings(market: Marketplace) -> None:
    requests = ("pending", "accepted", "declined", "taken_back")
    made: dict[str, Any] = {name: market.request_booking()["id"] for name in requests}
    market.act("staff", made["accepted"], "accept")
    market.act("staff", made["declined"], "decline")
    market.act("customer", made["taken_back"], "cancel")
    for name in ("paid", "cancelled_by_customer", "cancelled_by_staff"):
        made[name] = market.paid_booking()["id"]
    reason = {"reason": "The party is off."}
    market.act("customer", made["cancelled_by_customer"], "cancel", **reason)
    market.act("staff", made["cancelled_by_staff"], "cancel", reason="I am ill, sorry.")
    market.booking_ids |= made


def _add_messages(market: Marketplace) -> None:
    staff_id = market.user_id("staff")
    text = "Hello! When can you set up?"
    sent = market.client("customer").post(f"/messages/send/{staff_id}", json={"content": text})
    json_body(sent, 201)
