"""Plays: what is said, who is told of it, and what may not be said."""

from __future__ import annotations

from typing import Any

from staffbooking_core.representations.json_types import format_instant
from tests.channel.scenarios import UNKNOWN_ID, Data, ScenarioStage, make_frame, scenario
from tests.support.message_doubles import BLOCKED_TERM, CONTACT_TEXT

OVERLONG_TEXT = "x" * 5001


# Saying something -------------------------------------------------------------------------


@scenario()
async def a_message_reaches_everybody(stage: ScenarioStage) -> None:
    """Each connection of each participant, the sender's other one too; the sender's own is
    told by an ack besides."""
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
async def an_answer_goes_back(stage: ScenarioStage) -> None:
    """Both sides say something; ids rise."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    hello = await ada.send_message_and_receive(talk, "Hello")
    await mia.expect_new_messages(hello)
    answer = await mia.send_message_and_receive(talk, "Hello Ada")
    await ada.expect_new_messages(answer)
    assert answer["id"] > hello["id"]


@scenario()
async def a_ref_comes_back_as_it_was(stage: ScenarioStage) -> None:
    """Whatever it is, or none."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    for ref in ({"tab": [1, "a"]}, 7, "", False, None):
        await ada.send_message_and_receive(talk, "Hello", ref=ref)


@scenario()
async def a_text_is_told_as_it_came(stage: ScenarioStage) -> None:
    """With its blanks, lines and signs, up to the last of 5,000 characters."""
    talk = await stage.open_conversation()
    [ada, mia] = await stage.connect_ready("ada", "mia")
    for content in (" two\n\tlines ", "<b>&amp;", "👩‍🚀 naïve", "😀" * 5000):
        await mia.expect_new_messages(await ada.send_message_and_receive(talk, content))


@scenario()
async def what_is_sent_at_once_keeps_its_order(stage: ScenarioStage) -> None:
    """Nobody waits for an ack."""
    talk = await stage.open_conversation()
    ada, phone, mia = await stage.connect_ready("ada", "ada", "mia")
    for number in range(30):
        await ada.send_message(talk, f"{number}", ref=number)
    told = [await mia.receive() for _ in range(30)]
    assert [each["data"]["content"] for each in told] == [f"{number}" for number in range(30)]
    await phone.expect_frames(*told)
    own = [await ada.receive() for _ in range(60)]
    assert [each for each in own if each["event"] == "new_message"] == told
    assert [each for each in own if each["event"] == "ack"] == [
        make_frame("ack", {"message": each["data"]}, number) for number, each in enumerate(told)
    ]


@scenario()
async def what_is_said_elsewhere_is_told(stage: ScenarioStage) -> None:
    """Over REST, or by a connection of another process: it is stored, and that is enough."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    said = await stage.send_outside_channel("mia", talk, "one", "two")
    for each in (ada, mia):
        await each.expect_new_messages(*said)


@scenario()
async def each_hears_of_their_own_conversations(stage: ScenarioStage) -> None:
    """Mia and Noa both work for Ada, and have nothing to do with each other."""
    talks = {name: await stage.open_conversation(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    for player, talk in ((mia, talks["mia"]), (noa, talks["noa"])):
        await player.expect_new_messages(
            await ada.send_message_and_receive(talk, f"Hello {player.user.first_name}")
        )


# Once -------------------------------------------------------------------------------------


@scenario()
async def the_same_name_is_said_once(stage: ScenarioStage) -> None:
    """Sent again, even with another text and from another connection, it is acknowledged as
    it was stored, and told nobody."""
    talk = await stage.open_conversation()
    ada, phone, mia = await stage.connect_ready("ada", "ada", "mia")
    hello = await ada.send_message_and_receive(talk, "Hello", client_message_id="a1", ref=1)
    for other in (phone, mia):
        await other.expect_new_messages(hello)
    for player, content in ((ada, "Hello"), (phone, "Something else")):
        await player.send_message(talk, content, ref=2, client_message_id="a1")
        await player.expect_frames(make_frame("ack", {"message": hello}, 2))


@scenario()
async def a_name_sent_twice_at_once_is_said_once(stage: ScenarioStage) -> None:
    """Both are acknowledged."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    for ref in (1, 2):
        await ada.send_message(talk, "Hello", ref=ref, client_message_id="a1")
    hello = (await mia.receive())["data"]
    told = [await ada.receive() for _ in range(3)]
    assert sorted(each.get("ref", 0) for each in told) == [0, 1, 2]
    acknowledged = [each["data"]["message"] for each in told if each["event"] == "ack"]
    assert acknowledged == [hello, hello]


@scenario()
async def the_same_name_elsewhere_is_another_message(stage: ScenarioStage) -> None:
    """Of another sender, and in another conversation."""
    talks = {name: await stage.open_conversation(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    one = await ada.send_message_and_receive(talks["mia"], "Hello", client_message_id="a1")
    two = await ada.send_message_and_receive(talks["noa"], "Hello", client_message_id="a1")
    await mia.expect_new_messages(one)
    await noa.expect_new_messages(two)
    three = await mia.send_message_and_receive(talks["mia"], "Hello", client_message_id="a1")
    await ada.expect_new_messages(three)
    assert len({one["id"], two["id"], three["id"]}) == 3


# What may not be said ---------------------------------------------------------------------


@scenario()
async def a_text_has_bounds(stage: ScenarioStage) -> None:
    """What is blank or too long is stored and told nowhere."""
    talk = await stage.open_conversation()
    ada, _ = await stage.connect_ready("ada", "mia")
    for number, content in enumerate(("", " \n\t", OVERLONG_TEXT)):
        wrong = {"conversation_id": talk, "content": content}
        await ada.send_invalid(
            make_frame("send_message", wrong, number), "invalid_field", "content"
        )


@scenario()
async def what_the_filter_finds_is_not_said(stage: ScenarioStage) -> None:
    """A blocked term never; a way of contact not before the booking is paid."""
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
async def contacts_are_told_once_the_booking_is_paid(stage: ScenarioStage) -> None:
    """By both sides; a blocked term still isn't."""
    talk = await stage.open_conversation(paid=True)
    ada, mia = await stage.connect_ready("ada", "mia")
    await mia.expect_new_messages(await ada.send_message_and_receive(talk, CONTACT_TEXT))
    await ada.expect_new_messages(
        await mia.send_message_and_receive(talk, f"Write to {CONTACT_TEXT}")
    )
    await mia.send_message(talk, BLOCKED_TERM)
    await mia.expect_error("content_blocked", "content")


@scenario()
async def a_stranger_has_no_say(stage: ScenarioStage) -> None:
    """A conversation of others looks as if it were none, in all that one may do there."""
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


# What can't be understood -----------------------------------------------------------------


@scenario()
async def an_unknown_event_is_refused(stage: ScenarioStage) -> None:
    """Also one that only the service sends; the connection goes on."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    for event in ("shout", "new_message", "ack", "READ"):
        await ada.send_invalid(make_frame(event, {"conversation_id": talk}, "r"), "unknown_event")
    await ada.send_message_and_receive(talk, "Hello")


@scenario()
async def what_is_missing_is_told(stage: ScenarioStage) -> None:
    """Every field of it, also where all data are missing; null is missing."""
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
    """A text is no number, and neither is a boolean; every fault is told."""
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
    """Neither a list nor a text."""
    [ada] = await stage.connect_ready("ada")
    wrong: list[Any] = [[], "text", 7]
    for data in wrong:
        await ada.send_invalid({"event": "resume", "data": data, "ref": 1}, "bad_frame")
