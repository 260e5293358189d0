"""The state machine: actions of users, processor, network and time, in any order.

After each step the books are consistent, no time is sold twice, and the processor paid out no
more than it received. `history_end` ends a history; `webhook_endpoints` checks its webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import date, timedelta
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, POLICY, SECOND
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.payments.processor import ProcessorError
from staffbooking_core.errors import (
    Forbidden,
    InvalidField,
    NotFound,
    ProcessorUnavailable,
    RuleBroken,
    Unauthenticated,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import actions as acts, disabling, disputes
from staffbooking_core.usecases.bookings.disabling import BookingsDecision
from staffbooking_core.usecases.payments import payouts, refunds
from tests.simulation.checks import InvariantChecks
from tests.simulation.deployment import (
    CRASH_POINTS,
    PROCESSOR_CALLS,
    Crash,
    SimulatedScenario,
    make_simulation_world,
)
from tests.simulation.history_end import FINAL_BOOKING_STATUSES, finish_history
from tests.simulation.webhook_endpoints import RECEIVER_BEHAVIOURS

T = TypeVar("T")

MAX_BOOKINGS = 6
EXPECTED_ERRORS = (
    *(RuleBroken, Forbidden, InvalidField, ProcessorUnavailable, ProcessorError),
    *(NotFound, Unauthenticated),  # A party's account is disabled.
)
"""Errors that callers may receive."""

INITIAL_STAGES = (
    *("accepted", "paid", "soon", "disputed", "charged back", "cancelled"),
    *("completed", "due", "paid out", "paid out and charged back", "owing"),
)
"""Stages of a booking at the start of a history."""

PAYEE_READINESS = ("at once", "completed", "to be completed")
"""When companions can be paid at the processor."""

CALL_FAULTS = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "slow"),
)
EVENT_FAULTS = ("drop", "delay", "duplicate", "reorder", "bad_signature")
RARE_FAULTS = (
    *[("refund", f"{course}") for course in ("pending_then_settled", "pending_then_failed")],
    *[("refund", "settled_then_failed"), ("refund", "refuse:insufficient_funds")],
    *[("pay_out", f"refuse:{code}") for code in ("payee_not_ready", "insufficient_funds")],
    *[("pay_out", "refuse"), ("reverse_payout", "refuse"), ("reverse_payout", "refuse")],
    *[("reverse_payout", "refuse:insufficient_funds"), ("open_checkout", "refuse")],
)
PICK_NUMBERS = st.integers(0, 1000)
BUSINESS_TIME_JUMPS = (5 * MINUTE, HOUR, HOUR, 12 * HOUR, DAY, 80 * HOUR, 21 * DAY)
REAL_TIME_WAITS = (
    SECOND,
    20 * SECOND,
    20 * SECOND,
    6 * MINUTE,
    11 * MINUTE,
    HOUR,
    21 * HOUR,
    25 * HOUR,
)
DELIVERY_RETRY_DELAYS = (SECOND, 4 * SECOND, 16 * SECOND, 20 * SECOND)
WEEK = 7 * DAY
STATUSES_WITH_MONEY = (BookingStatus.PAID, BookingStatus.DISPUTED, BookingStatus.COMPLETED)


class MoneyMachine(RuleBasedStateMachine):
    steps = 0
    """Number of steps of all histories so far."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.made: list[Booking] = []
        self.manually_moved_ids: set[int] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def run_as_process(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run a call like a process: an expected error or a crash gives None."""
        try:
            return self.run(work)
        except (*EXPECTED_ERRORS, Crash):
            return None

    def pick_booking(self, number: int, *fit: BookingStatus) -> tuple[SimulatedScenario, Booking]:
        """A booking as stored now, mostly one with a status of `fit`, and its scenario."""
        bookings = [self.run(self.world.scene.booking(made)) for made in self.made]
        fitting = [booking for booking in bookings if booking.status in fit]
        chosen = fitting if fitting and number % 5 else bookings
        booking = chosen[number % len(chosen)]
        return self.world.scenario_of(booking), booking

    @initialize(
        begun=st.lists(st.sampled_from(INITIAL_STAGES), min_size=1, max_size=4),
        payees=st.sampled_from(PAYEE_READINESS),
        fee_ppm=st.sampled_from([0, 29_000]),
        verdict=st.sampled_from(["won", "lost"]),
    )
    def start_history(self, begun: list[str], payees: str, fee_ppm: int, verdict: str) -> None:
        """Create bookings in given stages, so that histories also reach the late ones."""
        self.world = self.run(make_simulation_world(payees != "at once", fee_ppm))
        self.checks = InvariantChecks(self.world)
        self.verdict = verdict
        if payees == "completed":
            for companion in self.world.companions:
                self.run(companion.onboard_payee())
        for number, stage in enumerate(begun):
            self.made.append(self.run(self.begin_booking(number, stage)))

    async def begin_booking(self, number: int, stage: str) -> Booking:
        scene = self.world.scenes[number]
        day = date.fromordinal((await scene.now()).date().toordinal() + 4 + 9 * number)
        given: dict[str, Any] = {"event_date": day, "cancellation_insurance": number == 1}
        match stage:
            case "accepted":
                return await scene.accepted(**given)
            case "paid" | "soon" | "disputed" | "charged back" | "cancelled":
                booking = await scene.paid(**given)
            case "completed" | "due":
                booking = await scene.completed(**given)
            case _:
                booking = await scene.paid_out(**given)
        match stage:
            case "soon":
                await scene.jump_to(booking.starts_at - 30 * HOUR)
            case "disputed":
                await scene.jump_to(booking.starts_at)
                await scene.dispute(booking)
            case "cancelled":
                await scene.cancel(booking)
            case "due":
                await scene.jump_to(booking.ends_at + DAY)
            case "charged back" | "paid out and charged back":
                await scene.fake.sandbox.chargeback(booking.id, "open")
            case "owing":
                await scene.fault("reverse_payout", "refuse")
                await scene.charge_back(booking, "lost")
                await scene.drain()
        return booking

    # Users ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.made) < MAX_BOOKINGS)
    @rule(
        pair=PICK_NUMBERS,
        day=st.integers(1, 5),
        hour=st.sampled_from([8, 10, 12, 22]),
        hours=st.sampled_from([1, 3, 24]),
        insured=st.booleans(),
    )
    def request(self, pair: int, day: int, hour: int, hours: int, insured: bool) -> None:
        scene = self.world.scenes[pair % len(self.world.scenes)]
        today = self.run(scene.now()).date()
        made = self.run_as_process(
            scene.request(
                event_date=date.fromordinal(today.toordinal() + day),
                start_time=f"{hour:02}:00",
                duration_hours=hours,
                cancellation_insurance=insured,
            )
        )
        if made is not None:
            self.made.append(made)

    @rule(number=PICK_NUMBERS)
    def advance_and_drain(self, number: int) -> None:
        """Take a booking one step along the usual path, and run the due work."""
        self.advance_booking(number)
        self.run_as_process(self.world.scene.drain())

    @rule(number=PICK_NUMBERS)
    def advance_booking(self, number: int) -> None:
        """Take a booking one step along the usual path."""
        scene, booking = self.pick_booking(number)
        match booking.status:
            case BookingStatus.PENDING:
                self.run_as_process(scene.accept(booking))
            case BookingStatus.ACCEPTED:
                self.run_as_process(scene.play(booking))
            case BookingStatus.PAID:
                self.run_as_process(scene.jump_to(booking.ends_at))
                self.run_as_process(scene.move(booking, Trigger.CONFIRM, scene.customer))
            case BookingStatus.COMPLETED | BookingStatus.CANCELLED if (
                booking.payout_due_at is not None
            ):
                self.run_as_process(scene.jump_to(booking.payout_due_at))

    @rule(
        number=PICK_NUMBERS,
        by=st.sampled_from(["customer", "staff", "admin"]),
        quoted=st.booleans(),
    )
    def cancel(self, number: int, by: str, quoted: bool) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.ACCEPTED, BookingStatus.PAID)
        actor, text = getattr(scene, by), None
        if quoted and (
            quote := self.run_as_process(acts.quote_cancellation(scene.ports, actor, booking.id))
        ):
            text = quote["quote"]
            self.run_as_process(scene.jump_to(self.run(scene.now()) + 9 * MINUTE))
        self.run_as_process(scene.cancel(booking, actor, text))

    @rule(number=PICK_NUMBERS, outcome=st.sampled_from(["succeed", "succeed", "decline", "expire"]))
    def visit_checkout(self, number: int, outcome: str) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.ACCEPTED)
        self.run_as_process(scene.play(booking, outcome))

    @rule(number=PICK_NUMBERS, by=st.sampled_from(["customer", "staff"]))
    def dispute(self, number: int, by: str) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.PAID, BookingStatus.COMPLETED)
        self.run_as_process(scene.dispute(booking, getattr(scene, by)))

    @rule(number=PICK_NUMBERS)
    def report_no_show(self, number: int) -> None:
        """The customer waits for a quarter of an hour in vain."""
        scene, booking = self.pick_booking(number, BookingStatus.PAID)
        self.run_as_process(scene.jump_to(booking.starts_at + 15 * MINUTE))
        self.run_as_process(disputes.report_no_show(scene.ports, scene.customer, booking.id))

    @rule(number=PICK_NUMBERS, by=st.sampled_from(["customer", "staff"]))
    def withdraw_dispute(self, number: int, by: str) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.DISPUTED)
        actor = getattr(scene, by)
        self.run_as_process(disputes.withdraw_dispute(scene.ports, actor, booking.id))

    @rule(number=PICK_NUMBERS, trigger=st.sampled_from([Trigger.DECLINE, Trigger.CHECK_IN]))
    def decline_or_check_in(self, number: int, trigger: Trigger) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.PENDING, BookingStatus.PAID)
        self.run_as_process(scene.move(booking, trigger, scene.staff))

    @rule(number=PICK_NUMBERS)
    def onboard(self, number: int) -> None:
        """A companion completes the account at the processor."""
        companions = self.world.companions
        self.run_as_process(companions[number % len(companions)].onboard_payee())

    # Operators ------------------------------------------------------------------------------

    @rule(
        number=PICK_NUMBERS,
        trigger=st.sampled_from([Trigger.RELEASE, Trigger.REFUND, Trigger.SPLIT, Trigger.SPLIT]),
        amount=st.integers(1, 30_000),
    )
    def resolve(self, number: int, trigger: Trigger, amount: int) -> None:
        scene, booking = self.pick_booking(number, BookingStatus.DISPUTED)
        self.run_as_process(scene.resolve(booking, trigger, amount))

    @rule(
        number=PICK_NUMBERS,
        decide=st.sampled_from(
            [
                payouts.hold_payout,
                payouts.release_payout,
                payouts.retry_payout,
                refunds.retry_refunds,
            ]
        ),
    )
    def operate_payout(
        self, number: int, decide: Callable[[Ports, str], Awaitable[Booking]]
    ) -> None:
        scene, booking = self.pick_booking(number, *FINAL_BOOKING_STATUSES)

        async def decided() -> None:
            await decide(scene.ports, booking.code)

        self.run_as_process(decided())

    @rule(
        number=PICK_NUMBERS,
        side=st.sampled_from(["customer", "staff", "staff"]),
        decision=st.sampled_from([None, *BookingsDecision]),
        stays=st.booleans(),
    )
    def disable(
        self, number: int, side: str, decision: BookingsDecision | None, stays: bool
    ) -> None:
        """Disable an account of a booking; in half of the cases it is enabled again at once."""
        scene, _ = self.pick_booking(number, *FINAL_BOOKING_STATUSES)

        async def disabled() -> None:
            async with scene.ports.store.read_view() as view:
                user = await view.accounts.user(getattr(scene, side).user_id)
            assert user is not None
            await disabling.disable_user(scene.ports, user.email, decision)
            if not stays:
                await administration.enable_user(scene.ports, user.email)

        self.run_as_process(disabled())

    # The processor and the network ----------------------------------------------------------

    @rule(number=PICK_NUMBERS, outcome=st.sampled_from(["open", "open", "won", "lost"]))
    def charge_back(self, number: int, outcome: str) -> None:
        scene, booking = self.pick_booking(number, *STATUSES_WITH_MONEY)
        self.run_as_process(scene.fake.sandbox.chargeback(booking.id, outcome))

    @rule(
        number=PICK_NUMBERS,
        what=st.sampled_from(["refund", "reverse"]),
        amount=st.integers(1, 30_000),
    )
    def move_money_manually(self, number: int, what: str, amount: int) -> None:
        """An operator moves money in the processor's own dashboard."""
        scene, booking = self.pick_booking(number, *STATUSES_WITH_MONEY)
        dashboard = scene.fake.dashboard
        move = dashboard.refund if what == "refund" else dashboard.reverse_payout
        self.manually_moved_ids.add(booking.id)
        self.run_as_process(move(booking.id, amount))

    @rule(number=PICK_NUMBERS, ready=st.booleans())
    def set_payee_readiness(self, number: int, ready: bool) -> None:
        """The processor permits or suspends payouts to a companion."""
        companions = self.world.companions
        chosen = companions[number % len(companions)]
        self.run_as_process(chosen.fake.dashboard.set_payee_ready(chosen.staff.user_id, ready))

    @rule(
        op=st.sampled_from([*PROCESSOR_CALLS, "any"]),
        kind=st.sampled_from(CALL_FAULTS),
        times=st.sampled_from([1, 1, 2, 4]),
    )
    def inject_call_fault(self, op: str, kind: str, times: int) -> None:
        self.run_as_process(self.world.scene.fault(op, kind, times))

    @rule(
        number=PICK_NUMBERS,
        kind=st.sampled_from(["timeout_before", "timeout_after", "error_500_after"]),
        away=st.sampled_from([SECOND, HOUR, 25 * HOUR]),
    )
    def lose_response(self, number: int, kind: str, away: timedelta) -> None:
        """Money moves, but the response and its event are lost, possibly over the end of a day."""
        scene, booking = self.pick_booking(number, *STATUSES_WITH_MONEY)
        match booking.status:
            case BookingStatus.PAID:
                self.run_as_process(scene.cancel(booking))
            case BookingStatus.DISPUTED:
                self.run_as_process(scene.resolve(booking, Trigger.SPLIT, 10_000))
            case _ if booking.payout_due_at is not None:
                self.run_as_process(scene.jump_to(booking.payout_due_at))
        self.run_as_process(scene.fault("any", kind))
        self.run_as_process(scene.fault("event", "drop"))
        self.run_as_process(scene.drain())
        scene.pass_time(away)

    @rule(what=st.sampled_from(RARE_FAULTS))
    def inject_rare_fault(self, what: tuple[str, str]) -> None:
        self.run_as_process(self.world.scene.fault(*what))

    @rule(kind=st.sampled_from(EVENT_FAULTS), times=st.integers(1, 3))
    def inject_event_fault(self, kind: str, times: int) -> None:
        self.run_as_process(self.world.scene.fault("event", kind, times))

    @rule(point=st.sampled_from(CRASH_POINTS), spared=st.integers(0, 4))
    def crash(self, point: str, spared: int) -> None:
        """Crash the process at this point on its next or a later visit."""
        self.world.fate.point, self.world.fate.remaining_passes = point, spared

    # Receivers of webhooks ------------------------------------------------------------------

    @rule(number=PICK_NUMBERS, what=st.sampled_from([*RECEIVER_BEHAVIOURS, "pause", "enable"]))
    def change_receiver(self, number: int, what: str) -> None:
        """A receiver changes its responses, or its owner pauses or enables it."""
        if what in RECEIVER_BEHAVIOURS:
            self.world.webhooks.set_behaviour(number, what)
        else:
            self.run_as_process(self.world.webhooks.set_active(number, active=what == "enable"))

    @rule(
        retries=st.integers(0, len(DELIVERY_RETRY_DELAYS)),
        dies=st.sampled_from(["", "", "before a commit", "after a commit"]),
        spared=st.integers(0, 6),
    )
    def deliver_webhooks(self, retries: int, dies: str, spared: int) -> None:
        """Send due webhooks with this many retry waits, or until the process crashes."""
        if dies:
            self.world.fate.point, self.world.fate.remaining_passes = dies, spared
        self.run_as_process(self.world.webhooks.deliver())
        for wait in DELIVERY_RETRY_DELAYS[:retries]:
            self.world.scene.pass_time(wait)
            self.run_as_process(self.world.webhooks.deliver())

    # Time and work --------------------------------------------------------------------------

    @rule(by=st.sampled_from(BUSINESS_TIME_JUMPS))
    def jump_business_time(self, by: timedelta) -> None:
        """Advance business time. Before weeks the service polls events, since a loss for longer
        than the processor lists events could only be found by reconciliation."""
        scene = self.world.scene
        if by > WEEK:
            scene.pass_time(POLICY.processor_event_poll_interval)
            self.run_as_process(scene.drain())
            self.run_as_process(scene.drain())  # The first run may have crashed.
        self.run_as_process(scene.jump_to(self.run(scene.now()) + by))

    @rule(by=st.sampled_from(REAL_TIME_WAITS))
    def pass_real_time(self, by: timedelta) -> None:
        """Advance real time."""
        self.world.scene.pass_time(by)

    @rule()
    def drain(self) -> None:
        self.run_as_process(self.world.scene.drain())

    # Invariants -----------------------------------------------------------------------------

    @invariant()
    def find_no_faults(self) -> None:
        MoneyMachine.steps += 1
        assert self.run(self.checks.find_faults()) == []

    def teardown(self) -> None:
        try:
            if self.made:
                self.run(finish_history(self.world, self.verdict, self.manually_moved_ids))
        finally:
            self.loop.close()
