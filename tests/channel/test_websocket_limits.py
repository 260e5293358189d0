"""How much one connection may send: events of a window, and control frames."""

from __future__ import annotations

import pytest

from staffbooking_core.representations.channel import Asked
from tests.http.deployment import World
from tests.support.builders import MINUTE, SECOND
from tests.support.channel_deployment import Client, converse, relax, served

pytestmark = pytest.mark.anyio


async def send_many(client: Client, number: int) -> None:
    """So many events that are answered by an error, well formed and not in turns."""
    for turn in range(number):
        frame = '{"event": "presence", "data": {"user_ids": [999]}}'
        await client.socket.send((frame, "garbage", b"binary")[turn % 3])


async def codes(client: Client, number: int) -> list[str]:
    """The codes of so many errors that come next."""
    return [(await client.next("error"))["code"] for _ in range(number)]


async def test_a_hundred_events_pass(world: World) -> None:
    """By default, malformed ones among them; the next 200 are dropped, each with an error that
    says when to try again, and the one after those closes."""
    world.restart()
    async with served(world.ports) as site, site.client(world.customer) as ada:
        await send_many(ada, 100)
        assert "rate_limited" not in await codes(ada, 100)
        world.clock.advance(18 * SECOND)
        await send_many(ada, 200)
        for _ in range(200):
            error = await ada.next("error")
            assert (error["code"], error["retry_after"]) == ("rate_limited", 42)
        await ada.socket.send("one too many")
        assert await ada.closed() == 1008
        assert ada.seen[-1]["data"] == error


async def test_what_is_over_the_limit_is_not_done(world: World) -> None:
    """A message that was dropped is not stored, and its `ref` comes back with the error."""
    relax(world, events=2)
    conversation = await converse(world)
    async with served(world.ports) as site, site.client(world.customer) as ada:
        for number in range(3):
            data = {"conversation_id": conversation.id, "content": f"Word {number}"}
            await ada.send(Asked.SEND_MESSAGE, data, ref=number)
        assert (await ada.next("error"))["code"] == "rate_limited"
        assert ada.seen[-1]["ref"] == 2
        async with site.client(world.companion) as mia:
            await mia.send(Asked.RESUME, {"after": 0})
            said = [(await mia.next("new_message"))["content"] for _ in range(2)]
            assert said == ["Word 0", "Word 1"]
            last = await mia.say(conversation, "Hello")
            assert await mia.next("new_message") == last


async def test_a_window_begins_with_its_first_event(world: World) -> None:
    """A minute after it there is a new one; until then every event counts."""
    relax(world, events=2)
    async with served(world.ports) as site, site.client(world.customer) as ada:
        await send_many(ada, 1)
        await codes(ada, 1)
        world.clock.advance(MINUTE - SECOND)
        await send_many(ada, 2)
        assert await codes(ada, 2) == ["not_found", "rate_limited"]
        world.clock.advance(SECOND)
        await send_many(ada, 2)
        assert "rate_limited" not in await codes(ada, 2)


async def test_windows_are_of_one_connection(world: World) -> None:
    """Another one of the same user has its own."""
    relax(world, events=1)
    async with (
        served(world.ports) as site,
        site.client(world.customer) as ada,
        site.client(world.customer) as ada_too,
    ):
        await send_many(ada, 2)
        assert (await codes(ada, 2))[1] == "rate_limited"
        await send_many(ada_too, 1)
        assert "rate_limited" not in await codes(ada_too, 1)


async def test_what_comes_with_the_last_straw_is_dropped(world: World) -> None:
    """All that was sent at once after the event that closes counts for nothing."""
    relax(world, events=1, channel_overrun=1)
    conversation = await converse(world)
    data = {"conversation_id": conversation.id, "content": "Too late"}
    async with served(world.ports) as site, site.client(world.companion) as mia:
        async with site.client(world.customer) as ada:
            await send_many(ada, 2)
            for _ in range(3):
                await ada.send(Asked.SEND_MESSAGE, data)
            assert await ada.closed() == 1008
            assert ada.told("ack") == []
        world.clock.advance(MINUTE)
        last = await mia.say(conversation, "Hello?")
        assert await mia.next("new_message") == last
