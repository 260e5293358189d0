"""Published records: fields, exact decimals, and the viewers of each field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    make_booking,
    make_companion,
    make_new_api_key,
    make_user,
)
from staffbooking_adapters.testing.builders_reviews import make_review
from staffbooking_adapters.testing.builders_webhooks import (
    make_attempt,
    make_delivery,
    make_endpoint,
)
from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.bookings.lifecycle import EventName, Party, Trigger
from staffbooking_core.domain.companions.companion import Badge
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from staffbooking_core.representations.accounts import api_key_record, user_record
from staffbooking_core.representations.bookings import (
    booking_glimpse_record,
    booking_record,
    event_booking_record,
)
from staffbooking_core.representations.companions import (
    companion_detail,
    companion_summary,
    review_record,
)
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.representations.payments import payment_record
from staffbooking_core.representations.webhooks import delivery_record, webhook_record
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    cancelled_journey,
    completed_journey,
    disputed_journey,
    paid_journey,
)

USD = Currency("usd")

PUBLISHED = {
    "id", "booking_code", "status", "companion_id", "companion_name", "customer_id",
    "customer_name", "booked_by", "service_type", "location", "event_date", "start_time",
    "duration_hours", "timezone", "starts_at", "ends_at", "currency", "price",
    "insurance_premium", "total_amount", "refunded_amount", "cancellation_insurance", "event_ref",
    "priority", "checked_in_at", "accepted_at", "paid_at", "completed_at", "completed_by",
    "cancelled_at", "cancelled_by", "cancel_reason", "disputed_at", "payment_status",
    "created_at", "version", "cancel_rule", "payment_due_at", "confirms_at", "refunds",
}  # fmt: skip
INSIDE = {"platform_fee", "payout_amount", "payout_status", "payout_due_at"}


@pytest.mark.parametrize(
    "at, text",
    [
        (datetime(2027, 3, 1, 12, tzinfo=UTC), "2027-03-01T12:00:00Z"),
        (datetime(2027, 3, 1, 12, 0, 0, 5, tzinfo=UTC), "2027-03-01T12:00:00.000005Z"),
        (datetime(2027, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2027-03-01T10:00:00Z"),
        (None, None),
    ],
)
def test_an_instant_is_utc_with_z(at, text):
    """An instant has seconds, or microseconds if not zero (CONTRACT, conventions)."""
    assert format_instant(at) == text


def test_a_user_never_shows_the_password():
    """A user's record has exactly the fields of CONTRACT 2 and `email_verified`."""
    record = user_record(make_user(password_hash="secret"))
    assert set(record) == {
        "id", "email", "first_name", "last_name", "role", "subscription",
        "subscription_expires_at", "created_at", "email_verified",
    }  # fmt: skip


def test_a_key_record_never_shows_the_key():
    """A key's record has the masked key and the sorted permissions, and no digest."""
    new = make_new_api_key()
    key = ApiKey(1, 2, new.name, new.digest, new.masked_key, frozenset(Permission), NOW)
    record = api_key_record(key)
    assert set(record) == {
        "id", "name", "masked_key", "permissions", "created_at", "last_used_at", "expires_at",
        "revoked_at",
    }  # fmt: skip
    assert record["permissions"] == ["read", "book"]


def test_a_summary_has_the_published_fields():
    """A summary has the fields of SPECIFICATION 2.1, with services as one string."""
    record = companion_summary(make_companion(badges=(Badge.VERIFIED,)), USD)
    assert {
        "id", "first_name", "profile_photo", "tagline", "hourly_rate", "daily_rate",
        "location_city", "location_country", "service_types", "rating_avg", "total_reviews",
        "tier", "badges",
    } == set(record)  # fmt: skip
    assert record["service_types"] == "Gala dinner,Trade fair"
    assert (record["hourly_rate"], record["badges"]) == (Decimal("100.00"), ["verified"])


def test_an_unset_day_rate_is_null():
    """A daily rate that is not set is null (CONTRACT 3)."""
    assert companion_summary(make_companion(daily_rate=None), USD)["daily_rate"] is None


def test_a_detail_is_the_summary_and_more():
    """A detail has reviews and portfolio, empty where there are none."""
    companion = make_companion(bio="Hello")
    record = companion_detail(companion, USD)["companion"]
    assert record.items() >= companion_summary(companion, USD).items()
    assert (record["bio"], record["reviews"], record["portfolio"]) == ("Hello", [], [])
    assert {"languages", "years_experience", "timezone", "currency", "member_since"} <= set(record)


@pytest.mark.parametrize("viewer", [Party.STAFF, Party.ADMIN])
def test_staff_and_admins_see_what_is_paid_out(viewer):
    """Staff members and admins see platform fee and payout."""
    assert set(booking_record(make_booking(), viewer, POLICY)) == PUBLISHED | INSIDE | {"timeline"}


@pytest.mark.parametrize("viewer", [Party.CUSTOMER, Party.API])
def test_customers_do_not_see_the_fee(viewer):
    """For customers fee and payout are absent, not null."""
    assert set(booking_record(make_booking(), viewer, POLICY)) == PUBLISHED | {"timeline"}


