"""The audit: who changed what as an operator, why, and from where (CONTRACT 10)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import field, frozen

__all__ = ["AuditEntry", "AuditSubject", "NewAuditEntry", "Operator"]


class AuditSubject(StrEnum):
    """The kind of thing that an operator changed."""

    PERSON = "person"
    API_KEY = "api_key"
    COMPANION = "companion"
    PORTFOLIO_ITEM = "portfolio_item"
    REVIEW = "review"
    WEBHOOK = "webhook"
    DELIVERY = "delivery"
    DISPUTE = "dispute"
    PAYOUT = "payout"
    REFUND = "refund"
    INQUIRY = "inquiry"


BOOKING_SUBJECTS = (AuditSubject.DISPUTE, AuditSubject.PAYOUT, AuditSubject.REFUND)
"""Subjects that are named by a booking's code; all others are named by their id."""


@frozen
class Operator:
    """Who acts: an admin by id, or whoever uses the command line by name."""

    actor_id: int | None
    actor: str | None = field(default=None, repr=False)
    """The name given at the command line; None for an admin, who is named by the account."""
    origin: str | None = field(default=None, repr=False)
    """The address of the request, or `cli`."""


@frozen(kw_only=True)
class NewAuditEntry:
    """One change by an operator before it is stored; `at` is wall time."""

    at: datetime
    actor_id: int | None
    actor: str | None = field(repr=False)
    act: str
    subject: AuditSubject
    subject_id: str
    """The id in decimal digits, or the booking's code."""
    reason: str | None = field(repr=False)
    """None where none was given, or after erasure."""
    origin: str | None = field(repr=False)
    """None after erasure."""


@frozen(kw_only=True)
class AuditEntry(NewAuditEntry):
    """A stored entry; the `actor` of an admin is their present e-mail address."""

    id: int
