"""Leases: time-limited claims on rows, shared by every noun that is worked on in the background."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

__all__ = ["Lease"]


@frozen
class Lease:
    """A claim on a row until a moment of wall time.

    Every save of a claimed row checks the token (fencing): a holder whose lease another
    holder has taken over can't write any more.
    """

    token: str
    until: datetime
