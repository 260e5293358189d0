"""Scenarios of messages: recipients, repeated sending, content checks and invalid frames."""

from __future__ import annotations

from typing import Any

from staffbooking_core.representations.json_types import format_instant
from tests.channel.scenarios import UNKNOWN_ID, Data, ScenarioStage, make_frame, scenario
from tests.support.message_doubles import BLOCKED_TERM, CONTACT_TEXT

OVERLONG_TEXT = "x" * 5001


# Sending ----------------------------------------------------------------------------------


@scenario()
async def a_message_reaches_all_participants(stage: ScenarioStage) -> None:
    """A message reaches every connection of both participants, and its sender also gets an ack."""
    talk = await stage.open_conversation()
    ada, phone, mia, pad, _ = await stage.connect_ready("ada", "ada", "mia", "mia", "sam")
    hello = await ada.send_message_and_receive(talk, "Hello", ref="r1")
    for other in (phone, mia, pad):
        await other.expect_new_messages(hello)
    assert hello == {
        "id": hello["id"],
        "conversation_id": talk,
        "sender_id": ada.id,
        "sender_name": "Ada Okoro",
        "content": "Hello",
        "created_at": format_instant(stage.now),
    }


@scenario()
async def both_participants_send(stage: ScenarioStage) -> None:
    """Both participants send messages, with rising ids."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    hello = await ada.send_message_and_receive(talk, "Hello")
    await mia.expect_new_messages(hello)
    answer = await mia.send_message_and_receive(talk, "Hello Ada")
    await ada.expect_new_messages(answer)
    assert answer["id"] > hello["id"]


@scenario()
async def a_ref_is_returned_unchanged(stage: ScenarioStage) -> None:
    """A `ref` of any JSON type, or none, is returned with the ack."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    for ref in ({"tab": [1, "a"]}, 7, "", False, None):
        await ada.send_message_and_receive(talk, "Hello", ref=ref)


@scenario()
async def content_is_unchanged(stage: ScenarioStage) -> None:
    """Content is sent unchanged, with blanks, lines and symbols, up to 5,000 characters."""
    talk = await stage.open_conversation()
    [ada, mia] = await stage.connect_ready("ada", "mia")
    for content in (" two\n\tlines ", "<b>&amp;", "👩‍🚀 naïve", "😀" * 5000):
        await mia.expect_new_messages(await ada.send_message_and_receive(talk, content))


@scenario()
async def messages_keep_their_order(stage: ScenarioStage) -> None:
    """30 messages sent without waiting for acks keep their order, for every connection."""
    talk = await stage.open_conversation()
    ada, phone, mia = await stage.connect_ready("ada", "ada", "mia")
    for number in range(30):
        await ada.send_message(talk, f"{number}", ref=number)
    frames = [await mia.receive() for _ in range(30)]
    assert [each["data"]["content"] for each in frames] == [f"{number}" for number in range(30)]
    await phone.expect_frames(*frames)
    own = [await ada.receive() for _ in range(60)]
    assert [each for each in own if each["event"] == "new_message"] == frames
    assert [each for each in own if each["event"] == "ack"] == [
        make_frame("ack", {"message": each["data"]}, number) for number, each in enumerate(frames)
    ]


@scenario()
async def messages_from_outside_are_sent(stage: ScenarioStage) -> None:
    """Messages stored outside the channel are sent to both participants."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    sent = await stage.send_outside_channel("mia", talk, "one", "two")
    for each in (ada, mia):
        await each.expect_new_messages(*sent)


@scenario()
async def messages_stay_in_their_conversation(stage: ScenarioStage) -> None:
    """Two staff members of one customer each get only their own messages."""
    talks = {name: await stage.open_conversation(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    for player, talk in ((mia, talks["mia"]), (noa, talks["noa"])):
        await player.expect_new_messages(
            await ada.send_message_and_receive(talk, f"Hello {player.user.first_name}")
        )


# Client message ids -----------------------------------------------------------------------


@scenario()
async def a_repeated_client_message_id_is_not_broadcast(stage: ScenarioStage) -> None:
    """A repeated `client_message_id`, also from another connection, is acknowledged with the stored
    message and not broadcast."""
    talk = await stage.open_conversation()
    ada, phone, mia = await stage.connect_ready("ada", "ada", "mia")
    hello = await ada.send_message_and_receive(talk, "Hello", client_message_id="a1", ref=1)
    for other in (phone, mia):
        await other.expect_new_messages(hello)
    for player in (ada, phone):
        await player.send_message(talk, "Hello", ref=2, client_message_id="a1")
        await player.expect_frames(make_frame("ack", {"message": hello}, 2))


@scenario()
async def a_client_message_id_of_another_message_is_an_error(stage: ScenarioStage) -> None:
    """A repeated `client_message_id` with other content is an error; nothing is stored."""
    talk = await stage.open_conversation()
    ada, phone = await stage.connect_ready("ada", "ada")
    hello = await ada.send_message_and_receive(talk, "Hello", client_message_id="a1", ref=1)
    await phone.expect_new_messages(hello)
    await phone.send_message(talk, "Something else", ref=2, client_message_id="a1")
    error = "The client_message_id was used for another message"
    data = {"error": error, "code": "idempotency_mismatch"}
    await phone.expect_frames(make_frame("error", data, 2))
    after = await ada.send_message_and_receive(talk, "After", client_message_id="a2")
    await phone.expect_new_messages(after)


@scenario()
async def a_client_message_id_sent_twice_at_once(stage: ScenarioStage) -> None:
    """Two messages with one `client_message_id` sent at once get acks of one message."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    for ref in (1, 2):
        await ada.send_message(talk, "Hello", ref=ref, client_message_id="a1")
    hello = (await mia.receive())["data"]
    frames = [await ada.receive() for _ in range(3)]
    assert sorted(each.get("ref", 0) for each in frames) == [0, 1, 2]
    acknowledged = [each["data"]["message"] for each in frames if each["event"] == "ack"]
    assert acknowledged == [hello, hello]


