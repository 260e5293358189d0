"""Disputes: a booking's newest dispute with its resolution, its statements and files (CONTRACT 10).

The booking and its timeline say who disputed it, until when, and how it ended; statements and files
have rows of their own.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import RuleBroken

__all__ = [
    "Dispute",
    "DisputeFile",
    "DisputeFileKind",
    "DisputeOutcome",
    "DisputeResolution",
    "DisputeStatement",
    "DisputeStatus",
    "NewDisputeStatement",
]

NO_SHOW_REASON = "no_show"
"""The reason of a dispute about the staff member's absence."""
DISPUTE_FILE_SUFFIX = ".dispute"
"""Suffix of names in the file storage, which no public image has."""
CHARGEBACK_REASON = "chargeback"
"""The reason of a dispute that the customer's bank opened."""

DISPUTABLE_STATUSES = frozenset(
    {BookingStatus.PAID, BookingStatus.COMPLETED, BookingStatus.DISPUTED}
)
"""Statuses in which the parties may upload files for a dispute."""

DISPUTE_PARTIES = frozenset({Party.CUSTOMER, Party.STAFF})
"""The parties of a dispute, who make statements and upload files."""


class DisputeStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"
    WITHDRAWN = "withdrawn"


class DisputeOutcome(StrEnum):
    """Decisions of operators, and verdicts on a chargeback."""

    RELEASE = "release"
    REFUND = "refund"
    SPLIT = "split"
    WON = "won"
    LOST = "lost"


_OUTCOMES: dict[Trigger, DisputeOutcome] = {
    Trigger.RESOLVE_RELEASE: DisputeOutcome.RELEASE,
    Trigger.RESOLVE_REFUND: DisputeOutcome.REFUND,
    Trigger.RESOLVE_SPLIT: DisputeOutcome.SPLIT,
    Trigger.CHARGEBACK_WON: DisputeOutcome.WON,
    Trigger.CHARGEBACK_LOST: DisputeOutcome.LOST,
}


@frozen
class DisputeResolution:
    """How a dispute was resolved; `refund_amount` is in minor units."""

    outcome: DisputeOutcome
    refund_amount: int
    note: str | None
    at: datetime


@frozen
class Dispute:
    """The newest dispute of a booking. Times are business time."""

    opened_by: Party
    opened_at: datetime
    reason: str | None
    """None where the party that wrote it was erased."""
    respond_by: datetime
    status: DisputeStatus
    resolution: DisputeResolution | None


@frozen
class NewDisputeStatement:
    """What a party states in a dispute; the first statement is the reason."""

    booking_id: int
    dispute_number: int
    """`Booking.dispute_number` of its dispute."""
    author_id: int
    party: Party
    text: str
    files: tuple[str, ...]
    """Ids of files."""
    at: datetime


@frozen
class DisputeStatement(NewDisputeStatement):
    id: int = 0


class DisputeFileKind(StrEnum):
    """Media types of files."""

    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    PDF = "application/pdf"

    @property
    def suffix(self) -> str:
        """The file name extension."""
        return self.rpartition("/")[2]


@frozen
class DisputeFile:
    """A file that a party uploaded for a dispute of a booking."""

    id: str
    """Unguessable."""
    booking_id: int
    owner_id: int
    kind: DisputeFileKind
    size: int
    """Stored size in bytes."""
    created_at: datetime

    @property
    def storage_name(self) -> str:
        """The name in the file storage."""
        return self.id + DISPUTE_FILE_SUFFIX


def dispute_opener(booking: Booking) -> Party | None:
    """The party that opened the newest dispute. A chargeback counts as the customer's; their bank
    acts for them."""
    return Party.CUSTOMER if booking.disputed_by is Party.PROCESSOR else booking.disputed_by


def dispute_respondent(booking: Booking) -> Party:
    """The party that has to answer the newest dispute: the one that did not open it."""
    return Party.STAFF if dispute_opener(booking) is Party.CUSTOMER else Party.CUSTOMER


def check_split(booking: Booking, share: int) -> None:
    """Check the customer's part of a split: up to the price held, or everything, since the premium
    is refunded in full or not at all. Raises RuleBroken `split_out_of_range`."""
    held, premium = booking.escrow, booking.insurance_premium
    if share <= 0 or (share != held and share > held - premium):
        shown = Currency(booking.currency).to_decimal
        bounds = f"from {shown(1)} to {shown(held - premium)}"
        if premium:
            bounds += f", or all {shown(held)} with the premium"
        raise RuleBroken("split_out_of_range", f"The customer's part must be {bounds}")


def newest_dispute(booking: Booking) -> Dispute | None:
    """The newest dispute of a booking; None if it was never disputed."""
    opener, respond_by = dispute_opener(booking), booking.dispute_respond_by
    if opener is None or booking.disputed_at is None or respond_by is None:
        return None
    is_chargeback = booking.disputed_by is Party.PROCESSOR
    status, resolution = _ending(booking)
    return Dispute(
        opened_by=opener,
        opened_at=booking.disputed_at,
        reason=CHARGEBACK_REASON if is_chargeback else booking.dispute_reason,
        respond_by=respond_by,
        status=status,
        resolution=resolution,
    )


def _ending(booking: Booking) -> tuple[DisputeStatus, DisputeResolution | None]:
    if booking.status is BookingStatus.DISPUTED:
        return DisputeStatus.OPEN, None
    entry = next(
        entry for entry in reversed(booking.timeline) if entry.was is BookingStatus.DISPUTED
    )
    if entry.trigger is Trigger.WITHDRAW:
        return DisputeStatus.WITHDRAWN, None
    outcome = _OUTCOMES[entry.trigger]
    resolution = DisputeResolution(outcome, booking.dispute_refund, booking.dispute_note, entry.at)
    return DisputeStatus.RESOLVED, resolution
