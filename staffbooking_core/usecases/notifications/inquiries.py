"""Inquiries from the contact form (CONTRACT 8)."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import inquiry_notification
from staffbooking_core.inputs import SubmitInquiry
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated


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
