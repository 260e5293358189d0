"""The webhook dispatcher: outcomes are settled many at a time while further attempts are sent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from staffbooking_adapters.testing.builders_webhooks import add_delivery
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryStatus
from staffbooking_core.ports import EndpointBatch, EndpointClaim, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker import webhook_batch
from staffbooking_worker.webhook_batch import BatchRun
from staffbooking_worker.webhook_dispatcher import _Dispatcher, run_dispatcher
from tests.support.webhook_deployment import WebhookScenario
from tests.worker.dispatcher_doubles import (
    SUCCEEDED,
    GatedReceivers,
    add_endpoint_with_deliveries,
    anyio_backend,
    post,
    running_dispatcher,
    sender,
    wait_until,
)

__all__ = ["anyio_backend", "post", "sender"]

pytestmark = pytest.mark.anyio

settle_results = deliveries.settle_results


@asynccontextmanager
async def running_without_settlements(
    post: WebhookScenario, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Runs the dispatcher; settlements wait until the end."""
    gate = anyio.Event()

    async def wait_and_settle(*given: Any) -> Any:
        await gate.wait()
        return await settle_results(*given)

    monkeypatch.setattr(deliveries, "settle_results", wait_and_settle)
    async with running_dispatcher(post.ports):
        yield
        gate.set()


