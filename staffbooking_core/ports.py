"""Every port of the core, in one file; the docstrings state what types can't say.

A port speaks at the altitude of the use-cases: never of SQL, never of a vendor. Times are
aware UTC. Wall-clock times and business times (moved by the sandbox) are told apart by
name: `now` of a lease, key or session is wall time, `now` of a booking is business time.

Errors: every method of a store may raise `Unavailable`; writing methods raise
`ConstraintViolated` by the names below and `Conflict` where a version is not the one
that was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime, timedelta
from typing import Protocol, TypeVar

from attrs import frozen

from staffbooking_core.domain.accounts import Role, Session, Subscription, User
from staffbooking_core.domain.bookings import Booking, Due, TimerKind
from staffbooking_core.domain.calendar import Calendar, Interval
from staffbooking_core.domain.companions import Companion, CompanionQuery
from staffbooking_core.domain.events import Event
from staffbooking_core.domain.keys import ApiKey, Permission
from staffbooking_core.domain.ledger import Posting
from staffbooking_core.domain.lifecycle import Party, Status
from staffbooking_core.domain.limits import Rule, Verdict
from staffbooking_core.domain.payments import (
    Checkout,
    Nudge,
    OpenCheckout,
    Operation,
    OpKey,
    Order,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.policy import Policy

T = TypeVar("T")

# Names of constraints, the same on every store ------------------------------------------

OVERLAP = "ex_bookings_overlap"
"""Two bookings of a companion that hold their slot overlap."""
EMAIL_TAKEN = "uq_users_email"
ANSWER_KEPT = "uq_answers_key"
"""An answer is kept already for this caller and idempotency key."""

# Values that cross the ports --------------------------------------------------------------


@frozen
class Lease:
    """A claim on a row for a while. A holder that has lost it can't write: the token is
    checked with every save of what was claimed (fencing)."""

    token: str
    until: datetime


@frozen
class NewUser:
    email: str
    first_name: str
    last_name: str
    role: Role
    created_at: datetime
    password_hash: str | None = None
    subscription: Subscription = Subscription.NONE
    subscription_expires_at: datetime | None = None


@frozen
class NewKey:
    owner_id: int
    name: str
    digest: bytes
    masked_key: str
    permissions: frozenset[Permission]
    created_at: datetime
    expires_at: datetime | None = None


@frozen
class Agenda:
    """A companion's calendar with what is taken of it."""

    companion_id: int
    calendar: Calendar
    busy: tuple[Interval, ...]


@frozen
class Bookable:
    """What of a companion a booking request has to know; only listed ones are given."""

    id: int
    name: str
    hourly_rate: int
    daily_rate: int | None
    service_types: tuple[str, ...]
    calendar: Calendar
    busy: tuple[Interval, ...]


@frozen
class Candidate:
    """A companion that may stand in, as its ready-made summary, with its agenda."""

    summary: bytes
    agenda: Agenda


@frozen
class RequestContext:
    """All that a booking request is decided on, read in one round trip.

    `booking_id` is the number that the booking will have; it may stay unused.
    """

    booking_id: int
    companion: Bookable | None
    customer: User | None


@frozen
class Answer:
    """A kept answer of an idempotent call: the first one, byte for byte (CONTRACT 4)."""

    scope: str
    key: str
    fingerprint: bytes
    """Digest of the request's body."""
    status: int
    body: bytes
    expires_at: datetime


@frozen
class Credit:
    """A priority rebooking, granted with the cancellation of `booking_id`."""

    booking_id: int
    customer_id: int
    expires_at: datetime
    used_by: int | None = None


@frozen
class Change:
    """One step of one booking with all its rows: saved together or not at all."""

    booking: Booking
    due: Due | None
    at: datetime
    """Wall time: when its operations may first be sent."""
    event: Event | None = None
    postings: tuple[Posting, ...] = ()
    orders: tuple[Order, ...] = ()
    alerts: tuple[str, ...] = ()
    credit: Credit | None = None
    answer: Answer | None = None


@frozen
class BookingQuery:
    """A page of bookings that a user has part in; all bookings where `user_id` is None.

    Newest event first (starts_at, then id, descending); where `priority_first`, the
    pending priority requests come before all.
    """

    user_id: int | None
    sides: frozenset[Party] = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
    status: Status | None = None
    page: int = 1
    limit: int = 12
    priority_first: bool = False


@frozen
class Timer:
    """A claimed due time of a booking; `due_at` is business time."""

    booking_id: int
    kind: TimerKind
    due_at: datetime
    attempts: int


