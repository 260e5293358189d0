"""Events over Socket.IO in both directions: acknowledgements, errors and malformed packets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import SECOND
from staffbooking_core.representations.channel import ClientEvent
from staffbooking_core.usecases.messaging import channel
from staffbooking_http.channel import socketio
from tests.channel.raw_clients import wait_until_offline
from tests.channel.socketio_clients import (
    POLLING_ONLY,
    TRANSPORTS,
    WEBSOCKET_ONLY,
    PollingClient,
    RawSocketIoClient,
    connect_client,
    connect_polling_client,
    connect_raw_client,
)
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

transports = pytest.mark.parametrize("transports", TRANSPORTS.values(), ids=TRANSPORTS)


@pytest.fixture
async def site(world: HttpDeployment) -> AsyncIterator[ChannelServer]:
    relax_limits(world)
    async with serve_channel(world.ports) as made:
        yield made


# Events ---------------------------------------------------------------------------------


@transports
async def test_a_message_reaches_all_connections_of_both_parties(
    world: HttpDeployment, site: ChannelServer, transports: list[str]
) -> None:
    """A message is acknowledged by callback and `ack` event, and sent once, in order, to every
    connection of both parties."""
    conversation = await add_shared_conversation(world)
    async with (
        connect_client(site, world.customer, transports) as ada,
        connect_client(site, world.companion, transports) as mia,
        site.connect_client(world.companion) as mia_too,
    ):
        assert ada.ready == {"user_id": world.customer.id, "last_message_id": 0}
        sent = [await ada.send_message(conversation, f"Word {number}") for number in range(3)]
        assert [each["sender_name"] for each in sent] == [world.customer.name] * 3
        answer = await mia_too.send_message(conversation, "I see")
        for client in (ada, mia, mia_too):
            assert [await client.next_data("new_message") for _ in range(4)] == [*sent, answer]
        assert ada.received_data("ack") == [{"message": message} for message in sent]
        assert mia.received_data("ack") == []


async def test_a_repeated_client_message_id_is_broadcast_once(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A message repeated with its `client_message_id` is acknowledged again and broadcast once."""
    conversation = await add_shared_conversation(world)
    async with (
        connect_client(site, world.customer, POLLING_ONLY) as ada,
        connect_client(site, world.companion, WEBSOCKET_ONLY) as mia,
    ):
        first = await ada.send_message(conversation, "Hello", client_message_id="a")
        assert await ada.send_message(conversation, "Hello", client_message_id="a") == first
        last = await ada.send_message(conversation, "Bye", client_message_id="b")
        assert [await mia.next_data("new_message") for _ in range(2)] == [first, last]


@transports
async def test_typing_read_and_presence(
    world: HttpDeployment, site: ChannelServer, transports: list[str]
) -> None:
    """Typing reaches the other party, `read` reaches both, `presence` its requester, and their
    callbacks get no data."""
    conversation = await add_shared_conversation(world)
    user, mine = {"user_id": world.customer.id}, {"conversation_id": conversation.id}
    async with (
        connect_client(site, world.customer, transports) as ada,
        connect_client(site, world.companion, transports) as mia,
    ):
        assert await ada.call("typing", {**mine, "is_typing": True}) is None
        typing = {**mine, **user, "sender_name": world.customer.name, "is_typing": True}
        assert await mia.next_data("typing") == typing
        world.clock.advance(6 * SECOND)
        assert await mia.next_data("typing") == {**typing, "is_typing": False}
        message = await mia.send_message(conversation, "Hello")
        assert await ada.call("read", {**mine, "message_id": message["id"]}) is None
        for client in (ada, mia):
            assert await client.next_data("read") == {**mine, **user, "message_id": message["id"]}
        assert await mia.call("presence", {"user_ids": [world.customer.id]}) is None
        assert await mia.next_data("presence") == {**user, "online": True, "last_seen": None}


