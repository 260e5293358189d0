"""The conditions of each store select exactly the rows for which the domain's predicates hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from attrs import evolve, field, frozen
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from sqlalchemy import select

from staffbooking_adapters.sql.companions.reader import is_listed
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.metrics import IS_PAYOUT_DUE
from staffbooking_adapters.sql.schema import (
    bookings as booking_schema,
    companions as companion_schema,
    earnings as earning_schema,
    payments as payment_schema,
)
from staffbooking_adapters.sql.schema.webhooks import (
    deliveries,
    is_finished_delivery,
    is_first_try,
    is_held_delivery,
    is_pending_delivery,
    is_retry,
    is_waiting_delivery,
)
from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    POLICY,
    SECOND,
    add_companion,
    add_session,
    add_user,
    make_booking,
    make_booking_write,
    make_checkout_command,
    make_payee,
)
from staffbooking_adapters.testing.builders_webhooks import add_endpoint, make_new_delivery
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    add_deliveries,
    deliveries_of,
    save_deliveries,
)
from staffbooking_core.domain.accounts.users import is_session_expired
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    UNPAID_PAYOUT_STATUSES,
    Booking,
    DueTimer,
    PaymentIntent,
    PaymentStatus,
    PayoutStatus,
)
from staffbooking_core.domain.bookings.earnings import has_earning, has_open_earning
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES, BookingStatus, TimerKind
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationOrder,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    PayOut,
    RefundPayment,
    ReversePayout,
)
from staffbooking_core.domain.reconciliation.refunds import failed_refunds, is_failed_refund
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from staffbooking_core.ports import BookingQuery, WaitingKind
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio

MOMENTS = (NOW - SECOND, NOW, NOW + SECOND)
COMMANDS = (
    make_checkout_command(),
    RefundPayment("pay_1", 1, "usd"),
    RefundPayment("pay_1", 1, "usd", replaces=1),
    PayOut("pay_1", 2, 1, "usd"),
    ReversePayout(1, 1, "usd"),
)
MAX_ROWS = 100
"""Above the number of rows of any sample."""

BOOKING_FIELDS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(BookingStatus),
        "payment_status": st.sampled_from(PaymentStatus),
        "payout_status": st.sampled_from(PayoutStatus),
        "chargeback_status": st.sampled_from((None, *ChargebackStatus)),
        "priority": st.booleans(),
        "owed_by_staff": st.sampled_from((0, 1)),
        "payout_due_at": st.sampled_from((None, *MOMENTS)),
        "payout_released_at": st.sampled_from((None, NOW - HOUR)),
    }
)
OPERATION_FIELDS = st.fixed_dictionaries(
    {
        "command": st.sampled_from(COMMANDS),
        "status": st.sampled_from(OperationStatus),
        "settlement": st.sampled_from((None, *SettlementStatus)),
        "next_at": st.sampled_from(MOMENTS),
        "first_sent_at": st.sampled_from((None, NOW)),
    }
)
ROWS = st.tuples(
    BOOKING_FIELDS,
    st.sampled_from((None, *MOMENTS)),
    st.lists(OPERATION_FIELDS, max_size=3),
)
SAMPLES = st.lists(ROWS, min_size=10, max_size=30)
random_samples = settings(
    max_examples=6,
    phases=(Phase.generate,),  # Each step of a search for a smaller sample would open stores.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@frozen
class Sample:
    """The written rows: bookings of one companion, with their timers and operations."""

    payee: Payee
    bookings: list[Booking] = field(factory=list)
    timers: list[DueTimer] = field(factory=list)
    operations: list[Operation] = field(factory=list)

    def operations_of(self, booking: Booking) -> list[Operation]:
        return [each for each in self.operations if each.booking_id == booking.id]


async def write_sample(store, rows, payee_due_at):
    """Write the rows for a new companion and a new customer."""
    companion, customer = await add_companion(store), await add_user(store)
    sample = Sample(make_payee(companion.id, next_at=payee_due_at))

    async def unit(tx):
        await tx.payees.save_payee(sample.payee)
        for number, row in enumerate(rows, 1):
            await write_booking(tx, sample, row, number, customer.id)

    await store.run_transaction(unit)
    return sample


async def write_booking(tx, sample, row, number, customer_id):
    fields, timer_at, operation_fields = row
    booking = make_booking(
        **fields,
        id=number,
        companion_id=sample.payee.companion_id,
        customer_id=customer_id,
        starts_at=NOW + 5 * number * HOUR,
        intent=PaymentIntent(1, NOW),
    )
    timer = None if timer_at is None else DueTimer(TimerKind.EXPIRE, timer_at)
    orders = [OperationOrder(n, each["command"]) for n, each in enumerate(operation_fields, 1)]
    await tx.bookings.add_booking(make_booking_write(booking, due=timer, orders=tuple(orders)))
    sample.bookings.append(booking)
    sample.timers.extend([] if timer is None else [timer])
    added = await tx.operations.operations_of(number)
    for operation, given_fields in zip(added, operation_fields, strict=True):
        sample.operations.append(evolve(operation, **given_fields))
        await tx.operations.save_operation(sample.operations[-1])


def ids(rows: Sequence[Any]) -> list[int]:
    return sorted(row.id for row in rows)


@random_samples
@given(rows=SAMPLES, payee_due_at=st.sampled_from((None, *MOMENTS)))
async def test_money_queries_match_the_domain(open_store, request, rows, payee_due_at):
    """Payouts, debts, refunds, payments and work are found by the domain's predicates."""
    async with open_store(request) as store:
        sample = await write_sample(store, rows, payee_due_at)
        bookings, companion_id = sample.bookings, sample.payee.companion_id
        async with store.read_view() as view:
            assert ids(await view.bookings.open_payouts(MAX_ROWS)) == [
                each.id for each in bookings if each.payout_status in OPEN_PAYOUT_STATUSES
            ]
            assert ids(await view.bookings.unsettled_bookings(0, MAX_ROWS)) == [
                each.id for each in bookings if each.is_unsettled
            ]
            assert await view.bookings.indebted_booking_ids(companion_id) == [
                each.id for each in bookings if each.has_staff_debt
            ]
            assert ids(
                [operation for _, operation in await view.operations.failed_refunds(MAX_ROWS)]
            ) == ids(
                [one for each in bookings for one in failed_refunds(sample.operations_of(each))]
            )
            assert [each.has_in_flight for each in await view.ledger.cash_books(0, MAX_ROWS)] == [
                any(one.is_in_flight for one in sample.operations_of(each)) for each in bookings
            ]
            backlog = {one.kind: (one.count, one.oldest) for one in await view.metrics.backlog(NOW)}
            assert backlog == expected_backlog(sample)
            waiting = {
                each.kind: each.count
                for each in await view.metrics.waiting(NOW)
                if each.kind is not WaitingKind.COMPANION
            }
            assert waiting == expected_waiting(sample)
        woken = await store.run_transaction(
            lambda tx: tx.operations.wake_payouts(companion_id, NOW)
        )
        assert woken == sum(one.is_delayed_payout(NOW) for one in sample.operations)


