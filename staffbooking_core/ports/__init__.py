"""The ports of the core, one module per noun; docstrings state what types can't say.

A port speaks the language of the use-cases: never of SQL, never of a vendor. Times are aware
UTC. `now` of a lease, key or session is wall time, `now` of a booking is business time, which
the sandbox may move ahead.

Errors: every method of the store may raise `StoreUnavailable`; writing methods raise
`ConstraintViolated` with the constraint names below, and `Conflict` where a row changed since
it was read or a lease was lost.
"""

from __future__ import annotations

from attrs import frozen

from staffbooking_core.domain.notifications.notifications import (
    Email,
    Notification,
    NotificationKind,
    UndeliverableEmail,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports.accounts import (
    EMAIL_TAKEN,
    MAX_LOGIN_ADDRESSES,
    AccountsReadPort,
    AccountsWritePort,
    NewApiKey,
    NewUser,
    PeopleQuery,
)
from staffbooking_core.ports.admission import Admission, ApiKeyCaller, SessionCaller
from staffbooking_core.ports.alerts import AlertsReadPort, AlertsWritePort, DueAlert
from staffbooking_core.ports.audit import (
    ALL_ENTRIES,
    AuditFilters,
    AuditReadPort,
    AuditWritePort,
)
from staffbooking_core.ports.bookings import (
    BOOKING_CODE_TAKEN,
    BOOKING_OVERLAP,
    CALENDAR_CHANGED,
    PARTY_DISABLED,
    BookableCompanion,
    BookingQuery,
    BookingRequestContext,
    BookingsReadPort,
    BookingsWritePort,
    BookingWrite,
    RebookingCredit,
)
from staffbooking_core.ports.calendar_subscriptions import (
    CalendarSubscriptionsReadPort,
    CalendarSubscriptionsWritePort,
)
from staffbooking_core.ports.calendars import CalendarFetcher, Calendars, FetchedCalendar
from staffbooking_core.ports.chat import ContentFilter, PubSub, Subscriber
from staffbooking_core.ports.companions import (
    CompanionAvailability,
    CompanionsReadPort,
    CompanionsWritePort,
    SearchCandidate,
    SearchPage,
)
from staffbooking_core.ports.cursors import CursorsReadPort, CursorsWritePort
from staffbooking_core.ports.disputes import DisputesReadPort, DisputesWritePort
from staffbooking_core.ports.files import (
    FileStorage,
    ImageProcessor,
    ProcessedImage,
    check_file_name,
)
from staffbooking_core.ports.idempotency import (
    IDEMPOTENCY_KEY_TAKEN,
    IN_PROGRESS,
    IdempotencyReadPort,
    IdempotencyWritePort,
    StoredResponse,
)
from staffbooking_core.ports.imports import (
    ImportProgress,
    ImportsReadPort,
    ImportsWritePort,
    SkippedRow,
)
from staffbooking_core.ports.inbox import InboxWritePort
from staffbooking_core.ports.leases import Lease
from staffbooking_core.ports.ledger import POSTING_KEY_TAKEN, AuditedBooking, LedgerReadPort
from staffbooking_core.ports.machine import Clock, Hasher, Hint, Hints, IdGenerator, Notifier, Vault
from staffbooking_core.ports.messages import (
    CustomerCompanionPair,
    MessagesReadPort,
    MessagesWritePort,
    UnreadMessage,
)
from staffbooking_core.ports.metrics import (
    MAX_COUNTED_WAITING,
    Backlog,
    MetricsReadPort,
    Waiting,
    WaitingKind,
)
from staffbooking_core.ports.notifications import (
    DueNotification,
    NotificationsReadPort,
    NotificationsWritePort,
)
from staffbooking_core.ports.operations import (
    OPERATION_NUMBER_TAKEN,
    OperationsReadPort,
    OperationsWritePort,
)
from staffbooking_core.ports.payees import PAYEE_REF_TAKEN, PayeesReadPort, PayeesWritePort
from staffbooking_core.ports.personal_data import PersonalDataReadPort, PersonalDataWritePort
from staffbooking_core.ports.portfolio import PortfolioReadPort, PortfolioWritePort
from staffbooking_core.ports.presence import PresenceReadPort, PresenceWritePort, UserPresence
from staffbooking_core.ports.processor import (
    ArmedFault,
    CheckoutPage,
    CheckupFinding,
    PayeePage,
    PaymentProcessor,
    SandboxProcessor,
)
from staffbooking_core.ports.reconciliations import (
    ReconciliationRun,
    ReconciliationsReadPort,
    ReconciliationsWritePort,
)
from staffbooking_core.ports.reviews import ALREADY_REVIEWED, ReviewsReadPort, ReviewsWritePort
from staffbooking_core.ports.sandbox import (
    MAX_SENT_MAILS,
    NewSentMail,
    NextTimer,
    SandboxMark,
    SandboxReadPort,
    SandboxWritePort,
    SentMail,
)
from staffbooking_core.ports.saved import (
    MAX_SAVED_PEOPLE,
    SavedPerson,
    SavedReadPort,
    SavedWritePort,
)
from staffbooking_core.ports.store import OpenTransaction, ReadView, Store, Transaction
from staffbooking_core.ports.timers import Timer, TimersWritePort
from staffbooking_core.ports.webhooks import (
    MAX_COUNTED_DELIVERIES,
    DueDelivery,
    EndpointBatch,
    EndpointClaim,
    NewWebhookEndpoint,
    WebhookSender,
    WebhooksReadPort,
    WebhookStats,
    WebhooksWritePort,
)


@frozen
class Ports:
    """All ports of a deployment: what a use-case may touch."""

    store: Store
    admission: Admission
    payments: PaymentProcessor
    clock: Clock
    ids: IdGenerator
    hasher: Hasher
    vault: Vault
    notifier: Notifier
    hints: Hints
    webhook_sender: WebhookSender
    pubsub: PubSub
    content_filter: ContentFilter
    calendars: Calendars
    calendar_fetcher: CalendarFetcher
    files: FileStorage
    image_processor: ImageProcessor
    policy: Policy
    sandbox: SandboxProcessor | None = None
    """None where payments are real."""


__all__ = [
    "ALL_ENTRIES",
    "ALREADY_REVIEWED",
    "BOOKING_CODE_TAKEN",
    "BOOKING_OVERLAP",
    "CALENDAR_CHANGED",
    "EMAIL_TAKEN",
    "IDEMPOTENCY_KEY_TAKEN",
    "IN_PROGRESS",
    "MAX_COUNTED_DELIVERIES",
    "MAX_COUNTED_WAITING",
    "MAX_LOGIN_ADDRESSES",
    "MAX_SAVED_PEOPLE",
    "MAX_SENT_MAILS",
    "OPERATION_NUMBER_TAKEN",
    "PARTY_DISABLED",
    "PAYEE_REF_TAKEN",
    "POSTING_KEY_TAKEN",
    "AccountsReadPort",
    "AccountsWritePort",
    "Admission",
    "AlertsReadPort",
    "AlertsWritePort",
    "ApiKeyCaller",
    "ArmedFault",
    "AuditFilters",
    "AuditReadPort",
    "AuditWritePort",
    "AuditedBooking",
    "Backlog",
    "BookableCompanion",
    "BookingQuery",
    "BookingRequestContext",
    "BookingWrite",
    "BookingsReadPort",
    "BookingsWritePort",
    "CalendarFetcher",
    "CalendarSubscriptionsReadPort",
    "CalendarSubscriptionsWritePort",
    "Calendars",
    "CheckoutPage",
    "CheckupFinding",
    "Clock",
    "CompanionAvailability",
    "CompanionsReadPort",
    "CompanionsWritePort",
    "ContentFilter",
    "CursorsReadPort",
    "CursorsWritePort",
    "CustomerCompanionPair",
    "DisputesReadPort",
    "DisputesWritePort",
    "DueAlert",
    "DueDelivery",
    "DueNotification",
    "Email",
    "EndpointBatch",
    "EndpointClaim",
    "FetchedCalendar",
    "FileStorage",
    "Hasher",
    "Hint",
    "Hints",
    "IdGenerator",
    "IdempotencyReadPort",
    "IdempotencyWritePort",
    "ImageProcessor",
    "ImportProgress",
    "ImportsReadPort",
    "ImportsWritePort",
    "InboxWritePort",
    "Lease",
    "LedgerReadPort",
    "MessagesReadPort",
    "MessagesWritePort",
    "MetricsReadPort",
    "NewApiKey",
    "NewSentMail",
    "NewUser",
    "NewWebhookEndpoint",
    "NextTimer",
    "Notification",
    "NotificationKind",
    "NotificationsReadPort",
    "NotificationsWritePort",
    "Notifier",
    "OpenTransaction",
    "OperationsReadPort",
    "OperationsWritePort",
    "PayeePage",
    "PayeesReadPort",
    "PayeesWritePort",
    "PaymentProcessor",
    "PeopleQuery",
    "PersonalDataReadPort",
    "PersonalDataWritePort",
    "PortfolioReadPort",
    "PortfolioWritePort",
    "Ports",
    "PresenceReadPort",
    "PresenceWritePort",
    "ProcessedImage",
    "PubSub",
    "ReadView",
    "RebookingCredit",
    "ReconciliationRun",
    "ReconciliationsReadPort",
    "ReconciliationsWritePort",
    "ReviewsReadPort",
    "ReviewsWritePort",
    "SandboxMark",
    "SandboxProcessor",
    "SandboxReadPort",
    "SandboxWritePort",
    "SavedPerson",
    "SavedReadPort",
    "SavedWritePort",
    "SearchCandidate",
    "SearchPage",
    "SentMail",
    "SessionCaller",
    "SkippedRow",
    "Store",
    "StoredResponse",
    "Subscriber",
    "Timer",
    "TimersWritePort",
    "Transaction",
    "UndeliverableEmail",
    "UnreadMessage",
    "UserPresence",
    "Vault",
    "Waiting",
    "WaitingKind",
    "WebhookSender",
    "WebhookStats",
    "WebhooksReadPort",
    "WebhooksWritePort",
    "check_file_name",
]
