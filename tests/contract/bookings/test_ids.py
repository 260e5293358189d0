"""A number that was told outside is given once, on every store alike: what bore it is gone."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from tests.support.builders import NOW, POLICY, add_key, add_user, make_lease
from tests.support.notifications import add_notice
from tests.support.webhooks import add_delivery, add_endpoint

pytestmark = pytest.mark.anyio


async def test_of_a_notice_that_was_told(store):
    """Mailboxes hide a second mail of the same Message-ID, which has it."""
    lease, numbers = make_lease(NOW), []
    for _ in range(2):
        await add_notice(store)
        [due] = await store.write(lambda tx: tx.notices.claim(NOW, lease, 1))
        await store.write(lambda tx, due=due: tx.notices.finish(due.id, lease))
        numbers.append(due.id)
    assert numbers[0] < numbers[1]


async def test_of_a_delivery_that_was_swept(store):
    """Its owner may ask for it by then, and is not to see another."""
    endpoint = await add_endpoint(store)
    first = await add_delivery(store, endpoint, status=DeliveryStatus.SUCCEEDED)
    assert await store.sweep(NOW + POLICY.webhook_kept_for, POLICY) == 1
    assert (await add_delivery(store, endpoint)).id > first.id


async def test_of_a_key_that_was_erased(store):
    """Who revokes it by its number then revokes no other."""
    user, other = await add_user(store), await add_user(store)
    first = await add_key(store, user.id)
    await store.write(lambda tx: tx.people.forget(user, None))
    assert (await add_key(store, other.id)).id > first.id
