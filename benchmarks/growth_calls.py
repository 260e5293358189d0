"""The calls of the store that `benchmarks.growth` measures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from attrs import evolve

from benchmarks.growth_rows import FIRST_ID, Originals, RowCopier
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.webhooks.deliveries import WEBHOOK_EVENTS, DeliveryGroup
from staffbooking_core.ports import BookingQuery, Lease, OpenTransaction

Call: TypeAlias = Callable[[OpenTransaction[None]], Awaitable[object]]


def reads(made: Originals, copier: RowCopier) -> Mapping[str, Call]:
    return {
        **_booking_reads(made, copier),
        **_money_reads(made, copier),
        **_message_reads(made, copier),
        **_webhook_reads(made, copier),
        **_export_reads(made),
    }


def _bookings(query: BookingQuery) -> Call:
    return lambda opened: opened.view.bookings.bookings(query)


def _booking_reads(made: Originals, copier: RowCopier) -> Mapping[str, Call]:
    few, page = FIRST_ID + 7, 10
    customer, staff, api = (
        frozenset({party}) for party in (Party.CUSTOMER, Party.STAFF, Party.API)
    )
    of_all = BookingQuery(None, limit=50)
    of_customer = BookingQuery(made.customer, customer, limit=50)
    of_staff = BookingQuery(made.companion, staff, limit=50, priority_first=True)
    of_agency = BookingQuery(made.customer, api, limit=50)
    lists = {
        "bookings of a customer with 90": BookingQuery(few, limit=50),
        "bookings of a busy customer": of_customer,
        f"the same, page {page}": evolve(of_customer, page=page),
        "bookings of busy staff": of_staff,
        "bookings made by an agency": of_agency,
        "bookings of any side": BookingQuery(made.customer, limit=50),
        "all bookings": of_all,
        f"all bookings, page {page}": evolve(of_all, page=page),
    }
    parties = {
        "busy customer": of_customer,
        "busy staff": of_staff,
        "agency": of_agency,
        "all bookings": of_all,
    }
    for name, query in parties.items():
        for status in (BookingStatus.COMPLETED, BookingStatus.PENDING, BookingStatus.DISPUTED):
            lists[f"{name}, {status}"] = evolve(query, status=status)
    start = made.now - timedelta(hours=copier.size // 2)
    span = Interval(start, start + timedelta(days=31))
    rival = FIRST_ID + 1009  # One of the busy companion's.
    return {
        **{name: _bookings(query) for name, query in lists.items()},
        "busy staff from now on": lambda opened: opened.view.bookings.bookings_since(
            made.companion, made.now, 500
        ),
        "busy staff, a month": lambda opened: opened.view.bookings.bookings_within(
            made.companion, span, 500
        ),
        "competing requests": lambda opened: opened.transaction.bookings.lock_competing_bookings(
            rival, timedelta(0)
        ),
        "bookings that hang on a busy customer": (
            lambda opened: opened.view.bookings.open_bookings_of(made.customer, 0, 100)
        ),
        "request context": lambda opened: opened.view.bookings.request_context(
            made.companion, None, made.customer, made.now.date()
        ),
    }


def _money_reads(made: Originals, copier: RowCopier) -> Mapping[str, Call]:
    companion, now = made.companion, made.now
    year = (now.date() - timedelta(days=365), now.date())
    return {
        "earnings of a year": lambda opened: opened.view.bookings.earnings_of(
            companion, *year, 500
        ),
        "open earnings": lambda opened: opened.view.bookings.open_earnings_of(companion, 500),
        "open payouts": lambda opened: opened.view.bookings.open_payouts(51),
        "failed payouts": lambda opened: opened.view.bookings.open_payouts(
            51, 0, PayoutStatus.FAILED
        ),
        "disputes": lambda opened: opened.view.bookings.disputed_bookings(1, 50),
        "failed refunds": lambda opened: opened.view.operations.failed_refunds(51),
        "unsettled bookings": lambda opened: opened.view.bookings.unsettled_bookings(0, 500),
        "alerts": lambda opened: opened.view.alerts.alerts(51),
        "audit": lambda opened: opened.view.audit.audit_entries(51),
        "inquiries": lambda opened: opened.view.notifications.newest_inquiries(None, 51),
        "backlog (metrics)": lambda opened: opened.view.metrics.backlog(now),
        "waiting for operators": lambda opened: opened.view.metrics.waiting(now),
    }


def _message_reads(made: Originals, copier: RowCopier) -> Mapping[str, Call]:
    few, many = FIRST_ID + 7, made.customer
    last, now, big = FIRST_ID + copier.size, made.now, made.conversation

    def of_user(name: str, user: int) -> Mapping[str, Call]:
        return {
            f"conversations to open, {name}": (
                lambda opened: opened.view.messages.pairs_without_conversation(user, 500)
            ),
            f"conversation list, {name}": (
                lambda opened: opened.view.messages.overviews(user, 1, 50, now)
            ),
            f"unread messages, {name}": lambda opened: opened.view.messages.unread_count(user),
            f"last message, {name}": lambda opened: opened.view.messages.last_message_id(user),
            f"resume near the end, {name}": (
                lambda opened: opened.view.messages.readable_messages_after(user, last - 20, 100)
            ),
            f"who is online, {name}": (
                lambda opened: opened.view.presence.online_conversation_partners(user, now)
            ),
        }

    return {
        **of_user("one conversation", few),
        **of_user("many conversations", many),
        "messages of a long conversation": lambda opened: opened.view.messages.messages_before(
            big, None, last, 51
        ),
        "the same, from the middle": lambda opened: opened.view.messages.messages_before(
            big, FIRST_ID + copier.size // 2, last, 51
        ),
        "resume from the beginning": lambda opened: opened.view.messages.readable_messages_after(
            many, 0, 100
        ),
    }


def _webhook_reads(made: Originals, copier: RowCopier) -> Mapping[str, Call]:
    middle, last = FIRST_ID + copier.size // 2, FIRST_ID + copier.size

    def feed(reader: int | None, after: int) -> Call:
        return lambda opened: opened.view.webhooks.feed_events_after(
            reader, after, WEBHOOK_EVENTS, 101
        )

    def deliveries(
        endpoint: int = made.endpoint,
        page: int = 1,
        group: DeliveryGroup | None = None,
        event: str | None = None,
    ) -> Call:
        return lambda opened: opened.view.webhooks.deliveries(endpoint, page, 50, group, event)

    page, since = 10, datetime.now(UTC) - timedelta(days=1)
    return {
        **{
            f"feed of {name}, {place}": feed(reader, after)
            for name, reader in (("a busy party", made.customer), ("all", None))
            for place, after in (("start", 0), ("middle", middle), ("end", last - 5))
        },
        "deliveries": deliveries(),
        "deliveries, succeeded": deliveries(group=DeliveryGroup.SUCCEEDED),
        "deliveries, failed": deliveries(group=DeliveryGroup.FAILED),
        "deliveries, cancelled": deliveries(group=DeliveryGroup.CANCELLED),
        "deliveries, a rare event": deliveries(event="booking.completed"),
        f"deliveries, page {page}": deliveries(page=page),
        "unfinished deliveries, many": deliveries(
            made.endpoint + 1, group=DeliveryGroup.UNFINISHED
        ),
        "a delivery": lambda opened: opened.view.webhooks.delivery(FIRST_ID + 1),
        "attempts of a delivery": lambda opened: opened.view.webhooks.attempts_of(FIRST_ID + 1),
        "counts of deliveries": lambda opened: opened.view.webhooks.delivery_counts(made.endpoint),
        "attempts since yesterday": lambda opened: opened.view.webhooks.attempts_since(since, 100),
        "webhook figures (metrics)": lambda opened: opened.view.webhooks.stats(since),
    }


def _export_reads(made: Originals) -> Mapping[str, Call]:
    """A page of each kind of the data export."""
    busy, after = made.customer, 0
    return {
        "export: bookings": lambda opened: opened.view.personal_data.bookings_of(busy, after, 100),
        "export: messages": lambda opened: opened.view.personal_data.messages_sent_by(
            busy, after, 100
        ),
        "export: reviews": lambda opened: opened.view.personal_data.reviews_written_by(
            busy, after, 100
        ),
    }


def claims(made: Originals, copier: RowCopier, due: str) -> Mapping[str, Call]:
    """What the jobs of a worker ask for."""
    now = datetime.now(UTC)
    lease = Lease("a-token", now + timedelta(minutes=1))

    def operations(*kinds: OperationKind) -> Call:
        wanted = frozenset(kinds)
        return lambda opened: opened.transaction.operations.claim_operations(
            now, lease, 1, kinds=wanted
        )

    calls: Mapping[str, Call] = {
        "timers": lambda opened: opened.transaction.timers.claim_timers(made.now, now, lease, 16),
        "refunds": operations(OperationKind.REFUND, OperationKind.REVERSE_PAYOUT),
        "payouts": operations(OperationKind.PAY_OUT),
        "reversals": operations(OperationKind.REVERSE_PAYOUT),
        "processor events": lambda opened: opened.transaction.inbox.claim_events(now, lease, 16),
        "notices": lambda opened: opened.transaction.notifications.claim_notifications(
            now, lease, 100
        ),
        "alerts": lambda opened: opened.transaction.alerts.claim_alert(now, lease),
        "events to publish": lambda opened: opened.view.webhooks.unsequenced_events(200),
        "last feed position": lambda opened: opened.transaction.webhooks.lock_feed(),
        "deliveries to send": lambda opened: opened.transaction.webhooks.claim_batches(
            now, lease, 16, 16, degraded=False
        ),
        "endpoints rescheduled": lambda opened: opened.transaction.webhooks.release_endpoints(
            [made.endpoint + 1], now
        ),
        "endpoints with held deliveries": (
            lambda opened: opened.view.webhooks.endpoints_with_held_deliveries(0, 100)
        ),
        "deliveries held for long": (
            lambda opened: opened.transaction.webhooks.cancel_held_deliveries(
                now - timedelta(days=7), now, 100
            )
        ),
        "calendars to read": (
            lambda opened: opened.transaction.calendar_subscriptions.claim_subscriptions(
                now, lease, 4
            )
        ),
        "departed users": lambda opened: opened.transaction.presence.claim_departed_users(now, 20),
        "unread messages to tell of": (
            lambda opened: opened.view.messages.all_messages_after(
                FIRST_ID + copier.size - (100 if due.startswith("100") else 0), 200
            )
        ),
        "payees": lambda opened: opened.transaction.payees.claim_payees("fake", now, lease, 1),
        "runs of the reconciliation": (
            lambda opened: opened.transaction.reconciliations.claim_reconciliation(now, lease)
        ),
    }
    return {f"claim: {name}, {due}": call for name, call in calls.items()}
