"""Approvals: what waits for an operator's look, and all that belongs to one decision."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.companions.companion import Companion, draft_companion
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated

__all__ = [
    "CompanionCase",
    "WaitingApprovals",
    "get_companion_case",
    "get_item_case",
    "list_waiting",
    "next_companion_id",
    "next_item_id",
]


@frozen
class WaitingApprovals:
    """The first of what waits, the oldest first; one more than asked for where there are more."""

    companions: Sequence[Companion]
    """Those whose profile is complete; a draft waits for its owner."""
    items: Sequence[PortfolioItem]


@validated
async def list_waiting(ports: Ports, limit: int) -> WaitingApprovals:
    """Up to `limit + 1` companions and portfolio items that wait for an approval."""
    pending = PortfolioItemStatus.PENDING
    async with ports.store.read_view() as view:
        return WaitingApprovals(
            await view.companions.companions_to_approve(0, limit + 1),
            await view.portfolio.portfolio_items(pending, 0, limit + 1),
        )


@validated
async def next_companion_id(ports: Ports, after_id: int) -> int | None:
    """The next companion that waits after this one, from the first again; None where none does."""
    async with ports.store.read_view() as view:
        found = await view.companions.companions_to_approve(after_id, 1)
        found = found or await view.companions.companions_to_approve(0, 1)
    return found[0].id if found else None


@validated
async def next_item_id(ports: Ports, after_id: int) -> int | None:
    """The next portfolio item that waits after this one, from the first again; None where none
    does."""
    pending = PortfolioItemStatus.PENDING
    async with ports.store.read_view() as view:
        found = await view.portfolio.portfolio_items(pending, after_id, 1)
        found = found or await view.portfolio.portfolio_items(pending, 0, 1)
    return found[0].id if found else None


@frozen
class CompanionCase:
    """A companion as its approval is decided."""

    user: User
    companion: Companion
    items: Sequence[PortfolioItem]
    """The whole portfolio, in the order in which it is shown."""
    is_stored: bool
    """False for a staff member who has not saved a profile yet: there is nothing to decide."""


@validated
async def get_companion_case(ports: Ports, companion_id: int) -> CompanionCase:
    """A companion with its account and portfolio; a draft where none is stored. Raises NotFound,
    also for an erased person."""
    async with ports.store.read_view() as view:
        user = await view.accounts.user(companion_id)
        if user is None or user.role is not Role.STAFF or user.erased_at is not None:
            raise NotFound("Companion")
        known = await view.companions.companion(companion_id)
        items = await view.portfolio.portfolio_items_of(companion_id)
    return CompanionCase(user, known or draft_companion(user), items, known is not None)


@validated
async def get_item_case(ports: Ports, item_id: int) -> tuple[PortfolioItem, CompanionCase]:
    """A portfolio item with its companion. Raises NotFound."""
    async with ports.store.read_view() as view:
        item = await view.portfolio.portfolio_item(item_id)
    if item is None:
        raise NotFound("Portfolio item")
    return item, await get_companion_case(ports, item.companion_id)
