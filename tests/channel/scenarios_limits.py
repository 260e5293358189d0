"""Plays: how much a client may send, and who is shown the door."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_core.representations.channel import Close
from staffbooking_core.usecases.accounts import administration
from tests.channel.scenarios import Stage, frame, play, presence
from tests.support.builders import MINUTE, POLICY, SECOND

FEW = {"limits": evolve(POLICY.limits, channel=Rule("channel", 4, MINUTE)), "channel_overrun": 3}
"""Four frames a minute; the thirteenth ends the connection."""


@play(**FEW)
async def what_is_too_much_is_dropped(stage: Stage) -> None:
    """It is told for how long; once the window ends it goes on."""
    talk = await stage.talk()
    [mia] = await stage.enter("mia")
    ada = await stage.connect("ada")
    await mia.hears(presence(ada, True))
    await ada.resumes(0)
    for content in ("one", "two", "three"):
        await mia.hears_message(await ada.says(talk, content))
    stage.pass_time(20 * SECOND)
    await ada.sends_message(talk, "four", ref=4)
    assert (await ada.is_refused("rate_limited", ref=4))["retry_after"] == 40
    stage.pass_time(40 * SECOND)
    await mia.hears_message(await ada.says(talk, "five"))


@play(**FEW)
async def mistakes_count_too(stage: Stage) -> None:
    """Whatever they are."""
    ada = await stage.connect("ada")
    await ada.resumes(0)
    await ada.errs(frame("shout", {}), "unknown_event")
    await ada.errs(frame("typing", {"conversation_id": 1}), "missing_field", "is_typing")
    await ada.errs({"event": "typing", "data": "text"}, "bad_frame")
    await ada.errs(frame("shout", {}), "rate_limited")


@play(**FEW)
async def each_connection_has_its_own_window(stage: Stage) -> None:
    """One is too loud, the other one not."""
    talk = await stage.talk()
    ada, phone = [await stage.connect("ada") for _ in range(2)]
    for player in (ada, phone):
        await player.resumes(0)
    for number in range(3):
        await phone.hears_message(await ada.says(talk, f"{number}"))
    await ada.sends_message(talk, "too much")
    await ada.is_refused("rate_limited")
    await ada.hears_message(await phone.says(talk, "enough"))


@play(**FEW)
async def a_flood_ends_the_connection(stage: Stage) -> None:
    """At the frame after three times the limit."""
    talk = await stage.talk()
    ada = await stage.connect("ada")
    await ada.resumes(0)
    for _ in range(12):
        await ada.types(talk)
    for _ in range(8):
        await ada.is_refused("rate_limited")
    await stage.is_thrown_out(ada, Close.FORBIDDEN)


@play()
async def who_is_locked_out_is_cut_off(stage: Stage) -> None:
    """At each connection; the others go on."""
    talk = await stage.talk()
    ada, mia, pad = await stage.enter("ada", "mia", "mia")
    await administration.disable(stage.ports, mia.user.email)
    for player in (mia, pad):
        await stage.is_thrown_out(player, Close.FORBIDDEN)
    await ada.says(talk, "Hello")
