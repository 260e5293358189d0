"""Events on their way to the endpoints: placed, fanned out, sent, settled (CONTRACT 7).

Any number of workers may run all of this. One claims an endpoint for a turn, sends some of
its due deliveries, and settles what came of them; whoever has lost its claim settles
nothing. What was sent but not settled is sent again, with the same id and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.notifications.notifications import webhook_disabled_notification
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    WebhookEndpoint,
    apply_attempt_to_delivery,
    apply_attempt_to_endpoint,
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

WEBHOOK_SECRET_PURPOSE = "webhook-secrets"
"""The vault's purpose."""

PUBLISH_BATCH_SIZE = 200
"""Events that get their positions in one step."""

DELIVERY_BATCH_SIZE = 16
"""Deliveries of one turn, at most: then others have theirs."""

ENDPOINT_PAGE_SIZE = 100


async def publish_events(ports: Ports, limit: int = PUBLISH_BATCH_SIZE) -> int:
    """Give committed events their positions, and each endpoint that gets one a delivery of
    it; how many events there were."""
    async with ports.store.read_view() as view:
        if not await view.webhooks.has_unsequenced_events():
            return 0
    created_at = await ports.clock.business()

    async def unit(tx: Transaction) -> int:
        last_position = await tx.webhooks.lock_feed()
        events = sort_for_feed(await tx.webhooks.unsequenced_events(limit))
        if not events:  # Another worker was quicker.
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


# Turns ------------------------------------------------------------------------------------


@frozen
class DeliveryResult:
    """What came of one delivery of a turn; `delivery` is as it was claimed."""

    batch: EndpointBatch
    delivery: Delivery
    outcome: AttemptOutcome


async def claim_batches(ports: Ports, limit: int, *, degraded: bool) -> Sequence[EndpointBatch]:
    """Claim up to `limit` endpoints whose turn has come, each with what is due. What may not
    be sent (CONTRACT 7: paused, disabled, without a subscription) is held instead."""
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
    """The secrets that sign now, the published one first. Raises SealBroken."""
    sealed = endpoint.secrets.signing_secrets(ports.clock.wall())
    return tuple(
        ports.vault.open(WEBHOOK_SECRET_PURPOSE, each, endpoint.id).decode() for each in sealed
    )


async def attempt_delivery(
    ports: Ports, url: str, secrets: Sequence[str], due: DueDelivery
) -> AttemptOutcome:
    """Send one delivery, once."""
    delivery, at = due.delivery, ports.clock.wall()
    number = delivery.attempts + 1
    signed_headers = delivery_headers(
        secrets, delivery.event_id, delivery.event, number, due.body, at
    )
    seconds = ports.policy.webhook_attempt_timeout.total_seconds()
    answer = await ports.webhook_sender.send(url, signed_headers, due.body, seconds)
    ended_at = ports.clock.wall()
    if isinstance(answer, DeliveryFailure):
        return AttemptOutcome(at, ended_at, failure=answer)
    return AttemptOutcome(at, ended_at, response_status=answer)


async def settle_results(
    ports: Ports,
    delivery_results: Iterable[DeliveryResult],
    finished_batches: Iterable[EndpointBatch] = (),
) -> frozenset[EndpointClaim]:
    """Save what came of attempts, and end these turns; in one transaction, whatever the
    endpoints, and safe to do twice. The claims by which may still be sent: lost ones are left
    out, and nothing is saved for them."""
    results = sorted(delivery_results, key=lambda each: each.outcome.ended_at)
    finished_claims = {turn.claim for turn in finished_batches}
    claims = sorted(finished_claims.union(each.batch.claim for each in results))
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> frozenset[EndpointClaim]:
        held = await tx.webhooks.lock_claims(claims)
        own_results = [each for each in results if each.batch.claim in held]
        endpoints = await _save_results(
            tx, ports, own_results, [each.endpoint for each in held.values()], now
        )
        if released_endpoint_ids := sorted(
            endpoint_id for endpoint_id, _ in finished_claims & held.keys()
        ):
            await tx.webhooks.release_endpoints(released_endpoint_ids, now)
        return frozenset(
            (endpoint_id, token)
            for (endpoint_id, token), each in held.items()
            if endpoints[endpoint_id].is_deliverable(each.owner, now)
        )

    return await ports.store.run_transaction(unit)


