"""The webhook dispatcher: concurrency, fairness, retries and shutdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.memory.webhooks.store import WebhooksReader
from staffbooking_adapters.testing.builders import NOW, POLICY, SECOND
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from staffbooking_core.ports import EndpointBatch
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker import webhook_batch, webhook_dispatcher
from tests.support.webhook_deployment import RETRY_DELAYS, WebhookScenario, make_webhook_scenario
from tests.worker.dispatcher_doubles import (
    NEVER_TIMEOUT_SECONDS,
    SUCCEEDED,
    GatedReceivers,
    LoopClock,
    add_endpoint_with_deliveries,
    anyio_backend,
    post,
    running_dispatcher,
    sender,
    wait_until,
    wait_until_attempted,
)

__all__ = ["anyio_backend", "post", "sender"]

pytestmark = pytest.mark.anyio


# Concurrency ------------------------------------------------------------------------------


async def test_all_due_deliveries_are_sent(post: WebhookScenario, sender: GatedReceivers) -> None:
    """Each due delivery of many endpoints is sent once."""
    endpoints = [await add_endpoint_with_deliveries(post, 40) for _ in range(3)]
    with anyio.fail_after(NEVER_TIMEOUT_SECONDS):
        assert await webhook_dispatcher.drain(post.ports) == 120
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in endpoints}
    for endpoint in endpoints:
        assert set(await post.delivery_statuses(endpoint)) == {SUCCEEDED}


async def test_an_endpoint_has_at_most_four_in_flight(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """An endpoint with many due deliveries has four in flight, and never more."""
    endpoints = [await add_endpoint_with_deliveries(post, 20) for _ in range(2)]
    async with running_dispatcher(post.ports):
        for endpoint in endpoints:
            sender.behaviours[endpoint.url] = sender.hang
        await wait_until(lambda: len(sender.sent) == 8)
        await anyio.sleep(webhook_batch.MAX_BATCH_SECONDS)
        assert len(sender.sent) == 8
        sender.gate.set()
        await wait_until(lambda: len(sender.sent) == 40)
    assert set(sender.max_in_flight.values()) == {4}


async def test_two_workers_share_the_endpoints(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """With two workers each delivery is sent once, with at most four in flight per endpoint."""
    endpoints = [await add_endpoint_with_deliveries(post, 40) for _ in range(5)]
    async with running_dispatcher(post.ports, workers=2):
        await wait_until(lambda: len(sender.sent) == 200)
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in endpoints}
    assert max(sender.max_in_flight.values()) == 4


async def test_a_hanging_endpoint_does_not_delay_others(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """Other endpoints' deliveries are sent while one endpoint hangs."""
    hanging, healthy = (
        await add_endpoint_with_deliveries(post, 20),
        await add_endpoint_with_deliveries(post, 20),
    )
    sender.behaviours[hanging.url] = sender.hang
    async with running_dispatcher(post.ports):
        await wait_until(lambda: sender.urls().count(healthy.url) == 20)
        sender.gate.set()


async def test_degraded_endpoints_do_not_delay_healthy_ones(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More degraded endpoints than may have a batch may hang without delaying the healthy ones."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_CLASS_BATCHES", 3)
    for _ in range(10):
        endpoint = await add_endpoint_with_deliveries(post, degraded=True)
        sender.behaviours[endpoint.url] = sender.hang
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) == 3)
        healthy = await add_endpoint_with_deliveries(post, 20)
        await wait_until(lambda: sender.urls().count(healthy.url) == 20)
        sender.gate.set()


async def test_hanging_endpoints_become_degraded(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoints that start to hang take all batches of the healthy ones only until their first
    attempts have failed."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_CLASS_BATCHES", 3)
    hanging = [await add_endpoint_with_deliveries(post) for _ in range(3)]
    for endpoint in hanging:
        sender.behaviours[endpoint.url] = sender.time_out
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) == 3)
        for endpoint in hanging:
            await wait_until_attempted(post, endpoint, 1)
            sender.behaviours[endpoint.url] = sender.hang
        await wait_until(lambda: sum(sender.in_flight.values()) == 3)
        healthy = await add_endpoint_with_deliveries(post, 5)
        await wait_until(lambda: sender.urls().count(healthy.url) == 5)
        sender.gate.set()


