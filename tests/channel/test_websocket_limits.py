"""Event limits of one connection."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import MINUTE, SECOND
from staffbooking_core.representations.channel import ClientEvent
from staffbooking_core.usecases.messaging import channel
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    WebSocketClient,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio


async def send_many(client: WebSocketClient, number: int) -> None:
    """Send events that are answered by an error: refused, malformed and binary, in rotation."""
    for position in range(number):
        frame = '{"event": "presence", "data": {"user_ids": [999]}}'
        await client.socket.send((frame, "garbage", b"binary")[position % 3])


async def next_codes(client: WebSocketClient, number: int) -> list[str]:
    """The next_codes of the next errors."""
    return [(await client.next_data("error"))["code"] for _ in range(number)]


async def test_the_default_limit(world: HttpDeployment) -> None:
    """100 events of any kind pass, 200 more get `rate_limited` with `retry_after`, and the next one
    closes with 1008."""
    world.restart()
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        await send_many(ada, 100)
        assert "rate_limited" not in await next_codes(ada, 100)
        world.clock.advance(18 * SECOND)
        await send_many(ada, 200)
        for _ in range(200):
            error = await ada.next_data("error")
            assert (error["code"], error["retry_after"]) == ("rate_limited", 42)
        await ada.socket.send("one too many")
        assert await ada.wait_closed() == 1008
        assert ada.received[-1]["data"] == error


async def test_reconnecting_evades_no_limit(world: HttpDeployment) -> None:
    """A user's events count together over connections and servers, one after the other too; those
    over the limit are refused with `retry_after` and not stored, and close nothing."""
    relax_limits(world, max_user_events_per_minute=3)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as one, serve_channel(world.ports) as two:
        for number, site in enumerate((one, two, one)):
            async with site.connect_client(world.customer) as ada:
                await ada.send_message(conversation, f"Word {number}")
        world.clock.advance(18 * SECOND)
        for site in (two, one):
            async with site.connect_client(world.customer) as ada:
                data = {"conversation_id": conversation.id, "content": "Too much"}
                await ada.send(ClientEvent.SEND_MESSAGE, data, ref=7)
                error = await ada.next_data("error")
                assert (error["code"], error["retry_after"]) == ("rate_limited", 42)
                assert ada.received[-1]["ref"] == 7
        async with one.connect_client(world.companion) as mia:
            await mia.send_message(conversation, "Others go on")
        assert await channel.last_message_id(world.ports) == 4


async def test_invalid_events_count_for_the_user(world: HttpDeployment) -> None:
    """Malformed, unknown, invalid and binary events of all connections count against the user's
    limit, beyond which they are refused with `retry_after` as messages are."""
    relax_limits(world, max_user_events_per_minute=4)
    invalid: list[tuple[str, str | bytes]] = [
        ("bad_frame", "garbage"),
        ("unknown_event", '{"event": "nothing"}'),
        ("missing_field", '{"event": "resume", "data": {}}'),
        ("bad_frame", b"binary"),
    ]
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as one, serve_channel(world.ports) as two:
        for (code, frame), site in zip(invalid, (one, two, one, two), strict=True):
            async with site.connect_client(world.customer) as ada:
                await ada.socket.send(frame)
                assert await next_codes(ada, 1) == [code]
        world.clock.advance(18 * SECOND)
        async with one.connect_client(world.customer) as ada:
            message = {"conversation_id": conversation.id, "content": "Too much"}
            await ada.send(ClientEvent.SEND_MESSAGE, message)
            for _, frame in invalid:
                await ada.socket.send(frame)
            for _ in range(5):
                error = await ada.next_data("error")
                assert (error["code"], error["retry_after"]) == ("rate_limited", 42)


async def test_a_message_over_the_limit_is_not_stored(world: HttpDeployment) -> None:
    """A message over the limit is not stored, and its error has its `ref`."""
    relax_limits(world, max_events_per_minute=2)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        for number in range(3):
            data = {"conversation_id": conversation.id, "content": f"Word {number}"}
            await ada.send(ClientEvent.SEND_MESSAGE, data, ref=number)
        assert (await ada.next_data("error"))["code"] == "rate_limited"
        assert ada.received[-1]["ref"] == 2
        async with site.connect_client(world.companion) as mia:
            await mia.send(ClientEvent.RESUME, {"after": 0})
            contents = [(await mia.next_data("new_message"))["content"] for _ in range(2)]
            assert contents == ["Word 0", "Word 1"]
            last = await mia.send_message(conversation, "Hello")
            assert await mia.next_data("new_message") == last


async def test_a_window_begins_with_its_first_event(world: HttpDeployment) -> None:
    """A window ends one minute after its first event."""
    relax_limits(world, max_events_per_minute=2)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        await send_many(ada, 1)
        await next_codes(ada, 1)
        world.clock.advance(MINUTE - SECOND)
        await send_many(ada, 2)
        assert await next_codes(ada, 2) == ["not_found", "rate_limited"]
        world.clock.advance(SECOND)
        await send_many(ada, 2)
        assert "rate_limited" not in await next_codes(ada, 2)


async def test_each_connection_has_its_window(world: HttpDeployment) -> None:
    """Two connections of one user have separate windows."""
    relax_limits(world, max_events_per_minute=1)
    async with (
        serve_channel(world.ports) as site,
        site.connect_client(world.customer) as ada,
        site.connect_client(world.customer) as ada_too,
    ):
        await send_many(ada, 2)
        assert (await next_codes(ada, 2))[1] == "rate_limited"
        await send_many(ada_too, 1)
        assert "rate_limited" not in await next_codes(ada_too, 1)


async def test_events_after_the_closing_one_are_dropped(world: HttpDeployment) -> None:
    """Events after the one that closes the connection are dropped."""
    relax_limits(world, max_events_per_minute=1, channel_overrun=1)
    conversation = await add_shared_conversation(world)
    data = {"conversation_id": conversation.id, "content": "Too late"}
    async with serve_channel(world.ports) as site, site.connect_client(world.companion) as mia:
        async with site.connect_client(world.customer) as ada:
            await send_many(ada, 2)
            for _ in range(3):
                await ada.send(ClientEvent.SEND_MESSAGE, data)
            assert await ada.wait_closed() == 1008
            assert ada.received_data("ack") == []
        world.clock.advance(MINUTE)
        last = await mia.send_message(conversation, "Hello?")
        assert await mia.next_data("new_message") == last
