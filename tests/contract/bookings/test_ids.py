"""Contract of the stores: ids that were shown outside are never reused after deletion."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from tests.support.builders import NOW, POLICY, add_api_key, add_user, make_lease
from tests.support.notifications import add_notification
from tests.support.webhooks import add_delivery, add_endpoint

pytestmark = pytest.mark.anyio


async def test_of_a_notice_that_was_told(store):
    """The id of a sent notification is not reused: mailboxes drop a second mail of one Message-
    ID."""
    lease, numbers = make_lease(NOW), []
    for _ in range(2):
        await add_notification(store)
        [due] = await store.run_transaction(
            lambda tx: tx.notifications.claim_notifications(NOW, lease, 1)
        )
        await store.run_transaction(
            lambda tx, due=due: tx.notifications.finish_notification(due.id, lease)
        )
        numbers.append(due.id)
    assert numbers[0] < numbers[1]


async def test_of_a_delivery_that_was_swept(store):
    """The id of a deleted delivery is not reused, so its owner never sees another one under it."""
    endpoint = await add_endpoint(store)
    first = await add_delivery(store, endpoint, status=DeliveryStatus.SUCCEEDED)
    assert await store.delete_expired(NOW + POLICY.webhook_delivery_retention, POLICY) == 1
    assert (await add_delivery(store, endpoint)).id > first.id


async def test_of_a_key_that_was_erased(store):
    """The id of an erased key is not reused, so revoking by it revokes no other key."""
    user, other = await add_user(store), await add_user(store)
    first = await add_api_key(store, user.id)
    await store.run_transaction(lambda tx: tx.personal_data.erase(user, None))
    assert (await add_api_key(store, other.id)).id > first.id