async def test_newly_hanging_endpoints_do_not_delay_healthy_ones(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """Though 200 healthy endpoints begin to hang at once, the endpoint that is claimed after them
    gets its delivery within two seconds."""
    for _ in range(200):
        hanging = await add_endpoint_with_deliveries(post)
        sender.behaviours[hanging.url] = sender.time_out
    healthy = await add_endpoint_with_deliveries(post)
    async with running_dispatcher(post.ports):
        await wait_until(lambda: healthy.url in sender.urls())
        assert anyio.current_time() < 2


async def test_hanging_endpoints_do_not_delay_retries(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """Though 200 degraded endpoints hang, the retry of an endpoint that failed once begins when it
    is due."""
    for _ in range(200):
        hanging = await add_endpoint_with_deliveries(post, degraded=True)
        sender.behaviours[hanging.url] = sender.time_out
    async with running_dispatcher(post.ports):
        await anyio.sleep(2)
        failing = await add_endpoint_with_deliveries(post)
        sender.behaviours[failing.url] = sender.fail
        await wait_until_attempted(post, failing, 2)
    [(_, [first, second])] = await post.deliveries_with_attempts(failing)
    assert second.at - first.at < RETRY_DELAYS[0] + 0.1 * SECOND


async def test_batches_begin_as_slots_are_given_up(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of endpoints that hang, no more than there are slots get a batch at the same time."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_SLOTS", 3)
    for _ in range(7):
        endpoint = await add_endpoint_with_deliveries(post)
        sender.behaviours[endpoint.url] = sender.hang
    begun = []
    async with running_dispatcher(post.ports):
        for _ in range(3):
            await anyio.sleep(webhook_dispatcher.SLOT_SECONDS - 0.1)
            begun.append(len(sender.sent))
            await anyio.sleep(0.2)
        sender.gate.set()
    assert begun == [3, 6, 7]


async def test_batches_are_bounded(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many endpoints hang, there is a bounded number of batches, some of each class, also
    if both classes are looked for and claimed at the same time."""
    for name, number in (("MAX_SLOTS", 4), ("MAX_BATCHES", 10), ("MAX_CLASS_BATCHES", 7)):
        monkeypatch.setattr(webhook_dispatcher, name, number)

    def slow_down(owner: Any, name: str) -> None:
        call = getattr(owner, name)

        async def call_slowly(*given: Any, **named: Any) -> Any:
            await anyio.sleep(0.01)
            return await call(*given, **named)

        monkeypatch.setattr(owner, name, call_slowly)

    slow_down(WebhooksReader, "next_batch_due_at")
    slow_down(deliveries, "claim_batches")
    healthy, degraded = [
        {(await add_endpoint_with_deliveries(post, degraded=degraded)).url for _ in range(20)}
        for degraded in (False, True)
    ]
    sender.behaviours = dict.fromkeys(healthy | degraded, sender.hang)
    async with running_dispatcher(post.ports):
        await anyio.sleep(10)
        hanging = {*sender.urls()}
        assert len(hanging) == 10
        assert min(len(hanging & healthy), len(hanging & degraded)) >= 3
        sender.gate.set()


async def test_a_slot_is_wanted_as_soon_as_none_is_free(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the other class takes the last slot while due endpoints are looked for, running batches
    learn at once that a slot is wanted, not at the next look."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_BATCHES", 1)
    await add_endpoint_with_deliveries(post)
    dispatcher = webhook_dispatcher._Dispatcher(post.ports, anyio.Event())
    next_due_at = WebhooksReader.next_batch_due_at

    async def take_last_slot(*given: Any, **named: Any) -> Any:
        dispatcher._reserved_count = 1
        return await next_due_at(*given, **named)

    monkeypatch.setattr(WebhooksReader, "next_batch_due_at", take_last_slot)
    async with anyio.create_task_group() as group:
        assert not dispatcher._is_slot_wanted(False)
        await dispatcher._start_batches(group, False)
    assert dispatcher._is_slot_wanted(False)
    assert sender.sent == []


@pytest.mark.parametrize(
    ("seconds", "most"), [(0.001, deliveries.DELIVERY_BATCH_SIZE), (1.0, 16)], ids=["quick", "slow"]
)
async def test_a_busy_endpoint_does_not_starve_others(
    post: WebhookScenario,
    sender: GatedReceivers,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    most: int,
) -> None:
    """With one slot, other endpoints get batches between those of a busy one, even sooner if it is
    slow."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_SLOTS", 1)
    busy = await add_endpoint_with_deliveries(post, 200)
    others = [await add_endpoint_with_deliveries(post) for _ in range(3)]

    async def take_time() -> int:
        await anyio.sleep(seconds)
        return 200

    sender.behaviours[busy.url] = take_time
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len({*sender.urls()}) == 4)
    first = sender.urls().index(others[0].url)
    assert first <= most
    assert {*sender.urls()[first : first + 3]} == {other.url for other in others}


@pytest.mark.parametrize(
    ("seconds", "status", "degraded", "claims"),
    [
        (0.2, 200, False, [16]),
        (0.6, 200, False, [16, 8]),
        (0.06, 200, True, [16, 8]),
        (0.06, 500, False, [16, 8]),
    ],
    ids=["healthy", "long", "degraded", "failing"],
)
async def test_a_batch_is_finished_while_slots_are_free(
    post: WebhookScenario,
    sender: GatedReceivers,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    status: int,
    degraded: bool,
    claims: Sequence[int],
) -> None:
    """While slots are free, a healthy endpoint's batch goes on for up to a second, so that it is
    not claimed again; that of a degraded one, or with a failure, ends early."""
    endpoint = await add_endpoint_with_deliveries(
        post, deliveries.DELIVERY_BATCH_SIZE, degraded=degraded
    )
    claim_sizes: list[int] = []
    claim_batches = deliveries.claim_batches

    async def note_claims(*given: Any, **named: Any) -> Sequence[EndpointBatch]:
        batches = await claim_batches(*given, **named)
        claim_sizes.extend(len(batch.due_deliveries) for batch in batches)
        return batches

    async def take_time() -> int:
        await anyio.sleep(seconds)
        return status

    monkeypatch.setattr(deliveries, "claim_batches", note_claims)
    sender.behaviours[endpoint.url] = take_time
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) == deliveries.DELIVERY_BATCH_SIZE)
    assert claim_sizes == claims


