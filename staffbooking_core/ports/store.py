"""The store: what use-cases read and write, one protocol a family.

Reading and writing are different types, so that a query can't write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date, datetime, timedelta
from typing import Protocol, TypeVar

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Companion, CompanionQuery
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.domain.payments.processor import Operation, OperationKind, ProcessorEvent
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.policy import Policy
from staffbooking_core.ports.accounts import AccountsReadPort, AccountsWritePort
from staffbooking_core.ports.imports import ImportsReadPort, ImportsWritePort
from staffbooking_core.ports.messages import (
    MessagesReadPort,
    MessagesWritePort,
    PresenceReadPort,
    PresenceWritePort,
)
from staffbooking_core.ports.notices import NotificationsReadPort, NotificationsWritePort
from staffbooking_core.ports.people import PersonalDataReadPort, PersonalDataWritePort
from staffbooking_core.ports.reviews import ReviewsReadPort, ReviewsWritePort
from staffbooking_core.ports.staff import PortfolioReadPort, PortfolioWritePort
from staffbooking_core.ports.values import (
    AuditedBooking,
    Backlog,
    BookingQuery,
    BookingRequestContext,
    BookingWrite,
    CompanionAvailability,
    Lease,
    RebookingCandidate,
    RebookingCredit,
    StoredResponse,
    Timer,
)
from staffbooking_core.ports.webhooks import WebhooksReadPort, WebhooksWritePort

T = TypeVar("T")


class CompanionsReadPort(Protocol):
    async def search(self, query: CompanionQuery) -> Sequence[bytes]:
        """Ready-made summaries of listed companions, in the order of CONTRACT 3: up to
        `limit + 1` from the page's start, so that the caller sees whether more follow."""
        ...

    async def detail(self, companion_id: int) -> bytes | None:
        """The ready-made detail of a listed companion."""
        ...

    async def availability(
        self, companion_id: int, first: datetime, last: datetime
    ) -> CompanionAvailability | None:
        """Of a listed companion, with the busy intervals that touch [first, last]."""
        ...

    async def service_type_counts(self) -> Sequence[tuple[str, int]]:
        """Each offered service by its most usual spelling, with how many listed companions
        offer it; by name. It looks at all of them: see `services`."""
        ...

    async def service_names(self) -> Sequence[str]:
        """The names alone, as the best of those who offer it spells each."""
        ...

    async def rebooking_candidates(
        self, service: str, day: date, first: datetime, last: datetime, limit: int
    ) -> Sequence[RebookingCandidate]:
        """Listed companions of a service with a free hour on the day, best first."""
        ...

    async def companion(self, companion_id: int) -> Companion | None:
        """Listed or not."""
        ...

    async def companions(self, after_id: int, limit: int) -> Sequence[Companion]: ...


