"""The rows of the memory store, and copy-on-write transactions over them.

A transaction works on a fork of the state. Forks share tables until their first change, and rows
are immutable: a commit takes over the fork's tables, a rollback drops the fork.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Generic, TypeVar

from attrs import define, field, fields, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.audit import AuditEntry
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import DisputeFile, DisputeStatement
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.portfolio import Image, PortfolioItem
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Conversation, Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.domain.shared.rate_limits import RateLimitWindow
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    CustomerCompanionPair,
    Hint,
    ImportProgress,
    Lease,
    Notification,
    NotificationKind,
    RebookingCredit,
    ReconciliationRun,
    SentMail,
    SkippedRow,
    StoredResponse,
)

K = TypeVar("K")
V = TypeVar("V")


class Table(Generic[K, V]):
    """A copy-on-write dictionary, so that forks are cheap."""

    __slots__ = ("_owned", "_rows")

    def __init__(self, rows: dict[K, V] | None = None) -> None:
        self._rows: dict[K, V] = {} if rows is None else rows
        self._owned = False

    def fork(self) -> Table[K, V]:
        """A table with the same rows; later changes to either are invisible to the other."""
        self._owned = False
        return Table(self._rows)

    def get(self, key: K) -> V | None:
        return self._rows.get(key)

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def values(self) -> ValuesView[V]:
        return self._rows.values()

    def items(self) -> ItemsView[K, V]:
        return self._rows.items()

    def __setitem__(self, key: K, row: V) -> None:
        self._make_writable()[key] = row

    def discard(self, key: K) -> None:
        """Delete a row, if it exists."""
        if key in self._rows:
            del self._make_writable()[key]

    def _make_writable(self) -> dict[K, V]:
        if not self._owned:
            self._rows, self._owned = dict(self._rows), True
        return self._rows


# Rows that are more than an entity of the core ------------------------------------------


@frozen
class CompanionRow:
    """A companion with its encoded responses and its search keys."""

    companion: Companion
    summary: bytes
    detail: bytes
    sort_key: tuple[Decimal, int, int]
    """Ascending in the order of CONTRACT 3."""
    locations: tuple[str, str]
    services: frozenset[str]


@frozen
class EventRow:
    event: PublishedEvent
    body: bytes = field(repr=False)
    position: int | None = None
    request_id: str | None = None


@frozen
class AlertRow:
    alert: StoredAlert
    is_sent: bool = False
    lease: Lease | None = None


@frozen
class NoticeRow:
    notice: Notification
    due_at: datetime
    attempts: int = 0
    lease: Lease | None = None
    request_id: str | None = None


@frozen
class OperationRow:
    operation: Operation
    lease: Lease | None = None


@frozen
class TimerRow:
    kind: TimerKind
    due_at: datetime
    attempts: int = 0
    not_before: datetime | None = None
    lease: Lease | None = None


@frozen
class ProcessorEventRow:
    event: ProcessorEvent
    received_at: datetime
    next_at: datetime
    is_done: bool = False
    lease: Lease | None = None


@frozen
class ReconciliationRow:
    run: ReconciliationRun
    lease: Lease | None = None


@frozen
class PayeeRow:
    payee: Payee
    lease: Lease | None = None


@frozen
class CalendarSubscriptionRow:
    subscription: CalendarSubscription
    lease: Lease | None = None


@frozen
class EndpointRow:
    """An endpoint, when its next batch is due, and the lease of its current batch."""

    endpoint: WebhookEndpoint
    due_at: datetime | None = None
    lease: Lease | None = None


@frozen
class DeliveryRow:
    delivery: Delivery
    due_at: datetime
    """When it is due or, once finished, was last due; retention counts from then."""
    attempts: tuple[DeliveryAttempt, ...] = ()
    body: bytes | None = field(default=None, repr=False)
    """The body of a test delivery, whose event is in no feed."""


@frozen
class ConversationRow:
    conversation: Conversation
    is_open: bool
    """A group that is not open is invisible to everybody."""


@frozen
class StoredResponseRow:
    response: StoredResponse
    lease: Lease | None = None
    """The lease of a call in progress."""


def is_lease_active(lease: Lease | None, now: datetime) -> bool:
    """Whether a lease has not expired; `now` is wall time."""
    return lease is not None and now < lease.until


def holds_lease(stored: Lease | None, presented: Lease) -> bool:
    """Whether the presented lease is the stored one. It may be expired until the next claim."""
    return stored is not None and stored.token == presented.token


@define
class MemoryState:
    """Transactional state. Tables named `…_of` and `…_by…` are indexes of other tables."""

    users: Table[int, User] = field(factory=Table)
    acceptances: Table[int, int] = field(factory=Table)
    """How many bookings each companion has accepted."""
    user_by_email: Table[str, int] = field(factory=Table)
    sessions: Table[bytes, Session] = field(factory=Table)
    login_addresses: Table[tuple[int, bytes], datetime] = field(factory=Table)
    """By user and digest: the time of the last login."""
    saved_people: Table[tuple[int, int], datetime] = field(factory=Table)
    """When a customer saved a companion, by both ids."""
    keys: Table[int, ApiKey] = field(factory=Table)
    key_by_digest: Table[bytes, int] = field(factory=Table)
    audit: Table[int, AuditEntry] = field(factory=Table)
    companions: Table[int, CompanionRow] = field(factory=Table)
    bookings: Table[int, Booking] = field(factory=Table)
    booking_by_code: Table[str, int] = field(factory=Table)
    bookings_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By companion."""
    stored_responses: Table[tuple[str, str], StoredResponseRow] = field(factory=Table)
    credits: Table[int, RebookingCredit] = field(factory=Table)
    events: Table[str, EventRow] = field(factory=Table)
    events_of: Table[int, tuple[str, ...]] = field(factory=Table)
    """By booking."""
    event_by_position: Table[int, str] = field(factory=Table)
    """In the order of positions."""
    operations: Table[int, OperationRow] = field(factory=Table)
    operations_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By booking, in the order of their numbers."""
    postings: Table[str, Posting] = field(factory=Table)
    postings_of: Table[int, tuple[str, ...]] = field(factory=Table)
    """By booking, in the order of creation."""
    alerts: Table[int, AlertRow] = field(factory=Table)
    timers: Table[int, TimerRow] = field(factory=Table)
    processor_events: Table[tuple[str, str], ProcessorEventRow] = field(factory=Table)
    cursors: Table[str, tuple[str, datetime]] = field(factory=Table)
    reconciliations: Table[int, ReconciliationRow] = field(factory=Table)
    payees: Table[tuple[str, int], PayeeRow] = field(factory=Table)
    payee_by_ref: Table[tuple[str, str], int] = field(factory=Table)
    """The companion's id, by provider and reference."""
    reviews: Table[int, Review] = field(factory=Table)
    review_by_party: Table[tuple[int, int], int] = field(factory=Table)
    """By booking and reviewer."""
    reviews_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By reviewee, the oldest first."""
    endpoints: Table[int, EndpointRow] = field(factory=Table)
    deliveries: Table[int, DeliveryRow] = field(factory=Table)
    deliveries_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By endpoint, in the order of creation."""
    delivery_by_event: Table[tuple[int, str], int] = field(factory=Table)
    """By endpoint and event."""
    notices: Table[int, NoticeRow] = field(factory=Table)
    muted_kinds: Table[int, frozenset[NotificationKind]] = field(factory=Table)
    """By user."""
    inquiries: Table[int, Inquiry] = field(factory=Table)
    conversations: Table[int, ConversationRow] = field(factory=Table)
    direct_by_pair: Table[CustomerCompanionPair, int] = field(factory=Table)
    group_by_event: Table[tuple[int, str], int] = field(factory=Table)
    """By customer and event reference."""
    conversations_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By current and former member."""
    messages: Table[int, Message] = field(factory=Table)
    """Ids start at 1 and have no gaps."""
    messages_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By conversation, in id order."""
    message_by_client_id: Table[tuple[int, int, str], int] = field(factory=Table)
    """By conversation, sender and client id."""
    last_notified_messages: Table[tuple[int, int], int] = field(factory=Table)
    """The id of the last notified message, by conversation and user."""
    checkpoints: Table[str, int] = field(factory=Table)
    """The last processed id, by the checkpoint's name."""
    node_expiries: Table[str, datetime] = field(factory=Table)
    """When each node's lease expires."""
    connection_counts: Table[tuple[int, str], int] = field(factory=Table)
    """By user and node."""
    last_seen: Table[int, datetime] = field(factory=Table)
    """By user."""
    unclaimed_departures: Table[int, None] = field(factory=Table)
    """The users whose missed messages were not looked at since `last_seen` was set."""
    portfolio: Table[int, PortfolioItem] = field(factory=Table)
    images: Table[str, Image] = field(factory=Table)
    orphaned_files: Table[str, None] = field(factory=Table)
    """Names of files that nobody owns, and that are not deleted yet."""
    dispute_statements: Table[int, DisputeStatement] = field(factory=Table)
    dispute_files: Table[str, DisputeFile] = field(factory=Table)
    calendar_feeds: Table[int, tuple[bytes, datetime]] = field(factory=Table)
    """The secret's digest and its creation time, by companion."""
    calendar_subscriptions: Table[int, CalendarSubscriptionRow] = field(factory=Table)
    imports: Table[str, ImportProgress] = field(factory=Table)
    skipped_rows: Table[tuple[str, int], SkippedRow] = field(factory=Table)
    """By fingerprint and line."""
    sample_accounts: Table[int, None] = field(factory=Table)
    """The users that `staffbooking demo` created, as which visitors may sign in."""
    sent_mails: Table[int, SentMail] = field(factory=Table)
    clock_offset: timedelta = timedelta()

    def fork(self) -> MemoryStateFork:
        return MemoryStateFork(self)


