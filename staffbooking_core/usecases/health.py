"""Readiness and backlog of the service (CONTRACT 9)."""

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
    """Work that is due and not done, by kind (CONTRACT 9). A healthy worker keeps it near 0."""
    async with ports.store.read_view() as view:
        return await view.metrics.backlog(ports.clock.wall())


async def get_webhook_stats(ports: Ports) -> WebhookStats:
    """Counts of webhook attempts by outcome, and of deliveries that are pending."""
    async with ports.store.read_view() as view:
        return await view.webhooks.stats(ports.clock.wall())
