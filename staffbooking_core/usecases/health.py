"""Is the service able to work, and does it keep up with its work?"""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Backlog, Ports, WebhookFigures


async def ready(ports: Ports) -> bool:
    """Whether the store answers and has its schema (CONTRACT 9, /readyz)."""
    try:
        async with ports.store.reading() as view:
            await view.money.pending(ports.clock.wall())
    except StaffbookingError:
        return False
    return True


async def backlog(ports: Ports) -> Sequence[Backlog]:
    """Work that is due and not done yet, by kind; what a worker does at once stays near 0."""
    async with ports.store.reading() as view:
        return await view.money.backlog(ports.clock.wall())


async def webhooks(ports: Ports) -> WebhookFigures:
    """What became of attempts so far, and how much is on its way."""
    async with ports.store.reading() as view:
        return await view.webhooks.figures(ports.clock.wall())
