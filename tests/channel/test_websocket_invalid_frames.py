"""Invalid frames are answered with errors, and frame sizes are bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staffbooking_core.representations.channel import ClientEvent
from tests.channel.raw_clients import connect_idle_client
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import ChannelServer, add_shared_conversation

pytestmark = pytest.mark.anyio

SEND: dict[str, Any] = {"conversation_id": 1, "content": "Hello"}


def frame(event: Any, data: Any = None, **more: Any) -> str:
    return json.dumps({"event": event, "data": {} if data is None else data, **more})


MALFORMED_FRAMES: list[str | bytes] = [
    "",
    " ",
    "Hello",
    "{",
    "}",
    "[]",
    "[" * 20_000,
    '{"a":' * 10_000,
    "null",
    "true",
    "1",
    '"text"',
    "NaN",
    "{} {}",
    "{'event': 'typing'}",
    '{"event": "typing",}',
    '{"event": "typing", "data": {"x": NaN}}',
    '{"event": "typing", "data": {"x": -Infinity}}',
    '{"event": "typing", "event": "read"}',
    '{"event": "typing", "data": {"x": 1, "x": 1}}',
    '{"event": "typing", "data": {"x": [[[[[[[]]]]]]]}}',
    '{"event": "typing", "ref": "\\ud800"}',
    '{"event": "typing", "ref": {"\\udfff": 1}}',
    "\ufeff{}",
    b"",
    b"\x00\xff",
    frame("presence", {"user_ids": []}).encode(),
]
"""Binary frames and text that is not a valid JSON object; they have no `ref`."""

BAD_FRAMES: list[dict[str, Any]] = [
    {},
    {"data": {}},
    {"event": None},
    {"event": 1},
    {"event": ["typing"]},
    {"event": {"typing": 1}},
    {"event": "typing", "data": None},
    {"event": "typing", "data": []},
    {"event": "typing", "data": "x"},
    {"event": "typing", "data": 1},
]

UNKNOWN_EVENTS = [
    "",
    "Typing",
    " typing",
    "typing\0",
    "send-message",
    "new_message",
    "ready",
    "ack",
    "connect",
    "__class__",
    "\u0442yping",
]

FAULTS: list[tuple[ClientEvent, dict[str, Any], str, set[str]]] = [
    (ClientEvent.SEND_MESSAGE, {}, "missing_field", {"conversation_id", "content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": None}, "missing_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": ""}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": " \n\t"}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": "x" * 5001}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": "a\0b"}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": "\x1b[1m"}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": "\u202eno"}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": "\ud800"}, "invalid_field", {"content"}),
    (ClientEvent.SEND_MESSAGE, {**SEND, "content": ["x"]}, "invalid_field", {"content"}),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "conversation_id": "1"},
        "invalid_field",
        {"conversation_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "conversation_id": 1.0},
        "invalid_field",
        {"conversation_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "conversation_id": True},
        "invalid_field",
        {"conversation_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "conversation_id": 0},
        "invalid_field",
        {"conversation_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "conversation_id": 2**63},
        "invalid_field",
        {"conversation_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "client_message_id": 1},
        "invalid_field",
        {"client_message_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {**SEND, "client_message_id": ""},
        "invalid_field",
        {"client_message_id"},
    ),
    (
        ClientEvent.SEND_MESSAGE,
        {"conversation_id": -1, "content": "", "client_message_id": "x" * 101},
        "invalid_field",
        {"conversation_id", "content", "client_message_id"},
    ),
    (ClientEvent.TYPING, {"conversation_id": 1}, "missing_field", {"is_typing"}),
    (ClientEvent.TYPING, {"conversation_id": 1, "is_typing": 1}, "invalid_field", {"is_typing"}),
    (
        ClientEvent.TYPING,
        {"conversation_id": 1, "is_typing": "yes"},
        "invalid_field",
        {"is_typing"},
    ),
    (ClientEvent.READ, {"conversation_id": 1}, "missing_field", {"message_id"}),
    (ClientEvent.READ, {"conversation_id": 1, "message_id": 0}, "invalid_field", {"message_id"}),
    (ClientEvent.PRESENCE, {}, "missing_field", {"user_ids"}),
    (ClientEvent.PRESENCE, {"user_ids": 1}, "invalid_field", {"user_ids"}),
    (ClientEvent.PRESENCE, {"user_ids": [0]}, "invalid_field", {"user_ids.0"}),
    (ClientEvent.PRESENCE, {"user_ids": ["1"]}, "invalid_field", {"user_ids.0"}),
    (ClientEvent.PRESENCE, {"user_ids": list(range(1, 52))}, "invalid_field", {"user_ids"}),
    (ClientEvent.RESUME, {}, "missing_field", {"after"}),
    (ClientEvent.RESUME, {"after": -1}, "invalid_field", {"after"}),
    (ClientEvent.RESUME, {"after": "0"}, "invalid_field", {"after"}),
    (ClientEvent.RESUME, {"after": 2**63}, "invalid_field", {"after"}),
]

REFS: list[Any] = [0, -1, 1.5, 2**64, "", "r", "\u0000", False, [], {}, {"a": [1, None]}]


async def test_malformed_frames_are_answered(world: HttpDeployment, site: ChannelServer) -> None:
    """Each is answered with `bad_frame` without a `ref`, and the connection stays open."""
    async with site.connect_client(world.customer) as ada:
        for malformed in MALFORMED_FRAMES:
            await ada.socket.send(malformed)
            answer = await ada.next_any_frame()
            assert (answer["event"], answer["data"]["code"]) == ("error", "bad_frame"), malformed[
                :40
            ]
            assert "ref" not in answer
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_frames_of_a_wrong_shape_are_answered(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Each frame of a wrong shape is answered with `bad_frame` and its `ref`."""
    async with site.connect_client(world.customer) as ada:
        for number, bad in enumerate(BAD_FRAMES):
            await ada.socket.send(json.dumps({**bad, "ref": number}))
            answer = await ada.next_any_frame()
            assert (answer["data"]["code"], answer["ref"]) == ("bad_frame", number), bad
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_unknown_events_are_answered(world: HttpDeployment, site: ChannelServer) -> None:
    """Each unknown event, also one that only the service sends, is answered with `unknown_event`
    and its `ref`."""
    async with site.connect_client(world.customer) as ada:
        for name in UNKNOWN_EVENTS:
            await ada.socket.send(frame(name, ref=name))
            answer = await ada.next_any_frame()
            assert (answer["data"]["code"], answer["ref"]) == ("unknown_event", name)
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_wrong_data_is_answered(world: HttpDeployment, site: ChannelServer) -> None:
    """Invalid data is answered with its code and all invalid fields at once."""
    async with site.connect_client(world.customer) as ada:
        for event, data, code, named in FAULTS:
            await ada.socket.send(frame(event, data, ref="r"))
            answer = await ada.next_any_frame()
            assert (answer["event"], answer["ref"]) == ("error", "r"), data
            assert answer["data"]["code"] == code, data
            assert {fault["field"] for fault in answer["data"]["errors"]} == named, data
        await ada.send_message(await add_shared_conversation(world), "Still here")


