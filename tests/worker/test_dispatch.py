"""The loops that send: side by side, fair, and none in the way of another."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import anyio
import pytest
from attrs import evolve

from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_worker import webhook_dispatcher
from tests.support.builders import NOW, POLICY, SECOND
from tests.support.webhook_deployment import WAITS, Post, make_post
from tests.worker.dispatcher_doubles import (
    FOREVER,
    SUCCEEDED,
    Gates,
    LoopClock,
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


# Side by side -----------------------------------------------------------------------------


async def test_all_that_is_due_is_sent(post: Post, sender: Gates) -> None:
    """At many endpoints, each delivery once."""
    made = [await with_deliveries(post, 40) for _ in range(3)]
    with anyio.fail_after(FOREVER):
        assert await webhook_dispatcher.drain(post.ports) == 120
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in made}
    for endpoint in made:
        assert set(await post.statuses(endpoint)) == {SUCCEEDED}


async def test_four_are_in_flight_at_most(post: Post, sender: Gates) -> None:
    """At each endpoint, however many are due; and no fewer."""
    made = [await with_deliveries(post, 20) for _ in range(2)]
    async with serving(post.ports):
        for endpoint in made:
            sender.acts[endpoint.url] = sender.hang
        await until(lambda: len(sender.sent) == 8)
        await anyio.sleep(webhook_dispatcher.TURN_SECONDS)
        assert len(sender.sent) == 8
        sender.gate.set()
        await until(lambda: len(sender.sent) == 40)
    assert set(sender.most.values()) == {4}


async def test_two_workers_share_the_endpoints(post: Post, sender: Gates) -> None:
    """Even then each delivery is sent once, and four are in flight at most."""
    made = [await with_deliveries(post, 40) for _ in range(5)]
    async with serving(post.ports, workers=2):
        await until(lambda: len(sender.sent) == 200)
    assert Counter(sender.urls()) == {endpoint.url: 40 for endpoint in made}
    assert max(sender.most.values()) == 4


async def test_a_hanging_endpoint_holds_up_no_other(post: Post, sender: Gates) -> None:
    """The others' deliveries are made while it hangs."""
    hanging, sound = await with_deliveries(post, 20), await with_deliveries(post, 20)
    sender.acts[hanging.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: sender.urls().count(sound.url) == 20)
        sender.gate.set()


async def test_many_troubled_endpoints_hold_up_no_other(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many more than there are slots hang, once they have failed before."""
    monkeypatch.setattr(webhook_dispatcher, "SLOTS", 3)
    for _ in range(10):
        endpoint = await with_deliveries(post, troubled=True)
        sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 3)
        sound = await with_deliveries(post, 20)
        await until(lambda: sender.urls().count(sound.url) == 20)
        sender.gate.set()


async def test_endpoints_that_begin_to_hang_make_room(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take all slots once, until their first attempts have failed, and never again."""
    monkeypatch.setattr(webhook_dispatcher, "SLOTS", 3)
    hanging = [await with_deliveries(post) for _ in range(3)]
    for endpoint in hanging:
        sender.acts[endpoint.url] = sender.time_out
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 3)
        for endpoint in hanging:
            await until_logged(post, endpoint, 1)
            sender.acts[endpoint.url] = sender.hang
        await until(lambda: sum(sender.in_flight.values()) == 3)
        sound = await with_deliveries(post, 5)
        await until(lambda: sender.urls().count(sound.url) == 5)
        sender.gate.set()


@pytest.mark.parametrize(
    ("seconds", "most"), [(0.001, deliveries.TURN), (1.0, 16)], ids=["quick", "slow"]
)
async def test_one_with_much_to_do_starves_no_other(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch, seconds: float, most: int
) -> None:
    """Even with one slot for all, others have their turns between; of a slow one sooner."""
    monkeypatch.setattr(webhook_dispatcher, "SLOTS", 1)
    busy = await with_deliveries(post, 200)
    others = [await with_deliveries(post) for _ in range(3)]

    async def take_time() -> int:
        await anyio.sleep(seconds)
        return 200

    sender.acts[busy.url] = take_time
    async with serving(post.ports):
        await until(lambda: len({*sender.urls()}) == 4)
    first = sender.urls().index(others[0].url)
    assert first <= most
    assert {*sender.urls()[first : first + 3]} == {other.url for other in others}