@transports
async def test_resume_after_a_reconnect_sends_missed_messages(
    world: HttpDeployment, site: ChannelServer, transports: list[str]
) -> None:
    """After a reconnect, `resume` sends the messages after the named one once, in order, before
    later ones."""
    conversation = await add_shared_conversation(world)
    async with connect_client(site, world.customer, transports) as ada:
        async with connect_client(site, world.companion, transports) as mia:
            first = await ada.send_message(conversation, "Hello")
            assert await mia.next_data("new_message") == first
        missed = [await ada.send_message(conversation, f"Word {number}") for number in range(120)]
        async with connect_client(site, world.companion, transports) as mia:
            assert mia.ready["last_message_id"] == missed[-1]["id"]
            await mia.send("resume", {"after": first["id"]})
            last = await ada.send_message(conversation, "Now")
            for message in [*missed, last]:
                assert await mia.next_data("new_message") == message
            await mia.send_message(conversation, "Thank you")
            assert len(mia.received_data("new_message")) <= len(missed) + 2


async def test_events_keep_their_order(world: HttpDeployment, site: ChannelServer) -> None:
    """100 events posted in one request are handled in order."""
    conversation = await add_shared_conversation(world)
    packets = [
        f'42["send_message",{{"conversation_id":{conversation.id},"content":"Word {number}"}}]'
        for number in range(100)
    ]
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        await ada.post(*packets)
        contents = [(await ada.next("ack"))["message"]["content"] for _ in packets]
        assert contents == [f"Word {number}" for number in range(100)]


# Refusals -------------------------------------------------------------------------------

INVALID_EVENTS: list[tuple[str, list[Any], str]] = [
    (ClientEvent.SEND_MESSAGE, [{"conversation_id": 999, "content": "Hello"}], "not_found"),
    (ClientEvent.SEND_MESSAGE, [{"conversation_id": "1", "content": "Hello"}], "invalid_field"),
    (ClientEvent.SEND_MESSAGE, [{}], "missing_field"),
    (ClientEvent.TYPING, [{"conversation_id": 999, "is_typing": True}], "not_found"),
    (ClientEvent.READ, [{"conversation_id": 999, "message_id": 1}], "not_found"),
    (ClientEvent.PRESENCE, [{"user_ids": [999]}], "not_found"),
    (ClientEvent.RESUME, [{"after": -1}], "invalid_field"),
    (ClientEvent.RESUME, [], "bad_frame"),
    (ClientEvent.RESUME, [{"after": 0}, {"after": 0}], "bad_frame"),
    (ClientEvent.RESUME, [None], "bad_frame"),
    (ClientEvent.RESUME, [[{"after": 0}]], "bad_frame"),
    (ClientEvent.RESUME, ["0"], "bad_frame"),
    ("new_message", [{}], "unknown_event"),
    ("message", [], "unknown_event"),
    ("\u0442yping", [{}], "unknown_event"),
    ("connect_error", [{}], "unknown_event"),
]


@transports
async def test_an_invalid_event_is_answered_by_callback_and_error_event(
    world: HttpDeployment, site: ChannelServer, transports: list[str]
) -> None:
    """An invalid event gets the same error by callback and by `error` event, and the connection
    stays open."""
    async with connect_client(site, world.customer, transports) as ada:
        for event, data, code in INVALID_EVENTS:
            answer = await ada.call(event, *data)
            assert answer["code"] == code, (event, data)
            assert await ada.next_data("error") == answer
        for fault in (await ada.call("send_message", {}))["errors"]:
            assert fault["field"] in ("conversation_id", "content")
        assert (await ada.send_message(await add_shared_conversation(world), "Still here"))[
            "content"
        ] == "Still here"


async def test_binary_data_is_refused(world: HttpDeployment, site: ChannelServer) -> None:
    """Binary data is refused with `bad_frame`, once for the event and once for each attachment."""
    for transports in TRANSPORTS.values():
        async with connect_client(site, world.customer, transports) as ada:
            for data in (b"binary", {"after": b"0"}, {"after": [b"0", b"1"]}):
                assert (await ada.call("resume", data))["code"] == "bad_frame"
            for _ in range(7):
                assert (await ada.next_data("error"))["code"] == "bad_frame"
            assert (await ada.call("nothing"))["code"] == "unknown_event"


