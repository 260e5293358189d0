"""The webhook dispatcher during failures of the store, a batch or a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_core.domain.webhooks.deliveries import Delivery
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import EndpointBatch, EndpointClaim, Ports
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker import webhook_dispatcher
from tests.support.webhook_deployment import WebhookScenario
from tests.worker.dispatcher_doubles import (
    SUCCEEDED,
    GatedReceivers,
    UnreliableStore,
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


@pytest.mark.parametrize(
    "faults", [["before", "before"], ["after"], ["before", "after", "after"]], ids=",".join
)
async def test_a_delivery_is_not_sent_again_after_a_store_failure(
    post: WebhookScenario, sender: GatedReceivers, faults: list[str]
) -> None:
    """Results are saved once after failures of the store, before or after its commit, and the
    delivery is sent once."""
    store = UnreliableStore(post.ports.store)
    endpoint = await add_endpoint_with_deliveries(post)

    async def answer() -> int:
        store.faults += faults
        return 200

    sender.behaviours[endpoint.url] = answer
    async with running_dispatcher(evolve(post.ports, store=store)):
        await wait_until(lambda: len(sender.sent) == 1 and not store.faults)
        await wait_until_attempted(post, endpoint, 1)
        await anyio.sleep(60)
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (delivery.status, len(attempts), len(sender.sent)) == (SUCCEEDED, 1, 1)


async def test_a_stop_without_the_store_is_no_unexpected_error(
    post: WebhookScenario, sender: GatedReceivers, caplog: pytest.LogCaptureFixture
) -> None:
    """A dispatcher that is stopped while the store is unavailable says that outcomes are unsaved,
    without a traceback."""
    store = UnreliableStore(post.ports.store)
    endpoint = await add_endpoint_with_deliveries(post)

    async def answer() -> int:
        store.faults += ["before"] * 100
        return 200

    sender.behaviours[endpoint.url] = answer
    async with running_dispatcher(evolve(post.ports, store=store)):
        await wait_until(lambda: "outcomes not saved" in caplog.text)
    assert f"webhook {endpoint.id}: stopped before its outcomes were saved" in caplog.text
    assert [each.levelname for each in caplog.records if each.exc_info] == []


async def test_failed_claims_are_repeated(post: WebhookScenario, sender: GatedReceivers) -> None:
    """Claims that failed are made again later."""
    store = UnreliableStore(post.ports.store)
    store.faults += ["before"] * 3
    await add_endpoint_with_deliveries(post)
    async with running_dispatcher(evolve(post.ports, store=store)):
        await wait_until(lambda: len(sender.sent) == 1)


async def test_an_error_in_one_batch_does_not_affect_others(
    post: WebhookScenario, sender: GatedReceivers, caplog: pytest.LogCaptureFixture
) -> None:
    """An error in one batch is logged; other deliveries are sent, and its own again when its claim
    expires."""
    broken, healthy = (
        await add_endpoint_with_deliveries(post),
        await add_endpoint_with_deliveries(post, 20),
    )
    faults = ["a bug"]

    async def fault() -> int:
        if faults:
            raise RuntimeError(faults.pop())
        return 200

    sender.behaviours[broken.url] = fault
    async with running_dispatcher(post.ports):
        await wait_until(lambda: sender.urls().count(healthy.url) == 20)
        await wait_until_attempted(post, broken, 1)
    assert "a bug" in caplog.text
    assert await post.delivery_statuses(broken) == [SUCCEEDED]


async def test_results_that_cannot_be_settled_do_not_affect_others(
    post: WebhookScenario,
    sender: GatedReceivers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outcomes settled with a failing one are saved once each; the failing delivery is sent again
    after its claim expires."""
    real = deliveries.settle_results
    failing, healthy = (
        await add_endpoint_with_deliveries(post),
        [await add_endpoint_with_deliveries(post) for _ in range(5)],
    )

    async def faulty(
        ports: Ports,
        sent: Sequence[deliveries.DeliveryResult],
        over: Sequence[EndpointBatch],
        last: Mapping[EndpointClaim, Delivery],
    ) -> Any:
        if any(batch.endpoint.id == failing.id for batch in (*over, *(s.batch for s in sent))):
            raise RuntimeError("a bug")
        return await real(ports, sent, over, last)

    monkeypatch.setattr(deliveries, "settle_results", faulty)
    async with running_dispatcher(post.ports):
        for endpoint in healthy:
            await wait_until_attempted(post, endpoint, 1)
        await anyio.sleep(10)
        assert sender.urls().count(failing.url) == 1
        await anyio.sleep(10)
    assert sender.urls().count(failing.url) == 2
    assert all(sender.urls().count(endpoint.url) == 1 for endpoint in healthy)
    assert "a bug" in caplog.text