def expected_backlog(sample: Sample) -> dict[str, tuple[int, float]]:
    """By kind, the number of rows due at NOW and the age of the oldest in seconds."""
    ages: dict[str, list[timedelta]] = defaultdict(list)
    for operation in sample.operations:
        if operation.is_due(NOW):
            ages[operation.kind].append(NOW - operation.next_at)
    for timer in sample.timers:
        if timer.at <= NOW:
            ages["timer"].append(NOW - timer.at)
    for booking in sample.bookings:
        if (since := booking.payout_due_since(NOW)) is not None:
            ages["payout"].append(NOW - since)
    if sample.payee.next_at is not None and sample.payee.is_due(NOW):
        ages["payee"].append(NOW - sample.payee.next_at)
    return {kind: (len(each), max(each).total_seconds()) for kind, each in ages.items()}


def expected_waiting(sample: Sample) -> dict[WaitingKind, int]:
    """By kind, the number of bookings that wait for an operator at NOW."""
    disputed = [each for each in sample.bookings if each.status is BookingStatus.DISPUTED]
    payouts = Counter(each.payout_status for each in sample.bookings)
    held = [each for each in disputed if each.payout_status is PayoutStatus.FROZEN]
    found = {
        WaitingKind.DISPUTE: len(disputed),
        WaitingKind.OVERDUE_DISPUTE: sum(
            each.dispute_respond_by is not None and each.dispute_respond_by <= NOW
            for each in disputed
        ),
        WaitingKind.FAILED_PAYOUT: payouts[PayoutStatus.FAILED],
        WaitingKind.HELD_PAYOUT: payouts[PayoutStatus.FROZEN] - len(held),
        WaitingKind.FAILED_REFUND: sum(
            len(failed_refunds(sample.operations_of(each))) for each in sample.bookings
        ),
    }
    return {kind: count for kind, count in found.items() if count}


