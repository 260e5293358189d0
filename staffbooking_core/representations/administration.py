"""Records for operators: what needs a decision, and the audit (CONTRACT 10).

People are named by id, with the e-mail address of the account; `emails` has these by id.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

from staffbooking_core.domain.accounts.audit import AuditEntry, AuditSubject
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.bookings.timers import payout_deadline
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.portfolio import PortfolioItem
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.payments.ledger import Account, Posting, account_balances
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import ChargebackStatus, OperationKind
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.webhooks.deliveries import EndpointSubscription
from staffbooking_core.policy import Policy
from staffbooking_core.representations.accounts import UserRecord, user_record
from staffbooking_core.representations.bookings import BookingRecord, booking_record
from staffbooking_core.representations.companions import (
    OwnPortfolioItemRecord,
    ProfileRecord,
    ReviewRecord,
    own_portfolio_record,
    profile_record,
    review_record,
)
from staffbooking_core.representations.json_types import (
    BookingCode,
    Count,
    Id,
    JsonSchema,
    Money,
    PositiveCount,
    Timestamp,
    format_instant,
)
from staffbooking_core.representations.webhooks import WebhookRecord, webhook_record

Emails = Mapping[int, str]

# People and what they publish ---------------------------------------------------------------


class PersonRecord(UserRecord):
    """An account of any role."""

    disabled_at: Timestamp | None
    erased_at: Timestamp | None


def person_record(user: User) -> PersonRecord:
    """The record of an account."""
    return {
        **user_record(user),
        "disabled_at": format_instant(user.disabled_at),
        "erased_at": format_instant(user.erased_at),
    }


class AdminCompanionRecord(ProfileRecord):
    """A companion, listed or not."""

    email: str | None


def admin_companion_record(
    companion: Companion, currency: Currency, emails: Emails
) -> AdminCompanionRecord:
    """The record of a companion."""
    return {**profile_record(companion, currency), "email": emails.get(companion.id)}


class AdminPortfolioItemRecord(OwnPortfolioItemRecord):
    """A portfolio item with its owner."""

    companion_id: Id
    companion_email: str | None


def admin_portfolio_record(item: PortfolioItem, emails: Emails) -> AdminPortfolioItemRecord:
    """The record of a portfolio item."""
    return {
        **own_portfolio_record(item),
        "companion_id": item.companion_id,
        "companion_email": emails.get(item.companion_id),
    }


class AdminReviewRecord(ReviewRecord):
    """A review, hidden or not."""

    reviewer_email: str | None
    reviewee_email: str | None
    hidden: bool


def admin_review_record(review: Review, emails: Emails) -> AdminReviewRecord:
    """The record of a review."""
    return {
        **review_record(review),
        "reviewer_email": emails.get(review.reviewer_id),
        "reviewee_email": emails.get(review.reviewee_id),
        "hidden": review.hidden,
    }


class AdminWebhookRecord(WebhookRecord):
    """A webhook endpoint with its owner, without its secret."""

    owner_id: Id
    owner_email: str
    state: Annotated[str, JsonSchema(title="WebhookState", enum=["active", "paused", "disabled"])]


def admin_webhook_record(subscription: EndpointSubscription) -> AdminWebhookRecord:
    """The record of a webhook endpoint."""
    endpoint, owner = subscription.endpoint, subscription.owner
    inactive = "paused" if endpoint.disabled_at is None else "disabled"
    return {
        **webhook_record(endpoint),
        "owner_id": owner.id,
        "owner_email": owner.email,
        "state": "active" if endpoint.active else inactive,
    }


# Bookings and money -------------------------------------------------------------------------


class AdminDisputeRecord(BookingRecord):
    """A booking with its dispute."""

    customer_email: str | None
    companion_email: str | None
    disputed_by: Party | None
    dispute_reason: str | None
    respond_by: Timestamp | None
    chargeback_ref: str | None
    chargeback_status: ChargebackStatus | None
    chargeback_amount: Money | None


def admin_dispute_record(booking: Booking, policy: Policy, emails: Emails) -> AdminDisputeRecord:
    """The record of a booking that is or was disputed."""
    charged = Currency(booking.currency).to_decimal(booking.chargeback_amount)
    return {
        **booking_record(booking, Party.ADMIN, policy),
        "customer_email": emails.get(booking.customer_id),
        "companion_email": emails.get(booking.companion_id),
        "disputed_by": booking.disputed_by,
        "dispute_reason": booking.dispute_reason,
        "respond_by": format_instant(booking.dispute_respond_by),
        "chargeback_ref": booking.chargeback_ref,
        "chargeback_status": booking.chargeback_status,
        "chargeback_amount": None if booking.chargeback_ref is None else charged,
    }


class AdminPayoutRecord(TypedDict):
    """The payout of a booking; `left` is the amount not yet sent, `promised_by` its deadline,
    `version` the booking's."""

    booking_code: BookingCode
    status: BookingStatus
    companion_id: Id
    companion_name: str
    companion_email: str | None
    currency: str
    price: Money
    platform_fee: Money
    payout_amount: Money
    left: Money
    payout_status: PayoutStatus
    payout_due_at: Timestamp | None
    released_at: Timestamp | None
    promised_by: Timestamp | None
    completed_at: Timestamp | None
    attempts: Count
    last_error: str | None
    version: PositiveCount