def test_an_events_record_is_the_same_for_everybody():
    """An event's record has no timeline, fee and payout (CONTRACT 7)."""
    assert set(event_booking_record(make_booking(), POLICY)) == PUBLISHED


def test_a_record_names_amounts_in_the_currency():
    """Amounts have exactly the decimals of the booking's currency."""
    record = booking_record(make_booking(currency="jpy", price=5000), Party.STAFF, POLICY)
    assert str(record["price"]) == "5000"
    assert str(booking_record(make_booking(price=5000), Party.STAFF, POLICY)["price"]) == "50.00"


def test_fee_and_payout_are_as_they_will_be_until_the_end():
    """Fee and payout are expected values before the end, and final ones after."""
    before = booking_record(accepted_journey().booking, Party.STAFF, POLICY)
    after = booking_record(completed_journey().booking, Party.STAFF, POLICY)
    assert before["platform_fee"] == after["platform_fee"] == Decimal("60.00")
    full = paid_journey()
    full.apply(Trigger.CANCEL, Party.STAFF)
    record = booking_record(full.booking, Party.STAFF, POLICY)
    assert record["platform_fee"] == record["payout_amount"] == 0


def test_a_refund_shows_with_the_decision():
    """A refunded amount is shown with the decision, before it settles."""
    journey = paid_journey()
    journey.apply(Trigger.CANCEL, Party.STAFF)
    record = booking_record(journey.booking, Party.CUSTOMER, POLICY)
    assert (record["refunded_amount"], record["payment_status"]) == (Decimal(400), "refund_pending")


def test_the_timeline_is_oldest_first():
    """The timeline is sorted by time, and its first entry has no previous status."""
    entries = booking_record(cancelled_journey().booking, Party.CUSTOMER, POLICY)["timeline"]
    assert [entry["trigger"] for entry in entries] == [
        "request",
        "accept",
        "payment_succeeded",
        "cancel",
    ]
    assert entries[0]["from"] is None
    assert entries[-1] == {
        "at": format_instant(NOW + 2 * DAY - timedelta(hours=1)),
        "from": "paid",
        "to": "cancelled",
        "trigger": "cancel",
        "actor": "customer",
        "reason": None,
    }


def test_the_timeline_says_why():
    """A timeline entry has the reason that the party gave."""
    journey = paid_journey()
    journey.apply(Trigger.CANCEL, Party.CUSTOMER, reason="rain")
    timeline = booking_record(journey.booking, Party.STAFF, POLICY)["timeline"]
    assert [entry["reason"] for entry in timeline] == [None, None, None, "rain"]


def test_admins_see_who_acted():
    """The id of the acting user is in the timeline for admins, and for nobody else."""
    journey = BookingJourney()
    journey.apply(Trigger.DECLINE, Party.STAFF, actor_id=2)
    timeline = booking_record(journey.booking, Party.ADMIN, POLICY)["timeline"]
    assert [entry["actor_id"] for entry in timeline] == [None, 2]
    for viewer in (Party.CUSTOMER, Party.STAFF, Party.API):
        timeline = booking_record(journey.booking, viewer, POLICY)["timeline"]
        assert not any("actor_id" in entry for entry in timeline)


DEADLINES = ("payment_due_at", "confirms_at", "payout_due_at")


@pytest.mark.parametrize(
    "reach, expected",
    [
        (BookingJourney, (None, None, None)),
        (accepted_journey, (NOW + 2 * DAY, None, None)),
        (paid_journey, (None, NOW + 5 * DAY + 4 * HOUR, None)),
        (completed_journey, (None, None, NOW + 3 * DAY + 4 * HOUR)),
        (cancelled_journey, (None, None, NOW + 3 * DAY - HOUR)),
        (disputed_journey, (None, None, None)),
    ],
)
def test_the_deadlines_are_those_of_the_status(reach, expected):
    """Each deadline is shown while it applies, else it is null."""
    record: dict[str, object] = {**booking_record(reach().booking, Party.STAFF, POLICY)}
    assert tuple(record[name] for name in DEADLINES) == tuple(map(format_instant, expected))


def test_a_short_payment_window_is_the_deadline():
    """With a payment window the payment is due that long after the acceptance."""
    policy = evolve(POLICY, payment_window=HOUR)
    record = booking_record(accepted_journey(policy).booking, Party.CUSTOMER, policy)
    assert record["payment_due_at"] == format_instant(NOW - DAY + HOUR)


def test_a_payout_on_hold_has_no_due_time():
    """A frozen payout is not due."""
    journey = completed_journey()
    journey.apply(Trigger.HOLD_PAYOUT, Party.ADMIN, journey.ends_at)
    record = booking_record(journey.booking, Party.STAFF, POLICY)
    assert (record["payout_status"], record["payout_due_at"]) == ("frozen", None)


