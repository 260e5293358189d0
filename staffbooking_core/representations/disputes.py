"""Records of disputes (CONTRACT 10)."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from staffbooking_core.domain.bookings.disputes import (
    Dispute,
    DisputeOutcome,
    DisputeStatement,
    DisputeStatus,
)
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.privacy import ERASED_NAME
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.representations.json_types import (
    JsonSchema,
    Money,
    Timestamp,
    format_instant,
)

_DisputeParty = Annotated[Party, JsonSchema(enum=[Party.CUSTOMER, Party.STAFF])]


class DisputeStatementRecord(TypedDict):
    """A party's statement; `files` are ids."""

    by: _DisputeParty
    text: str
    files: list[str]
    at: Timestamp


class DisputeResolutionRecord(TypedDict):
    """An operator's decision, or the verdict on a chargeback."""

    outcome: DisputeOutcome
    refund_amount: Money
    note: str | None
    at: Timestamp


class DisputeRecord(TypedDict):
    """The newest dispute of a booking. The reason and its files are the first statement; a
    chargeback counts as the customer's, and begins without a statement."""

    opened_by: _DisputeParty
    opened_at: Timestamp
    reason: str
    respond_by: Timestamp
    status: DisputeStatus
    statements: list[DisputeStatementRecord]
    resolution: DisputeResolutionRecord | None


def dispute_record(
    dispute: Dispute, statements: Sequence[DisputeStatement], currency: Currency
) -> DisputeRecord:
    """The record of a dispute."""
    resolution = dispute.resolution
    return {
        "opened_by": dispute.opened_by,
        "opened_at": format_instant(dispute.opened_at),
        "reason": dispute.reason or ERASED_NAME,
        "respond_by": format_instant(dispute.respond_by),
        "status": dispute.status,
        "statements": [dispute_statement_record(statement) for statement in statements],
        "resolution": None
        if resolution is None
        else {
            "outcome": resolution.outcome,
            "refund_amount": currency.to_decimal(resolution.refund_amount),
            "note": resolution.note,
            "at": format_instant(resolution.at),
        },
    }


def dispute_statement_record(statement: DisputeStatement) -> DisputeStatementRecord:
    """The record of a statement."""
    return {
        "by": statement.party,
        "text": statement.text,
        "files": list(statement.files),
        "at": format_instant(statement.at),
    }
