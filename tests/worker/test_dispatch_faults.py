"""The loops that send when something goes wrong: the store, a turn, a step, a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Ports, Turn
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker import webhook_dispatcher
from tests.support.webhook_deployment import Post
from tests.support.webhooks import add_delivery, add_endpoint
from tests.worker.dispatcher_doubles import (
    SUCCEEDED,
    FaultyStore,
    Gates,
    anyio_backend,
    post,
    sender,
    serving,
    until,
    until_logged,
    with_deliveries,
)

__all__ = ["anyio_backend", "post", "sender"]

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "faults", [["before", "before"], ["after"], ["before", "after", "after"]], ids=",".join
)
async def test_what_was_sent_is_not_sent_again(
    post: Post, sender: Gates, faults: list[str]
) -> None:
    """While the store is away outcomes wait, whether or not it has saved them already."""
    store = FaultyStore(post.ports.store)
    endpoint = await with_deliveries(post)

    async def answer() -> int:
        store.faults += faults
        return 200

    sender.acts[endpoint.url] = answer
    async with serving(evolve(post.ports, store=store)):
        await until(lambda: len(sender.sent) == 1 and not store.faults)
        await until_logged(post, endpoint, 1)
        await anyio.sleep(60)
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (delivery.status, len(attempts), len(sender.sent)) == (SUCCEEDED, 1, 1)


async def test_a_store_that_is_away_is_waited_for(post: Post, sender: Gates) -> None:
    """Claims that could not be made are made later."""
    store = FaultyStore(post.ports.store)
    store.faults += ["before"] * 3
    await with_deliveries(post)
    async with serving(evolve(post.ports, store=store)):
        await until(lambda: len(sender.sent) == 1)


async def test_a_fault_in_one_turn_leaves_the_others(
    post: Post, sender: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the others are sent, and its own delivery again when its claim is over."""
    broken, sound = await with_deliveries(post), await with_deliveries(post, 20)
    faults = ["a bug"]

    async def fault() -> int:
        if faults:
            raise RuntimeError(faults.pop())
        return 200

    sender.acts[broken.url] = fault
    async with serving(post.ports):
        await until(lambda: sender.urls().count(sound.url) == 20)
        await until_logged(post, broken, 1)
    assert "a bug" in caplog.text
    assert await post.statuses(broken) == [SUCCEEDED]


async def test_what_cannot_be_settled_for_one_keeps_no_other(
    post: Post, sender: Gates, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes of others that wait with it are saved, each once; its own is sent again, but not
    before its claim has run out."""
    real = deliveries.settle
    cursed, sound = await with_deliveries(post), [await with_deliveries(post) for _ in range(5)]

    async def faulty(
        ports: Ports, sent: Iterable[deliveries.Sent], over: Iterable[Turn] = ()
    ) -> Any:
        sent, over = list(sent), list(over)
        if any(turn.endpoint.id == cursed.id for turn in (*over, *(s.turn for s in sent))):
            raise RuntimeError("a bug")
        return await real(ports, sent, over)

    monkeypatch.setattr(deliveries, "settle", faulty)
    async with serving(post.ports):
        for endpoint in sound:
            await until_logged(post, endpoint, 1)
        await anyio.sleep(10)
        assert sender.urls().count(cursed.url) == 1
        await anyio.sleep(10)
    assert sender.urls().count(cursed.url) == 2
    assert all(sender.urls().count(endpoint.url) == 1 for endpoint in sound)
    assert "a bug" in caplog.text


async def test_slow_endpoints_hold_up_no_other(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many answer well but late, once they have shown it."""
    monkeypatch.setattr(webhook_dispatcher, "SLOTS", 2)
    slow = [await with_deliveries(post, 8) for _ in range(4)]

    async def answer() -> int:
        await anyio.sleep(9)
        return 200

    for endpoint in slow:
        sender.acts[endpoint.url] = answer
    async with serving(post.ports):
        await anyio.sleep(30)
        began = anyio.current_time()
        quick = await with_deliveries(post)
        await until_logged(post, quick, 1)
    assert anyio.current_time() - began < 9


async def test_what_is_locked_by_others_is_not_asked_for_without_pause(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due and can't be claimed is tried again after a while."""
    calls = 0

    async def in_vain(*_: Any, **__: Any) -> list[Turn]:
        nonlocal calls
        calls += 1
        return []

    monkeypatch.setattr(deliveries, "claim", in_vain)
    await with_deliveries(post)
    async with serving(post.ports):
        await anyio.sleep(1)
    assert 1 < calls <= 21


@pytest.mark.parametrize("step", ["claim", "settle", "renew"])
async def test_an_unexpected_fault_ends_nothing(
    post: Post,
    sender: Gates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    """A bug in any step is logged, and the dispatcher goes on."""
    real, faults = getattr(deliveries, step), ["a bug"]

    async def faulty(*args: Any, **named: Any) -> Any:
        if faults:
            raise RuntimeError(faults.pop())
        return await real(*args, **named)

    monkeypatch.setattr(deliveries, step, faulty)
    endpoint = await with_deliveries(post)
    async with serving(post.ports):
        await until_logged(post, endpoint, 1)
        await until(lambda: not faults)
        later = await with_deliveries(post)
        await until_logged(post, later, 1)
    assert "a bug" in caplog.text


async def test_without_its_key_one_endpoint_waits(
    post: Post, sender: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in the log, nothing is sent to it, and all others are."""
    sealed = await add_endpoint(post.ports.store)
    await add_delivery(post.ports.store, sealed)
    sound = await with_deliveries(post, 20)
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 20)
    assert {*sender.urls()} == {sound.url}
    assert f"webhook {sealed.id}: a sealed secret can't be opened" in caplog.text


async def test_a_drain_does_not_pass_over_a_fault(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was due and could not be claimed is not taken for nothing."""

    async def faulty(*_: Any, **__: Any) -> list[Turn]:
        raise Unavailable("gone")

    monkeypatch.setattr(deliveries, "claim", faulty)
    await with_deliveries(post)
    with pytest.raises(ExceptionGroup) as raised:
        await webhook_dispatcher.drain(post.ports)
    assert raised.group_contains(Unavailable)