MALFORMED_PACKETS = [
    "",
    " ",
    "x",
    "\U0001f600",
    "0",
    '0{"sid":"x"}',
    "2",
    "2probe",
    "1x",
    "3probe",
    "3" + "[" * 20_000,
    "5",
    "6",
    "7",
    "9",
    "4",
    "4x",
    "4true",
    "4null",
    "4[1]",
    '4"2[\\"typing\\"]"',
    '4{"a":1}',
    "4²",
    "42",
    "42null",
    "42{}",
    "42[]",
    '42"typing"',
    "42[1]",
    "42[null,{}]",
    '42[["typing"],{}]',
    '42[{"typing":1}]',
    '42["typing",{]',
    '42["typing",{"x":NaN}]',
    '42["typing",{"x":1,"x":1}]',
    '42["typing",{"x":[[[[[[[[]]]]]]]]}]',
    "42" + "[" * 20_000,
    '42["connect",{}]',
    '42["connect"]',
    '42["disconnect"]',
    '42["disconnect","now"]',
    '42["*",{}]',
    '42["*"]',
    '42[""]',
    '42/admin,["typing",{}]',
    "42" + "9" * 200 + '["typing"]',
    "40",
    "40{",
    '40{"token":"x"}',
    "40/admin,",
    "41/,",
    "41{}",
    "41{",
    '421-["typing",{}]',
    '43["never asked"]',
    "431[]",
    "44{}",
    '451-["send_message",{"_placeholder":true,"num":0}]',
    '450-["send_message",{}]',
    '4599999999999-["send_message"]',
    "461-1[]",
    "47",
]


INVALID_UTF_8 = [b"\xff\xfe", b"42\xc3", b'42["typing",{"x":"' + b"\xff" * 30_000 + b'"}]']


async def _expect_bad_frame_for_each(
    client: RawSocketIoClient | PollingClient, nonsense: list[str | bytes]
) -> None:
    for packet in nonsense:
        await (
            client.send(packet) if isinstance(client, RawSocketIoClient) else client.post(packet)
        )
        assert (await client.next("error"))["code"] == "bad_frame", packet[:40]


async def test_malformed_packets_over_a_websocket_are_answered(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Each malformed packet over a WebSocket is answered with `bad_frame`, and the connection stays
    open."""
    async with connect_raw_client(site, world.customer) as ada:
        await _expect_bad_frame_for_each(
            ada, [*MALFORMED_PACKETS, b"", b"\x00\xff", b'42["typing",{}]']
        )
        await ada.send('42["nothing",{}]')
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_malformed_packets_by_polling_are_answered(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Each malformed packet by polling is answered with `bad_frame`, sent alone or in one
    request."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.connect()
        await _expect_bad_frame_for_each(ada, [*MALFORMED_PACKETS, "bAAAA", "d=42", *INVALID_UTF_8])
        assert (await ada.post(*MALFORMED_PACKETS)).text == "ok"
        for _ in MALFORMED_PACKETS:
            assert (await ada.next("error"))["code"] == "bad_frame"
        await ada.post('42["nothing",{}]')
        assert (await ada.next("error"))["code"] == "unknown_event"


async def test_there_is_one_namespace(world: HttpDeployment, site: ChannelServer) -> None:
    """Connecting to another namespace is refused, and connecting to `/` again is a `bad_frame`."""
    async with connect_polling_client(site, world.customer) as ada:
        await ada.open()
        for namespace in ("/admin", "/*"):
            await ada.post(f"40{namespace},")
            assert (await ada.packet()).startswith("44")
        await ada.post("40/,")
        assert (await ada.packet()).startswith("40{")
        await ada.next("ready")
        await ada.post("40/,")
        assert (await ada.next("error"))["code"] == "bad_frame"


async def test_events_before_the_socketio_handshake_are_dropped(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """An event before the Socket.IO handshake is dropped, and the first packet after it
    connects."""
    conversation = await add_shared_conversation(world)
    async with (
        connect_polling_client(site, world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        await ada.open()
        early = f'42["send_message",{{"conversation_id":{conversation.id},"content":"Early"}}]'
        await ada.post(early, "3", "41")
        message = await mia.send_message(conversation, "Hello")
        await ada.post("40")
        assert (await ada.packet()).startswith("40")
        assert (await ada.next("ready"))["last_message_id"] == message["id"]
        assert await mia.next_data("new_message") == message


async def test_an_unexpected_error_ends_a_connection(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error while a connection opens takes the user offline and is logged."""

    async def broken(*_: Any) -> int:
        raise RuntimeError("planted")

    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.open()
        monkeypatch.setattr(channel, "last_message_id", broken)
        monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
        await ada.post("40")
        await wait_until_offline(world, world.customer)
    assert "planted" in caplog.text