@frozen
class Audited:
    """One booking with everything that the ledger and the processor's rows say of it."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]


# The store ----------------------------------------------------------------------------------


class AccountsReading(Protocol):
    async def user(self, user_id: int) -> User | None: ...
    async def user_by_email(self, email: str) -> User | None:
        """Compared by `fold_email`."""
        ...

    async def users(self, after_id: int, limit: int) -> Sequence[User]:
        """In the order of ids, from the first above `after_id`."""
        ...

    async def session(self, digest: bytes) -> tuple[Session, User] | None: ...
    async def keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        """All, revoked ones too, the newest first."""
        ...

    async def key(self, key_id: int) -> ApiKey | None: ...


class AccountsWriting(AccountsReading, Protocol):
    async def lock_user(self, user_id: int) -> User | None:
        """The user, held until the unit of work ends."""
        ...

    async def add_user(self, user: NewUser) -> User:
        """Raises ConstraintViolated(EMAIL_TAKEN), by folded e-mail."""
        ...

    async def save_user(self, user: User) -> None:
        """Keeps `Companion.active` and the names of a staff user's companion in step."""
        ...

    async def add_session(self, session: Session) -> None: ...
    async def touch_session(self, digest: bytes, seen_at: datetime) -> None: ...
    async def end_session(self, digest: bytes) -> None: ...
    async def end_sessions_of(self, user_id: int) -> None: ...
    async def add_key(self, key: NewKey) -> ApiKey: ...
    async def revoke_key(self, key_id: int, at: datetime) -> None:
        """A key revoked already keeps its first time."""
        ...


class CompanionsReading(Protocol):
    async def search(self, query: CompanionQuery) -> Sequence[bytes]:
        """Ready-made summaries of listed companions, in the order of CONTRACT 3: up to
        `limit + 1` from the page's start, so that the caller sees whether more follow."""
        ...

    async def detail(self, companion_id: int) -> bytes | None:
        """The ready-made detail of a listed companion."""
        ...

    async def agenda(self, companion_id: int, first: datetime, last: datetime) -> Agenda | None:
        """Of a listed companion, with the busy intervals that touch [first, last]."""
        ...

    async def service_types(self) -> Sequence[tuple[str, int]]:
        """Each offered service by its most usual spelling, with how many listed companions
        offer it; by name."""
        ...

    async def candidates(
        self, service: str, day: date, first: datetime, last: datetime, limit: int
    ) -> Sequence[Candidate]:
        """Listed companions of a service with a free hour on the day, best first."""
        ...

    async def companion(self, companion_id: int) -> Companion | None:
        """Listed or not."""
        ...

    async def companions(self, after_id: int, limit: int) -> Sequence[Companion]: ...