def test_a_refund_is_listed():
    """A refund is listed with its amount in decimals, its reason, its status and its times."""
    journey = paid_journey()
    journey.apply(Trigger.CANCEL, Party.STAFF, NOW + HOUR)
    assert booking_record(journey.booking, Party.CUSTOMER, POLICY)["refunds"] == [
        {
            "amount": Decimal(400),
            "reason": "cancellation",
            "status": "pending",
            "created_at": format_instant(NOW + HOUR),
            "settled_at": None,
        }
    ]


@pytest.mark.parametrize(
    "insured, rule", [(True, "under_24_hours_insured"), (False, "under_24_hours")]
)
def test_a_cancelled_booking_names_its_rule(insured, rule):
    """A cancellation by a party shows the rule of the refund."""
    given = {"cancellation_insurance": insured, "insurance_premium": 2_000 if insured else 0}
    record = booking_record(cancelled_journey(**given).booking, Party.API, POLICY)
    assert record["cancel_rule"] == rule


def test_an_unpaid_cancellation_names_its_rule():
    """The cancellation of an unpaid booking has the rule that its quote names."""
    journey = BookingJourney()
    journey.apply(Trigger.CANCEL, Party.CUSTOMER)
    assert booking_record(journey.booking, Party.API, POLICY)["cancel_rule"] == "not_paid"


def test_a_declined_booking_has_no_rule():
    """A booking that ended otherwise has no cancellation rule."""
    journey = BookingJourney()
    journey.apply(Trigger.DECLINE, Party.STAFF)
    assert booking_record(journey.booking, Party.API, POLICY)["cancel_rule"] is None


def test_a_stranger_with_a_key_sees_a_glimpse():
    """A stranger with an API key sees code, status and date only."""
    booking = make_booking(code="BK1")
    assert booking_glimpse_record(booking) == {
        "booking_code": "BK1",
        "status": "pending",
        "event_date": "2027-03-03",
    }


def test_a_payment_is_of_the_total():
    """A payment has the total with premium, and the time of payment."""
    booking = paid_journey(cancellation_insurance=True).booking
    assert payment_record(booking) == {
        "id": booking.id,
        "booking_code": booking.code,
        "amount": Decimal("420.00"),
        "currency": "usd",
        "paid_at": format_instant(booking.paid_at),
    }


def test_a_review_has_the_contracts_fields():
    """A review has the fields of CONTRACT 5, null where not given."""
    review = make_review(id=7, rating=5, punctuality=4)
    record = {
        "id": 7,
        "booking_id": 1,
        "reviewer_id": 1,
        "reviewer_name": "Ada Okoro",
        "reviewer_role": "customer",
        "reviewee_id": 2,
        "rating": 5,
        "comment": None,
        "punctuality": 4,
        "professionalism": None,
        "communication": None,
        "appearance": None,
        "response": None,
        "responded_at": None,
        "created_at": "2027-03-01T12:00:00Z",
    }
    assert review_record(review) == record
    answered = review_record(review.with_response("Thanks", NOW + DAY))
    assert answered == {**record, "response": "Thanks", "responded_at": "2027-03-02T12:00:00Z"}


def test_a_detail_shows_reviews_as_they_are_listed():
    """A detail has the reviews in the given order."""
    reviews = [make_review(id=2), make_review(id=1)]
    record = companion_detail(make_companion(), USD, reviews)["companion"]
    assert record["reviews"] == [review_record(review) for review in reviews]


def test_a_webhook_shows_no_secret():
    """An endpoint's record has its events in the published order, the reason of disabling, and no
    secret (CONTRACT 7)."""
    events = frozenset({EventName.REVIEW_CREATED, EventName.BOOKING_CREATED})
    reason = "10 deliveries in a row failed"
    endpoint = make_endpoint(
        url="https://x.example/in",
        events=events,
        active=False,
        consecutive_failures=10,
        disabled_at=NOW,
        disabled_reason=reason,
    )
    assert webhook_record(endpoint) == {
        "id": 1,
        "url": "https://x.example/in",
        "events": ["booking.created", "review.created"],
        "description": None,
        "ordered": False,
        "active": False,
        "consecutive_failures": 10,
        "disabled_at": "2027-03-01T12:00:00Z",
        "disabled_reason": reason,
        "created_at": "2027-03-01T12:00:00Z",
    }


def test_a_delivery_shows_its_attempts():
    """A delivery's record has the next attempt's time only while one is certain (CONTRACT 7)."""
    delivery = make_delivery(next_at=NOW + DAY)
    record = {
        "id": 1,
        "event_id": delivery.event_id,
        "event": "booking.created",
        "status": "pending",
        "attempts": [
            {
                "number": 1,
                "at": "2027-03-01T12:00:00Z",
                "response_status": 500,
                "duration_ms": 80,
                "error": "http_status",
            }
        ],
        "next_attempt_at": "2027-03-02T12:00:00Z",
        "created_at": "2027-03-01T12:00:00Z",
    }
    attempts = [make_attempt(response_status=500, error="http_status")]
    assert delivery_record(delivery, attempts) == record
    held = delivery_record(make_delivery(next_at=NOW, status=DeliveryStatus.HELD), [])
    assert (held["status"], held["next_attempt_at"], held["attempts"]) == ("held", None, [])
