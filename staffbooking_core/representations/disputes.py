"""Records of disputes (CONTRACT 10)."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from staffbooking_core.domain.bookings.disputes import (
    Dispute,
    DisputeFile,
    DisputeOutcome,
    DisputeStatement,
    DisputeStatus,
)
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.privacy import ERASED_NAME
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.representations.json_types import (
    Count,
    Id,
    JsonSchema,
    Money,
    Timestamp,
    format_instant,
)

__all__ = ["DisputeFileRecord", "OwnDisputeStatementRecord"]

_DisputeParty = Annotated[
    Party, JsonSchema(title="BookingParty", enum=[Party.CUSTOMER, Party.STAFF])
]


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


class OwnDisputeStatementRecord(DisputeStatementRecord):
    """A statement, in the export of its author."""

    booking_id: Id


class DisputeFileRecord(TypedDict):
    """A file that a user uploaded for a dispute; `size` is in bytes."""

    booking_id: Id
    file: str
    size: Count
    created_at: Timestamp


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


def own_dispute_statement_record(statement: DisputeStatement) -> OwnDisputeStatementRecord:
    """The record of a statement for its author."""
    return {"booking_id": statement.booking_id, **dispute_statement_record(statement)}


def dispute_file_record(file: DisputeFile) -> DisputeFileRecord:
    """The record of a file for whoever uploaded it."""
    return {
        "booking_id": file.booking_id,
        "file": file.id,
        "size": file.size,
        "created_at": format_instant(file.created_at),
    }


def dispute_statement_record(statement: DisputeStatement) -> DisputeStatementRecord:
    """The record of a statement."""
    return {
        "by": statement.party,
        "text": statement.text,
        "files": list(statement.files),
        "at": format_instant(statement.at),
    }
