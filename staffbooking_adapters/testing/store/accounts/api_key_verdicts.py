"""Admission by each store accepts and refuses API keys as `check_api_key` does."""

from __future__ import annotations

import asyncio
from itertools import product

from attrs import evolve

from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    SECOND,
    make_new_api_key,
    make_new_user,
)
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription, check_api_key
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StaffbookingError

RULE = RateLimit("general", 5, HOUR)
ENDS = (None, NOW + SECOND, NOW)
"""Ends of a key or a subscription: none, in the future, and now."""
GRANTED: tuple[frozenset[Permission], ...] = (
    frozenset(),
    frozenset({Permission.READ}),
    frozenset(Permission),
)
ASKED = (None, Permission.READ, Permission.BOOK)


async def add_keys(tx):
    """Add each kind of key for each kind of owner."""
    for role, tier, ends, disabled_at in product(Role, Subscription, ENDS, (None, NOW)):
        new = make_new_user(role=role, subscription=tier, subscription_expires_at=ends)
        owner = evolve(await tx.accounts.add_user(new), disabled_at=disabled_at)
        await tx.accounts.save_user(owner)
        for expires_at, revoked_at, granted in product(ENDS, (None, NOW), GRANTED):
            new_key = make_new_api_key(owner.id, permissions=granted, expires_at=expires_at)
            key = await tx.accounts.add_api_key(new_key)
            if revoked_at is not None:
                await tx.accounts.revoke_api_key(key.id, revoked_at)
            yield evolve(key, revoked_at=revoked_at), owner


def expected_code(key, owner, permission):
    """The error code of the refusal, or None where the key is valid."""
    try:
        check_api_key(key, owner, permission, NOW)
    except StaffbookingError as error:
        return error.code
    return None


def code(result):
    return result.code if isinstance(result, StaffbookingError) else None


class ApiKeyVerdictsContract(StoreContract):
    """Admission by each store accepts and refuses API keys as `check_api_key` does."""

    async def test_admission_agrees_with_check_api_key(self, store):
        """Each call gets the error code of `check_api_key`, or counts one hit."""

        async def unit(tx):
            return [each async for each in add_keys(tx)]

        keys = await store.run_transaction(unit)
        asked = list(product(keys, ASKED))
        by_key = store.admission.authenticate_api_key
        calls = [by_key(key.digest, permission, (RULE,), NOW) for (key, _), permission in asked]
        results = await asyncio.gather(*calls, return_exceptions=True)
        expected = [expected_code(key, owner, permission) for (key, owner), permission in asked]
        assert [code(result) for result in results] == expected
        assert {None, "invalid_api_key", "subscription_required", "permission_required"} == {
            *expected
        }

        look = store.admission.peek
        looks = [await look(f"general:key:{key.id}", RULE, NOW) for key, _ in keys]
        counts = [RULE.limit - verdict.remaining for verdict in looks]
        permitted = [expected[n : n + len(ASKED)].count(None) for n in range(0, len(asked), 3)]
        assert counts == permitted
