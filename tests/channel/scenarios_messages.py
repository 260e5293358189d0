"""Plays: what is said, who is told of it, and what may not be said."""

from __future__ import annotations

from typing import Any

from staffbooking_core.representations.records import instant
from tests.channel.scenarios import NOBODY, Data, Stage, frame, play
from tests.support.message_doubles import CONTACT, CURSE

TOO_LONG = "x" * 5001


# Saying something -------------------------------------------------------------------------


@play()
async def a_message_reaches_everybody(stage: Stage) -> None:
    """Each connection of each participant, the sender's other one too; the sender's own is
    told by an ack besides."""
    talk = await stage.talk()
    ada, phone, mia, pad, _ = await stage.enter("ada", "ada", "mia", "mia", "sam")
    hello = await ada.says(talk, "Hello", ref="r1")
    for other in (phone, mia, pad):
        await other.hears_message(hello)
    assert hello == {
        "id": hello["id"],
        "conversation_id": talk,
        "sender_id": ada.id,
        "sender_name": "Ada Okoro",
        "content": "Hello",
        "created_at": instant(stage.now),
    }


@play()
async def an_answer_goes_back(stage: Stage) -> None:
    """Both sides say something; ids rise."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    hello = await ada.says(talk, "Hello")
    await mia.hears_message(hello)
    answer = await mia.says(talk, "Hello Ada")
    await ada.hears_message(answer)
    assert answer["id"] > hello["id"]


@play()
async def a_ref_comes_back_as_it_was(stage: Stage) -> None:
    """Whatever it is, or none."""
    talk = await stage.talk()
    [ada] = await stage.enter("ada")
    for ref in ({"tab": [1, "a"]}, 7, "", False, None):
        await ada.says(talk, "Hello", ref=ref)


@play()
async def a_text_is_told_as_it_came(stage: Stage) -> None:
    """With its blanks, lines and signs, up to the last of 5,000 characters."""
    talk = await stage.talk()
    [ada, mia] = await stage.enter("ada", "mia")
    for content in (" two\n\tlines ", "<b>&amp;", "👩‍🚀 naïve", "😀" * 5000):
        await mia.hears_message(await ada.says(talk, content))


@play()
async def what_is_sent_at_once_keeps_its_order(stage: Stage) -> None:
    """Nobody waits for an ack."""
    talk = await stage.talk()
    ada, phone, mia = await stage.enter("ada", "ada", "mia")
    for number in range(30):
        await ada.sends_message(talk, f"{number}", ref=number)
    told = [await mia.next() for _ in range(30)]
    assert [each["data"]["content"] for each in told] == [f"{number}" for number in range(30)]
    await phone.hears(*told)
    own = [await ada.next() for _ in range(60)]
    assert [each for each in own if each["event"] == "new_message"] == told
    assert [each for each in own if each["event"] == "ack"] == [
        frame("ack", {"message": each["data"]}, number) for number, each in enumerate(told)
    ]


@play()
async def what_is_said_elsewhere_is_told(stage: Stage) -> None:
    """Over REST, or by a connection of another process: it is stored, and that is enough."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    said = await stage.said("mia", talk, "one", "two")
    for each in (ada, mia):
        await each.hears_message(*said)


