"""All rows of the memory store, and how a unit of work changes them without being seen.

A unit of work gets a fork of the state: tables are shared until they are changed, and
rows never change, so a rollback is to forget the fork and a commit to put it in place.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from copy import copy
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Generic, TypeVar

from attrs import define, field, fields, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.portfolio import Image, PortfolioItem
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Conversation, Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import Operation, ProcessorEvent
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
    SkippedRow,
    StoredResponse,
)

K = TypeVar("K")
V = TypeVar("V")


class Table(Generic[K, V]):
    """A dictionary that is copied at its first change, so that forks are free."""

    __slots__ = ("_owned", "_rows")

    def __init__(self, rows: dict[K, V] | None = None) -> None:
        self._rows: dict[K, V] = {} if rows is None else rows
        self._owned = False

    def fork(self) -> Table[K, V]:
        """The same rows; neither sees what the other changes from now on."""
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
        """Take a row away, if it is there."""
        if key in self._rows:
            del self._make_writable()[key]

    def _make_writable(self) -> dict[K, V]:
        if not self._owned:
            self._rows, self._owned = dict(self._rows), True
        return self._rows


# Rows that are more than an entity of the core ------------------------------------------


@frozen
class CompanionRow:
    """A companion with its ready-made answers, and in the forms that a search compares."""

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


@frozen
class AlertRow:
    at: datetime
    booking_id: int
    text: str
    is_sent: bool = False


@frozen
class NoticeRow:
    notice: Notification
    due_at: datetime
    attempts: int = 0
    lease: Lease | None = None


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
class PayeeRow:
    payee: Payee
    lease: Lease | None = None


@frozen
class EndpointRow:
    """An endpoint, when it wants its next turn, and who has one now."""

    endpoint: WebhookEndpoint
    due_at: datetime | None = None
    lease: Lease | None = None


@frozen
class DeliveryRow:
    delivery: Delivery
    due_at: datetime
    """When it was due last: once it is done, it is kept for a while from then on."""
    attempts: tuple[DeliveryAttempt, ...] = ()
    body: bytes | None = field(default=None, repr=False)
    """Its own, where its event stands in no feed."""


@frozen
class ConversationRow:
    conversation: Conversation
    is_open: bool
    """A group that is not is not there for anybody yet."""


def is_lease_active(lease: Lease | None, now: datetime) -> bool:
    """Whether somebody's claim still holds; `now` is wall time."""
    return lease is not None and now < lease.until


def holds_lease(stored: Lease | None, presented: Lease) -> bool:
    """Whether a claim is still the holder's: one that ran out is, until another claims."""
    return stored is not None and stored.token == presented.token