async def test_retries_come_when_they_are_due(post: Post, sender: Gates) -> None:
    """Never before, and at once then, although nothing wakes the dispatcher."""
    endpoint = await with_deliveries(post)
    sender.acts[endpoint.url] = sender.fail
    async with serving(post.ports):
        await until_logged(post, endpoint, 4)
    [(delivery, attempts)] = await post.logged(endpoint)
    assert delivery.status is DeliveryStatus.FAILED
    waited = [later.at - earlier.at for earlier, later in pairwise(attempts)]
    late = [wait - least for wait, least in zip(waited, WAITS, strict=True)]
    assert min(late) >= 0 * SECOND
    assert max(late) < 0.1 * SECOND


async def test_a_hint_ends_the_wait(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes due is sent without a look by the clock."""
    monkeypatch.setattr(webhook_dispatcher, "POLL", FOREVER)
    async with serving(post.ports):
        await anyio.sleep(1)
        await with_deliveries(post)
        await until(lambda: len(sender.sent) == 1)


async def test_without_a_hint_it_is_found_too(
    post: Post, sender: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints may be lost: polling is the truth."""
    monkeypatch.setattr(type(post.ports.hints), "give", lambda _, hint: None)
    async with serving(post.ports):
        await anyio.sleep(1)
        await with_deliveries(post)
        await until(lambda: len(sender.sent) == 1)


# Stopping, and what is not ours any more --------------------------------------------------


async def test_what_is_in_flight_is_finished(post: Post, sender: Gates) -> None:
    """After the word to stop nothing more is sent; what was is logged, and the endpoint is
    free for the next worker."""
    endpoint = await with_deliveries(post, 20)
    sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports) as stop:
        await until(lambda: len(sender.sent) == 4)
        stop.set()
        await anyio.sleep(0.5)
        sender.gate.set()
    assert len(sender.sent) == 4
    assert (await post.statuses(endpoint)).count(SUCCEEDED) == 4
    assert len((await post.claim()).parcels) == 16


async def test_a_pause_ends_the_turn(post: Post, sender: Gates) -> None:
    """Of an endpoint that its owner pauses only what is in flight goes on."""
    endpoint = await with_deliveries(post, 20)
    sender.acts[endpoint.url] = sender.hang
    async with serving(post.ports):
        await until(lambda: len(sender.sent) == 4)
        await post.pause(endpoint)
        sender.gate.set()
        await anyio.sleep(1)
    assert len(sender.sent) == 4
    assert Counter(await post.statuses(endpoint)) == {SUCCEEDED: 4, DeliveryStatus.HELD: 16}


async def test_claims_are_kept_while_a_turn_lasts(sender: Gates) -> None:
    """No other worker takes an endpoint over whose attempt takes longer than the lease."""
    policy = evolve(POLICY, lease=3 * SECOND)
    post = make_post(clock=LoopClock(NOW), sender=sender, policy=policy)
    endpoint = await with_deliveries(post)
    sender.acts[endpoint.url] = sender.time_out
    async with serving(post.ports, workers=2):
        await until_logged(post, endpoint, 1)
    [(_, attempts)] = await post.logged(endpoint)
    assert (len(attempts), len(sender.sent)) == (1, 1)


async def test_drain_leaves_what_is_not_due(post: Post, sender: Gates) -> None:
    """A retry that has to wait is not waited for."""
    endpoint = await with_deliveries(post, 3)
    sender.acts[endpoint.url] = sender.fail
    with anyio.fail_after(FOREVER):
        assert await webhook_dispatcher.drain(post.ports) == 3
        assert await webhook_dispatcher.drain(post.ports) == 0
    assert set(await post.statuses(endpoint)) == {DeliveryStatus.PENDING}