async def test_a_cancelled_dispatcher_finishes_its_transaction(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled dispatcher finishes saving outcomes, so no delivery is sent again."""
    real, began = deliveries.settle_results, anyio.Event()

    async def slow(*args: Any) -> Any:
        began.set()
        await anyio.sleep(1)
        return await real(*args)

    monkeypatch.setattr(deliveries, "settle_results", slow)
    endpoint = await add_endpoint_with_deliveries(post)
    async with anyio.create_task_group() as group:
        group.start_soon(webhook_dispatcher.run_dispatcher, post.ports, anyio.Event())
        await began.wait()
        group.cancel_scope.cancel()
    assert await post.delivery_statuses(endpoint) == [SUCCEEDED]


async def test_slow_endpoints_do_not_delay_others(
    post: WebhookScenario, sender: GatedReceivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoints known to answer slowly do not delay the others, however many there are."""
    monkeypatch.setattr(webhook_dispatcher, "MAX_CLASS_BATCHES", 2)
    slow = [await add_endpoint_with_deliveries(post, 8) for _ in range(4)]

    async def answer() -> int:
        await anyio.sleep(9)
        return 200

    for endpoint in slow:
        sender.behaviours[endpoint.url] = answer
    async with running_dispatcher(post.ports):
        await anyio.sleep(30)
        began = anyio.current_time()
        quick = await add_endpoint_with_deliveries(post)
        await wait_until_attempted(post, quick, 1)
    assert anyio.current_time() - began < 9


async def test_claims_without_result_are_repeated_after_a_delay(
    post: WebhookScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due endpoints that can't be claimed are tried again after a delay."""
    calls = 0

    async def claim_nothing(*_: Any, **__: Any) -> list[EndpointBatch]:
        nonlocal calls
        calls += 1
        return []

    monkeypatch.setattr(deliveries, "claim_batches", claim_nothing)
    await add_endpoint_with_deliveries(post)
    async with running_dispatcher(post.ports):
        await anyio.sleep(1)
    assert 1 < calls <= 21


@pytest.mark.parametrize("step", ["claim_batches", "settle_results", "renew_claims"])
async def test_an_unexpected_error_does_not_end_the_dispatcher(
    post: WebhookScenario,
    sender: GatedReceivers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """An unexpected error in any step is logged, and the dispatcher continues."""
    real, faults = getattr(deliveries, step), ["a bug"]

    async def faulty(*args: Any, **named: Any) -> Any:
        if faults:
            raise RuntimeError(faults.pop())
        return await real(*args, **named)

    monkeypatch.setattr(deliveries, step, faulty)
    endpoint = await add_endpoint_with_deliveries(post)
    async with running_dispatcher(post.ports):
        await wait_until_attempted(post, endpoint, 1)
        await wait_until(lambda: not faults)
        later = await add_endpoint_with_deliveries(post)
        await wait_until_attempted(post, later, 1)
    assert "a bug" in caplog.text


async def test_an_endpoint_without_its_key_is_skipped(
    post: WebhookScenario, sender: GatedReceivers, caplog: pytest.LogCaptureFixture
) -> None:
    """An endpoint without its key is logged and skipped; all others are sent to."""
    sealed = await add_endpoint(post.ports.store)
    await add_delivery(post.ports.store, sealed)
    healthy = await add_endpoint_with_deliveries(post, 20)
    async with running_dispatcher(post.ports):
        await wait_until(lambda: len(sender.sent) == 20)
    assert {*sender.urls()} == {healthy.url}
    assert f"webhook {sealed.id}: A sealed secret can't be opened" in caplog.text


async def test_drain_raises_an_error_of_a_claim(
    post: WebhookScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draining raises an error that prevented a claim."""

    async def faulty(*_: Any, **__: Any) -> list[EndpointBatch]:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(deliveries, "claim_batches", faulty)
    await add_endpoint_with_deliveries(post)
    with pytest.raises(ExceptionGroup) as raised:
        await webhook_dispatcher.drain(post.ports)
    assert raised.group_contains(StoreUnavailable)