@play()
async def each_hears_of_their_own_conversations(stage: Stage) -> None:
    """Mia and Noa both work for Ada, and have nothing to do with each other."""
    talks = {name: await stage.talk(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    for player, talk in ((mia, talks["mia"]), (noa, talks["noa"])):
        await player.hears_message(await ada.says(talk, f"Hello {player.user.first_name}"))


# Once -------------------------------------------------------------------------------------


@play()
async def the_same_name_is_said_once(stage: Stage) -> None:
    """Sent again, even with another text and from another connection, it is acknowledged as
    it was stored, and told nobody."""
    talk = await stage.talk()
    ada, phone, mia = await stage.enter("ada", "ada", "mia")
    hello = await ada.says(talk, "Hello", client_message_id="a1", ref=1)
    for other in (phone, mia):
        await other.hears_message(hello)
    for player, content in ((ada, "Hello"), (phone, "Something else")):
        await player.sends_message(talk, content, ref=2, client_message_id="a1")
        await player.hears(frame("ack", {"message": hello}, 2))


@play()
async def a_name_sent_twice_at_once_is_said_once(stage: Stage) -> None:
    """Both are acknowledged."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    for ref in (1, 2):
        await ada.sends_message(talk, "Hello", ref=ref, client_message_id="a1")
    hello = (await mia.next())["data"]
    told = [await ada.next() for _ in range(3)]
    assert sorted(each.get("ref", 0) for each in told) == [0, 1, 2]
    acknowledged = [each["data"]["message"] for each in told if each["event"] == "ack"]
    assert acknowledged == [hello, hello]


@play()
async def the_same_name_elsewhere_is_another_message(stage: Stage) -> None:
    """Of another sender, and in another conversation."""
    talks = {name: await stage.talk(name) for name in ("mia", "noa")}
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    one = await ada.says(talks["mia"], "Hello", client_message_id="a1")
    two = await ada.says(talks["noa"], "Hello", client_message_id="a1")
    await mia.hears_message(one)
    await noa.hears_message(two)
    three = await mia.says(talks["mia"], "Hello", client_message_id="a1")
    await ada.hears_message(three)
    assert len({one["id"], two["id"], three["id"]}) == 3


# What may not be said ---------------------------------------------------------------------


@play()
async def a_text_has_bounds(stage: Stage) -> None:
    """What is blank or too long is stored and told nowhere."""
    talk = await stage.talk()
    ada, _ = await stage.enter("ada", "mia")
    for number, content in enumerate(("", " \n\t", TOO_LONG)):
        wrong = {"conversation_id": talk, "content": content}
        await ada.errs(frame("send_message", wrong, number), "invalid_field", "content")


@play()
async def what_the_filter_finds_is_not_said(stage: Stage) -> None:
    """A blocked term never; a way of contact not before the booking is paid."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    for sender, content in ((ada, CURSE), (mia, CONTACT), (mia, f"{CURSE} {CONTACT}")):
        await sender.sends_message(talk, content, ref="r")
        await sender.is_refused("content_blocked", "content", ref="r")


@play()
async def contacts_are_told_once_the_booking_is_paid(stage: Stage) -> None:
    """By both sides; a blocked term still isn't."""
    talk = await stage.talk(paid=True)
    ada, mia = await stage.enter("ada", "mia")
    await mia.hears_message(await ada.says(talk, CONTACT))
    await ada.hears_message(await mia.says(talk, f"Write to {CONTACT}"))
    await mia.sends_message(talk, CURSE)
    await mia.is_refused("content_blocked", "content")


@play()
async def a_stranger_has_no_say(stage: Stage) -> None:
    """A conversation of others looks as if it were none, in all that one may do there."""
    talk = await stage.talk()
    ada, _, sam = await stage.enter("ada", "mia", "sam")
    hello = await ada.says(talk, "Hello")
    for number in (talk, NOBODY):
        await sam.sends_message(number, "Me too", ref=1)
        await sam.types(number, ref=2)
        await sam.reads(hello | {"conversation_id": number}, ref=3)
        for ref in (1, 2, 3):
            await sam.is_refused("not_found", ref=ref)
    await stage.players[1].hears_message(hello)


# What can't be understood -----------------------------------------------------------------


@play()
async def an_unknown_event_is_refused(stage: Stage) -> None:
    """Also one that only the service sends; the connection goes on."""
    talk = await stage.talk()
    [ada] = await stage.enter("ada")
    for event in ("shout", "new_message", "ack", "READ"):
        await ada.errs(frame(event, {"conversation_id": talk}, "r"), "unknown_event")
    await ada.says(talk, "Hello")


@play()
async def what_is_missing_is_told(stage: Stage) -> None:
    """Every field of it, also where all data are missing; null is missing."""
    [ada] = await stage.enter("ada")
    needed = {
        "send_message": ("conversation_id", "content"),
        "typing": ("conversation_id", "is_typing"),
        "read": ("conversation_id", "message_id"),
        "presence": ("user_ids",),
        "resume": ("after",),
    }
    for event, fields in needed.items():
        for data in ({}, dict.fromkeys(fields)):
            await ada.errs(frame(event, data, event), "missing_field", *fields)


@play()
async def types_are_strict(stage: Stage) -> None:
    """A text is no number, and neither is a boolean; every fault is told."""
    talk = await stage.talk()
    [ada] = await stage.enter("ada")
    wrong: dict[str, Data] = {
        "send_message": {"conversation_id": str(talk), "content": 7},
        "typing": {"conversation_id": 0, "is_typing": 1},
        "read": {"conversation_id": True, "message_id": -1},
        "presence": {"user_ids": talk},
        "resume": {"after": -1},
    }
    for event, data in wrong.items():
        await ada.errs(frame(event, data, event), "invalid_field", *data)


@play()
async def data_are_an_object(stage: Stage) -> None:
    """Neither a list nor a text."""
    [ada] = await stage.enter("ada")
    wrong: list[Any] = [[], "text", 7]
    for data in wrong:
        await ada.errs({"event": "resume", "data": data, "ref": 1}, "bad_frame")