@random_samples
@given(rows=SAMPLES)
async def test_lists_of_bookings_follow_the_domain(open_store, request, rows):
    """Urgent requests come first in lists; confirmed bookings come first in calendars."""
    async with open_store(request) as store:
        sample = await write_sample(store, rows, None)
        companion_id = sample.payee.companion_id
        query = BookingQuery(companion_id, limit=MAX_ROWS, priority_first=True)
        newest = sorted(sample.bookings, key=lambda each: each.id, reverse=True)
        async with store.read_view() as view:
            page = await view.bookings.bookings(query)
            assert page == sorted(newest, key=lambda each: not each.is_urgent)
            soonest = await view.bookings.bookings_since(companion_id, NOW, 5)
        listed = [each for each in sample.bookings if each.status is not BookingStatus.CANCELLED]
        listed.sort(key=lambda each: each.status not in CONFIRMED_STATUSES)
        assert soonest == sorted(listed[:5], key=lambda each: each.id)


BOOKING_CONDITIONS = {
    "holds slot": (booking_schema.holds_slot, lambda each: each.holds_slot),
    "urgent": (booking_schema.is_urgent, lambda each: each.is_urgent),
    "staff debt": (booking_schema.has_staff_debt, lambda each: each.has_staff_debt),
    "open payout": (
        booking_schema.is_open_payout,
        lambda each: each.payout_status in OPEN_PAYOUT_STATUSES,
    ),
    "unpaid payout": (
        booking_schema.is_unpaid_payout,
        lambda each: each.payout_status in UNPAID_PAYOUT_STATUSES,
    ),
    "unsettled": (
        booking_schema.is_unsettled,
        lambda each: each.is_unsettled,
    ),
    "earning": (earning_schema.has_earning, has_earning),
    "open earning": (earning_schema.has_open_earning, has_open_earning),
    "payout due": (IS_PAYOUT_DUE, lambda each: each.payout_due_since(NOW) is not None),
}
OPERATION_CONDITIONS = {
    "unfinished": (payment_schema.is_unfinished, lambda each: not each.is_finished),
    "failed refund": (payment_schema.is_failed_refund, is_failed_refund),
    "in flight": (payment_schema.is_in_flight, lambda each: each.is_in_flight),
    "due": (payment_schema.is_operation_due, lambda each: each.is_due(NOW)),
    "delayed payout": (
        payment_schema.is_delayed_payout,
        lambda each: each.is_delayed_payout(NOW),
    ),
}
DELIVERY_CONDITIONS = {
    "pending": (is_pending_delivery, lambda each: each.status is DeliveryStatus.PENDING),
    "held": (is_held_delivery, lambda each: each.status is DeliveryStatus.HELD),
    "waiting": (is_waiting_delivery, lambda each: each.status is DeliveryStatus.WAITING),
    "finished": (is_finished_delivery, lambda each: each.is_finished),
    "retry": (is_retry, lambda each: each.status is DeliveryStatus.PENDING and each.tries > 0),
    "first try": (
        is_first_try,
        lambda each: each.status is DeliveryStatus.PENDING and each.tries == 0,
    ),
}


