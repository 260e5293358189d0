"""Approvals of companions and portfolio items by operators: what waits, all that belongs to one
decision, and the decision (CONTRACT 9, 10)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.companions.companion import (
    Approval,
    Companion,
    draft_companion,
    missing_fields,
)
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated

__all__ = [
    "CompanionCase",
    "WaitingApprovals",
    "get_companion",
    "get_companion_case",
    "get_item_case",
    "get_portfolio_item",
    "list_companions",
    "list_companions_after",
    "list_portfolio_items",
    "list_portfolio_items_after",
    "list_waiting",
    "moderate_item",
    "next_companion_id",
    "next_item_id",
    "set_approval",
]


@validated
async def list_companions(
    ports: Ports, approval: Approval | None = None, page: int = 1, limit: int = 50
) -> Sequence[Companion]:
    """A page of companions by id, listed or not, up to `limit + 1`; with an approval, those
    alone."""
    async with ports.store.read_view() as view:
        return await view.companions.companions(0, limit + 1, (page - 1) * limit, approval)


@validated
async def list_companions_after(
    ports: Ports, after_id: int, limit: int, approval: Approval | None = None
) -> Sequence[Companion]:
    """Up to `limit` companions above `after_id` by id, listed or not; with an approval, those
    alone."""
    async with ports.store.read_view() as view:
        return await view.companions.companions(after_id, limit, approval=approval)


@validated
async def get_companion(ports: Ports, companion_id: int) -> Companion:
    """A companion, listed or not; a draft for a staff member who has not saved a profile yet.
    Raises NotFound."""
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(companion_id)
        if companion is None:
            user = _require_staff_member(await view.accounts.user(companion_id))
            companion = draft_companion(user)
    return companion


def _require_staff_member(user: User | None) -> User:
    if user is None or user.role is not Role.STAFF or user.erased_at is not None:
        raise NotFound("Companion")
    return user


@validated
async def list_portfolio_items(
    ports: Ports, status: PortfolioItemStatus | None = None, page: int = 1, limit: int = 50
) -> Sequence[PortfolioItem]:
    """A page of all companions' portfolio items by id, up to `limit + 1`; with a status, those
    alone."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items(status, 0, limit + 1, (page - 1) * limit)


@validated
async def list_portfolio_items_after(
    ports: Ports, after_id: int, limit: int, status: PortfolioItemStatus | None = None
) -> Sequence[PortfolioItem]:
    """Up to `limit` of all companions' portfolio items above `after_id` by id; with a status, those
    alone."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items(status, after_id, limit)


@validated
async def get_portfolio_item(ports: Ports, item_id: int) -> PortfolioItem:
    """A portfolio item, shown or not. Raises NotFound."""
    async with ports.store.read_view() as view:
        item = await view.portfolio.portfolio_item(item_id)
    if item is None:
        raise NotFound("Portfolio item")
    return item


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
        user = _require_staff_member(await view.accounts.user(companion_id))
        known = await view.companions.companion(companion_id)
        items = await view.portfolio.portfolio_items_of(companion_id)
    return CompanionCase(user, known or draft_companion(user), items, known is not None)


@validated
async def get_item_case(ports: Ports, item_id: int) -> tuple[PortfolioItem, CompanionCase]:
    """A portfolio item with its companion. Raises NotFound."""
    item = await get_portfolio_item(ports, item_id)
    return item, await get_companion_case(ports, item.companion_id)


@validated
async def set_approval(
    ports: Ports, companion_id: int, approval: Approval, shown: Approval | None = None
) -> Companion:
    """Approve or suspend a companion, also a draft that is not stored yet: only approved ones are
    listed and can be booked. `shown` is the approval that the operator saw, if it counts. Locks the
    companion.

    Raises NotFound for whoever is no staff member, and RuleBroken `profile_incomplete` where an
    approval lacks profile fields, or `already_decided` where somebody decided otherwise than shown
    and wanted.
    """

    async def unit(tx: Transaction) -> Companion:
        companion = await tx.companions.lock_companion(companion_id)
        if companion is None:
            # The lock holds up their own first change.
            user = _require_staff_member(await tx.accounts.lock_user(companion_id))
            companion = await tx.companions.lock_companion(user.id) or draft_companion(user)
        _check_shown(shown, companion.approval, approval)
        if approval is Approval.APPROVED and (lacking := missing_fields(companion)):
            fields = ", ".join(lacking)
            raise RuleBroken("profile_incomplete", f"The profile has no {fields} yet")
        changed = evolve(companion, approval=approval)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.run_transaction(unit)


@validated
async def moderate_item(
    ports: Ports,
    item_id: int,
    status: PortfolioItemStatus,
    reason: str | None = None,
    shown: PortfolioItemStatus | None = None,
) -> PortfolioItem:
    """Approve or reject a portfolio item: only approved ones are shown to others, and the owner of
    a rejected one reads the reason. Repeating a decision changes nothing but the reason, where
    another one is given. `shown` is the status that the operator saw, if it counts. Locks the
    companion.

    Raises NotFound, and RuleBroken `already_decided` where somebody decided otherwise than shown
    and wanted.
    """

    async def unit(tx: Transaction) -> PortfolioItem:
        item = await tx.portfolio.portfolio_item(item_id)
        owner_id = 0 if item is None else item.companion_id
        companion = await tx.companions.lock_companion(owner_id)
        # Read again: its owner may have removed it before the companion was locked.
        item = await tx.portfolio.portfolio_item(item_id)
        if companion is None or item is None:
            raise NotFound("Portfolio item")
        _check_shown(shown, item.status, status)
        is_rejected = status is PortfolioItemStatus.REJECTED
        rejection = (reason or item.rejection) if is_rejected else ""
        decided = evolve(item, status=status, rejection=rejection)
        if decided != item:
            await tx.portfolio.save_portfolio_item(decided)
            await tx.companions.save_companion(companion)
        return decided

    return await ports.store.run_transaction(unit)


def _check_shown(shown: object, current: object, wanted: object) -> None:
    """A form that is submitted twice finds what it wanted, which is no conflict."""
    if shown is not None and current not in (shown, wanted):
        raise RuleBroken("already_decided", "Somebody has decided this meanwhile")
