"""Settings of users for their own pages: language, theme, time zone."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.bounds import provided_fields
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.errors import Unauthenticated
from staffbooking_core.inputs import ChooseSettings
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated

__all__ = ["choose_settings"]


@validated
async def choose_settings(ports: Ports, user_id: int, choice: ChooseSettings) -> User:
    """Store the given settings of a user; returns the changed user. Locks the user.

    Raises Unauthenticated where the user was disabled since authentication.
    """

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.disabled_at is not None:
            raise Unauthenticated
        changed = evolve(held, **provided_fields(choice))
        if changed != held:
            await tx.accounts.save_user(changed)
        return changed

    return await ports.store.run_transaction(unit)
