"""Disputes as conversations: timers, payouts, credits, files and the author's data."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, POLICY, SECOND
from staffbooking_core.domain.bookings.disputes import DisputeOutcome, DisputeStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.errors import InvalidField, RuleBroken
from staffbooking_core.inputs import AddDisputeStatement
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.bookings import dispute_files, disputes
from tests.support.memory_deployment import (
    BookingScenario,
    make_booking_scenario,
    memory_ports,
    with_another_companion,
)
from tests.support.pdfs import make_pdf

pytestmark = pytest.mark.anyio


async def disputed(scene):
    """A booking that the customer disputes at its start."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at)
    return await scene.dispute(booking)


async def alerts(scene):
    """The texts of all alerts that the operators got."""
    await scene.drain()
    return [text for _, text in scene.ports.notifier.alerts]


# The deadline -----------------------------------------------------------------------------


async def test_operators_are_alerted_of_an_overdue_dispute_once(scene):
    """The deadline alerts the operators once, and the dispute stays open."""
    booking = await disputed(scene)
    await scene.jump_to(booking.starts_at + 72 * HOUR - SECOND)
    assert await alerts(scene) == []
    for days in (3, 30, 60):
        await scene.jump_to(booking.starts_at + days * DAY)
        expected = f"the dispute of booking {booking.code} is overdue: resolve it"
        assert await alerts(scene) == [expected]
    assert (await scene.booking(booking)).status is BookingStatus.DISPUTED


async def test_an_overdue_dispute_heads_the_list(scene):
    """The list begins with the dispute that is overdue longest, whenever its event was."""
    first = await disputed(scene)
    other = await with_another_companion(scene)
    later = await other.paid(event_date=(await scene.now() + 3 * DAY).date())
    await scene.jump_to(later.starts_at)
    await other.dispute(later)
    found = [booking.id for booking in await disputes.list_disputes(scene.ports)]
    assert found == [first.id, later.id]


# Withdrawing ------------------------------------------------------------------------------


async def test_a_withdrawn_dispute_is_completed_by_its_timer(scene):
    """A dispute withdrawn after the automatic completion was due completes at once."""
    booking = await disputed(scene)
    withdrawn_at = booking.ends_at + 9 * DAY
    await scene.jump_to(withdrawn_at)
    found = await disputes.withdraw_dispute(scene.ports, scene.customer, booking.id)
    assert found.dispute.status is DisputeStatus.WITHDRAWN
    await scene.drain()
    completed = await scene.booking(booking)
    assert (completed.status, completed.completed_at) == (BookingStatus.COMPLETED, withdrawn_at)


async def test_a_withdrawn_dispute_lets_the_payout_go(scene):
    """The payout of a completed booking is made after its dispute was withdrawn."""
    booking = await scene.completed()
    await scene.dispute(booking)
    await scene.jump_to(booking.ends_at + 9 * DAY)
    await disputes.withdraw_dispute(scene.ports, scene.customer, booking.id)
    await scene.settle_down()
    found = await scene.booking(booking)
    assert (found.status, found.paid_out) == (BookingStatus.COMPLETED, 34_000)
    assert await scene.faults() == []


async def test_a_resolution_is_read_by_code(scene):
    """Operators read the conversation by the booking's code, with its resolution."""
    booking = await disputed(scene)
    statement = AddDisputeStatement(text="It was the traffic")
    await disputes.add_statement(scene.ports, scene.staff, booking.id, statement)
    await scene.resolve(booking, ResolutionOutcome.REFUND)
    found = await disputes.get_dispute_by_code(scene.ports, booking.code)
    assert [each.party for each in found.statements] == [Party.CUSTOMER, Party.STAFF]
    assert found.dispute.resolution is not None
    assert found.dispute.resolution.outcome is DisputeOutcome.REFUND


# Reminders --------------------------------------------------------------------------------


