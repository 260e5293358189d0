"""Inquiries to the operators by the contact form (CONTRACT 8)."""

from __future__ import annotations

from datetime import datetime

from attrs import field, frozen

__all__ = ["Inquiry", "NewInquiry"]


@frozen
class NewInquiry:
    """An inquiry before it is stored; `created_at` is business time."""

    name: str
    email: str = field(repr=False)
    subject: str
    """May be empty."""
    message: str = field(repr=False)
    created_at: datetime


@frozen
class Inquiry(NewInquiry):
    """A stored inquiry."""

    id: int = 0
    answered_at: datetime | None = None
    """Wall time at which an operator answered it, or decided that nothing is to be answered."""
    answered_by: int | None = None
    """The id of that operator; None at the command line."""
    note: str | None = field(default=None, repr=False)
    """What the operator wrote about the answer."""
