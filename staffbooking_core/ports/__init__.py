"""Every port of the core, in one place; the docstrings state what types can't say.

A port speaks at the altitude of the use-cases: never of SQL, never of a vendor. Times are
aware UTC. Wall-clock times and business times (moved by the sandbox) are told apart by
name: `now` of a lease, key or session is wall time, `now` of a booking is business time.

Errors: every method of a store may raise `Unavailable`; writing methods raise
`ConstraintViolated` by the names below and `Conflict` where a version is not the one
that was read.
"""

from __future__ import annotations

from attrs import frozen

from staffbooking_core.domain.notifications.notifications import (
    Letter,
    Notice,
    NoticeKind,
    Undeliverable,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports.accounts import AccountsReading, AccountsWriting
from staffbooking_core.ports.admission import Admission, KeyCaller, SessionCaller
from staffbooking_core.ports.calendars import Calendars
from staffbooking_core.ports.chat import Chat, ContentFilter, Ears
from staffbooking_core.ports.files import FileStorage, Picture, Pictures
from staffbooking_core.ports.imports import Import, ImportsReading, ImportsWriting, SkippedRow
from staffbooking_core.ports.machine import (
    Clock,
    Hasher,
    Hint,
    Hints,
    Ids,
    Notifier,
    Vault,
)
from staffbooking_core.ports.messages import (
    MessagesReading,
    MessagesWriting,
    Pair,
    Presence,
    PresenceReading,
    PresenceWriting,
    Unseen,
)
from staffbooking_core.ports.notices import DueNotice, NoticesReading, NoticesWriting
from staffbooking_core.ports.people import PeopleReading, PeopleWriting
from staffbooking_core.ports.processor import (
    CheckoutPage,
    Finding,
    PayeePage,
    Payments,
    SandboxProcessor,
)
from staffbooking_core.ports.reviews import ReviewsReading, ReviewsWriting
from staffbooking_core.ports.staff import StaffReading, StaffWriting
from staffbooking_core.ports.store import (
    BookingsReading,
    BookingsWriting,
    CompanionsReading,
    CompanionsWriting,
    MoneyReading,
    MoneyWriting,
    PayeesReading,
    PayeesWriting,
    Reading,
    SandboxReading,
    SandboxWriting,
    Store,
    Writing,
)
from staffbooking_core.ports.values import (
    ALREADY_REVIEWED,
    ANSWER_KEPT,
    EMAIL_TAKEN,
    OVERLAP,
    PARTY_DISABLED,
    Agenda,
    Answer,
    Audited,
    Backlog,
    Bookable,
    BookingQuery,
    Candidate,
    Change,
    Credit,
    Lease,
    NewKey,
    NewUser,
    RequestContext,
    Timer,
)
from staffbooking_core.ports.webhooks import (
    Claim,
    NewEndpoint,
    Parcel,
    Turn,
    WebhookFigures,
    WebhookSender,
    WebhooksReading,
    WebhooksWriting,
)


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
    hints: Hints
    sender: WebhookSender
    chat: Chat
    content_filter: ContentFilter
    calendars: Calendars
    files: FileStorage
    pictures: Pictures
    policy: Policy
    sandbox: SandboxProcessor | None = None
    """None where payments are real."""


__all__ = [
    "ALREADY_REVIEWED",
    "ANSWER_KEPT",
    "EMAIL_TAKEN",
    "OVERLAP",
    "PARTY_DISABLED",
    "AccountsReading",
    "AccountsWriting",
    "Admission",
    "Agenda",
    "Answer",
    "Audited",
    "Backlog",
    "Bookable",
    "BookingQuery",
    "BookingsReading",
    "BookingsWriting",
    "Calendars",
    "Candidate",
    "Change",
    "Chat",
    "CheckoutPage",
    "Claim",
    "Clock",
    "CompanionsReading",
    "CompanionsWriting",
    "ContentFilter",
    "Credit",
    "DueNotice",
    "Ears",
    "FileStorage",
    "Finding",
    "Hasher",
    "Hint",
    "Hints",
    "Ids",
    "Import",
    "ImportsReading",
    "ImportsWriting",
    "KeyCaller",
    "Lease",
    "Letter",
    "MessagesReading",
    "MessagesWriting",
    "MoneyReading",
    "MoneyWriting",
    "NewEndpoint",
    "NewKey",
    "NewUser",
    "Notice",
    "NoticeKind",
    "NoticesReading",
    "NoticesWriting",
    "Notifier",
    "Pair",
    "Parcel",
    "PayeePage",
    "PayeesReading",
    "PayeesWriting",
    "Payments",
    "PeopleReading",
    "PeopleWriting",
    "Picture",
    "Pictures",
    "Ports",
    "Presence",
    "PresenceReading",
    "PresenceWriting",
    "Reading",
    "RequestContext",
    "ReviewsReading",
    "ReviewsWriting",
    "SandboxProcessor",
    "SandboxReading",
    "SandboxWriting",
    "SessionCaller",
    "SkippedRow",
    "StaffReading",
    "StaffWriting",
    "Store",
    "Timer",
    "Turn",
    "Undeliverable",
    "Unseen",
    "Vault",
    "WebhookFigures",
    "WebhookSender",
    "WebhooksReading",
    "WebhooksWriting",
    "Writing",
]
