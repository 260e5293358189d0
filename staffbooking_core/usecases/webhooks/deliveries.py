"""Webhook deliveries: events are sequenced, fanned out to endpoints, sent and settled
(SPECIFICATION 6.1, CONTRACT 7).

1. `publish_events` gives committed events their feed positions, and adds a delivery for each
   endpoint that subscribes.
2. `claim_batches` claims endpoints under a lease, each with a batch of due deliveries.
3. `attempt_delivery` sends a delivery once, outside of transactions.
4. `settle_results` saves the outcomes and releases the endpoints.

Any number of workers may run this. A worker that lost its claim settles nothing. A delivery that
was sent but not settled is sent again, with the same id and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from attrs import frozen

from staffbooking_core.domain.notifications.disabled import webhook_disabled_notification
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    WebhookEndpoint,
    apply_attempt_to_delivery,
    apply_attempts_to_endpoint,
    delivery_headers,
    fan_out_deliveries,
    sort_for_feed,
)
from staffbooking_core.errors import SealBroken
from staffbooking_core.ports import (
    DueDelivery,
    EndpointBatch,
    EndpointClaim,
    Lease,
    Ports,
    Transaction,
)
from staffbooking_core.request_id import caused_by_request
from staffbooking_core.validation import validated

WEBHOOK_SECRET_PURPOSE = "webhook-secrets"
"""The vault's purpose for webhook secrets."""

_PUBLISH_BATCH_SIZE = 200
"""Events that are sequenced in one transaction."""

DELIVERY_BATCH_SIZE = 16
"""Maximum deliveries of an endpoint per claim, so that other endpoints get their turn."""

ENDPOINT_PAGE_SIZE = 100


@validated
async def publish_events(ports: Ports, limit: int = _PUBLISH_BATCH_SIZE) -> int:
    """Give committed events their feed positions, and add the deliveries for the endpoints that
    subscribe; returns the number of events.

    Locks the feed, then the endpoints in the order of ids.
    """
    async with ports.store.read_view() as view:
        if not await view.webhooks.has_unsequenced_events():
            return 0
    created_at = await ports.clock.business()

    async def unit(tx: Transaction) -> int:
        last_position = await tx.webhooks.lock_feed()
        events = sort_for_feed(await tx.webhooks.unsequenced_events(limit))
        if not events:  # Another worker published them.
            return 0
        await tx.webhooks.save_feed_positions(
            [(event, last_position + n) for n, event in enumerate(events, start=1)]
        )
        parties = {party for event in events for party in event.parties}
        subscribers = await tx.webhooks.lock_endpoints_of(sorted(parties))
        new = fan_out_deliveries(events, subscribers, created_at, ports.clock.wall())
        await tx.webhooks.add_deliveries(new)
        return len(events)

    return await ports.store.run_transaction(unit)


# Batches ----------------------------------------------------------------------------------


@frozen
class DeliveryResult:
    """Outcome of one delivery of a batch; `delivery` is as it was claimed."""

    batch: EndpointBatch
    delivery: Delivery
    outcome: AttemptOutcome


