"""Webhook endpoints, managed by owners and operators, and the pull feed."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    NOW,
    add_booking,
    add_companion,
    add_subscriber,
    add_user,
)
from staffbooking_adapters.testing.builders_webhooks import (
    ENDPOINT_SECRET,
    add_delivery,
    add_endpoint,
    add_event,
)
from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    DeliveryStatus,
    EndpointSecrets,
    WebhookEndpoint,
)
from staffbooking_core.errors import Forbidden, InvalidField, NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import people
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.webhooks import deliveries, delivery_log, endpoints, feed
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from tests.support.webhook_deployment import WebhookScenario

pytestmark = pytest.mark.anyio

URL = "https://hooks.example.com/in"
PENDING, HELD, CANCELLED = DeliveryStatus.PENDING, DeliveryStatus.HELD, DeliveryStatus.CANCELLED
SUCCEEDED, FAILED = DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED


def opened(ports: Ports, endpoint: WebhookEndpoint) -> list[bytes]:
    """The unsealed secrets that currently sign."""
    sealed = endpoint.secrets.signing_secrets(ports.clock.wall())
    return [ports.vault.open(WEBHOOK_SECRET_PURPOSE, each, endpoint.id) for each in sealed]


# Registering ------------------------------------------------------------------------------


async def test_the_secret_is_sealed_for_its_endpoint(post: WebhookScenario) -> None:
    """The secret is stored sealed, and opens in no other endpoint's row."""
    ports = evolve(post.ports, vault=KeyringVault(["key"]))
    user = await add_subscriber(ports.store)
    endpoint, secret = await endpoints.register_endpoint(ports, user, CreateWebhook(url=URL))
    kept = await post.reload_endpoint(endpoint)
    assert kept == endpoint
    assert opened(ports, kept) == [secret.encode()]
    assert secret.encode() not in kept.secrets.current
    assert secret not in repr(kept)


async def test_registering_needs_a_subscription(post: WebhookScenario) -> None:
    """Registration without a subscription raises Forbidden."""
    user = await add_user(post.ports.store, subscription=Subscription.BASIC)
    with pytest.raises(Forbidden) as caught:
        await endpoints.register_endpoint(post.ports, user, CreateWebhook(url=URL))
    assert caught.value.code == "subscription_required"


@pytest.mark.parametrize("url", ["http://hooks.example.com", "https://inside.example"])
async def test_an_unsafe_url_is_not_registered(post: WebhookScenario, url: str) -> None:
    """An unsafe URL or address is refused, and nothing is stored."""
    post.sender.unsafe_hosts.add("inside.example")
    user = await add_subscriber(post.ports.store)
    with pytest.raises(InvalidField) as caught:
        await endpoints.register_endpoint(post.ports, user, CreateWebhook(url=url))
    assert [fault.field for fault in caught.value.field_errors] == ["url"]
    assert await endpoints.list_endpoints(post.ports, user) == []


async def test_who_is_locked_out_meanwhile_registers_nothing(post: WebhookScenario) -> None:
    """A user disabled or erased since authentication is unauthenticated."""
    user, wanted = await add_subscriber(post.ports.store), CreateWebhook(url=URL)
    await disabling.disable_user(post.ports, user.email)
    with pytest.raises(Unauthenticated):
        await endpoints.register_endpoint(post.ports, user, wanted)
    await privacy.erase_person(post.ports, user.id)
    with pytest.raises(Unauthenticated):
        await endpoints.register_endpoint(post.ports, user, wanted)
    assert await endpoints.list_endpoints(post.ports, user) == []


async def test_who_becomes_an_operator_meanwhile_registers_nothing(post: WebhookScenario) -> None:
    """A customer who is made an operator while the host is resolved is unauthenticated: the
    endpoint would get deliveries of all bookings."""
    user = await add_subscriber(post.ports.store)
    await people.set_role(post.ports, user.id, Role.ADMIN, 0)
    with pytest.raises(Unauthenticated):
        await endpoints.register_endpoint(post.ports, user, CreateWebhook(url=URL))
    assert await endpoints.list_endpoints(post.ports, user) == []


async def test_ten_are_ten_where_they_come_at_once(post: WebhookScenario) -> None:
    """Concurrent registrations respect the limit of ten."""
    user = await add_subscriber(post.ports.store)
    wanted = CreateWebhook(url=URL)
    calls = [endpoints.register_endpoint(post.ports, user, wanted) for _ in range(12)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, RuleBroken)]
    assert [each.code for each in refused] == ["too_many_webhooks"] * 2
    assert len(await endpoints.list_endpoints(post.ports, user)) == 10


# Enabling and deleting --------------------------------------------------------------------


