"""Inputs of operators' changes (CONTRACT 10), bounded as in `inputs`."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from attrs import field, frozen

from staffbooking_core.bounds import AmountBounds, trimmed
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.inputs import EmailAddress, MultilineText, Name, Password

__all__ = [
    "ApprovalAct",
    "BookingsOfDisabled",
    "CreateUser",
    "DecideApproval",
    "DecideEndpoint",
    "DecideReview",
    "DisablePerson",
    "DisputeDecision",
    "EndpointAct",
    "OperatorDecision",
    "ResolutionOutcome",
    "ResolveDispute",
    "ReviewAct",
    "SetRole",
    "SetSubscription",
]


@frozen(kw_only=True)
class OperatorDecision:
    """A change by an operator."""

    reason: MultilineText
    """Kept in the audit."""


class ResolutionOutcome(StrEnum):
    """How an operator resolves a dispute."""

    RELEASE = "release"
    REFUND = "refund"
    SPLIT = "split"


@frozen(kw_only=True)
class DisputeDecision:
    """How a dispute is to end."""

    outcome: ResolutionOutcome
    amount: Annotated[Decimal, AmountBounds(le=Decimal(99_999_999_999))] | None = None
    """The customer's part of a split, and required for one."""


@frozen(kw_only=True)
class ResolveDispute(DisputeDecision):
    """A decision of a dispute with its reason."""

    reason: MultilineText
    """Read by both parties, and kept in the audit."""


class BookingsOfDisabled(StrEnum):
    """What becomes of a disabled person's accepted and paid bookings that have not ended."""

    CANCEL = "cancel"
    """They are cancelled with a full refund, as an admin does it."""
    KEEP = "keep"
    """They go on; payouts to the account are held."""


@frozen(kw_only=True)
class DisablePerson(OperatorDecision):
    bookings: BookingsOfDisabled | None = None


@frozen(kw_only=True)
class CreateUser:
    """A new account of any role. Without a password nobody can log in until one is set."""

    email: EmailAddress
    first_name: Name = field(converter=trimmed)
    last_name: Name = field(converter=trimmed)
    role: Role
    password: Password | None = field(default=None, repr=False)
    subscription: Subscription = Subscription.NONE


@frozen(kw_only=True)
class SetSubscription(OperatorDecision):
    subscription: Subscription
    last_day: date | None = None
    """The last day on which it counts, in UTC; without one it does not expire."""


@frozen(kw_only=True)
class SetRole(OperatorDecision):
    role: Role


class ApprovalAct(StrEnum):
    """How an operator decides about a profile or a portfolio item."""

    APPROVE = "approve"
    REJECT = "reject"


@frozen(kw_only=True)
class DecideApproval(OperatorDecision):
    act: ApprovalAct


class ReviewAct(StrEnum):
    """What an operator does to a review."""

    HIDE = "hide"
    SHOW = "show"


@frozen(kw_only=True)
class DecideReview(OperatorDecision):
    act: ReviewAct


class EndpointAct(StrEnum):
    """What an operator does to a webhook endpoint."""

    ENABLE = "enable"
    DISABLE = "disable"


@frozen(kw_only=True)
class DecideEndpoint(OperatorDecision):
    act: EndpointAct
