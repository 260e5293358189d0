"""A dispute as operators decide it: its evidence, and what each side would get by each decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import TransitionInput
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import FieldError, MissingField, NotFound, RuleBroken, invalid_field
from staffbooking_core.operator_inputs import DisputeDecision, ResolutionOutcome
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import details
from staffbooking_core.usecases.bookings.details import BookingDetails
from staffbooking_core.usecases.bookings.disputes import RESOLUTION_TRIGGERS
from staffbooking_core.validation import validated

__all__ = ["DisputeCase", "DivisionPreview", "customer_share", "get_case", "preview_division"]

_MAX_MESSAGES = 30


@frozen
class DivisionPreview:
    """How a decision would divide what a booking holds, in minor units: the parts add up to it."""

    refund: int
    """To the customer, besides what went back before."""
    payout: int
    """The staff member's part, before debts."""
    fee: int
    premium: int
    """The cancellation insurance, which stays with the platform."""


@frozen
class DisputeCase:
    """A disputed booking with the evidence of both sides, as operators see it."""

    details: BookingDetails
    messages: tuple[Message, ...]
    """The newest messages between the parties, the oldest first."""
    emails: Mapping[int, str]
    """The e-mail addresses of the parties, by id."""
    previews: Mapping[ResolutionOutcome, DivisionPreview]
    """What a release and a refund would do; empty where operators can't decide."""
    max_share: int
    """The largest customer's part of a split that is not everything, in minor units."""


@validated
async def get_case(ports: Ports, actor: Actor, booking_id: int) -> DisputeCase:
    """The case of a booking that is or was disputed, for an admin. Raises NotFound, also for a
    booking without a dispute."""
    found = await details.get_details(ports, actor, booking_id)
    booking = found.booking
    if found.dispute is None or not actor.is_admin:
        raise NotFound("Dispute")
    parties = (booking.customer_id, booking.companion_id)
    messages: Sequence[Message] = ()
    async with ports.store.read_view() as view:
        emails = await view.accounts.emails_of(parties)
        pair = await view.messages.find_pair(*parties)
        conversation_id = None
        if pair is not None:
            conversation_id = await view.messages.direct_conversation_id(pair)
        if conversation_id is not None:
            messages = await view.messages.messages_before(
                conversation_id, None, MAX_ID, _MAX_MESSAGES
            )
    previews = {
        outcome: preview
        for outcome in (ResolutionOutcome.RELEASE, ResolutionOutcome.REFUND)
        if (preview := _try_preview(found, outcome, ports.policy))
    }
    max_share = max(0, booking.escrow - booking.insurance_premium)
    return DisputeCase(found, tuple(messages), emails, previews, max_share)


def _try_preview(
    found: BookingDetails, outcome: ResolutionOutcome, policy: Policy
) -> DivisionPreview | None:
    if found.booking.status is not BookingStatus.DISPUTED:
        return None
    try:
        return preview_division(found, outcome, 0, policy)
    except RuleBroken:
        return None


def preview_division(
    found: BookingDetails, outcome: ResolutionOutcome, share: int, policy: Policy
) -> DivisionPreview:
    """What a resolution would do now; `share` is the customer's part of a split in minor units.
    Nothing is saved.

    Raises RuleBroken `booking_not_disputed`, `split_out_of_range` or `chargeback_open`.
    """
    booking = found.booking
    decision = TransitionInput(
        RESOLUTION_TRIGGERS[outcome], Party.ADMIN, found.now, refund_amount=share
    )
    after = apply_transition(booking, decision, policy).booking
    refund = after.refunded_amount - booking.refunded_amount
    premium = booking.escrow - refund - after.platform_fee - after.payout_amount
    return DivisionPreview(refund, after.payout_amount, after.platform_fee, premium)


def customer_share(decision: DisputeDecision, currency: Currency) -> int:
    """The customer's part in minor units; 0 where there is no split.

    Raises MissingField and InvalidField on `amount`.
    """
    is_split = decision.outcome is ResolutionOutcome.SPLIT
    if is_split and decision.amount is None:
        raise MissingField([FieldError("amount", "is required for a split")])
    if not is_split and decision.amount is not None:
        raise invalid_field("amount", "is for a split only")
    try:
        return currency.to_minor(decision.amount or 0)
    except ValueError as error:
        raise invalid_field("amount", str(error)) from None
