"""Notifications of a booking: recipients, texts, and what texts never contain."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW, POLICY, make_booking
from staffbooking_adapters.testing.builders_notifications import make_email
from staffbooking_adapters.testing.builders_webhooks import make_endpoint
from staffbooking_core.domain.bookings.booking import PayoutStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import (
    REQUEST_TRANSITION,
    TRANSITIONS,
    BookingStatus,
    Party,
    Trigger,
)
from staffbooking_core.domain.bookings.payout_lifecycle import PayoutTrigger, move_payout
from staffbooking_core.domain.notifications.bookings import notifications_for
from staffbooking_core.domain.notifications.disabled import webhook_disabled_notification
from staffbooking_core.domain.notifications.notifications import (
    ACTION_LABELS,
    OPTIONAL_NOTIFICATION_KINDS,
    Notification,
    NotificationKind,
)
from staffbooking_core.domain.reconciliation.state import record_fact

CUSTOMER, STAFF = 1, 2
WHEN = "Gala dinner on Wednesday, 3 March 2027 at 12:00 (UTC), 4 hours"


def notifications_of(after, trigger, **before):
    """The notifications of a transition; `before` are the changed fields."""
    was = evolve(after, **before)
    row = TRANSITIONS[was.status][trigger]
    assert row.to_status is after.status
    return notifications_for(was, TransitionResult(after, notifications=row.notifications))


def payout_notifications(after, trigger, **before):
    """The notifications of a scheduled payout that is moved by a trigger."""
    was = evolve(after, payout_status=PayoutStatus.SCHEDULED, **before)
    moved = move_payout(TransitionResult(was), trigger)
    assert moved.booking.payout_status is after.payout_status
    return notifications_for(was, evolve(moved, booking=after))


def request_notifications(booking):
    """The notifications of a new booking."""
    notifications = REQUEST_TRANSITION.notifications
    return notifications_for(None, TransitionResult(booking, notifications=notifications))


def cancelled(by, was=BookingStatus.ACCEPTED, **given):
    """The notifications of a cancellation, which refunds all that is refunded."""
    booking = make_booking(status=BookingStatus.CANCELLED, cancelled_by=by, **given)
    return notifications_of(booking, Trigger.CANCEL, status=was, refunded_amount=0)


def charged_back(**given):
    """The notifications of a lost chargeback, after a refund of 100.00."""
    fields = {"cancelled_by": Party.SYSTEM, "refunded_amount": 10_000, **given}
    booking = make_booking(status=BookingStatus.CANCELLED, **fields)
    return notifications_of(booking, Trigger.CHARGEBACK_LOST, status=BookingStatus.DISPUTED)


def whom(notices):
    return [notice.user_id for notice in notices]


def test_a_request_notifies_the_staff_member():
    """A request has service, local time and payout."""
    booking = make_booking(code="BK0", timezone="Europe/Lisbon", start_time="18:00")
    [notice] = request_notifications(booking)
    assert notice == Notification(
        STAFF,
        NotificationKind.REQUEST,
        "New request BK0",
        "Ada Okoro would like to book you: Gala dinner on Wednesday, 3 March 2027 at 18:00 "
        "(Europe/Lisbon), 4 hours. You would be paid 340.00 USD. "
        "Please accept or decline the request before the event begins.",
        "/bookings/1/return",
    )


def test_an_acceptance_notifies_the_customer():
    """An acceptance has the amount to pay, including the premium."""
    booking = make_booking(status=BookingStatus.ACCEPTED, cancellation_insurance=True)
    [notice] = notifications_of(booking, Trigger.ACCEPT, status=BookingStatus.PENDING)
    assert (notice.user_id, notice.kind) == (CUSTOMER, NotificationKind.ACCEPTED)
    assert notice.text == (
        f"Mia Lindqvist accepted your booking: {WHEN}. Please pay 420.00 USD to confirm it."
    )


def test_a_payment_notifies_both():
    """The staff member gets the payout, the customer a receipt of the total."""
    booking = make_booking(
        code="BK0", status=BookingStatus.PAID, paid_at=NOW, cancellation_insurance=True
    )
    staff, customer = notifications_of(
        booking, Trigger.PAYMENT, status=BookingStatus.ACCEPTED, paid_at=None
    )
    assert (staff.user_id, staff.kind) == (STAFF, NotificationKind.PAID)
    assert "You will be paid 340.00 USD after the event" in staff.text
    assert (customer.user_id, customer.subject) == (CUSTOMER, "Receipt for booking BK0")
    assert "420.00 USD for" in customer.text
    assert "20.00 USD of it is the cancellation insurance" in customer.text


def test_an_earlier_payment_sends_no_second_receipt():
    """Neither the end of a dispute nor another payment sends a receipt."""
    booking = make_booking(status=BookingStatus.COMPLETED, paid_at=NOW)
    ended = notifications_of(booking, Trigger.RESOLVE_RELEASE, status=BookingStatus.DISPUTED)
    assert not any(notice.subject.startswith("Receipt") for notice in ended)
    assert (
        notifications_of(make_booking(status=BookingStatus.PAID, paid_at=NOW), Trigger.PAYMENT)
        == ()
    )


@pytest.mark.parametrize(
    ("by", "recipients"),
    [
        (Party.CUSTOMER, [STAFF]),
        (Party.STAFF, [CUSTOMER]),
        (Party.SYSTEM, [CUSTOMER, STAFF]),
        (Party.ADMIN, [CUSTOMER, STAFF]),
    ],
)
def test_a_cancellation_notifies_the_other_parties(by, recipients):
    """The party that cancelled is not notified; otherwise both are."""
    assert whom(cancelled(by)) == recipients


@pytest.mark.parametrize(
    ("by", "reason", "words"),
    [
        (Party.CUSTOMER, "call +351 912 345 678", "cancelled by Ada Okoro."),
        (Party.STAFF, "call +351 912 345 678", "cancelled by Mia Lindqvist."),
        (Party.ADMIN, None, "cancelled by the operators."),
        (Party.SYSTEM, "expired", "cancelled: it was not confirmed in time."),
        (Party.SYSTEM, "slot_taken", "cancelled: the companion was booked by somebody else"),
        (Party.SYSTEM, "charged_back", "cancelled: the bank of the customer took the payment"),
        (Party.SYSTEM, None, "was cancelled."),
    ],
)
def test_a_cancellation_says_why(by, reason, words):
    """The reason is a fixed text, never one that a person wrote."""
    for notice in cancelled(by, cancel_reason=reason):
        assert words in notice.text
        assert "+351" not in notice.text


def test_a_cancellation_has_the_partys_amount():
    """Each party is told its own amount."""
    customer, staff = cancelled(Party.ADMIN, refunded_amount=30_000, payout_amount=8_500)
    assert customer.text.endswith(" 300.00 USD is refunded to you.")
    assert staff.text.endswith(" You will be paid 85.00 USD for it.")


def test_a_lost_chargeback_announces_no_earlier_refund():
    """The customer is not told of a refund that was made before the cancellation."""
    customer, _ = charged_back(payout_amount=0)
    assert customer.text.endswith(f"It was for {WHEN}.")


@pytest.mark.parametrize(
    "received, end",
    [
        ({"paid_out": 34_000, "owed_by_staff": 8_500}, f"It was for {WHEN}."),
        ({"netted": 5_500}, "You will be paid 200.00 USD for it."),
    ],
    ids=["paid out before", "withheld in part"],
)
def test_a_cancellation_announces_what_is_left_of_the_payout(received, end):
    """The staff member is not told of a payout, or a part of it, that was received before."""
    _, staff = charged_back(payout_amount=25_500, **received)
    assert staff.text.endswith(end)


def test_an_unpaid_cancellation_mentions_no_amount():
    """The cancellation of an unpaid booking mentions no amount."""
    for notice in cancelled(Party.SYSTEM, refunded_amount=0, payout_amount=0):
        assert notice.text.endswith(f"It was for {WHEN}.")


def test_a_declined_request_notifies_the_customer():
    """A declined request is called declined, not cancelled."""
    [notice] = cancelled(Party.STAFF, was=BookingStatus.PENDING, code="BK0")
    assert (notice.user_id, notice.subject) == (CUSTOMER, "Booking BK0 declined")


def test_a_dispute_notifies_both():
    """The notification of a dispute does not contain its reason."""
    booking = make_booking(status=BookingStatus.DISPUTED, dispute_reason="mail me: ada@example.com")
    notices = notifications_of(booking, Trigger.DISPUTE, status=BookingStatus.PAID)
    assert whom(notices) == [CUSTOMER, STAFF]
    assert not any("@" in notice.text for notice in notices)


def test_a_decided_dispute_notifies_both():
    """The customer reads what goes back, the staff member the payout."""
    booking = make_booking(
        status=BookingStatus.COMPLETED, refunded_amount=10_000, payout_amount=25_500
    )
    was = {"status": BookingStatus.DISPUTED, "refunded_amount": 0}
    to_customer, to_staff = notifications_of(booking, Trigger.RESOLVE_SPLIT, **was)
    assert (to_customer.user_id, to_staff.user_id) == (CUSTOMER, STAFF)
    assert "was decided: 100.00 USD goes back to you." in to_customer.text
    assert "was decided: your payout is 255.00 USD." in to_staff.text
    assert all(one.text.endswith(f"The booking was for {WHEN}.") for one in (to_customer, to_staff))


def test_a_payout_notifies_the_staff_member():
    """The notification has the amount sent now, without amounts withheld before."""
    booking = make_booking(payout_status=PayoutStatus.PAID, paid_out=30_000, netted=4_000)
    [notice] = payout_notifications(booking, PayoutTrigger.CONFIRMED, paid_out=0)
    assert (notice.user_id, notice.kind) == (STAFF, NotificationKind.PAYOUT)
    assert "was sent: 300.00 USD." in notice.text


def test_a_withheld_payout_promises_no_money():
    """The notification of a fully withheld payout promises no money."""
    booking = make_booking(payout_status=PayoutStatus.PAID, netted=34_000)
    [notice] = payout_notifications(booking, PayoutTrigger.NETTED)
    assert "was kept for what you owed of other bookings" in notice.text


def test_a_payout_is_notified_once():
    """A payout that is confirmed twice sends one notification."""
    booking = make_booking(payout_status=PayoutStatus.PAID)
    assert move_payout(TransitionResult(booking), PayoutTrigger.CONFIRMED).notifications == ()


@pytest.mark.parametrize("trigger", [Trigger.CONFIRM, Trigger.AUTO_COMPLETE])
def test_completions_and_check_ins_notify_nobody(trigger):
    """Completions and check-ins send no notification."""
    booking = make_booking(status=BookingStatus.COMPLETED)
    assert notifications_of(booking, trigger, status=BookingStatus.PAID) == ()
    assert notifications_of(make_booking(status=BookingStatus.PAID), Trigger.CHECK_IN) == ()


@pytest.mark.parametrize("status", BookingStatus)
def test_an_unchanged_status_notifies_nobody(status):
    """A transition that keeps its status sends no notification but reminders."""
    booking = make_booking(status=status, payout_status=PayoutStatus.PAID)
    assert notifications_for(booking, record_fact(booking)) == ()
    for trigger, row in TRANSITIONS[status].items():
        is_reminder = trigger in (Trigger.REMIND, Trigger.ASK_CHECK_IN)
        assert (
            row.to_status is not status or is_reminder or notifications_of(booking, trigger) == ()
        )


def test_a_single_hour_is_one():
    """Amounts have the currency's decimals, and hours the right plural."""
    booking = make_booking(duration_hours=1, currency="jpy")
    [notice] = request_notifications(booking)
    assert "1 hour." in notice.text
    assert "8500 JPY" in notice.text