async def test_a_long_jump_reminds_in_order(scene):
    """After a jump over the whole booking, the reminder, the question and the completion have
    their own times."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at + 30 * DAY)
    await scene.drain()
    found = await scene.booking(booking)
    assert found.reminded_at == booking.starts_at + 15 * MINUTE
    assert found.completed_at == booking.ends_at + 72 * HOUR


REMINDERS = {("customer", "Reminder of booking "), ("staff", "Reminder of booking ")}
QUESTION_TO_CUSTOMER = ("customer", "Has booking  begun?")
QUESTION_TO_STAFF = ("staff", "Has booking  begun?")


async def reminded(scene, booking, at):
    """The reminders and questions that a worker sends at a time: whom, and the subject without the
    code."""
    scene.pass_time(at - await scene.now())
    await scene.drain()
    async with scene.ports.store.read_view() as view:
        customer = await view.accounts.user(booking.customer_id)
    sent = {
        (
            "customer" if each.to == customer.email else "staff",
            each.subject.replace(booking.code, ""),
        )
        for each in scene.ports.notifier.emails
    }
    return sent & {*REMINDERS, QUESTION_TO_CUSTOMER, QUESTION_TO_STAFF}


@pytest.mark.parametrize(
    "start, after, told",
    [
        ("starts_at", -MINUTE, REMINDERS),
        ("starts_at", 15 * MINUTE, {QUESTION_TO_CUSTOMER, QUESTION_TO_STAFF}),
        ("ends_at", -SECOND, {QUESTION_TO_CUSTOMER, QUESTION_TO_STAFF}),
        ("ends_at", 0 * SECOND, {QUESTION_TO_CUSTOMER}),
        ("ends_at", 24 * HOUR - SECOND, {QUESTION_TO_CUSTOMER}),
        ("ends_at", 24 * HOUR, set()),
    ],
)
async def test_a_worker_that_was_away_reminds_of_nothing_that_is_over(start, after, told):
    """A worker that was away sends no reminder from the start, asks the staff member nothing from
    the end, and the customer nothing once an absence can't be reported."""
    scene = await make_booking_scenario(evolve(POLICY, sandbox=False))
    booking = await scene.paid()
    assert await reminded(scene, booking, getattr(booking, start) + after) == told


async def test_a_reminder_that_is_not_sent_counts_as_sent():
    """The question that a worker missed is recorded with its due time, and does not fire again."""
    scene = await make_booking_scenario(evolve(POLICY, sandbox=False))
    booking = await scene.paid()
    await reminded(scene, booking, booking.ends_at)
    assert (await scene.booking(booking)).reminded_at == booking.starts_at + 15 * MINUTE


async def test_a_jump_over_an_event_tells_what_its_time_would_have_told(scene):
    """A sandbox whose clock jumps over an event sends the reminder and the question."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at + DAY)
    told = await reminded(scene, booking, await scene.now())
    assert told == {*REMINDERS, QUESTION_TO_CUSTOMER, QUESTION_TO_STAFF}


# Files ------------------------------------------------------------------------------------


def contents(scene: BookingScenario) -> dict[str, bytes]:
    assert isinstance(scene.ports.files, MemoryFiles)
    return scene.ports.files.contents


async def test_a_refused_file_is_not_kept():
    """A file that is refused leaves no content."""
    scene = await make_booking_scenario(
        ports=memory_ports(evolve(POLICY, max_dispute_files=0, max_image_bytes=2_000))
    )
    booking = await scene.paid()
    for content, error in ((make_pdf(), RuleBroken), (make_pdf(b" " * 2_000), InvalidField)):
        with pytest.raises(error):
            await dispute_files.upload_file(scene.ports, scene.customer, booking.id, content)
    assert contents(scene) == {}


async def test_an_author_gets_their_statements_and_files(scene):
    """The export has the user's own statements and files, and none of the other party's."""
    booking = await scene.paid()
    file = await dispute_files.upload_file(scene.ports, scene.staff, booking.id, make_pdf())
    await scene.jump_to(booking.starts_at)
    await scene.dispute(booking)
    statement = AddDisputeStatement(text="I was there", files=(file.id,))
    await disputes.add_statement(scene.ports, scene.staff, booking.id, statement)
    record = await privacy.export_user_data(scene.ports, scene.staff.user_id)
    [[mine]] = [page async for page in record["dispute_statements"]]
    assert (mine["booking_id"], mine["text"]) == (booking.id, "I was there")
    assert [each["file"] for each in record["dispute_files"]] == mine["files"] == [file.id]


async def test_a_credit_of_an_absence_is_exported(scene):
    """The export has the priority rebooking of a reported absence."""
    booking = await scene.paid()
    await scene.jump_to(booking.starts_at + HOUR)
    await disputes.report_no_show(scene.ports, scene.customer, booking.id)
    record = await privacy.export_user_data(scene.ports, scene.customer.user_id)
    [[credit]] = [page async for page in record["rebooking_credits"] if page]
    assert (credit["booking_code"], credit["used"]) == (booking.code, False)