async def test_a_ref_is_returned_unchanged(world: HttpDeployment, site: ChannelServer) -> None:
    """A `ref` of any JSON type is returned unchanged with an error and with an `ack`."""
    conversation = await add_shared_conversation(world)
    async with site.connect_client(world.customer) as ada:
        for ref in REFS:
            await ada.socket.send(frame("nothing", ref=ref))
            assert (await ada.next_frame("error"))["ref"] == ref
            await ada.send("send_message", {**SEND, "conversation_id": conversation.id}, ref=ref)
            assert (await ada.next_frame("ack"))["ref"] == ref


async def test_conversations_of_others_are_not_found(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A stranger's events get `not_found`, and a stranger's `resume` sends nothing."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.stranger) as sam,
    ):
        message = await ada.send_message(conversation, "Between us")
        mine = {"conversation_id": conversation.id}
        for event, data in (
            (ClientEvent.SEND_MESSAGE, {**mine, "content": "Hello"}),
            (ClientEvent.TYPING, {**mine, "is_typing": True}),
            (ClientEvent.READ, {**mine, "message_id": message["id"]}),
            (ClientEvent.PRESENCE, {"user_ids": [world.customer.id]}),
        ):
            await sam.send(event, data, ref=event)
            answer = await sam.next_any_frame()
            assert (answer["data"]["code"], answer["ref"]) == ("not_found", event)
        await sam.send(ClientEvent.RESUME, {"after": 0})
        await sam.send("nothing", {})
        assert (await sam.next_any_frame())["data"]["code"] == "unknown_event"


