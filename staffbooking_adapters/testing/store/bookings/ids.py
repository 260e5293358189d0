"""Contract of the stores: ids that were shown outside are never reused after deletion."""

from __future__ import annotations

from staffbooking_adapters.testing.builders import NOW, POLICY, add_api_key, add_user, make_lease
from staffbooking_adapters.testing.builders_notifications import add_notification
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus


class IdsContract(StoreContract):
    """Ids that were shown outside are never reused after deletion."""

    async def test_the_id_of_a_sent_notification_is_not_reused(self, store):
        """The id of a sent notification is not reused: mail clients drop a second e-mail with the
        same Message-ID."""
        lease, sent_ids = make_lease(NOW), []
        for _ in range(2):
            await add_notification(store)
            [due] = await store.run_transaction(
                lambda tx: tx.notifications.claim_notifications(NOW, lease, 1)
            )
            await store.run_transaction(
                lambda tx, due=due: tx.notifications.finish_notifications([due.id], lease)
            )
            sent_ids.append(due.id)
        assert sent_ids[0] < sent_ids[1]

    async def test_the_id_of_a_deleted_delivery_is_not_reused(self, store):
        """The id of a deleted delivery is not reused, so its owner never sees another one under
        it."""
        endpoint = await add_endpoint(store)
        first = await add_delivery(store, endpoint, status=DeliveryStatus.SUCCEEDED)
        assert await store.delete_expired(NOW + POLICY.webhook_delivery_retention, POLICY) == 1
        assert (await add_delivery(store, endpoint)).id > first.id

    async def test_the_id_of_an_erased_key_is_not_reused(self, store):
        """The id of an erased key is not reused, so revoking by it revokes no other key."""
        user, other = await add_user(store), await add_user(store)
        first = await add_api_key(store, user.id)
        await store.run_transaction(lambda tx: tx.personal_data.erase(user, None))
        assert (await add_api_key(store, other.id)).id > first.id