class CompanionsWritePort(CompanionsReadPort, Protocol):
    async def lock_companion(self, companion_id: int) -> Companion | None: ...
    async def save_companion(self, companion: Companion) -> None:
        """Insert or replace, with its ready-made bytes (of which the detail shows its newest
        reviews) and all that searches look at."""
        ...

    async def busy_intervals(
        self, companion_id: int, first: datetime, last: datetime
    ) -> Sequence[Interval]: ...
    async def save_day_marks(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        """Say of days whether they have a free hour, where the weekly hours alone would
        say otherwise; None takes the mark away. Searches by date look at these marks."""
        ...


class BookingsReadPort(Protocol):
    async def booking(self, booking_id: int) -> Booking | None: ...
    async def booking_by_code(self, code: str) -> Booking | None: ...
    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        """Up to `limit + 1` rows from the page's start."""
        ...

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        """A companion's that end after `since`, but cancelled ones, in the order of their starts;
        where there are more than `limit`, requests are left out first, the furthest ahead."""
        ...

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> BookingRequestContext:
        """The customer is found by e-mail or by id, whichever is given; the busy intervals
        are all that a booking of up to 24 h starting on that local day could touch."""
        ...

    async def rebooking_credit(self, booking_id: int) -> RebookingCredit | None: ...
    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        """The kept answer, unless it has expired."""
        ...

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        """Sequence and encoded envelope of each event, in order."""
        ...


class BookingsWritePort(BookingsReadPort, Protocol):
    async def lock_booking(self, booking_id: int) -> Booking | None: ...
    async def lock_competing_bookings(self, booking_id: int) -> Sequence[Booking]:
        """The booking and the pending ones of its companion whose time overlaps it, all
        held, in the order of ids; empty where there is no such booking."""
        ...

    async def save_booking(self, booking_write: BookingWrite) -> None:
        """Save a step of a booking that exists. Raises Conflict unless the stored version is
        one below, ConstraintViolated(OVERLAP) where the slot is taken."""
        ...

    async def add_booking(self, booking_write: BookingWrite) -> None:
        """Save the first step of a new booking. Raises ConstraintViolated(PARTY_DISABLED), also
        where the unit of work that disables somebody was at work first."""
        ...

    async def use_rebooking_credit(self, credit: RebookingCredit, used_by_booking_id: int) -> bool:
        """Use the credit up for a booking; False if it was used before."""
        ...

    async def save_response(self, response: StoredResponse) -> None:
        """Raises ConstraintViolated(ANSWER_KEPT); an expired one is replaced."""
        ...


class PaymentsReadPort(Protocol):
    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        """In the order of their numbers."""
        ...

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        """In the order in which they were made."""
        ...

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        """A batch of bookings by id, each as of one moment."""
        ...

    async def ledger_imbalance(self) -> int:
        """The sum over all legs of all postings; anything but 0 is a fault."""
        ...

    async def account_balance(self, account: Account) -> int:
        """The sum over all legs of an account; debits positive."""
        ...

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        """A batch of bookings that have an intent, by id, each with its legs of the account
        `processor_balance`, oldest first; lean, for all bookings are gone through."""
        ...

    async def payouts(self, limit: int) -> Sequence[Booking]:
        """Bookings whose payout is scheduled, failed or frozen, the earliest due first."""
        ...

    async def failed_refunds(self, limit: int) -> Sequence[tuple[Booking, Operation]]:
        """Refunds that are refused, dead or failed and that no later order replaces, with
        their bookings: money still owed to a client. The oldest first."""
        ...

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        """The ids of bookings for which the companion owes money (`owed_by_staff`), rising."""
        ...

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        """A batch of bookings whose payment the processor has not decided yet, by id: those
        with payment status requires_payment, processing or refund_pending; without those that
        an event in the inbox already says to look at."""
        ...

    async def event_cursor(self, provider: str) -> tuple[str, datetime] | None:
        """How far the processor's events were caught up with, and when (wall time)."""
        ...

    async def count_pending_work(self, now: datetime) -> int:
        """How many operations, timers, nudges and payees are due: for health."""
        ...

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        """Due work by kind, for metrics; kinds with nothing due may be left out."""
        ...

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        """The newest alerts: when, of which booking, what."""
        ...


class PaymentsWritePort(PaymentsReadPort, Protocol):
    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OperationKind] = frozenset(OperationKind),
    ) -> Sequence[Operation]:
        """Claim due operations of these kinds, the earliest first. Of each booking only the
        unfinished one with the lowest number is ever given, whatever its kind, and none while
        another's lease on it runs: so at most one runs per booking. With `booking_id`, of
        that booking alone, due or not.
        """
        ...

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        """The claimed operation, held. Raises Conflict when the lease was lost."""
        ...

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        """Save its progress, and its command. With a lease: keep it claimed; without:
        release it."""
        ...

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        """Make the companion's payouts that wait for another try due at once; how many."""
        ...

    async def save_event_cursor(self, provider: str, cursor: str, now: datetime) -> None: ...

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
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

    async def add_processor_event(
        self, provider: str, event: ProcessorEvent, now: datetime
    ) -> bool:
        """Put an event into the inbox; False if its id is there already."""
        ...

    async def claim_processor_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        """Claim events that are not done, the earliest due first, with their providers: one
        that is tried again and again keeps no other waiting."""
        ...

    async def finish_processor_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        """Done for good, or with `retry_at` to be looked at again."""
        ...