class CompanionsWriting(CompanionsReading, Protocol):
    async def lock_companion(self, companion_id: int) -> Companion | None: ...
    async def save_companion(self, companion: Companion) -> None:
        """Insert or replace, with its ready-made bytes and all that searches look at."""
        ...

    async def busy(
        self, companion_id: int, first: datetime, last: datetime
    ) -> Sequence[Interval]: ...
    async def mark_days(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        """Say of days whether they have a free hour, where the weekly hours alone would
        say otherwise; None takes the mark away. Searches by date look at these marks."""
        ...


class BookingsReading(Protocol):
    async def booking(self, booking_id: int) -> Booking | None: ...
    async def booking_by_code(self, code: str) -> Booking | None: ...
    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        """Up to `limit + 1` rows from the page's start."""
        ...

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> RequestContext:
        """The customer is found by e-mail or by id, whichever is given; the busy intervals
        are all that a booking of up to 24 h starting on that local day could touch."""
        ...

    async def credit(self, booking_id: int) -> Credit | None: ...
    async def answer(self, scope: str, key: str, now: datetime) -> Answer | None:
        """The kept answer, unless it has expired."""
        ...

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        """Sequence and encoded envelope of each event, in order."""
        ...


class BookingsWriting(BookingsReading, Protocol):
    async def lock_booking(self, booking_id: int) -> Booking | None: ...
    async def lock_contenders(self, booking_id: int) -> Sequence[Booking]:
        """The booking and the pending ones of its companion whose time overlaps it, all
        held, in the order of ids; empty where there is no such booking."""
        ...

    async def save(self, change: Change) -> None:
        """Save a step of a booking that exists. Raises Conflict unless the stored version is
        one below, ConstraintViolated(OVERLAP) where the slot is taken."""
        ...

    async def add(self, change: Change) -> None:
        """Save the first step of a new booking."""
        ...

    async def use_credit(self, credit: Credit, used_by: int) -> bool:
        """Use the credit up for a booking; False if it was used before."""
        ...

    async def keep_answer(self, answer: Answer) -> None:
        """Raises ConstraintViolated(ANSWER_KEPT); an expired one is replaced."""
        ...


class MoneyReading(Protocol):
    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        """In the order of their numbers."""
        ...

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        """In the order in which they were made."""
        ...

    async def audit(self, after_id: int, limit: int) -> Sequence[Audited]:
        """A batch of bookings by id, each as of one moment."""
        ...

    async def imbalance(self) -> int:
        """The sum over all legs of all postings; anything but 0 is a fault."""
        ...

    async def payouts(self, limit: int) -> Sequence[Booking]:
        """Bookings whose payout is scheduled, failed or frozen, the earliest due first."""
        ...

    async def pending(self, now: datetime) -> int:
        """How many operations, timers and nudges are due: for health and metrics."""
        ...

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        """The newest alerts: when, of which booking, what."""
        ...


class MoneyWriting(MoneyReading, Protocol):
    async def claim_operations(
        self, now: datetime, lease: Lease, limit: int, booking_id: int | None = None
    ) -> Sequence[Operation]:
        """Claim due operations, the earliest first. Of each booking only the unfinished one
        with the lowest number is ever given, and none while another's lease on it runs:
        so at most one runs per booking. With `booking_id`, of that booking alone, due or not.
        """
        ...

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        """The claimed operation, held. Raises Conflict when the lease was lost."""
        ...

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        """Save its progress. With a lease: keep it claimed; without: release it."""
        ...

    async def claim_timers(
        self, business: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        """Claim due timers, the earliest due time first. Saving the booking sets its next
        timer and ends the claim."""
        ...

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        """Give a claimed timer back, not to be claimed before `until` (wall time)."""
        ...

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        """Alerts that nobody was told of yet, the oldest first: booking and text. They count
        as told once this unit of work commits."""
        ...

    async def add_nudge(self, provider: str, nudge: Nudge, now: datetime) -> bool:
        """Put an event into the inbox; False if its id is there already."""
        ...

    async def claim_nudges(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, Nudge]]:
        """Claim events that are not done, the oldest first, with their providers."""
        ...

    async def finish_nudge(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        """Done for good, or with `retry_at` to be looked at again."""
        ...


class SandboxReading(Protocol):
    async def clock_offset(self) -> timedelta:
        """How far business time is ahead of the wall clock; zero at first."""
        ...


class SandboxWriting(SandboxReading, Protocol):
    async def set_clock_offset(self, offset: timedelta) -> None:
        """The row is held by `lock_clock` before."""
        ...

    async def lock_clock(self) -> timedelta: ...


class Reading(Protocol):
    """A view for queries. Several reads in one view need not be of one moment."""

    @property
    def accounts(self) -> AccountsReading: ...
    @property
    def companions(self) -> CompanionsReading: ...
    @property
    def bookings(self) -> BookingsReading: ...
    @property
    def money(self) -> MoneyReading: ...
    @property
    def sandbox(self) -> SandboxReading: ...


class Writing(Protocol):
    """One transaction. Order of locks: users, bookings by id, companion, the rest."""

    @property
    def accounts(self) -> AccountsWriting: ...
    @property
    def companions(self) -> CompanionsWriting: ...
    @property
    def bookings(self) -> BookingsWriting: ...
    @property
    def money(self) -> MoneyWriting: ...
    @property
    def sandbox(self) -> SandboxWriting: ...


class Store(Protocol):
    def reading(self) -> AbstractAsyncContextManager[Reading]: ...
    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        """Run a unit of work in one transaction: committed when it returns, rolled back when
        it raises or is cancelled. It is repeated, a few times, where stores collide
        (`Conflict`, deadlocks): so it must decide anew from what it reads, and do nothing
        outside of the store."""
        ...

    async def add_booking(self, change: Change) -> None:
        """`Writing.bookings.add` as a unit of work of its own, in one round trip."""
        ...

    async def sweep(self, now: datetime, policy: Policy) -> int:
        """Delete what has expired (sessions, answers, windows); how many rows went."""
        ...


# Admission: credentials and limits ----------------------------------------------------------


@frozen
class KeyCaller:
    """The key that was shown, and its owner."""

    key: ApiKey
    owner: User


@frozen
class SessionCaller:
    session: Session
    user: User


class Admission(Protocol):
    """Look-ups of credentials and exact counting, shared by all processes of a deployment.

    Windows are named by scope, e.g. `general:key:7`. Requests that wait at the same moment
    may be looked up and counted together. A window's store out of reach never lets more
    through: each process then counts alone.
    """

    async def by_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[Rule],
        now: datetime,
    ) -> tuple[KeyCaller, Sequence[Verdict]]:
        """The caller of a key, counted in the key's window of each rule.

        Raises Unauthenticated (unknown, revoked or expired key, disabled owner) and
        Forbidden (`subscription_required`, `permission_required`), as
        `accounts.judge_key` decides; then nothing was counted. An exceeded window is in
        the verdicts, not an error."""
        ...

    async def by_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        """The session and its user, unless either has ended or is disabled."""
        ...

    async def hit(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        """Count one hit in a window."""
        ...

    async def look(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        """The state of a window, uncounted."""
        ...


# The processor ------------------------------------------------------------------------------


class Payments(Protocol):
    """A payment processor. Every method raises only the errors of `domain.payments`, and
    ends within `within` seconds: past that the outcome is `Unknown`. The same key with the
    same command gives the first answer again; it never moves money twice. `key.op_id` is
    kept with what a call makes and comes back in snapshots."""

    @property
    def name(self) -> str: ...

    def min_amount(self, currency: str) -> int:
        """The least total that can be charged, in minor units."""
        ...

    async def open_checkout(self, command: OpenCheckout, key: OpKey, within: float) -> Checkout: ...
    async def close_checkout(self, ref: str, key: OpKey, within: float) -> Checkout:
        """A checkout that was paid comes back as paid, one that had expired as expired:
        no errors."""
        ...

    async def refund(self, command: Refund, key: OpKey, within: float) -> RefundState: ...
    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState: ...
    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OpKey, within: float
    ) -> ReversalState: ...
    async def snapshot(self, intent_id: int, within: float) -> Snapshot: ...
    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[Nudge]:
        """Verify an incoming event and say where to look; raises BadSignature."""
        ...


@frozen
class CheckoutPage:
    """What the hosted page of the pretended processor shows."""

    ref: str
    intent_id: int
    amount: int
    currency: str
    description: str
    booking_code: str
    customer_email: str
    return_url: str
    state: str
    """open, challenge, paid or expired."""
    message: str = ""
    """Why the last try was declined."""


class SandboxProcessor(Protocol):
    """What only a pretended processor can do: the test bench of the whole service."""

    async def checkout_page(self, ref: str) -> CheckoutPage | None: ...
    async def play(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Act on a checkout page as a client would: succeed, decline, expire, challenge."""
        ...

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """Open, win or lose a chargeback of a paid intent: open, won, lost."""
        ...

    async def add_fault(self, op: str, kind: str, times: int) -> None: ...
    async def clear_faults(self) -> None: ...
    async def balance(self) -> int:
        """What the processor's own book says that the platform holds, in minor units."""
        ...

    async def due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Take signed events that are to be delivered now: headers and body of each."""
        ...


# The rest -----------------------------------------------------------------------------------


class Clock(Protocol):
    def wall(self) -> datetime:
        """Real time: sessions, windows, leases, keys."""
        ...

    async def business(self) -> datetime:
        """The service's time: starts, refunds, payouts. The sandbox may move it ahead."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait in real time (at once where time is virtual)."""
        ...


class Ids(Protocol):
    """Unguessable names, from a secure source (a seeded one in simulations)."""

    def booking_code(self) -> str:
        """`BK` and 12 Crockford base32 characters."""
        ...

    def event_id(self) -> str:
        """`evt_` and 26 characters, in the order of their making."""
        ...

    def token(self) -> str:
        """256 bits, url-safe: sessions and leases."""
        ...

    def key_body(self) -> str:
        """59 base62 characters."""
        ...


class Hasher(Protocol):
    """Slow password hashes, computed off the event loop."""

    async def hash(self, password: str) -> str: ...
    async def verify(self, password: str, hashed: str | None) -> bool:
        """With None the same work is done, and the answer is False."""
        ...


class Vault(Protocol):
    """Keyed signatures, by purpose; what an older key made still verifies."""

    def sign(self, purpose: str, message: bytes) -> bytes: ...
    def verify(self, purpose: str, message: bytes, signature: bytes) -> bool: ...


class Notifier(Protocol):
    async def alert(self, booking_id: int, text: str) -> None:
        """Tell the operators of something that they should look at."""
        ...


@frozen
class Ports:
    """All that a use-case may touch."""

    store: Store
    admission: Admission
    payments: Payments
    clock: Clock
    ids: Ids
    hasher: Hasher
    vault: Vault
    notifier: Notifier
    policy: Policy
    sandbox: SandboxProcessor | None = None
    """None where payments are real."""