@scenario()
async def a_client_message_id_is_of_one_sender_and_conversation(stage: ScenarioStage) -> None:
    """One `client_message_id` of another sender or in another conversation is another message."""
    talks = {name: await stage.open_conversation(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    one = await ada.send_message_and_receive(talks["mia"], "Hello", client_message_id="a1")
    two = await ada.send_message_and_receive(talks["noa"], "Hello", client_message_id="a1")
    await mia.expect_new_messages(one)
    await noa.expect_new_messages(two)
    three = await mia.send_message_and_receive(talks["mia"], "Hello", client_message_id="a1")
    await ada.expect_new_messages(three)
    assert len({one["id"], two["id"], three["id"]}) == 3


# Refused content --------------------------------------------------------------------------


@scenario()
async def content_has_bounds(stage: ScenarioStage) -> None:
    """Empty, blank and overlong content is refused."""
    talk = await stage.open_conversation()
    ada, _ = await stage.connect_ready("ada", "mia")
    for number, content in enumerate(("", " \n\t", OVERLONG_TEXT)):
        wrong = {"conversation_id": talk, "content": content}
        await ada.send_invalid(
            make_frame("send_message", wrong, number), "invalid_field", "content"
        )


@scenario()
async def blocked_content_is_refused(stage: ScenarioStage) -> None:
    """A blocked term, or a contact before the booking is paid, is refused with
    `content_blocked`."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    for sender, content in (
        (ada, BLOCKED_TERM),
        (mia, CONTACT_TEXT),
        (mia, f"{BLOCKED_TERM} {CONTACT_TEXT}"),
    ):
        await sender.send_message(talk, content, ref="r")
        await sender.expect_error("content_blocked", "content", ref="r")


@scenario()
async def contacts_are_allowed_after_payment(stage: ScenarioStage) -> None:
    """After the payment both may send contacts, and a blocked term is still refused."""
    talk = await stage.open_conversation(paid=True)
    ada, mia = await stage.connect_ready("ada", "mia")
    await mia.expect_new_messages(await ada.send_message_and_receive(talk, CONTACT_TEXT))
    await ada.expect_new_messages(
        await mia.send_message_and_receive(talk, f"Write to {CONTACT_TEXT}")
    )
    await mia.send_message(talk, BLOCKED_TERM)
    await mia.expect_error("content_blocked", "content")


@scenario()
async def a_stranger_gets_not_found(stage: ScenarioStage) -> None:
    """A stranger gets `not_found` for messages, typing and reads, as in an unknown conversation."""
    talk = await stage.open_conversation()
    ada, _, sam = await stage.connect_ready("ada", "mia", "sam")
    hello = await ada.send_message_and_receive(talk, "Hello")
    for number in (talk, UNKNOWN_ID):
        await sam.send_message(number, "Me too", ref=1)
        await sam.send_typing(number, ref=2)
        await sam.send_read({**hello, "conversation_id": number}, ref=3)
        for ref in (1, 2, 3):
            await sam.expect_error("not_found", ref=ref)
    await stage.clients[1].expect_new_messages(hello)


# Invalid frames ---------------------------------------------------------------------------


@scenario()
async def an_unknown_event_is_refused(stage: ScenarioStage) -> None:
    """Unknown events, also ones that only the service sends, are refused, and the connection stays
    open."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    for event in ("shout", "new_message", "ack", "READ"):
        await ada.send_invalid(make_frame(event, {"conversation_id": talk}, "r"), "unknown_event")
    await ada.send_message_and_receive(talk, "Hello")


@scenario()
async def missing_fields_are_named(stage: ScenarioStage) -> None:
    """All missing fields are named; a null field is missing."""
    [ada] = await stage.connect_ready("ada")
    needed = {
        "send_message": ("conversation_id", "content"),
        "typing": ("conversation_id", "is_typing"),
        "read": ("conversation_id", "message_id"),
        "presence": ("user_ids",),
        "resume": ("after",),
    }
    for event, fields in needed.items():
        for data in ({}, dict.fromkeys(fields)):
            await ada.send_invalid(make_frame(event, data, event), "missing_field", *fields)


@scenario()
async def types_are_strict(stage: ScenarioStage) -> None:
    """All fields of a wrong type or out of range are named."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    wrong: dict[str, Data] = {
        "send_message": {"conversation_id": str(talk), "content": 7},
        "typing": {"conversation_id": 0, "is_typing": 1},
        "read": {"conversation_id": True, "message_id": -1},
        "presence": {"user_ids": talk},
        "resume": {"after": -1},
    }
    for event, data in wrong.items():
        await ada.send_invalid(make_frame(event, data, event), "invalid_field", *data)


@scenario()
async def data_are_an_object(stage: ScenarioStage) -> None:
    """Data that is not an object is a `bad_frame`."""
    [ada] = await stage.connect_ready("ada")
    wrong: list[Any] = [[], "text", 7]
    for data in wrong:
        await ada.send_invalid({"event": "resume", "data": data, "ref": 1}, "bad_frame")