async def test_an_operator_enables_anybodys(post: WebhookScenario) -> None:
    """An operator enables any endpoint, and held deliveries are sent."""
    endpoint = await post.add_endpoint(active=False, disabled_at=NOW, disabled_reason="dead")
    post.set_response(endpoint, 200)
    await add_delivery(post.ports.store, endpoint, status=HELD)
    enabled = await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    assert (enabled.active, enabled.disabled_at, enabled.disabled_reason) == (True, None, None)
    assert await post.deliver() == 1
    assert await post.delivery_statuses(endpoint) == [SUCCEEDED]


async def test_enabling_sends_nothing_without_a_subscription(post: WebhookScenario) -> None:
    """Held deliveries wait until the owner has a subscription."""
    lapsed = await add_user(post.ports.store)
    endpoint = await add_endpoint(post.ports.store, lapsed, active=False)
    await add_delivery(post.ports.store, endpoint, status=HELD)
    assert (await endpoints.enable_endpoint(post.ports, None, endpoint.id)).active
    assert await post.delivery_statuses(endpoint) == [HELD]


async def test_to_enable_what_is_active_loses_nothing(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Enabling an active endpoint keeps the due times of its retries."""
    post.set_response(endpoint, 500)
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    before = await post.deliveries_with_attempts(endpoint)
    owner = await post.owner_of(endpoint)
    await endpoints.update_endpoint(post.ports, owner, endpoint.id, ChangeWebhook(active=True))
    await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    assert await post.deliveries_with_attempts(endpoint) == before


async def test_a_deleted_endpoint_forgets_its_secrets(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A deleted endpoint has no secrets, and its pending deliveries are cancelled."""
    owner = await post.owner_of(endpoint)
    await endpoints.rotate_secret(post.ports, owner, endpoint.id)
    for status in DeliveryStatus:
        await add_delivery(post.ports.store, endpoint, status=status)
    await endpoints.delete_endpoint(post.ports, owner, endpoint.id)
    kept = await post.reload_endpoint(endpoint)
    assert (kept.secrets, kept.active, kept.deleted_at) == (EndpointSecrets(b""), False, NOW)
    ended = (SUCCEEDED, FAILED)
    assert await post.delivery_statuses(endpoint) == [
        each if each in ended else CANCELLED for each in reversed(DeliveryStatus)
    ]
    assert await post.deliver() == 0


async def test_the_endpoints_of_a_former_operator_are_deleted(post: WebhookScenario) -> None:
    """Deliveries of other people's bookings are neither sent nor shown once their receiver is no
    operator, whatever the subscription."""
    store = post.ports.store
    operator, other = await add_user(store, role=Role.ADMIN), await add_user(store, role=Role.ADMIN)
    person = await add_subscriber(store)
    await people.set_role(post.ports, person.id, Role.ADMIN, operator.id)
    paused = await post.add_endpoint(owner=person, active=False)
    served = await post.add_endpoint(owner=person)
    others = await post.add_endpoint(owner=other)
    for each in (served, others):
        post.set_response(each, 200)
    await add_event(store)
    await deliveries.publish_events(post.ports)
    former = await people.set_role(post.ports, person.id, Role.CUSTOMER, operator.id)
    assert await endpoints.list_endpoints(post.ports, former) == []
    assert await post.deliver() == 1
    assert await post.delivery_statuses(others) == [SUCCEEDED]
    for each in (paused, served):
        assert await post.delivery_statuses(each) == [CANCELLED]
        with pytest.raises(NotFound):
            await delivery_log.list_deliveries(post.ports, former, each.id, 1, 10)


async def test_the_endpoints_of_a_new_operator_are_deleted(post: WebhookScenario) -> None:
    """An endpoint that a customer registered for their own bookings gets no events of others."""
    operator = await add_user(post.ports.store, role=Role.ADMIN)
    person = await add_subscriber(post.ports.store)
    endpoint = await post.add_endpoint(owner=person)
    await people.set_role(post.ports, person.id, Role.ADMIN, operator.id)
    await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    assert await endpoints.list_endpoints(post.ports, person) == []
    assert await post.delivery_statuses(endpoint) == []


@pytest.mark.parametrize("who", ["owner", "operator"])
async def test_a_deleted_endpoint_is_nobodys(
    post: WebhookScenario, endpoint: WebhookEndpoint, who: str
) -> None:
    """Every call on a deleted endpoint raises NotFound."""
    ports, owner = post.ports, await post.owner_of(endpoint)
    delivery = await add_delivery(ports.store, endpoint)
    await endpoints.delete_endpoint(ports, owner, endpoint.id)
    user = owner if who == "owner" else None
    for call in (
        endpoints.enable_endpoint(ports, user, endpoint.id),
        endpoints.authorize(ports, user, endpoint.id),
        delivery_log.list_deliveries(ports, user, endpoint.id, 1, 10),
        delivery_log.redeliver(ports, user, delivery.id),
    ):
        with pytest.raises(NotFound):
            await call


# Re-sealing -------------------------------------------------------------------------------


async def test_secrets_are_sealed_anew(post: WebhookScenario) -> None:
    """All signing secrets are sealed with the current key, and nothing else changes."""
    old = evolve(post.ports, vault=KeyringVault(["old"]))
    endpoint = await add_endpoint(old.store, vault=old.vault)
    await endpoints.rotate_secret(old, await post.owner_of(endpoint), endpoint.id)
    before = await post.reload_endpoint(endpoint)
    both = evolve(post.ports, vault=KeyringVault(["new", "old"]))
    done = await endpoints.reseal_secrets(both, 0, 10)
    assert (done.last_id, done.changed, done.broken) == (endpoint.id, 1, [])
    after = await post.reload_endpoint(endpoint)
    new = evolve(post.ports, vault=KeyringVault(["new"]))
    assert opened(new, after) == opened(old, before)
    assert opened(new, after)[0] == ENDPOINT_SECRET.encode()
    assert after.secrets.next_from == before.secrets.next_from
    assert (await endpoints.reseal_secrets(both, 0, 10)).changed == 0
    assert await post.reload_endpoint(endpoint) == after


async def test_sealing_anew_goes_on_past_what_it_cannot_open(post: WebhookScenario) -> None:
    """Secrets that cannot be opened are reported and deleted endpoints are skipped."""
    vaults = {name: KeyringVault([name]) for name in ("old", "lost")}
    store, both = post.ports.store, evolve(post.ports, vault=KeyringVault(["new", "old"]))
    first, lost, gone, last = [
        await add_endpoint(store, vault=vaults[name]) for name in ("old", "lost", "old", "old")
    ]
    await endpoints.delete_endpoint(both, await post.owner_of(gone), gone.id)
    found = [await endpoints.reseal_secrets(both, after, 2) for after in (0, lost.id, last.id)]
    assert [(each.last_id, each.changed, each.broken) for each in found] == [
        (lost.id, 1, [lost.id]),
        (last.id, 1, []),
        (0, 0, []),
    ]
    assert await post.reload_endpoint(lost) == lost
    assert [opened(both, await post.reload_endpoint(each)) for each in (first, last)] == [
        [ENDPOINT_SECRET.encode()]
    ] * 2


# The pull feed ----------------------------------------------------------------------------


async def test_an_event_is_in_the_feed_once_it_is_placed(post: WebhookScenario) -> None:
    """A sequenced event is in the feeds of its parties and of admins."""
    store = post.ports.store
    customer, admin = await add_user(store), await add_user(store, role=Role.ADMIN)
    booking = await add_booking(store, await add_companion(store), customer)
    event = await add_event(store, booking)
    for user in (customer, admin):
        assert await feed.read_feed(post.ports, user, None, 10) == ([], False)
        with pytest.raises(RuleBroken) as caught:
            await feed.read_feed(post.ports, user, event.id, 10)
        assert caught.value.code == "unknown_event"
    await deliveries.publish_events(post.ports)
    for user in (customer, admin):
        (body,), has_more = await feed.read_feed(post.ports, user, None, 10)
        assert (event.id.encode() in body, has_more) == (True, False)
        assert await feed.read_feed(post.ports, user, event.id, 10) == ([], False)


async def test_the_feed_has_the_events_that_an_endpoint_names(post: WebhookScenario) -> None:
    """Besides the default events, a reader gets those that one of the reader's endpoints names,
    those from before too; without one, they still are known positions."""
    store = post.ports.store
    customer, admin = await add_subscriber(store), await add_user(store, role=Role.ADMIN)
    booking = await add_booking(store, await add_companion(store), customer)
    event = await add_event(store, booking, name=EventName.BOOKING_ACCEPTED)
    await deliveries.publish_events(post.ports)
    for user in (customer, admin):
        assert await feed.read_feed(post.ports, user, None, 10) == ([], False)
        assert await feed.read_feed(post.ports, user, event.id, 10) == ([], False)
        await add_endpoint(store, user, events=frozenset({EventName.BOOKING_ACCEPTED}))
        ((body,), _) = await feed.read_feed(post.ports, user, None, 10)
        assert event.id.encode() in body


async def test_a_strangers_event_is_unknown(post: WebhookScenario) -> None:
    """An event of other users is neither listed nor accepted as `after`."""
    store = post.ports.store
    event = await add_event(store)
    await deliveries.publish_events(post.ports)
    stranger = await add_user(store)
    assert await feed.read_feed(post.ports, stranger, None, 10) == ([], False)
    with pytest.raises(RuleBroken):
        await feed.read_feed(post.ports, stranger, event.id, 10)