@define
class MemoryState:
    """What transactions keep. Tables named `…_of` and `…_by…` are indexes of others."""

    users: Table[int, User] = field(factory=Table)
    user_by_email: Table[str, int] = field(factory=Table)
    sessions: Table[bytes, Session] = field(factory=Table)
    keys: Table[int, ApiKey] = field(factory=Table)
    key_by_digest: Table[bytes, int] = field(factory=Table)
    companions: Table[int, CompanionRow] = field(factory=Table)
    bookings: Table[int, Booking] = field(factory=Table)
    booking_by_code: Table[str, int] = field(factory=Table)
    bookings_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By companion."""
    stored_responses: Table[tuple[str, str], StoredResponse] = field(factory=Table)
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
    """By booking, in the order of their making."""
    alerts: Table[int, AlertRow] = field(factory=Table)
    timers: Table[int, TimerRow] = field(factory=Table)
    processor_events: Table[tuple[str, str], ProcessorEventRow] = field(factory=Table)
    cursors: Table[str, tuple[str, datetime]] = field(factory=Table)
    payees: Table[tuple[str, int], PayeeRow] = field(factory=Table)
    payee_by_ref: Table[tuple[str, str], int] = field(factory=Table)
    """The companion's id, by provider and reference."""
    reviews: Table[int, Review] = field(factory=Table)
    review_by_party: Table[tuple[int, int], int] = field(factory=Table)
    """By booking and reviewer."""
    reviews_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By who is reviewed, the oldest first."""
    endpoints: Table[int, EndpointRow] = field(factory=Table)
    deliveries: Table[int, DeliveryRow] = field(factory=Table)
    deliveries_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By endpoint, in the order of their making."""
    delivery_by_event: Table[tuple[int, str], int] = field(factory=Table)
    """By endpoint and event."""
    notices: Table[int, NoticeRow] = field(factory=Table)
    muted_kinds: Table[int, frozenset[NotificationKind]] = field(factory=Table)
    """By user."""
    inquiries: Table[int, Inquiry] = field(factory=Table)
    conversations: Table[int, ConversationRow] = field(factory=Table)
    direct_by_pair: Table[CustomerCompanionPair, int] = field(factory=Table)
    group_by_event: Table[tuple[int, str], int] = field(factory=Table)
    """By customer and reference."""
    conversations_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By who is or was in them."""
    messages: Table[int, Message] = field(factory=Table)
    """Numbered from 1 without a gap."""
    messages_of: Table[int, tuple[int, ...]] = field(factory=Table)
    """By conversation, in the order of ids."""
    message_by_client_id: Table[tuple[int, int, str], int] = field(factory=Table)
    """By conversation, sender and the sender's own id."""
    last_notified_messages: Table[tuple[int, int], int] = field(factory=Table)
    """The last message that somebody was told of, by conversation and user."""
    checkpoints: Table[str, int] = field(factory=Table)
    """How far something went, by its name."""
    node_expiries: Table[str, datetime] = field(factory=Table)
    """Until when each is alive."""
    connection_counts: Table[tuple[int, str], int] = field(factory=Table)
    """How many, by user and node."""
    last_seen: Table[int, datetime] = field(factory=Table)
    """By user."""
    portfolio: Table[int, PortfolioItem] = field(factory=Table)
    images: Table[str, Image] = field(factory=Table)
    orphaned_images: Table[str, Image] = field(factory=Table)
    """Those that nobody has any more, and whose files are still to be removed."""
    calendar_feeds: Table[int, tuple[bytes, datetime]] = field(factory=Table)
    """The digest of the secret, and since when; by companion."""
    imports: Table[str, ImportProgress] = field(factory=Table)
    skipped_rows: Table[tuple[str, int], SkippedRow] = field(factory=Table)
    """By fingerprint and line."""
    clock_offset: timedelta = timedelta()

    def fork(self) -> MemoryState:
        forked = copy(self)
        for name in _TABLES:
            setattr(forked, name, getattr(self, name).fork())
        return forked


_TABLES = tuple(part.name for part in fields(MemoryState) if part.name != "clock_offset")


@define
class SharedState:
    """What no transaction keeps: numbers are given once, hits and uses stay counted."""

    user_ids: Iterator[int] = field(factory=lambda: count(1))
    key_ids: Iterator[int] = field(factory=lambda: count(1))
    booking_ids: Iterator[int] = field(factory=lambda: count(1))
    operation_ids: Iterator[int] = field(factory=lambda: count(1))
    alert_ids: Iterator[int] = field(factory=lambda: count(1))
    review_ids: Iterator[int] = field(factory=lambda: count(1))
    endpoint_ids: Iterator[int] = field(factory=lambda: count(1))
    delivery_ids: Iterator[int] = field(factory=lambda: count(1))
    portfolio_ids: Iterator[int] = field(factory=lambda: count(1))
    notice_ids: Iterator[int] = field(factory=lambda: count(1))
    inquiry_ids: Iterator[int] = field(factory=lambda: count(1))
    conversation_ids: Iterator[int] = field(factory=lambda: count(1))
    rate_limit_windows: dict[str, RateLimitWindow] = field(factory=dict)
    key_last_used_at: dict[int, datetime] = field(factory=dict)


@define
class MemoryTransaction:
    """Where the families of the store find their rows: the committed state, or a fork."""

    state: MemoryState
    shared: SharedState
    policy: Policy
    hints: set[Hint] = field(factory=set)
    """What the fork will be worth a hint for, once it is committed."""