async def check_conditions(store, table, conditions, rows):
    """Each condition selects the ids of the rows for which its predicate holds."""
    for name, (condition, holds) in conditions.items():
        statement = Statement(select(table.c.id).where(condition).order_by(table.c.id))
        names = statement.compile_for(store.database.dialect).parameter_names
        found = await store.database.fetch_all(statement, **dict.fromkeys(names, NOW))
        assert [number for (number,) in found] == ids([each for each in rows if holds(each)]), name


@pytest.fixture(params=sorted(STORES.keys() - {"memory"}))
def open_database(request):
    """The opener of one SQL store of `STORES`."""
    return STORES[request.param]


@random_samples
@given(rows=SAMPLES)
async def test_conditions_on_bookings_and_operations_are_the_predicates(
    open_database, request, rows
):
    """Each condition of SQL selects exactly the rows for which its predicate holds."""
    async with open_database(request) as store:
        sample = await write_sample(store, rows, None)
        await check_conditions(store, booking_schema.bookings, BOOKING_CONDITIONS, sample.bookings)
        await check_conditions(
            store, payment_schema.payment_operations, OPERATION_CONDITIONS, sample.operations
        )


async def write_deliveries(store):
    """Write deliveries of each status, before and after the first try."""
    endpoint = await add_endpoint(store)
    cases = list(product(DeliveryStatus, (0, 1)))
    await add_deliveries(store, *(make_new_delivery(endpoint.id) for _ in cases))
    added = await deliveries_of(store, endpoint)
    rows = [
        evolve(each, status=status, tries=tries, held_at=NOW)
        for each, (status, tries) in zip(added, cases, strict=True)
    ]
    await save_deliveries(store, *rows)
    return endpoint, rows


async def test_conditions_on_deliveries_are_the_predicates(open_database, request):
    """Each condition of SQL selects exactly the deliveries for which its predicate holds."""
    async with open_database(request) as store:
        _, rows = await write_deliveries(store)
        await check_conditions(store, deliveries, DELIVERY_CONDITIONS, rows)


async def test_finished_deliveries_are_deleted_in_time(store):
    """After the retention period finished deliveries are deleted, and no others."""
    endpoint, rows = await write_deliveries(store)
    await store.delete_expired(NOW + POLICY.webhook_delivery_retention, POLICY)
    left = await deliveries_of(store, endpoint)
    assert ids(left) == ids([each for each in rows if not each.is_finished])


async def test_the_condition_on_companions_is_the_predicate(open_database, request):
    """The SQL condition `is_listed` selects exactly the listed companions."""
    async with open_database(request) as store:
        cases = product(Approval, (True, False))
        rows = [await add_companion(store, approval=one, active=other) for one, other in cases]
        conditions = {"listed": (is_listed, lambda each: each.is_listed)}
        await check_conditions(store, companion_schema.companions, conditions, rows)


async def test_expired_sessions_are_deleted(store):
    """`delete_expired` deletes exactly the sessions for which `is_session_expired` holds."""
    user = await add_user(store)
    idle, lifetime = POLICY.session_idle, POLICY.session_lifetime
    ages = (timedelta(), SECOND, -SECOND)
    sessions = [
        await add_session(store, user.id, seen_at=NOW - idle + one, created_at=NOW - lifetime + two)
        for one, two in product(ages, ages)
    ]
    await store.delete_expired(NOW, POLICY)
    left = await read_store(store, lambda view: view.accounts.sessions_of(user.id))
    assert {each.digest for each in left} == {
        each.digest
        for each in sessions
        if not is_session_expired(each, NOW, idle_timeout=idle, lifetime=lifetime)
    }