async def _save_results(
    tx: Transaction,
    ports: Ports,
    results: Sequence[DeliveryResult],
    held: Iterable[WebhookEndpoint],
    now: datetime,
) -> dict[int, WebhookEndpoint]:
    """Save outcomes in the order in which they came, for endpoints that are locked; these
    endpoints by id, as they are then."""
    endpoints = {endpoint.id: endpoint for endpoint in held}
    if not results:
        return endpoints
    delivery_ids = sorted(each.delivery.id for each in results)
    deliveries = {each.id: each for each in await tx.webhooks.lock_deliveries(delivery_ids)}
    attempts: list[tuple[int, DeliveryAttempt]] = []
    disabled: list[WebhookEndpoint] = []
    for each in results:
        before = deliveries.get(each.delivery.id)
        if before is None or before.attempts != each.delivery.attempts:
            continue  # Swept, or saved already by a commit whose answer never came.
        after = apply_attempt_to_delivery(before, each.outcome, ports.policy)
        endpoint = endpoints[after.endpoint_id]
        changed = apply_attempt_to_endpoint(endpoint, after, each.outcome, ports.policy)
        if endpoint.active and not changed.active:
            disabled.append(changed)
        deliveries[after.id], endpoints[after.endpoint_id] = after, changed
        attempts.append((after.id, each.outcome.to_attempt(after.attempts)))
    await tx.webhooks.save_deliveries(list(deliveries.values()))
    await tx.webhooks.add_attempts(attempts)
    touched = {delivery.endpoint_id for delivery in deliveries.values()}
    await tx.webhooks.save_endpoints([endpoints[number] for number in sorted(touched)])
    for endpoint in disabled:
        await tx.webhooks.hold_deliveries(endpoint.id, now)
        notification = webhook_disabled_notification(endpoint, ports.policy)
        await tx.notifications.add_notifications([notification], now)
    return endpoints


async def renew_claims(ports: Ports, batches: Iterable[EndpointBatch]) -> None:
    """Keep the claims of turns that last."""
    tokens = sorted({turn.lease.token for turn in batches})
    until = ports.clock.wall() + ports.policy.lease_duration

    async def unit(tx: Transaction) -> None:
        await tx.webhooks.renew_claims(tokens, until)

    if tokens:
        await ports.store.run_transaction(unit)


# Upkeep -----------------------------------------------------------------------------------


async def resume_held_deliveries(ports: Ports) -> int:
    """Send what was held at endpoints that are served again, whyever they weren't; how many
    deliveries there were."""
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
    """Cancel a batch of what was held for too long; how many deliveries there were."""
    held_before = ports.clock.wall() - ports.policy.webhook_held_retention
    return await ports.store.run_transaction(
        lambda tx: tx.webhooks.cancel_held_deliveries(held_before, PUBLISH_BATCH_SIZE)
    )


async def deliver_all_due(ports: Ports) -> int:
    """Send what is due, one after the other, until nothing is; how many attempts were made.
    For embedding and tests: the worker sends side by side. Raises SealBroken, once all others
    were sent."""
    attempt_count, broken = 0, None
    for degraded in (False, True):
        while await _is_due(ports, degraded):
            for batch in await claim_batches(ports, 1, degraded=degraded):
                try:
                    attempt_count += await _deliver_batch(ports, batch)
                except SealBroken as error:
                    broken = error  # Its claim runs out.
    if broken is not None:
        raise broken
    return attempt_count


async def _is_due(ports: Ports, degraded: bool) -> bool:
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        due = await view.webhooks.next_batch_due_at(now, degraded=degraded)
    return due is not None and due <= now


async def _deliver_batch(ports: Ports, batch: EndpointBatch) -> int:
    """Send the deliveries of a turn; how many attempts were made."""
    secrets, attempt_count = unseal_secrets(ports, batch.endpoint), 0
    for due in batch.due_deliveries:
        outcome = await attempt_delivery(ports, batch.endpoint.url, secrets, due)
        valid_claims = await settle_results(ports, [DeliveryResult(batch, due.delivery, outcome)])
        attempt_count += 1
        if batch.claim not in valid_claims:
            break
    await settle_results(ports, [], [batch])
    return attempt_count