_TABLES = frozenset(part.name for part in fields(MemoryState) if part.name != "clock_offset")


class MemoryStateFork(MemoryState):
    """A state with the same rows. A table is forked when it is first used: most transactions use
    few of them."""

    __slots__ = ("_origin", "_used")

    def __init__(self, origin: MemoryState) -> None:
        self._origin = origin
        self._used: list[str] = []
        self.clock_offset = origin.clock_offset

    def __getattr__(self, name: str) -> Table[Any, Any]:
        if name not in _TABLES:
            raise AttributeError(name)
        self._used.append(name)
        table: Table[Any, Any] = getattr(self._origin, name).fork()
        setattr(self, name, table)
        return table

    def commit(self) -> None:
        """Make the changes in the state from which this one was forked."""
        for name in self._used:
            setattr(self._origin, name, getattr(self, name))
        self._origin.clock_offset = self.clock_offset


@define
class SharedState:
    """State outside transactions: id sequences, rate limit windows and times of last use."""

    user_ids: Iterator[int] = field(factory=lambda: count(1))
    key_ids: Iterator[int] = field(factory=lambda: count(1))
    audit_ids: Iterator[int] = field(factory=lambda: count(1))
    booking_ids: Iterator[int] = field(factory=lambda: count(1))
    operation_ids: Iterator[int] = field(factory=lambda: count(1))
    alert_ids: Iterator[int] = field(factory=lambda: count(1))
    review_ids: Iterator[int] = field(factory=lambda: count(1))
    endpoint_ids: Iterator[int] = field(factory=lambda: count(1))
    delivery_ids: Iterator[int] = field(factory=lambda: count(1))
    portfolio_ids: Iterator[int] = field(factory=lambda: count(1))
    calendar_subscription_ids: Iterator[int] = field(factory=lambda: count(1))
    notice_ids: Iterator[int] = field(factory=lambda: count(1))
    inquiry_ids: Iterator[int] = field(factory=lambda: count(1))
    conversation_ids: Iterator[int] = field(factory=lambda: count(1))
    statement_ids: Iterator[int] = field(factory=lambda: count(1))
    mail_ids: Iterator[int] = field(factory=lambda: count(1))
    rate_limit_windows: dict[str, RateLimitWindow] = field(factory=dict)
    key_last_used_at: dict[int, datetime] = field(factory=dict)
    key_calls: dict[tuple[int, datetime], int] = field(factory=dict)


@define
class MemoryTransaction:
    """What readers and writers work on: the committed state, or a fork of it."""

    state: MemoryState
    shared: SharedState
    policy: Policy
    hints: set[Hint] = field(factory=set)
    """The hints to send after the commit."""