@validated
async def claim_batches(ports: Ports, limit: int, *, degraded: bool) -> Sequence[EndpointBatch]:
    """Claim up to `limit` endpoints with due deliveries under a lease; with `degraded`, endpoints
    whose last attempt failed or was slow, without it all others. The deliveries of an endpoint that
    may not be served (paused, disabled, or owner without a subscription; CONTRACT 7) are held
    instead."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def unit(tx: Transaction) -> list[EndpointBatch]:
        batches, idle_endpoint_ids = [], []
        for batch in await tx.webhooks.claim_batches(
            now, lease, limit, DELIVERY_BATCH_SIZE, degraded=degraded
        ):
            is_served = batch.endpoint.is_deliverable(batch.owner, now)
            if not is_served:
                await tx.webhooks.hold_deliveries(batch.endpoint.id, now)
            if is_served and batch.due_deliveries:
                batches.append(batch)
            else:
                idle_endpoint_ids.append(batch.endpoint.id)
        if idle_endpoint_ids:
            await tx.webhooks.release_endpoints(sorted(idle_endpoint_ids), now)
        return batches

    return await ports.store.run_transaction(unit)


def unseal_secrets(ports: Ports, endpoint: WebhookEndpoint) -> tuple[str, ...]:
    """The secrets that currently sign, the published one first. Raises SealBroken."""
    sealed = endpoint.secrets.signing_secrets(ports.clock.wall())
    return tuple(
        ports.vault.open(WEBHOOK_SECRET_PURPOSE, each, endpoint.id).decode() for each in sealed
    )


async def attempt_delivery(
    ports: Ports, url: str, secrets: Sequence[str], due: DueDelivery
) -> AttemptOutcome:
    """Send one delivery, once, with a timeout of `policy.webhook_attempt_timeout`. A failure is an
    outcome, not an error. The arguments come from the store and the vault: they are not validated
    again."""
    delivery, at = due.delivery, ports.clock.wall()
    number = delivery.attempts + 1
    signed_headers = delivery_headers(
        secrets, delivery.event_id, delivery.event, number, due.body, at
    )
    seconds = ports.policy.webhook_attempt_timeout.total_seconds()
    with caused_by_request(due.request_id):
        answer = await ports.webhook_sender.send(url, signed_headers, due.body, seconds)
    ended_at = ports.clock.wall()
    if isinstance(answer, DeliveryFailure):
        return AttemptOutcome(at, ended_at, failure=answer)
    return AttemptOutcome(at, ended_at, response_status=answer)


@validated
async def settle_results(
    ports: Ports,
    delivery_results: Iterable[DeliveryResult],
    finished_batches: Iterable[EndpointBatch] = (),
    last_deliveries: Mapping[EndpointClaim, Delivery] = MappingProxyType({}),
) -> Mapping[EndpointClaim, Sequence[DueDelivery]]:
    """Save the outcomes of attempts, and release the finished batches, in one transaction;
    repeatable. Outcomes of lost claims are dropped.

    Returns the claims under which deliveries may still be sent. Those of `last_deliveries`, that is
    the last one of each batch that is to go on, have the deliveries that come next.

    Locks the claimed endpoints, then the deliveries, both in order.
    """
    results = sorted(delivery_results, key=lambda each: each.outcome.ended_at)
    finished_claims = {turn.claim for turn in finished_batches}
    claims = sorted(finished_claims.union(last_deliveries, (each.batch.claim for each in results)))
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> dict[EndpointClaim, Sequence[DueDelivery]]:
        held = await tx.webhooks.lock_claims(claims)
        own_results = [each for each in results if each.batch.claim in held]
        endpoints = await _save_results(
            tx, ports, own_results, [each.endpoint for each in held.values()], now
        )
        if released_endpoint_ids := sorted(
            endpoint_id for endpoint_id, _ in finished_claims & held.keys()
        ):
            await tx.webhooks.release_endpoints(released_endpoint_ids, now)
        continued: dict[EndpointClaim, Sequence[DueDelivery]] = {
            claim: ()
            for claim, each in held.items()
            if endpoints[claim[0]].is_deliverable(each.owner, now)
        }
        extended = [
            (endpoints[claim[0]], last)
            for claim, last in last_deliveries.items()
            if claim in continued
        ]
        if extended:
            more = await tx.webhooks.next_deliveries(extended, now, DELIVERY_BATCH_SIZE)
            continued |= {claim: more[claim[0]] for claim in continued if claim[0] in more}
        return continued

    return await ports.store.run_transaction(unit)


async def _save_results(
    tx: Transaction,
    ports: Ports,
    results: Sequence[DeliveryResult],
    held: Iterable[WebhookEndpoint],
    now: datetime,
) -> dict[int, WebhookEndpoint]:
    """Save outcomes in their order for locked endpoints; returns the endpoints after that, by
    id."""
    endpoints = {endpoint.id: endpoint for endpoint in held}
    if not results:
        return endpoints
    deliveries = await _save_deliveries(tx, ports, results)
    attempts: list[tuple[int, DeliveryAttempt]] = []
    made_by_endpoint: dict[int, list[tuple[Delivery, AttemptOutcome]]] = {}
    for each in results:
        if (after := deliveries.get(each.delivery.id)) is not None:
            attempts.append((after.id, each.outcome.to_attempt(after.attempts)))
            made_by_endpoint.setdefault(after.endpoint_id, []).append((after, each.outcome))
    disabled: list[WebhookEndpoint] = []
    for endpoint_id, made in made_by_endpoint.items():
        was_active = endpoints[endpoint_id].active
        changed = apply_attempts_to_endpoint(endpoints[endpoint_id], made, ports.policy)
        endpoints[endpoint_id] = changed
        if was_active and not changed.active:
            disabled.append(changed)
    finished_ids = [
        each.id
        for each in deliveries.values()
        if each.is_finished and endpoints[each.endpoint_id].ordered
    ]
    if finished_ids:
        await tx.webhooks.release_waiting_deliveries(finished_ids)
    await tx.webhooks.add_attempts(attempts)
    await tx.webhooks.save_endpoints([endpoints[number] for number in sorted(made_by_endpoint)])
    for endpoint in disabled:
        await tx.webhooks.hold_deliveries(endpoint.id, now)
        notification = webhook_disabled_notification(endpoint, ports.policy)
        await tx.notifications.add_notifications([notification], now)
    return endpoints


async def _save_deliveries(
    tx: Transaction, ports: Ports, results: Iterable[DeliveryResult]
) -> dict[int, Delivery]:
    """Save the deliveries of outcomes that are not saved yet; returns them as they are then, by
    id. Most are as they were claimed."""
    result_by_id = {each.delivery.id: each for each in results}

    def after_attempt(delivery: Delivery) -> Delivery:
        outcome = result_by_id[delivery.id].outcome
        return apply_attempt_to_delivery(delivery, outcome, ports.policy)

    expected = {
        number: after_attempt(each.delivery) for number, each in sorted(result_by_id.items())
    }
    advanced_ids = await tx.webhooks.advance_deliveries(list(expected.values()))
    saved = {number: expected[number] for number in advanced_ids}
    if len(saved) < len(expected):
        others = await tx.webhooks.lock_deliveries(sorted(expected.keys() - saved.keys()))
        changed = [
            after_attempt(each)
            for each in others
            # Else it was saved by a commit whose response was lost.
            if each.attempts == result_by_id[each.id].delivery.attempts
        ]
        await tx.webhooks.save_deliveries(changed)
        saved |= {each.id: each for each in changed}
    return saved


@validated
async def renew_claims(ports: Ports, batches: Iterable[EndpointBatch]) -> None:
    """Extend the leases of batches that are still being sent."""
    tokens = sorted({turn.lease.token for turn in batches})
    until = ports.clock.wall() + ports.policy.lease_duration

    async def unit(tx: Transaction) -> None:
        await tx.webhooks.renew_claims(tokens, until)

    if tokens:
        await ports.store.run_transaction(unit)


# Maintenance ------------------------------------------------------------------------------


async def resume_held_deliveries(ports: Ports) -> int:
    """Resume the held deliveries of endpoints that may be served again; returns the number of
    deliveries. Locks one endpoint at a time."""
    now, resumed, after_id = ports.clock.wall(), 0, 0
    while True:
        async with ports.store.read_view() as view:
            waiting = await view.webhooks.endpoints_with_held_deliveries(
                after_id, ENDPOINT_PAGE_SIZE
            )
        for each in waiting:
            if each.endpoint.is_deliverable(each.owner, now):
                resumed += await _resume_endpoint(ports, each.endpoint.id, now)
        if len(waiting) < ENDPOINT_PAGE_SIZE:
            return resumed
        after_id = waiting[-1].endpoint.id


async def _resume_endpoint(ports: Ports, endpoint_id: int, now: datetime) -> int:
    async def unit(tx: Transaction) -> int:
        endpoint = await tx.webhooks.lock_endpoint(endpoint_id)
        owner = None if endpoint is None else await tx.accounts.user(endpoint.owner_id)
        if endpoint is None or owner is None or not endpoint.is_deliverable(owner, now):
            return 0
        return await tx.webhooks.resume_deliveries(endpoint_id, now)

    return await ports.store.run_transaction(unit)


async def cancel_held_deliveries(ports: Ports) -> int:
    """Cancel a batch of deliveries held longer than `policy.webhook_held_retention`, so that what
    waited for them is sent; returns their number."""
    now = ports.clock.wall()
    held_before = now - ports.policy.webhook_held_retention
    return await ports.store.run_transaction(
        lambda tx: tx.webhooks.cancel_held_deliveries(held_before, now, _PUBLISH_BATCH_SIZE)
    )


async def deliver_all_due(ports: Ports) -> int:
    """Send due deliveries one after the other until none is left; returns the number of attempts.
    For embedding and tests: the worker sends concurrently.

    Raises SealBroken after all others were sent.
    """
    attempt_count, broken = 0, None
    while (degraded := await _find_due_queue(ports)) is not None:
        for batch in await claim_batches(ports, 1, degraded=degraded):
            try:
                attempt_count += await _deliver_batch(ports, batch)
            except SealBroken as error:
                broken = error  # The claim expires.
    if broken is not None:
        raise broken
    return attempt_count


async def _find_due_queue(ports: Ports) -> bool | None:
    """Whether the next due endpoint is a degraded one; None if none is due."""
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        for degraded in (False, True):
            due_at = await view.webhooks.next_batch_due_at(now, degraded=degraded)
            if due_at is not None and due_at <= now:
                return degraded
    return None


async def _deliver_batch(ports: Ports, batch: EndpointBatch) -> int:
    """Send the deliveries of a batch; returns the number of attempts."""
    secrets, attempt_count = unseal_secrets(ports, batch.endpoint), 0
    for due in batch.due_deliveries:
        outcome = await attempt_delivery(ports, batch.endpoint.url, secrets, due)
        valid_claims = await settle_results(ports, [DeliveryResult(batch, due.delivery, outcome)])
        attempt_count += 1
        if batch.claim not in valid_claims:
            break
    await settle_results(ports, [], [batch])
    return attempt_count
