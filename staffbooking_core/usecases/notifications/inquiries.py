"""Inquiries from the contact form (CONTRACT 8)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import inquiry_notification
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.inputs import MultilineText, SubmitInquiry
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated

__all__ = [
    "get_inquiry",
    "list_inquiries",
    "list_newest_inquiries",
    "mark_answered",
    "submit_inquiry",
]


@validated
async def submit_inquiry(ports: Ports, command: SubmitInquiry) -> Inquiry:
    """Store an inquiry, and notify the operators in the same transaction."""
    new = NewInquiry(
        name=command.name,
        email=command.email,
        subject=command.subject or "",
        message=command.message,
        created_at=await ports.clock.business(),
    )

    async def unit(tx: Transaction) -> Inquiry:
        inquiry = await tx.notifications.add_inquiry(new)
        await tx.notifications.add_notifications(
            [inquiry_notification(inquiry)], ports.clock.wall()
        )
        return inquiry

    return await ports.store.run_transaction(unit)


@validated
async def list_inquiries(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[Inquiry]:
    """A page of inquiries above `after_id`, by id."""
    async with ports.store.read_view() as view:
        return await view.notifications.inquiries(after_id, limit)


@validated
async def list_newest_inquiries(
    ports: Ports, before_id: int | None, limit: int, answered: bool | None = None
) -> Sequence[Inquiry]:
    """Up to `limit + 1` inquiries below `before_id`, the newest first; with `answered`, only those
    that are answered or not."""
    async with ports.store.read_view() as view:
        return await view.notifications.newest_inquiries(before_id, limit + 1, answered=answered)


@validated
async def get_inquiry(ports: Ports, inquiry_id: int) -> tuple[Inquiry, User | None]:
    """An inquiry, and the operator who answered it. Raises NotFound."""
    async with ports.store.read_view() as view:
        inquiry = await view.notifications.inquiry(inquiry_id)
        if inquiry is None:
            raise NotFound("Inquiry")
        answered_by = inquiry.answered_by
        return inquiry, None if answered_by is None else await view.accounts.user(answered_by)


@validated
async def mark_answered(
    ports: Ports, inquiry_id: int, operator_id: int | None, note: MultilineText
) -> Inquiry:
    """Mark an inquiry as answered, with a note about how. Raises NotFound, and RuleBroken
    `already_answered`."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> Inquiry:
        inquiry = await tx.notifications.inquiry(inquiry_id)
        if inquiry is None:
            raise NotFound("Inquiry")
        answered = evolve(inquiry, answered_at=now, answered_by=operator_id, note=note)
        if not await tx.notifications.save_answer(answered):
            raise RuleBroken("already_answered", "Somebody has answered the inquiry already")
        return answered

    return await ports.store.run_transaction(unit)
