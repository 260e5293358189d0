"""Customers save staff members whom they may want to book."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken
from staffbooking_core.ports import MAX_SAVED_PEOPLE, Ports, SavedPerson, Transaction
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.validation import validated

__all__ = ["has_saved", "list_saved", "save_person", "unsave_person"]


@validated
async def list_saved(
    ports: Ports, customer_id: int, page: int, limit: int
) -> Sequence[SavedPerson]:
    """A page of the people whom a customer has saved, the newest first; one more than `limit`
    where another page follows."""
    async with ports.store.read_view() as view:
        return await view.saved.saved_people(customer_id, limit + 1, (page - 1) * limit)


@validated
async def has_saved(ports: Ports, customer_id: int, companion_id: int) -> bool:
    """Whether a customer has saved a companion."""
    async with ports.store.read_view() as view:
        return await view.saved.has_saved(customer_id, companion_id)


@validated
async def save_person(ports: Ports, actor: Actor, companion_id: int) -> None:
    """Save a listed companion; again changes nothing. Locks the customer.

    Raises Forbidden `customers_only`, NotFound for a companion that is not listed, and RuleBroken
    `too_many_saved` above MAX_SAVED_PEOPLE.
    """
    if actor.role is not Role.CUSTOMER:
        raise Forbidden("customers_only", "Only customers save people")

    async def unit(tx: Transaction) -> None:
        await lock_caller(tx.accounts, actor.user_id, actor.role)
        if await tx.companions.detail(companion_id) is None:
            raise NotFound("Companion")
        saved = await tx.saved.saved_people(actor.user_id, MAX_SAVED_PEOPLE)
        if companion_id in {each.companion_id for each in saved}:
            return
        if len(saved) == MAX_SAVED_PEOPLE:
            raise RuleBroken("too_many_saved", "Your list of saved people is full")
        await tx.saved.save_person(actor.user_id, companion_id, ports.clock.wall())

    await ports.store.run_transaction(unit)


@validated
async def unsave_person(ports: Ports, actor: Actor, companion_id: int) -> None:
    """Save a companion no more; nothing happens where it is not saved."""
    await ports.store.run_transaction(
        lambda tx: tx.saved.unsave_person(actor.user_id, companion_id)
    )
