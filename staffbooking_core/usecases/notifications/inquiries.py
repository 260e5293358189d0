"""The contact form: what people ask of the operators (CONTRACT 8)."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import inquiry_made
from staffbooking_core.inputs import Contact
from staffbooking_core.ports import Ports, Writing


async def ask(ports: Ports, given: Contact) -> Inquiry:
    """Keep a question, and tell the operators of it."""
    new = NewInquiry(
        name=given.name,
        email=given.email,
        subject=given.subject or "",
        message=given.message,
        created_at=await ports.clock.business(),
    )

    async def unit(tx: Writing) -> Inquiry:
        inquiry = await tx.notices.add_inquiry(new)
        await tx.notices.add([inquiry_made(inquiry)], ports.clock.wall())
        return inquiry

    return await ports.store.write(unit)


async def inquiries(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[Inquiry]:
    """A page of what was asked, in the order of ids."""
    async with ports.store.reading() as view:
        return await view.notices.inquiries(after_id, limit)
