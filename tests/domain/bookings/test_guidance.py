"""The guidance table: each situation tells each side one sentence and at most one next action."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import HOUR, MINUTE, NOW, POLICY, make_booking
from staffbooking_core.domain.bookings import guidance
from staffbooking_core.domain.bookings.booking import PayoutStatus, TimelineEntry
from staffbooking_core.domain.bookings.guidance import (
    DeadlineKind,
    NextAction,
    Situation,
    find_situation,
    guide,
)
from staffbooking_core.domain.bookings.lifecycle import (
    TRANSITIONS,
    BookingStatus,
    Party,
    Trigger,
    find_allowed_parties,
)
from staffbooking_core.domain.payments.processor import ChargebackStatus

SIDES = (Party.CUSTOMER, Party.STAFF, Party.API, Party.ADMIN)
PLACEHOLDERS = {"staff", "customer", "total", "payout", "lead"}


def cancelled(trigger, actor, was=BookingStatus.PENDING, **given):
    """A booking that ended by a trigger of a party."""
    entry = TimelineEntry(NOW, was, BookingStatus.CANCELLED, trigger, actor)
    given = {"cancelled_at": NOW, "cancelled_by": actor, **given}
    return make_booking(status=BookingStatus.CANCELLED, timeline=(entry,), **given)


def disputed(trigger, by=Party.CUSTOMER, **given):
    """A booking in dispute by a trigger of a party."""
    entry = TimelineEntry(NOW, BookingStatus.PAID, BookingStatus.DISPUTED, trigger, by)
    return make_booking(
        status=BookingStatus.DISPUTED, timeline=(entry,), disputed_by=by, disputed_at=NOW, **given
    )


def paid(starts_in, **given):
    """A paid booking of four hours that starts this long after NOW."""
    return make_booking(status=BookingStatus.PAID, starts_at=NOW + starts_in, **given)


def completed(payout_status, **given):
    """A completed booking with a payout of this status."""
    return make_booking(status=BookingStatus.COMPLETED, payout_status=payout_status, **given)


BOOKINGS = {
    Situation.REQUESTED: make_booking(),
    Situation.TO_PAY: make_booking(status=BookingStatus.ACCEPTED, accepted_at=NOW),
    Situation.CONFIRMED: paid(3 * HOUR),
    Situation.CHECK_IN_OPEN: paid(HOUR),
    Situation.NOT_CHECKED_IN: paid(-15 * MINUTE),
    Situation.CHECKED_IN: paid(-HOUR, checked_in_at=NOW - HOUR),
    Situation.TO_CONFIRM: paid(-4 * HOUR),
    Situation.NOTHING_EARNED: completed(PayoutStatus.NONE, refunded_amount=40_000, payout_amount=0),
    Situation.PAYOUT_AHEAD: completed(PayoutStatus.SCHEDULED, payout_due_at=NOW + HOUR),
    Situation.PAYOUT_HELD: completed(PayoutStatus.FROZEN),
    Situation.PAYOUT_FAILED: completed(PayoutStatus.FAILED),
    Situation.PAID_OUT: completed(PayoutStatus.PAID),
    Situation.DISPUTED: disputed(Trigger.DISPUTE, dispute_respond_by=NOW + HOUR),
    Situation.NO_SHOW: disputed(Trigger.NO_SHOW),
    Situation.CHARGED_BACK: disputed(Trigger.CHARGEBACK, chargeback_status=ChargebackStatus.OPEN),
    Situation.DECLINED: cancelled(Trigger.DECLINE, Party.STAFF),
    Situation.UNANSWERED: cancelled(Trigger.EXPIRE, Party.SYSTEM),
    Situation.UNPAID: cancelled(Trigger.EXPIRE, Party.SYSTEM, BookingStatus.ACCEPTED),
    Situation.SLOT_TAKEN: cancelled(Trigger.LOSE_SLOT, Party.SYSTEM),
    Situation.ACCOUNT_CLOSED: cancelled(Trigger.PARTY_DISABLED, Party.SYSTEM),
    Situation.CANCELLED_BY_CUSTOMER: cancelled(Trigger.CANCEL, Party.CUSTOMER),
    Situation.CANCELLED_BY_STAFF: cancelled(Trigger.CANCEL, Party.STAFF),
    Situation.CANCELLED_BY_ADMIN: cancelled(Trigger.CANCEL, Party.ADMIN),
    Situation.REFUNDED: cancelled(Trigger.RESOLVE_REFUND, Party.ADMIN, BookingStatus.DISPUTED),
    Situation.CHARGEBACK_LOST: cancelled(Trigger.CHARGEBACK_LOST, Party.PROCESSOR),
}
"""A booking in each situation at NOW."""


def test_every_situation_has_a_booking() -> None:
    """The table of this test names every situation."""
    assert set(BOOKINGS) == set(Situation)


@pytest.mark.parametrize("situation", Situation)
def test_a_booking_is_in_one_situation(situation) -> None:
    """The situation follows from the status, the moment and what happened."""
    assert find_situation(BOOKINGS[situation], NOW, POLICY) is situation


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("situation", Situation)
def test_every_cell_is_one_sentence(situation, side) -> None:
    """Each side of each situation has a text with known placeholders only."""
    text = guide(BOOKINGS[situation], side, NOW, POLICY).sentence
    assert text.endswith((".", "?"))
    assert set(re.findall(r"%\((\w+)\)s", text)) <= PLACEHOLDERS


def test_sides_of_a_cancellation_read_different_sentences() -> None:
    """Each way in which a booking ends reads differently to the customer and to the staff
    member."""
    ended = [each for each in Situation if BOOKINGS[each].status is BookingStatus.CANCELLED]
    for side in (Party.CUSTOMER, Party.STAFF):
        texts = {
            guide(BOOKINGS[each], side, NOW, POLICY).sentence
            for each in ended
            if each is not Situation.CANCELLED_BY_ADMIN
        }
        assert len(texts) == len(ended) - 1


@pytest.mark.parametrize("situation", Situation)
def test_next_actions_are_possible(situation) -> None:
    """A next action that is a trigger is in the lifecycle table of the status, for that side."""
    triggers = {
        NextAction.ACCEPT: Trigger.ACCEPT,
        NextAction.PAY: Trigger.CHECKOUT,
        NextAction.CHECK_IN: Trigger.CHECK_IN,
        NextAction.CONFIRM: Trigger.CONFIRM,
        NextAction.REPORT_NO_SHOW: Trigger.NO_SHOW,
    }
    booking = BOOKINGS[situation]
    for side in SIDES:
        action = guide(booking, side, NOW, POLICY).action
        if (trigger := triggers.get(action) if action else None) is not None:
            assert trigger in TRANSITIONS[booking.status]
            assert side in find_allowed_parties(trigger)


def test_a_request_is_answered_by_its_start() -> None:
    """A pending request shows when it lapses."""
    booking = BOOKINGS[Situation.REQUESTED]
    (deadline,) = guide(booking, Party.STAFF, NOW, POLICY).deadlines
    assert (deadline.kind, deadline.at > NOW) == (DeadlineKind.ANSWER_BY, True)


@pytest.mark.parametrize("side", [Party.CUSTOMER, Party.API])
def test_customers_are_not_told_of_payouts(side) -> None:
    """No sentence for a customer, or for who booked for them, tells how the payout stands."""
    for booking in BOOKINGS.values():
        sentence = guide(booking, side, NOW, POLICY).sentence
        assert not re.search(r"payout|has been paid|is being paid", sentence)


def test_the_customer_sees_no_payout_date() -> None:
    """The date of the payout is for the staff member and admins."""
    booking = BOOKINGS[Situation.PAYOUT_AHEAD]
    assert guide(booking, Party.CUSTOMER, NOW, POLICY).deadlines == ()
    (deadline,) = guide(booking, Party.STAFF, NOW, POLICY).deadlines
    assert (deadline.kind, deadline.at) == (DeadlineKind.PAYOUT_AT, NOW + HOUR)


def test_a_cancellation_tells_its_lead() -> None:
    """A cancellation before the start tells how long before; a later one does not."""
    early = BOOKINGS[Situation.CANCELLED_BY_STAFF]
    told = guide(early, Party.CUSTOMER, NOW, POLICY)
    assert told.lead == timedelta(days=2)
    late = cancelled(Trigger.CANCEL, Party.STAFF, starts_at=NOW)
    told = guide(late, Party.CUSTOMER, NOW, POLICY)
    assert (told.lead, told.sentence) == (None, "%(staff)s cancelled it.")


def test_no_sentence_promises_escrow_after_the_event() -> None:
    """Only a paid booking ahead of its event is said to wait in escrow."""
    for situation, cells in guidance._TABLE.items():
        for cell in cells.values():
            assert "escrow" not in cell.sentence or situation is Situation.CONFIRMED


@pytest.mark.parametrize(
    ("speakers", "action"),
    [
        ((), NextAction.ANSWER_DISPUTE),
        ((Party.CUSTOMER,), NextAction.ANSWER_DISPUTE),
        ((Party.CUSTOMER, Party.STAFF), None),
        ((Party.CUSTOMER, Party.STAFF, Party.CUSTOMER), NextAction.READ_ANSWER),
    ],
)
@pytest.mark.parametrize("situation", [Situation.DISPUTED, Situation.NO_SHOW])
def test_a_side_of_a_dispute_is_asked_until_it_has_spoken(situation, speakers, action) -> None:
    """Whoever has not spoken tells their side; whoever has spoken last has nothing to do; what the
    other side has said since is to be read."""
    told = guide(BOOKINGS[situation], Party.STAFF, NOW, POLICY, speakers=speakers)
    assert told.action is action


@pytest.mark.parametrize("trigger", [Trigger.DISPUTE, Trigger.NO_SHOW])
def test_who_has_spoken_last_is_not_asked_to_answer_by_a_time(trigger) -> None:
    """The deadline of a dispute is until when both sides are heard, for a side that waits."""
    booking = disputed(trigger, dispute_respond_by=NOW + HOUR)
    told = guide(booking, Party.CUSTOMER, NOW, POLICY, speakers=(Party.CUSTOMER,))
    assert [each.kind for each in told.deadlines] == [DeadlineKind.HEARD_UNTIL]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("opener", "speakers"),
    [
        (Party.CUSTOMER, (Party.CUSTOMER, Party.STAFF)),
        (Party.CUSTOMER, (Party.CUSTOMER, Party.STAFF, Party.CUSTOMER)),
        (Party.STAFF, (Party.STAFF, Party.CUSTOMER)),
        (Party.STAFF, (Party.STAFF, Party.CUSTOMER, Party.STAFF)),
        (Party.PROCESSOR, (Party.STAFF,)),
    ],
)
def test_nobody_is_said_to_answer_who_has_answered(side, opener, speakers) -> None:
    """Once the side that has to answer a dispute has spoken, its deadline is until when both sides
    are heard, for every reader."""
    booking = disputed(Trigger.DISPUTE, opener, dispute_respond_by=NOW + HOUR)
    told = guide(booking, side, NOW, POLICY, speakers=speakers)
    assert [each.kind for each in told.deadlines] == [DeadlineKind.HEARD_UNTIL]


@pytest.mark.parametrize("opener", [Party.CUSTOMER, Party.STAFF])
def test_others_are_told_who_has_to_answer(opener) -> None:
    """As long as the other side has not spoken, readers are told that it has to answer."""
    booking = disputed(Trigger.DISPUTE, opener, dispute_respond_by=NOW + HOUR)
    for side in {*SIDES} - {opener}:
        told = guide(booking, side, NOW, POLICY, speakers=(opener,))
        assert [each.kind for each in told.deadlines] == [DeadlineKind.RESPOND_BY]


def test_who_reported_an_absence_books_somebody_else() -> None:
    """The report is the customer's word, and the next action stays to book somebody else."""
    told = guide(
        BOOKINGS[Situation.NO_SHOW], Party.CUSTOMER, NOW, POLICY, speakers=(Party.CUSTOMER,)
    )
    assert told.action is NextAction.REBOOK
