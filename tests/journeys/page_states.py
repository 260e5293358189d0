"""Fills a running marketplace with bookings in every state and all else that pages show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.e2e.deployment import json_body
from tests.journeys.dashboard_states import add_dashboard
from tests.journeys.marketplace import Marketplace
from tests.journeys.operators_states import add_operators_work

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


def fill_states(market: Marketplace) -> None:
    """Make bookings and all else that pages show, and put their ids into `names`. The clock ends
    within the event of the booking `running`."""
    _add_past_bookings(market)
    _add_future_bookings(market)
    _add_processor_pages(market)
    _add_conversation(market)
    add_dashboard(market)
    add_operators_work(market)
    for role in ("customer", "staff", "enterprise"):
        market.names[role] = str(market.user_id(role))


def _note_ids(market: Marketplace, ids: Mapping[str, int]) -> None:
    market.names |= {name: str(booking_id) for name, booking_id in ids.items()}


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
    _hold_payout(market, made["reviewed"]["booking_code"])
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
    _note_ids(market, ids)


def _review(market: Marketplace, booking_id: int) -> None:
    given = {"rating": 5, "comment": "Calm, quick, and the guests loved the drinks."}
    answer = market.client("customer").post(f"/reviews/booking/{booking_id}", json=given)
    market.names["review"] = str(json_body(answer, 201)["review"]["id"])


def _hold_payout(market: Marketplace, code: str) -> None:
    given = {"reason": "The customer has called us."}
    json_body(market.client("admin").post(f"/api/admin/payouts/{code}/hold", json=given))


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
    _note_ids(market, made)


def _add_processor_pages(market: Marketplace) -> None:
    open_page = market.act("customer", int(market.names["accepted"]), "checkout")["checkout_url"]
    paid = market.request_booking()["id"]
    market.act("staff", paid, "accept")
    paid_page = market.pay(paid)
    account = json_body(market.client("staff").post("/staff/payout-account", json={}))
    for name, url in (
        ("checkout", open_page),
        ("paid_checkout", paid_page),
        ("payee", account["onboarding_url"]),
    ):
        market.names[name] = url.rpartition("/")[2]


def _add_conversation(market: Marketplace) -> None:
    staff_id, text = market.user_id("staff"), "Hello! When can you set up?"
    sent = market.client("customer").post(f"/messages/send/{staff_id}", json={"content": text})
    market.names["conversation"] = str(json_body(sent, 201)["message"]["conversation_id"])
