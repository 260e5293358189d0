"""Events on their way to the endpoints: placed, fanned out, sent, settled (CONTRACT 7).

Any number of workers may run all of this. One claims an endpoint for a turn, sends some of
its due deliveries, and settles what came of them; whoever has lost its claim settles
nothing. What was sent but not settled is sent again, with the same id and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.notifications.notifications import webhook_disabled
from staffbooking_core.domain.webhooks.deliveries import (
    Attempt,
    Delivery,
    Endpoint,
    Failure,
    Outcome,
    after_attempt,
    after_outcome,
    fan_out,
    headers,
    in_feed_order,
)
from staffbooking_core.errors import SealBroken
from staffbooking_core.ports import Claim, Lease, Parcel, Ports, Turn, Writing

SEALED_FOR = "webhook-secrets"
"""The vault's purpose."""

PLACED = 200
"""Events that get their positions in one step."""

TURN = 16
"""Deliveries of one turn, at most: then others have theirs."""

PAGE = 100


async def publish(ports: Ports, limit: int = PLACED) -> int:
    """Give committed events their positions, and each endpoint that gets one a delivery of
    it; how many events there were."""
    async with ports.store.reading() as view:
        if not await view.webhooks.has_unplaced():
            return 0
    created_at = await ports.clock.business()

    async def unit(tx: Writing) -> int:
        last = await tx.webhooks.lock_feed()
        events = in_feed_order(await tx.webhooks.unplaced(limit))
        if not events:  # Another worker was quicker.
            return 0
        await tx.webhooks.place([(event, last + n) for n, event in enumerate(events, start=1)])
        parties = {party for event in events for party in event.parties}
        subscribers = await tx.webhooks.subscribers(sorted(parties))
        new = fan_out(events, subscribers, created_at, ports.clock.wall())
        await tx.webhooks.add_deliveries(new)
        return len(events)

    return await ports.store.write(unit)


# Turns ------------------------------------------------------------------------------------


@frozen
class Sent:
    """What came of one delivery of a turn; `delivery` is as it was claimed."""

    turn: Turn
    delivery: Delivery
    outcome: Outcome