def test_obligations_can_not_be_muted():
    """Only notifications without obligations are optional."""
    assert set(OPTIONAL_NOTIFICATION_KINDS) == {
        NotificationKind.ACCEPTED,
        NotificationKind.PAYOUT,
        NotificationKind.NEW_MESSAGE,
    }


def test_a_letter_says_what_to_do():
    """Some kinds have their own action label, the others the default one."""
    assert make_email(kind=NotificationKind.VERIFY_EMAIL).action == "Confirm your address"
    assert make_email(kind=NotificationKind.PAYOUT).action == "See more"
    assert NotificationKind.PAYOUT not in ACTION_LABELS


def test_representations_have_no_private_data():
    """Representations of emails and notifications contain no private data."""
    letter = make_email(
        text="hush", url="https://x/hush", to="hush@example.com", unsubscribe_url="hush"
    )
    notice = Notification(
        1, NotificationKind.PAYOUT, "A payout", "hush", address="hush@example.com"
    )
    assert "hush" not in repr(letter) + repr(notice)


def test_a_disabled_endpoint_says_for_how_long_deliveries_are_kept():
    """The email has the retention of held deliveries from the deployment's policy."""
    policy = evolve(POLICY, webhook_held_retention=3 * DAY)
    assert "are kept for 3 days," in webhook_disabled_notification(make_endpoint(), policy).text