async def test_retries_are_sent_when_they_are_due(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """A retry is sent at its due time, never before, without a hint."""
    endpoint = await add_endpoint_with_deliveries(post)
    sender.behaviours[endpoint.url] = sender.fail
    async with running_dispatcher(post.ports):
        await wait_until_attempted(post, endpoint, 4)
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert delivery.status is DeliveryStatus.FAILED
    waited = [later.at - earlier.at for earlier, later in pairwise(attempts)]
    late = [wait - least for wait, least in zip(waited, RETRY_DELAYS, strict=True)]
    assert min(late) >= 0 * SECOND
    assert max(late) < 0.1 * SECOND


async def test_a_hint_ends_the_wait(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint starts due deliveries before the next poll."""
    monkeypatch.setattr(webhook_dispatcher, "POLL_INTERVAL_SECONDS", NEVER_TIMEOUT_SECONDS)
    async with running_dispatcher(post.ports):
        await anyio.sleep(1)
        await add_endpoint_with_deliveries(post)
        await wait_until(lambda: len(sender.sent) == 1)


async def test_polling_finds_deliveries_without_a_hint(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling finds due deliveries if a hint is lost."""
    monkeypatch.setattr(type(post.ports.hints), "give", lambda _, hint: None)
    async with running_dispatcher(post.ports):
        await anyio.sleep(1)
        await add_endpoint_with_deliveries(post)
        await wait_until(lambda: len(sender.sent) == 1)


# Stopping and lost claims -----------------------------------------------------------------


async def test_attempts_in_flight_are_finished_after_a_stop(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """After a stop nothing more is sent; attempts in flight are logged, and the endpoint is free
    for the next worker."""
    endpoint = await add_endpoint_with_deliveries(post, 20)
    sender.behaviours[endpoint.url] = sender.hang
    async with running_dispatcher(post.ports) as stop:
        await wait_until(lambda: len(sender.sent) == 4)
        stop.set()
        await anyio.sleep(0.5)
        sender.gate.set()
    assert len(sender.sent) == 4
    assert (await post.delivery_statuses(endpoint)).count(SUCCEEDED) == 4
    assert len((await post.claim_batch()).due_deliveries) == 16


async def test_a_pause_ends_the_batch(post: WebhookScenario, sender: GatedReceivers) -> None:
    """Pausing an endpoint ends its batch after the attempts in flight."""
    endpoint = await add_endpoint_with_deliveries(post, 20)
    sender.behaviours[endpoint.url] = sender.hang
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) == 4)
        await post.pause_endpoint(endpoint)
        await anyio.sleep(1)
        sender.gate.set()
        await anyio.sleep(1)
    assert len(sender.sent) == 4
    assert Counter(await post.delivery_statuses(endpoint)) == {
        SUCCEEDED: 4,
        DeliveryStatus.HELD: 16,
    }


async def test_claims_are_renewed_during_a_batch(sender: GatedReceivers) -> None:
    """No other worker claims an endpoint whose attempt takes longer than the lease."""
    policy = evolve(POLICY, lease_duration=3 * SECOND)
    post = make_webhook_scenario(clock=LoopClock(NOW), webhook_sender=sender, policy=policy)
    endpoint = await add_endpoint_with_deliveries(post)
    sender.behaviours[endpoint.url] = sender.time_out
    async with running_dispatcher(post.ports, workers=2):
        await wait_until_attempted(post, endpoint, 1)
    [(_, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (len(attempts), len(sender.sent)) == (1, 1)


async def test_drain_leaves_deliveries_that_are_not_due(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """Draining sends due deliveries once and does not wait for their retries."""
    endpoint = await add_endpoint_with_deliveries(post, 3)
    sender.behaviours[endpoint.url] = sender.fail
    with anyio.fail_after(NEVER_TIMEOUT_SECONDS):
        assert await webhook_dispatcher.drain(post.ports) == 3
        assert await webhook_dispatcher.drain(post.ports) == 0
    assert set(await post.delivery_statuses(endpoint)) == {DeliveryStatus.PENDING}