async def claim(ports: Ports, limit: int, *, troubled: bool) -> Sequence[Turn]:
    """Claim up to `limit` endpoints whose turn has come, each with what is due. What may not
    be sent (CONTRACT 7: paused, disabled, without a subscription) is held instead."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease)

    async def unit(tx: Writing) -> list[Turn]:
        turns, over = [], []
        for turn in await tx.webhooks.claim_turns(now, lease, limit, TURN, troubled=troubled):
            served = turn.endpoint.is_served(turn.owner, now)
            if not served:
                await tx.webhooks.hold(turn.endpoint.id, now)
            if served and turn.parcels:
                turns.append(turn)
            else:
                over.append(turn.endpoint.id)
        if over:
            await tx.webhooks.end_turns(sorted(over), now)
        return turns

    return await ports.store.write(unit)


def unsealed(ports: Ports, endpoint: Endpoint) -> tuple[str, ...]:
    """The secrets that sign now, the published one first. Raises SealBroken."""
    sealed = endpoint.secrets.valid(ports.clock.wall())
    return tuple(ports.vault.open(SEALED_FOR, each, endpoint.id).decode() for each in sealed)


async def attempt(ports: Ports, url: str, secrets: Sequence[str], parcel: Parcel) -> Outcome:
    """Send one delivery, once."""
    delivery, at = parcel.delivery, ports.clock.wall()
    number = delivery.attempts + 1
    signed = headers(secrets, delivery.event_id, delivery.event, number, parcel.body, at)
    seconds = ports.policy.webhook_deadline.total_seconds()
    answer = await ports.sender.send(url, signed, parcel.body, seconds)
    ended_at = ports.clock.wall()
    if isinstance(answer, Failure):
        return Outcome(at, ended_at, failure=answer)
    return Outcome(at, ended_at, response_status=answer)


async def settle(ports: Ports, sent: Iterable[Sent], over: Iterable[Turn] = ()) -> frozenset[Claim]:
    """Save what came of attempts, and end these turns; in one transaction, whatever the
    endpoints, and safe to do twice. The claims by which may still be sent: lost ones are left
    out, and nothing is saved for them."""
    results = sorted(sent, key=lambda each: each.outcome.ended_at)
    ended = {turn.claim for turn in over}
    claims = sorted(ended.union(each.turn.claim for each in results))
    now = ports.clock.wall()

    async def unit(tx: Writing) -> frozenset[Claim]:
        held = await tx.webhooks.lock_turns(claims)
        mine = [each for each in results if each.turn.claim in held]
        endpoints = await _save(tx, ports, mine, [each.endpoint for each in held.values()], now)
        if over_now := sorted(endpoint_id for endpoint_id, _ in ended & held.keys()):
            await tx.webhooks.end_turns(over_now, now)
        return frozenset(
            (endpoint_id, token)
            for (endpoint_id, token), each in held.items()
            if endpoints[endpoint_id].is_served(each.owner, now)
        )

    return await ports.store.write(unit)


async def _save(
    tx: Writing, ports: Ports, sent: Sequence[Sent], held: Iterable[Endpoint], now: datetime
) -> dict[int, Endpoint]:
    """Save outcomes in the order in which they came, for endpoints that are locked; these
    endpoints by id, as they are then."""
    endpoints = {endpoint.id: endpoint for endpoint in held}
    if not sent:
        return endpoints
    wanted = sorted(each.delivery.id for each in sent)
    deliveries = {each.id: each for each in await tx.webhooks.lock_deliveries(wanted)}
    made: list[tuple[int, Attempt]] = []
    disabled: list[Endpoint] = []
    for each in sent:
        before = deliveries.get(each.delivery.id)
        if before is None or before.attempts != each.delivery.attempts:
            continue  # Swept, or saved already by a commit whose answer never came.
        after = after_attempt(before, each.outcome, ports.policy)
        endpoint = endpoints[after.endpoint_id]
        changed = after_outcome(endpoint, after, each.outcome, ports.policy)
        if endpoint.active and not changed.active:
            disabled.append(changed)
        deliveries[after.id], endpoints[after.endpoint_id] = after, changed
        made.append((after.id, each.outcome.as_attempt(after.attempts)))
    await tx.webhooks.save_deliveries(list(deliveries.values()))
    await tx.webhooks.add_attempts(made)
    touched = {delivery.endpoint_id for delivery in deliveries.values()}
    await tx.webhooks.save_endpoints([endpoints[number] for number in sorted(touched)])
    for endpoint in disabled:
        await tx.webhooks.hold(endpoint.id, now)
        await tx.notices.add([webhook_disabled(endpoint)], now)
    return endpoints


async def renew(ports: Ports, turns: Iterable[Turn]) -> None:
    """Keep the claims of turns that last."""
    tokens = sorted({turn.lease.token for turn in turns})
    until = ports.clock.wall() + ports.policy.lease

    async def unit(tx: Writing) -> None:
        await tx.webhooks.renew_turns(tokens, until)

    if tokens:
        await ports.store.write(unit)


# Upkeep -----------------------------------------------------------------------------------


async def resume_held(ports: Ports) -> int:
    """Send what was held at endpoints that are served again, whyever they weren't; how many
    deliveries there were."""
    now, resumed, last = ports.clock.wall(), 0, 0
    while True:
        async with ports.store.reading() as view:
            waiting = await view.webhooks.holding(last, PAGE)
        for each in waiting:
            if each.endpoint.is_served(each.owner, now):
                resumed += await _resume(ports, each.endpoint.id, now)
        if len(waiting) < PAGE:
            return resumed
        last = waiting[-1].endpoint.id


async def _resume(ports: Ports, endpoint_id: int, now: datetime) -> int:
    async def unit(tx: Writing) -> int:
        endpoint = await tx.webhooks.lock_endpoint(endpoint_id)
        owner = None if endpoint is None else await tx.accounts.user(endpoint.owner_id)
        if endpoint is None or owner is None or not endpoint.is_served(owner, now):
            return 0
        return await tx.webhooks.resume(endpoint_id, now)

    return await ports.store.write(unit)


async def give_up_held(ports: Ports) -> int:
    """Cancel a batch of what was held for too long; how many deliveries there were."""
    before = ports.clock.wall() - ports.policy.webhook_held_for
    return await ports.store.write(lambda tx: tx.webhooks.cancel_held(before, PLACED))


async def deliver_due(ports: Ports) -> int:
    """Send what is due, one after the other, until nothing is; how many attempts were made.
    For embedding and tests: the worker sends side by side. Raises SealBroken, once all others
    were sent."""
    made, broken = 0, None
    for troubled in (False, True):
        while await _is_due(ports, troubled):
            for turn in await claim(ports, 1, troubled=troubled):
                try:
                    made += await _take(ports, turn)
                except SealBroken as error:
                    broken = error  # Its claim runs out.
    if broken is not None:
        raise broken
    return made


async def _is_due(ports: Ports, troubled: bool) -> bool:
    now = ports.clock.wall()
    async with ports.store.reading() as view:
        due = await view.webhooks.next_turn(now, troubled=troubled)
    return due is not None and due <= now


async def _take(ports: Ports, turn: Turn) -> int:
    """Send the deliveries of a turn; how many attempts were made."""
    secrets, made = unsealed(ports, turn.endpoint), 0
    for parcel in turn.parcels:
        outcome = await attempt(ports, turn.endpoint.url, secrets, parcel)
        served = await settle(ports, [Sent(turn, parcel.delivery, outcome)])
        made += 1
        if turn.claim not in served:
            break
    await settle(ports, [], [turn])
    return made
