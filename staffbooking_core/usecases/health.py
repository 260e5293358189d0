"""Is the service able to work, and does it keep up with its work?"""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import Backlog, Ports, WebhookStats


async def is_ready(ports: Ports) -> bool:
    """Whether the store answers and has its schema (CONTRACT 9, /readyz)."""
    try:
        async with ports.store.read_view() as view:
            await view.metrics.count_pending_work(ports.clock.wall())
    except StaffbookingError:
        return False
    return True


async def get_backlog(ports: Ports) -> Sequence[Backlog]:
    """Work that is due and not done yet, by kind; what a worker does at once stays near 0."""
    async with ports.store.read_view() as view:
        return await view.metrics.backlog(ports.clock.wall())


async def get_webhook_stats(ports: Ports) -> WebhookStats:
    """What became of attempts so far, and how much is on its way."""
    async with ports.store.read_view() as view:
        return await view.webhooks.stats(ports.clock.wall())
