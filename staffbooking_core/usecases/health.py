"""Readiness and backlog of the service (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.shared.clock_skew import find_clock_fault
from staffbooking_core.errors import ClockWrong
from staffbooking_core.ports import Backlog, Ports, WebhookStats

__all__ = ["check_clock", "check_readiness", "get_backlog", "get_webhook_stats"]


async def check_readiness(ports: Ports) -> None:
    """Check that the machine's clock is right and the store takes a change (CONTRACT 10, /readyz).

    Raises ClockWrong, and StoreUnavailable with the reason.
    """
    check_clock(ports)
    await ports.store.check_writable(ports.clock.wall())


def check_clock(ports: Ports) -> None:
    """Check the machine's clock, for changes outside of the store. Raises ClockWrong."""
    if fault := find_clock_fault(ports.clock.skew(), ports.policy.max_clock_skew):
        raise ClockWrong(fault)


async def get_backlog(ports: Ports) -> Sequence[Backlog]:
    """Work that is due and not done, by kind (CONTRACT 9). A healthy worker keeps it near 0."""
    async with ports.store.read_view() as view:
        return await view.metrics.backlog(ports.clock.wall())


async def get_webhook_stats(ports: Ports) -> WebhookStats:
    """Counts of webhook attempts by outcome, and of deliveries that are pending."""
    async with ports.store.read_view() as view:
        return await view.webhooks.stats(ports.clock.wall())
