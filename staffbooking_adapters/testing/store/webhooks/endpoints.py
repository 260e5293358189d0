"""Contract of the stores: webhook endpoints and metrics."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    add_subscriber,
    add_user,
)
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
    make_new_endpoint,
    place_events,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    DeliveryStatus,
    EndpointSecrets,
    EndpointSubscription,
    WebhookEndpoint,
)
from staffbooking_core.ports import WebhookStats

FINE = NOW + timedelta(microseconds=123_456)


async def find(store, endpoint_id):
    return await read_store(store, lambda view: view.webhooks.endpoint(endpoint_id))


async def save(store, *endpoints):
    await store.run_transaction(lambda unit: unit.webhooks.save_endpoints(endpoints))


async def delete(store, endpoint):
    deleted = evolve(endpoint, active=False, deleted_at=NOW, secrets=EndpointSecrets(b""))
    await save(store, deleted)
    return deleted


# Figures ----------------------------------------------------------------------------------


async def figures(store, now=NOW):
    return await read_store(store, lambda view: view.webhooks.stats(now))


class EndpointsContract(StoreContract):
    """Webhook endpoints and metrics."""

    # Endpoints --------------------------------------------------------------------------------
    async def test_a_new_endpoint_has_no_secret(self, store):
        """A new endpoint is active, has a clean record, an id of its own and no secret."""
        user = await add_subscriber(store)
        new = make_new_endpoint(
            user.id,
            url="https://[2001:db8::1]:8443/in?tenant=7",
            events=frozenset({EventName.BOOKING_CREATED, EventName.PAYMENT_COMPLETED}),
            description="Mía's \N{GRINNING FACE}",
            created_at=FINE,
        )
        first, second = [
            await store.run_transaction(lambda unit: unit.webhooks.add_endpoint(new))
            for _ in range(2)
        ]
        assert first == WebhookEndpoint(
            id=first.id,
            owner_id=user.id,
            url=new.url,
            events=new.events,
            description=new.description,
            created_at=FINE,
            secrets=EndpointSecrets(b""),
        )
        assert second == evolve(first, id=second.id)
        assert first.id < second.id
        assert await find(store, first.id) == first

    async def test_an_endpoint_comes_back_as_it_was_saved(self, store):
        """An endpoint is stored with every field; sealed secrets are kept byte for byte."""
        endpoint = await add_endpoint(store)
        changed = evolve(
            endpoint,
            events=frozenset({EventName.BOOKING_CANCELLED}),
            description="Till, \N{GRINNING FACE}",
            secrets=EndpointSecrets(bytes(range(256)), b"\x00next\xff", FINE + DAY),
            active=False,
            consecutive_failures=10,
            disabled_at=FINE,
            disabled_reason="10 deliveries in a row failed",
            deleted_at=FINE + HOUR,
            degraded=True,
            succeeded=2**40,
            failed=7,
        )
        await save(store, changed)
        assert await find(store, endpoint.id) == changed

    async def test_an_unset_field_is_unset_again(self, store):
        """Saving can clear an endpoint's rotation, reason and description."""
        endpoint = await add_endpoint(
            store,
            description="Till",
            secrets=EndpointSecrets(b"old", b"new", NOW),
            disabled_at=NOW,
            disabled_reason="10 deliveries in a row failed",
        )
        cleared = evolve(
            endpoint,
            description=None,
            secrets=EndpointSecrets(b"new"),
            disabled_at=None,
            disabled_reason=None,
        )
        await save(store, cleared)
        assert await find(store, endpoint.id) == cleared

    async def test_many_endpoints_are_saved_at_once(self, store):
        """Saving several endpoints changes these only; saving none is no error."""
        endpoints = [await add_endpoint(store) for _ in range(3)]
        changed = [evolve(each, failed=each.id) for each in endpoints[1:]]
        await save(store, *changed)
        await save(store)
        assert [await find(store, each.id) for each in endpoints] == [endpoints[0], *changed]

    async def test_an_unknown_endpoint_is_none(self, store):
        """An unknown endpoint is None, looked up or locked."""
        await add_endpoint(store)
        assert await find(store, 404) is None
        assert await store.run_transaction(lambda unit: unit.webhooks.lock_endpoint(404)) is None

    async def test_a_deleted_endpoint_is_still_found(self, store):
        """A deleted endpoint is found and locked by id."""
        deleted = await delete(store, endpoint := await add_endpoint(store))
        assert await find(store, endpoint.id) == deleted
        assert (
            await store.run_transaction(lambda unit: unit.webhooks.lock_endpoint(endpoint.id))
            == deleted
        )

    async def test_a_users_endpoints_are_listed(self, store):
        """A user's endpoints are listed oldest first, paused ones included, deleted ones not."""
        user = await add_subscriber(store)
        endpoints = [await add_endpoint(store, user, active=n != 1) for n in range(4)]
        await add_endpoint(store)
        await delete(store, endpoints[2])
        listed = await read_store(store, lambda view: view.webhooks.endpoints_of(user.id))
        assert list(listed) == [endpoints[0], endpoints[1], endpoints[3]]

    async def test_all_endpoints_are_listed_in_batches(self, store):
        """All endpoints are listed by id with their owners, without deleted ones."""
        users = [await add_subscriber(store) for _ in range(2)]
        endpoints = [await add_endpoint(store, users[n % 2]) for n in range(5)]
        await delete(store, endpoints[1])
        async with store.read_view() as view:
            starts = (0, endpoints[2].id, endpoints[4].id)
            batches = [list(await view.webhooks.endpoints(after, 2)) for after in starts]
        expected = [EndpointSubscription(endpoints[n], users[n % 2]) for n in (0, 2, 3, 4)]
        assert batches == [expected[:2], expected[2:], []]

    async def test_saving_keeps_the_claim(self, store):
        """Saving an endpoint keeps its claim, which can be made again when the lease ends."""
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint)
        (batch,) = await claim_endpoint_batches(store)
        await save(store, evolve(endpoint, description="Till"))
        held = await store.run_transaction(lambda unit: unit.webhooks.lock_claims([batch.claim]))
        assert [each.endpoint.description for each in held.values()] == ["Till"]
        (again,) = await claim_endpoint_batches(store, NOW + HOUR)
        assert again.endpoint == evolve(endpoint, description="Till")

    async def test_events_go_to_parties_and_admins(self, store):
        """An event's endpoints are those of its parties and of admins, by id, without deleted
        ones."""
        users = [await add_subscriber(store) for _ in range(3)]
        admin = await add_user(store, role=Role.ADMIN)
        owners = [users[1], admin, users[0], users[2], users[0]]
        endpoints = [await add_endpoint(store, owner, active=owner is admin) for owner in owners]
        await delete(store, await add_endpoint(store, users[0]))
        await delete(store, await add_endpoint(store, admin))

        async def subscribers(*found):
            ids = [user.id for user in found]
            return list(
                await store.run_transaction(lambda unit: unit.webhooks.lock_endpoints_of(ids))
            )

        everybody = [EndpointSubscription(*each) for each in zip(endpoints, owners, strict=True)]
        assert await subscribers(users[0], users[1]) == [everybody[n] for n in (0, 1, 2, 4)]
        assert await subscribers(users[0], admin) == [everybody[n] for n in (1, 2, 4)]
        assert await subscribers() == [everybody[1]]

    async def test_the_metrics_of_an_empty_store_are_zero(self, store):
        """All metrics of an empty store are 0."""
        assert await figures(store) == WebhookStats(0, 0, 0, 0, 0, 0.0)

    async def test_attempts_are_counted_over_endpoints(self, store):
        """Attempt counters include paused and deleted endpoints, so they never decrease."""
        for n in range(1, 4):
            await add_endpoint(store, active=n != 2, succeeded=n, failed=10 * n)
        await delete(store, await add_endpoint(store, succeeded=100, failed=100))
        found = await figures(store)
        assert (found.succeeded, found.failed) == (106, 160)

    async def test_waiting_deliveries_and_events_are_counted(self, store):
        """Pending, waiting and held deliveries and unplaced events are counted, finished ones
        not."""
        endpoint = await add_endpoint(store)
        for status in (*2 * [DeliveryStatus.PENDING], *3 * [DeliveryStatus.HELD], *DeliveryStatus):
            await add_delivery(store, endpoint, status=status)
        await place_events(store)
        await add_event(store)
        found = await figures(store)
        assert (found.pending, found.held, found.unplaced) == (4, 4, 1)

    async def test_the_lag_is_that_of_the_most_overdue(self, store):
        """The lag is the age in seconds of the most overdue pending delivery; held ones do not
        count."""
        endpoint = await add_endpoint(store)
        for minutes in (3, 1, 2):
            await add_delivery(store, endpoint, next_at=NOW + minutes * MINUTE)
        await add_delivery(store, endpoint, status=DeliveryStatus.HELD)
        times = [NOW, NOW + MINUTE, NOW + 4 * MINUTE + timedelta(milliseconds=250)]
        assert [(await figures(store, at)).lag for at in times] == [0.0, 0.0, 180.25]