async def test_a_backlog_is_sent_under_one_claim(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch of a healthy endpoint with a backlog goes on with what is due next, in fewer
    transactions than deliveries; each is sent once."""
    endpoint = await add_endpoint_with_deliveries(post, 100)
    claims: list[EndpointBatch] = []
    settlements: list[int] = []
    claim_batches = deliveries.claim_batches

    async def note_claims(*given: Any, **named: Any) -> Sequence[EndpointBatch]:
        found = await claim_batches(*given, **named)
        claims.extend(found)
        return found

    async def note_settlements(ports: Ports, results: Sequence[Any], *given: Any) -> Any:
        settlements.append(len(results))
        return await settle_results(ports, results, *given)

    monkeypatch.setattr(deliveries, "claim_batches", note_claims)
    monkeypatch.setattr(deliveries, "settle_results", note_settlements)
    async with running_dispatcher(post.ports):
        await wait_until(lambda: sum(settlements) == 100)
    assert set(await post.delivery_statuses(endpoint)) == {SUCCEEDED}
    assert (len(claims), len(sender.sent)) == (1, 100)
    assert len(settlements) < 25


async def test_quick_attempts_are_sent_ahead_of_settlements(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of attempts that succeed quickly is sent before their outcomes are settled; a crash
    would repeat these, and no more."""
    monkeypatch.setattr(webhook_batch, "MAX_UNSETTLED", 8)
    endpoint = await add_endpoint_with_deliveries(post, 16)
    async with running_without_settlements(post, monkeypatch):
        await anyio.sleep(60)
        assert len(sender.sent) == 8 + 4
    assert (await post.delivery_statuses(endpoint)).count(SUCCEEDED) == 8 + 4


@pytest.mark.parametrize(
    ("seconds", "status", "degraded"),
    [(0.2, 200, False), (0.001, 500, False), (0.001, 200, True)],
    ids=["slow", "failing", "degraded"],
)
async def test_other_attempts_wait_for_settlements(
    post: WebhookScenario,
    sender: GatedReceivers,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    status: int,
    degraded: bool,
) -> None:
    """After a slow or failed attempt, and for a degraded endpoint after any, no further one is sent
    before the outcome is settled."""
    endpoint = await add_endpoint_with_deliveries(post, 16, degraded=degraded)

    async def take_time() -> int:
        await anyio.sleep(seconds)
        return status

    sender.behaviours[endpoint.url] = take_time
    async with running_without_settlements(post, monkeypatch):
        await anyio.sleep(60)
        assert len(sender.sent) == 4


@pytest.mark.parametrize("seed", range(10))
async def test_a_batch_with_attempts_of_all_kinds_comes_to_its_end(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Quick, slow and failing attempts in any order, with settlements of any duration, and a slot
    that is wanted now and then, are all settled, and those that succeed are sent once."""
    chance = random.Random(seed)
    monkeypatch.setattr(_Dispatcher, "_is_slot_wanted", lambda *_: chance.random() < 0.05)
    monkeypatch.setattr(webhook_batch, "MAX_UNSETTLED", chance.choice([1, 3, 24]))
    endpoint = await add_endpoint_with_deliveries(post, 60)

    async def answer() -> int:
        await anyio.sleep(chance.choice([0.0001, 0.001, 0.005, 0.15]))
        return chance.choice([200] * 19 + [500])

    async def take_time(*given: Any) -> Any:
        await anyio.sleep(chance.choice([0.001, 0.01, 0.05]))
        return await settle_results(*given)

    monkeypatch.setattr(deliveries, "settle_results", take_time)
    sender.behaviours[endpoint.url] = answer
    async with running_dispatcher(post.ports):
        await anyio.sleep(120)
    found = await post.deliveries_with_attempts(endpoint)
    assert {delivery.status for delivery, _ in found} == {SUCCEEDED}
    assert sum(len(attempts) for _, attempts in found) == len(sender.sent)


@pytest.mark.parametrize("reason", ["a slot is wanted", "the worker stops"])
async def test_a_batch_that_waits_for_further_deliveries_ends(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A batch that may not go on any more, while its last attempt waits for further deliveries,
    ends; later deliveries are sent by another."""
    endpoint = await add_endpoint_with_deliveries(post, 16)
    is_slot_wanted, stop = True, anyio.Event()
    next_settlement = BatchRun._next_settlement

    async def last_is_slow() -> int:
        await anyio.sleep(0.15 if len(sender.sent) == 16 else 0.001)
        return 200

    async def wait(run: BatchRun) -> None:
        def give_reason() -> None:
            nonlocal is_slot_wanted
            if reason == "the worker stops":
                stop.set()
            is_slot_wanted = True

        # A step of another task, between the sender's and the settling task's.
        asyncio.get_running_loop().call_soon(give_reason)
        await next_settlement(run)

    sender.behaviours[endpoint.url] = last_is_slow
    monkeypatch.setattr(_Dispatcher, "_is_slot_wanted", lambda *_: is_slot_wanted)
    monkeypatch.setattr(BatchRun, "_next_settlement", wait)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run_dispatcher, post.ports, stop)
            await wait_until(lambda: len(sender.sent) == 16)
            await anyio.sleep(0.1)  # Only the last attempt goes on, while a slot is free again.
            is_slot_wanted = False
            await anyio.sleep(1)
            if reason == "a slot is wanted":
                await add_delivery(post.ports.store, endpoint)
                await wait_until(lambda: len(sender.sent) == 17)
            stop.set()


async def test_a_cancelled_batch_saves_what_was_answered(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """An outcome that waits for others is saved when the dispatcher is cancelled."""
    endpoint = await add_endpoint_with_deliveries(post, 4)
    answered = anyio.Event()

    async def answer_once() -> int:
        if len(sender.sent) < 4:
            await anyio.sleep_forever()
        answered.set()
        return 200

    sender.behaviours[endpoint.url] = answer_once
    async with anyio.create_task_group() as group:
        group.start_soon(run_dispatcher, post.ports, anyio.Event())
        await answered.wait()
        await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    assert (await post.delivery_statuses(endpoint)).count(SUCCEEDED) == 1


async def test_an_outcome_is_settled_while_others_hang(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """An outcome waits only shortly for others of its batch."""
    endpoint = await add_endpoint_with_deliveries(post, 2)
    behaviours = iter([sender.answer, sender.hang])
    sender.behaviours[endpoint.url] = lambda: next(behaviours)()
    async with running_dispatcher(post.ports):
        await anyio.sleep(1)
        assert sorted(await post.delivery_statuses(endpoint)) == [
            DeliveryStatus.PENDING,
            SUCCEEDED,
        ]
        sender.gate.set()


async def test_a_pause_ends_a_batch_of_quick_attempts(
    post: WebhookScenario, sender: GatedReceivers
) -> None:
    """After a pause only attempts that are ahead of the next settlement are sent."""
    endpoint = await add_endpoint_with_deliveries(post, 200)
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) >= 4)
        before = len(sender.sent)
        await post.pause_endpoint(endpoint)
        await anyio.sleep(60)
    assert len(sender.sent) <= before + webhook_batch.MAX_UNSETTLED + 4
    statuses = await post.delivery_statuses(endpoint)
    assert statuses.count(SUCCEEDED) == len(sender.sent)
    assert statuses.count(DeliveryStatus.HELD) == 200 - len(sender.sent)


async def test_an_outcome_that_cannot_be_settled_holds_up_no_other_of_its_batch(
    post: WebhookScenario,
    sender: GatedReceivers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a batch with an outcome that can't be settled, the others are saved; only that delivery is
    sent again, after the claim expires."""
    endpoint = await add_endpoint_with_deliveries(post, 8)
    bad = await post.newest_delivery(endpoint)

    async def faulty(
        ports: Ports,
        sent: Sequence[deliveries.DeliveryResult],
        over: Sequence[EndpointBatch],
        last: Mapping[EndpointClaim, Delivery],
    ) -> Any:
        if any(each.delivery.id == bad.id for each in sent):
            raise RuntimeError("a bug")
        return await settle_results(ports, sent, over, last)

    monkeypatch.setattr(deliveries, "settle_results", faulty)
    async with running_dispatcher(post.ports):
        await anyio.sleep(20)
    assert sorted(await post.delivery_statuses(endpoint)) == [
        DeliveryStatus.PENDING,
        *[SUCCEEDED] * 7,
    ]
    assert len(sender.sent) == 7 + 2
    assert "a bug" in caplog.text


async def test_an_error_repeats_no_attempt_that_was_answered(
    post: WebhookScenario, sender: GatedReceivers, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that an error breaks off has the outcomes saved that it had until then."""
    endpoint = await add_endpoint_with_deliveries(post, 12)
    calls = 0

    async def fault_once() -> int:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise RuntimeError("a bug")
        await anyio.sleep(0.001)
        return 200

    sender.behaviours[endpoint.url] = fault_once
    async with running_dispatcher(post.ports):
        await anyio.sleep(5)
        assert (await post.delivery_statuses(endpoint)).count(SUCCEEDED) >= 6
        await anyio.sleep(60)
    assert set(await post.delivery_statuses(endpoint)) == {SUCCEEDED}
    assert len(sender.sent) <= 12 + 4
    assert "a bug" in caplog.text