class PayeesReadPort(Protocol):
    async def payee(self, provider: str, companion_id: int) -> Payee | None: ...
    async def payee_by_ref(self, provider: str, ref: str) -> Payee | None: ...


class PayeesWritePort(PayeesReadPort, Protocol):
    async def claim_payees(
        self,
        provider: str,
        now: datetime,
        lease: Lease,
        limit: int,
        companion_id: int | None = None,
    ) -> Sequence[Payee]:
        """Claim payees whose `next_at` has come, the earliest first. With `companion_id`, that
        one alone, due or not, unless it is claimed already."""
        ...

    async def lock_payee(self, provider: str, companion_id: int, lease: Lease) -> Payee:
        """The claimed payee, held. Raises Conflict when the lease was lost."""
        ...

    async def save_payee(self, payee: Payee, lease: Lease | None = None) -> None:
        """Insert or replace. With a lease: keep it claimed, raises Conflict where the claim was
        lost; without: release it."""
        ...


class SandboxReadPort(Protocol):
    async def clock_offset(self) -> timedelta:
        """How far business time is ahead of the wall clock; zero at first."""
        ...


class SandboxWritePort(SandboxReadPort, Protocol):
    async def set_clock_offset(self, offset: timedelta) -> None:
        """The row is held by `lock_clock` before."""
        ...

    async def lock_clock(self) -> timedelta: ...


class ReadView(Protocol):
    """A view for queries. Several reads in one view need not be of one moment."""

    @property
    def accounts(self) -> AccountsReadPort: ...
    @property
    def notifications(self) -> NotificationsReadPort: ...
    @property
    def personal_data(self) -> PersonalDataReadPort: ...
    @property
    def companions(self) -> CompanionsReadPort: ...
    @property
    def bookings(self) -> BookingsReadPort: ...
    @property
    def payments(self) -> PaymentsReadPort: ...
    @property
    def payees(self) -> PayeesReadPort: ...
    @property
    def reviews(self) -> ReviewsReadPort: ...
    @property
    def webhooks(self) -> WebhooksReadPort: ...
    @property
    def messages(self) -> MessagesReadPort: ...
    @property
    def presence(self) -> PresenceReadPort: ...
    @property
    def portfolio(self) -> PortfolioReadPort: ...
    @property
    def imports(self) -> ImportsReadPort: ...
    @property
    def sandbox(self) -> SandboxReadPort: ...


class Transaction(Protocol):
    """One transaction. Order of locks: users, bookings by id, companion, the feed, endpoints by
    id, deliveries by id, conversations by id, the ids of messages, the rest."""

    @property
    def accounts(self) -> AccountsWritePort: ...
    @property
    def notifications(self) -> NotificationsWritePort: ...
    @property
    def personal_data(self) -> PersonalDataWritePort: ...
    @property
    def companions(self) -> CompanionsWritePort: ...
    @property
    def bookings(self) -> BookingsWritePort: ...
    @property
    def payments(self) -> PaymentsWritePort: ...
    @property
    def payees(self) -> PayeesWritePort: ...
    @property
    def reviews(self) -> ReviewsWritePort: ...
    @property
    def webhooks(self) -> WebhooksWritePort: ...
    @property
    def messages(self) -> MessagesWritePort: ...
    @property
    def presence(self) -> PresenceWritePort: ...
    @property
    def portfolio(self) -> PortfolioWritePort: ...
    @property
    def imports(self) -> ImportsWritePort: ...
    @property
    def sandbox(self) -> SandboxWritePort: ...


class Store(Protocol):
    def read_view(self) -> AbstractAsyncContextManager[ReadView]: ...
    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit of work in one transaction: committed when it returns, rolled back when
        it raises or is cancelled. It is repeated, a few times, where stores collide
        (`Conflict`, deadlocks): so it must decide anew from what it reads, and do nothing
        outside of the store."""
        ...

    async def add_booking(self, booking_write: BookingWrite) -> None:
        """`Writing.bookings.add` as a unit of work of its own, in one round trip."""
        ...

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        """Delete what has expired (sessions, answers, windows) or was given up (imports); how
        many rows went."""
        ...
