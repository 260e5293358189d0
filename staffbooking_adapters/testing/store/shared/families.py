"""Contract of the stores: each family alike rolls back, hides what is not committed, and keeps
times to the microsecond.

A family that a store has of its own takes part in its transactions only where it is asked to, so
none is spared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from attrs import evolve, frozen

from staffbooking_adapters.port_checks import check_store
from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    SECOND,
    add_booking,
    add_companion,
    add_user,
    make_audit_entry,
    make_booking_write,
    make_event,
    make_lease,
    make_payee,
    make_posting,
    make_processor_event,
    make_refund_order,
    make_session,
    make_stored_response,
    next_revision,
)
from staffbooking_adapters.testing.builders_messages import add_direct, make_new_message
from staffbooking_adapters.testing.builders_notifications import make_notification
from staffbooking_adapters.testing.builders_reviews import make_new_review
from staffbooking_adapters.testing.builders_webhooks import make_new_endpoint
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import DueTimer
from staffbooking_core.domain.bookings.disputes import DisputeFile, DisputeFileKind
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, TimerKind
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.domain.companions.portfolio import Image
from staffbooking_core.ports import ImportProgress, NotificationKind, SkippedRow

FINE = NOW + timedelta(microseconds=123_456)
TICK = timedelta(microseconds=1)


@frozen
class Change:
    """A write to a family, a read that shows it, and what is read when it is committed."""

    write: Callable[[Any], Awaitable[Any]]
    read: Callable[[Any], Awaitable[Any]]
    found: Any


Preparation: TypeAlias = Callable[[Any], Awaitable[Change]]
"""Makes in a store what the change needs to exist before."""


async def change_accounts(store):
    session = make_session((await add_user(store)).id, "secret", created_at=FINE)

    async def read(view):
        return list(await view.accounts.sessions_of(session.user_id))

    return Change(lambda tx: tx.accounts.add_session(session), read, [session])


async def change_audit(store):
    async def read(view):
        return [each.at for each in await view.audit.audit_entries(9)]

    return Change(lambda tx: tx.audit.add_audit_entry(make_audit_entry(at=FINE)), read, [FINE])


async def change_companions(store):
    companion = await add_companion(store)
    changed = evolve(companion, member_since=FINE)

    async def write(tx):
        await tx.companions.lock_companion(companion.id)
        await tx.companions.save_companion(changed)

    async def read(view):
        return (await view.companions.companion(companion.id)).member_since

    return Change(write, read, FINE)


async def change_reviews(store):
    new = make_new_review(await add_booking(store), created_at=FINE)

    async def write(tx):
        await tx.companions.lock_companion(new.reviewee_id)
        await tx.reviews.add_review(new)

    async def read(view):
        found = await view.reviews.review_by(new.booking_id, new.reviewer_id)
        return found and found.created_at

    return Change(write, read, FINE)


async def change_portfolio(store):
    image = Image("photos/ball.jpg", (await add_user(store)).id, 9, FINE)
    return Change(
        lambda tx: tx.portfolio.add_image(image),
        lambda view: view.portfolio.image(image.name),
        image,
    )


async def change_calendar_subscriptions(store):
    companion = await add_companion(store)
    new = CalendarSubscription(
        id=0,
        companion_id=companion.id,
        name="Work",
        host="calendar.example",
        address=b"sealed",
        created_at=FINE,
        next_read_at=FINE + SECOND,
        tried_at=FINE,
        read_at=FINE,
        parsed_at=FINE,
        timezone="Europe/Lisbon",
    )

    async def read(view):
        found = await view.calendar_subscriptions.subscriptions_of(companion.id)
        return [(each.created_at, each.next_read_at) for each in found]

    return Change(
        lambda tx: tx.calendar_subscriptions.add_subscription(new), read, [(FINE, FINE + SECOND)]
    )


async def change_imports(store):
    progress, skipped = ImportProgress("file", 2, 0, 0, 1, FINE), SkippedRow(2, None, "no name")

    async def read(view):
        return list(await view.imports.skipped_rows("file", 0, 9))

    return Change(lambda tx: tx.imports.save_progress(progress, [skipped]), read, [skipped])


async def change_bookings(store):
    booking = await add_booking(store)
    changed = next_revision(booking, status=BookingStatus.ACCEPTED, accepted_at=FINE)
    return Change(
        lambda tx: tx.bookings.save_booking(make_booking_write(changed)),
        lambda view: view.bookings.booking(booking.id),
        changed,
    )


async def change_disputes(store):
    booking = await add_booking(store)
    file = DisputeFile("a", booking.id, booking.customer_id, DisputeFileKind.PDF, 9, FINE)

    async def read(view):
        return list(await view.disputes.files_of(booking.id))

    return Change(lambda tx: tx.disputes.add_file(file), read, [file])


async def change_alerts(store):
    changed = next_revision(await add_booking(store))

    async def read(view):
        return [alert.text for alert in await view.alerts.alerts(9)]

    write = make_booking_write(
        changed, event=make_event(changed, sequence=2), alerts=(Alert("look"),)
    )
    return Change(lambda tx: tx.bookings.save_booking(write), read, ["look"])


async def change_idempotency(store):
    row = make_stored_response(expires_at=FINE + HOUR)
    return Change(
        lambda tx: tx.idempotency.save_response(row),
        lambda view: view.idempotency.stored_response(row.scope, row.key, NOW),
        row,
    )


async def change_operations(store):
    booking = await add_booking(store, change={"orders": (make_refund_order(),)})
    [operation] = await read_store(store, lambda view: view.operations.operations_of(booking.id))
    changed = evolve(operation, next_at=FINE, first_sent_at=FINE + SECOND)

    async def read(view):
        return list(await view.operations.operations_of(booking.id))

    return Change(lambda tx: tx.operations.save_operation(changed), read, [changed])


async def change_ledger(store):
    changed = next_revision(await add_booking(store))
    write = make_booking_write(changed, postings=(make_posting(changed.id),))

    async def read(view):
        return len(await view.ledger.postings_of(changed.id))

    return Change(lambda tx: tx.bookings.save_booking(write), read, 1)


async def change_cursors(store):
    return Change(
        lambda tx: tx.cursors.save_cursor("events", "page 2", FINE),
        lambda view: view.cursors.cursor("events"),
        ("page 2", FINE),
    )


async def change_reconciliations(store):
    async def read(view):
        return [each.asked_at for each in await view.reconciliations.reconciliation_runs(9)]

    return Change(
        lambda tx: tx.reconciliations.add_reconciliation(FINE, "ada@example.com"), read, [FINE]
    )


async def change_payees(store):
    companion = await add_companion(store)
    payee = make_payee(companion.id, created_at=FINE, next_at=FINE + SECOND)
    return Change(
        lambda tx: tx.payees.save_payee(payee),
        lambda view: view.payees.payee(payee.provider, companion.id),
        payee,
    )


async def change_webhooks(store):
    owner = await add_user(store)
    new = make_new_endpoint(owner.id, created_at=FINE)

    async def read(view):
        return [each.created_at for each in await view.webhooks.endpoints_of(owner.id)]

    return Change(lambda tx: tx.webhooks.add_endpoint(new), read, [FINE])


async def change_notifications(store):
    user = await add_user(store)
    kind = NotificationKind.WEBHOOK_DISABLED
    return Change(
        lambda tx: tx.notifications.mute(user.id, kind),
        lambda view: view.notifications.muted_kinds_of(user.id),
        frozenset({kind}),
    )


async def change_messages(store):
    conversation = await add_direct(store)
    new = make_new_message(conversation, created_at=FINE)

    async def write(tx):
        await tx.messages.lock_conversations([conversation.id])
        await tx.messages.add_messages([new])

    async def read(view):
        return [each.created_at for each in await view.messages.all_messages_after(0, 9)]

    return Change(write, read, [FINE])


async def change_presence(store):
    user = await add_user(store)
    await store.run_transaction(lambda tx: tx.presence.renew_node_lease("node", NOW + HOUR))

    async def read(view):
        [found] = await view.presence.presence([user.id], NOW)
        return found.online

    return Change(lambda tx: tx.presence.add_connection(user.id, "node", NOW, 9), read, True)


async def change_saved(store):
    customer, companion = await add_user(store), await add_companion(store)

    async def read(view):
        return [each.saved_at for each in await view.saved.saved_people(customer.id, 9)]

    return Change(lambda tx: tx.saved.save_person(customer.id, companion.id, FINE), read, [FINE])


async def change_sandbox(store):
    return Change(
        lambda tx: tx.sandbox.set_clock_offset(HOUR),
        lambda view: view.sandbox.clock_offset(),
        HOUR,
    )


CHANGES: Mapping[str, Preparation] = {
    "accounts": change_accounts,
    "alerts": change_alerts,
    "audit": change_audit,
    "bookings": change_bookings,
    "calendar_subscriptions": change_calendar_subscriptions,
    "companions": change_companions,
    "cursors": change_cursors,
    "disputes": change_disputes,
    "idempotency": change_idempotency,
    "imports": change_imports,
    "ledger": change_ledger,
    "messages": change_messages,
    "notifications": change_notifications,
    "operations": change_operations,
    "payees": change_payees,
    "portfolio": change_portfolio,
    "presence": change_presence,
    "reconciliations": change_reconciliations,
    "reviews": change_reviews,
    "sandbox": change_sandbox,
    "saved": change_saved,
    "webhooks": change_webhooks,
}
"""By family. `inbox` and `timers` have no queries (see CLAIMS), `personal_data` writes to the
others, `metrics` only reads them."""


async def add_due_payee(store, at):
    payee = make_payee((await add_companion(store)).id, next_at=at)
    await store.run_transaction(lambda tx: tx.payees.save_payee(payee))


async def add_due_operation(store, at):
    booking = await add_booking(store, change={"orders": (make_refund_order(),)})
    [operation] = await read_store(store, lambda view: view.operations.operations_of(booking.id))
    due = evolve(operation, next_at=at)
    await store.run_transaction(lambda tx: tx.operations.save_operation(due))


async def add_due_event(store, at):
    event = make_processor_event()
    await store.run_transaction(lambda tx: tx.inbox.add_event("fake", event, at))


async def add_due_timer(store, at):
    await add_booking(store, change={"due": DueTimer(TimerKind.EXPIRE, at)})


async def add_due_notification(store, at):
    await store.run_transaction(
        lambda tx: tx.notifications.add_notifications([make_notification()], at)
    )


CLAIMS: Mapping[str, tuple[Any, Any]] = {
    "payees": (
        add_due_payee,
        lambda tx, now, lease: tx.payees.claim_payees("fake", now, lease, 9),
    ),
    "operations": (
        add_due_operation,
        lambda tx, now, lease: tx.operations.claim_operations(now, lease, 9),
    ),
    "inbox": (add_due_event, lambda tx, now, lease: tx.inbox.claim_events(now, lease, 9)),
    "timers": (add_due_timer, lambda tx, now, lease: tx.timers.claim_timers(now, now, lease, 9)),
    "notifications": (
        add_due_notification,
        lambda tx, now, lease: tx.notifications.claim_notifications(now, lease, 9),
    ),
}
"""By family: adds a row that is due at a time, and claims what is due."""


class _Stop(Exception):
    """The error that units of work in these tests raise."""


class FamiliesContract(StoreContract):
    """Every family takes part in the store's transactions, and keeps microseconds."""

    async def test_each_family_has_its_methods(self, store):
        """A view and a transaction have each family with the methods of its port."""
        await check_store(store)

    @pytest.mark.parametrize("family", CHANGES)
    async def test_a_family_is_rolled_back(self, store, family):
        """What a family wrote in a transaction that raised is not there."""
        change = await CHANGES[family](store)
        before = await read_store(store, change.read)

        async def work(tx):
            await change.write(tx)
            raise _Stop

        with pytest.raises(_Stop):
            await store.run_transaction(work)
        assert await read_store(store, change.read) == before != change.found

    @pytest.mark.parametrize("family", CHANGES)
    async def test_a_family_is_seen_when_committed(self, store, family):
        """What a family wrote is seen by the transaction's own view; by others when it is
        committed, with the microseconds of its times."""
        change = await CHANGES[family](store)
        before = await read_store(store, change.read)
        async with store.open_transaction(change.write) as opened:
            assert await read_store(store, change.read) == before
            assert await change.read(opened.view) == change.found
        assert await read_store(store, change.read) == change.found

    async def test_an_inbox_is_rolled_back(self, store):
        """A processor event of a transaction that raised is new when it comes again."""
        event = make_processor_event()

        async def work(tx):
            await tx.inbox.add_event("fake", event, NOW)
            raise _Stop

        with pytest.raises(_Stop):
            await store.run_transaction(work)
        assert await store.run_transaction(lambda tx: tx.inbox.add_event("fake", event, NOW))

    @pytest.mark.parametrize("family", CLAIMS)
    async def test_claims_compare_microseconds(self, store, family):
        """A row is claimed from the microsecond on at which it is due, and again from the
        microsecond on at which the lease ends."""
        add, claim = CLAIMS[family]
        await add(store, FINE)
        until = FINE + HOUR

        async def count(now):
            lease = evolve(make_lease(), until=until)
            return len(await store.run_transaction(lambda tx: claim(tx, now, lease)))

        counts = [await count(now) for now in (FINE - TICK, FINE, until - TICK)]
        until += HOUR
        assert [*counts, await count(until - HOUR)] == [0, 1, 0, 1]