# Sizes ----------------------------------------------------------------------------------


def padded(size: int) -> str:
    """A frame of exactly `size` bytes with an unknown event."""
    empty = frame("nothing", pad="")
    return frame("nothing", pad="x" * (size - len(empty)))


async def test_a_frame_may_have_64_kib(world: HttpDeployment, site: ChannelServer) -> None:
    """A frame of 64 KiB is accepted, whole and in fragments."""
    whole = padded(64 * 1024)
    pieces = [whole[at : at + 1000] for at in range(0, len(whole), 1000)]
    async with site.connect_client(world.customer) as ada:
        for sent in (whole, pieces):
            await ada.socket.send(sent)
            assert (await ada.next_any_frame())["data"]["code"] == "unknown_event"


@pytest.mark.parametrize("size", [64 * 1024 + 1, 1_000_000])
async def test_a_larger_frame_closes_with_1009(
    world: HttpDeployment, site: ChannelServer, size: int
) -> None:
    """A larger frame closes with 1009, as text, as bytes and in fragments."""
    whole = padded(size)
    pieces = [whole[at : at + 1000] for at in range(0, len(whole), 1000)]
    for sent in (whole, whole.encode(), pieces):
        async with site.connect_client(world.customer) as ada:
            await ada.socket.send(sent)
            assert await ada.wait_closed() == 1009


async def test_an_oversized_frame_is_read_to_its_end(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A frame of 10 MB can be sent to its end before the close frame is read."""
    async with connect_idle_client(site, world.customer) as ada:
        await ada.write(b"\x81\xff" + (10_000_000).to_bytes(8, "big") + bytes(4))
        for _ in range(100):
            await ada.write(b"x" * 100_000)
        assert (await ada.read()).startswith(b"\x88")
        assert await ada.read() == b""


async def test_the_longest_message_fits(world: HttpDeployment, site: ChannelServer) -> None:
    """A message of 5,000 characters is accepted with each escaped as a surrogate pair."""
    async with site.connect_client(world.customer) as ada:
        message = await ada.send_message(await add_shared_conversation(world), "\U0001f600" * 5000)
        assert message["content"] == "\U0001f600" * 5000


async def test_a_message_of_many_pieces_closes_with_1009(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A message of 2,001 fragments closes with 1009 though it is small."""
    async with site.connect_client(world.customer) as ada:
        await ada.socket.send(["{", *[""] * 2000])
        assert await ada.wait_closed() == 1009


async def test_invalid_utf_8_closes_with_1007(
    world: HttpDeployment, site: ChannelServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Invalid UTF-8 closes with 1007, whole or in fragments, and uvicorn logs nothing."""
    for pieces in ([b"\xff"], [b"{\xe2\x82", b"\x28}"]):
        async with site.connect_client(world.customer) as ada:
            await ada.socket.send(pieces if len(pieces) > 1 else pieces[0], text=True)
            assert await ada.wait_closed() == 1007
    assert not [each for each in caplog.records if each.name.startswith("uvicorn")]