def admin_payout_record(
    booking: Booking, operation: Operation | None, policy: Policy, emails: Emails
) -> AdminPayoutRecord:
    """The record of a booking's payout; `operation` is what sends it, once it is released."""
    money = Currency(booking.currency).to_decimal
    due_at = booking.payout_due_at
    return {
        "booking_code": booking.code,
        "status": booking.status,
        "companion_id": booking.companion_id,
        "companion_name": booking.companion_name,
        "companion_email": emails.get(booking.companion_id),
        "currency": booking.currency,
        "price": money(booking.price),
        "platform_fee": money(booking.platform_fee),
        "payout_amount": money(booking.payout_amount),
        "left": money(booking.payout_left),
        "payout_status": booking.payout_status,
        "payout_due_at": format_instant(due_at),
        "released_at": format_instant(booking.payout_released_at),
        "promised_by": format_instant(due_at and payout_deadline(due_at, policy)),
        "completed_at": format_instant(booking.completed_at),
        "attempts": 0 if operation is None else operation.attempts,
        "last_error": None if operation is None else operation.last_error,
        "version": booking.version,
    }


class OperationRecord(TypedDict):
    """One call to the payment processor."""

    id: Id
    n: Count
    kind: OperationKind
    amount: Money | None
    status: OperationStatus
    settlement: SettlementStatus | None
    attempts: Count
    created_at: Timestamp
    last_sent_at: Timestamp | None
    result_ref: str | None
    last_error: str | None


def operation_record(operation: Operation, currency: str) -> OperationRecord:
    """The record of an operation."""
    minor = getattr(operation.command, "amount", None)
    return {
        "id": operation.id,
        "n": operation.n,
        "kind": operation.kind,
        "amount": None if minor is None else Currency(currency).to_decimal(minor),
        "status": operation.status,
        "settlement": operation.settlement,
        "attempts": operation.attempts,
        "created_at": format_instant(operation.created_at),
        "last_sent_at": format_instant(operation.last_sent_at),
        "result_ref": operation.result_ref,
        "last_error": operation.last_error,
    }


class AdminRefundRecord(OperationRecord):
    """A refund that was refused, or whose money came back; `version` is the booking's."""

    booking_code: BookingCode
    customer_id: Id
    customer_name: str
    customer_email: str | None
    currency: str
    version: PositiveCount


def admin_refund_record(
    booking: Booking, operation: Operation, emails: Emails
) -> AdminRefundRecord:
    """The record of a failed refund."""
    return {
        "booking_code": booking.code,
        "customer_id": booking.customer_id,
        "customer_name": booking.customer_name,
        "customer_email": emails.get(booking.customer_id),
        "currency": booking.currency,
        "version": booking.version,
        **operation_record(operation, booking.currency),
    }


class _LegRecord(TypedDict):
    """A part of a posting; debits are positive."""

    account: Account
    amount: Money


class _PostingRecord(TypedDict):
    """One balanced entry of the ledger."""

    key: str
    at: Timestamp
    legs: list[_LegRecord]


class LedgerRecord(TypedDict):
    """All postings and payment operations of a booking, the oldest first."""

    booking_code: BookingCode
    currency: str
    postings: list[_PostingRecord]
    balances: Annotated[Mapping[str, object], JsonSchema(description="amounts by account")]
    operations: list[OperationRecord]


def ledger_record(
    booking: Booking, postings: Sequence[Posting], operations: Sequence[Operation]
) -> LedgerRecord:
    """The record of a booking's ledger."""
    money = Currency(booking.currency).to_decimal
    return {
        "booking_code": booking.code,
        "currency": booking.currency,
        "postings": [
            {
                "key": posting.key,
                "at": format_instant(posting.at),
                "legs": [
                    {"account": leg.account, "amount": money(leg.amount)} for leg in posting.legs
                ],
            }
            for posting in postings
        ],
        "balances": {
            str(account): money(total) for account, total in account_balances(postings).items()
        },
        "operations": [operation_record(each, booking.currency) for each in operations],
    }


# Alerts and the audit -----------------------------------------------------------------------


class AlertRecord(TypedDict):
    """A message to operators about a booking."""

    at: Timestamp
    booking_id: Id
    booking_code: BookingCode | None
    text: str


def alert_record(alert: StoredAlert, booking: Booking | None) -> AlertRecord:
    """The record of an alert."""
    return {
        "at": format_instant(alert.at),
        "booking_id": alert.booking_id,
        "booking_code": None if booking is None else booking.code,
        "text": alert.text,
    }


AuditEntryRecord = TypedDict(
    "AuditEntryRecord",
    {
        "id": Id,
        "at": Timestamp,
        "actor_id": Id | None,
        "actor": str | None,
        "act": str,
        "subject": AuditSubject,
        "subject_id": Annotated[
            int | str, JsonSchema(description="the id, or a booking's code as in the path")
        ],
        "reason": str | None,
        "from": Annotated[str | None, JsonSchema(description="an address, or `cli`")],
    },
)
"""One change by an operator. (A class body cannot have a field named `from`.)"""


def audit_record(entry: AuditEntry) -> AuditEntryRecord:
    """The record of an audit entry."""
    subject_id = entry.subject_id
    return {
        "id": entry.id,
        "at": format_instant(entry.at),
        "actor_id": entry.actor_id,
        "actor": entry.actor,
        "act": entry.act,
        "subject": entry.subject,
        "subject_id": int(subject_id) if subject_id.isdecimal() else subject_id,
        "reason": entry.reason,
        "from": entry.origin,
    }
