"""Plays: how much a client may send, and who is shown the door."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.representations.channel import CloseCode
from staffbooking_core.usecases.accounts import administration
from tests.channel.scenarios import ScenarioStage, make_frame, presence_frame, scenario
from tests.support.builders import MINUTE, POLICY, SECOND

SMALL_RATE_LIMIT = {
    "limits": evolve(POLICY.limits, channel=RateLimit("channel", 4, MINUTE)),
    "channel_overrun": 3,
}
"""Four frames a minute; the thirteenth ends the connection."""


@scenario(**SMALL_RATE_LIMIT)
async def what_is_too_much_is_dropped(stage: ScenarioStage) -> None:
    """It is told for how long; once the window ends it goes on."""
    talk = await stage.open_conversation()
    [mia] = await stage.connect_ready("mia")
    ada = await stage.connect("ada")
    await mia.expect_frames(presence_frame(ada, True))
    await ada.resume(0)
    for content in ("one", "two", "three"):
        await mia.expect_new_messages(await ada.send_message_and_receive(talk, content))
    stage.pass_time(20 * SECOND)
    await ada.send_message(talk, "four", ref=4)
    assert (await ada.expect_error("rate_limited", ref=4))["retry_after"] == 40
    stage.pass_time(40 * SECOND)
    await mia.expect_new_messages(await ada.send_message_and_receive(talk, "five"))


@scenario(**SMALL_RATE_LIMIT)
async def mistakes_count_too(stage: ScenarioStage) -> None:
    """Whatever they are."""
    ada = await stage.connect("ada")
    await ada.resume(0)
    await ada.send_invalid(make_frame("shout", {}), "unknown_event")
    await ada.send_invalid(
        make_frame("typing", {"conversation_id": 1}), "missing_field", "is_typing"
    )
    await ada.send_invalid({"event": "typing", "data": "text"}, "bad_frame")
    await ada.send_invalid(make_frame("shout", {}), "rate_limited")


@scenario(**SMALL_RATE_LIMIT)
async def each_connection_has_its_own_window(stage: ScenarioStage) -> None:
    """One is too loud, the other one not."""
    talk = await stage.open_conversation()
    ada, phone = [await stage.connect("ada") for _ in range(2)]
    for player in (ada, phone):
        await player.resume(0)
    for number in range(3):
        await phone.expect_new_messages(await ada.send_message_and_receive(talk, f"{number}"))
    await ada.send_message(talk, "too much")
    await ada.expect_error("rate_limited")
    await ada.expect_new_messages(await phone.send_message_and_receive(talk, "enough"))


@scenario(**SMALL_RATE_LIMIT)
async def a_flood_ends_the_connection(stage: ScenarioStage) -> None:
    """At the frame after three times the limit."""
    talk = await stage.open_conversation()
    ada = await stage.connect("ada")
    await ada.resume(0)
    for _ in range(12):
        await ada.send_typing(talk)
    for _ in range(8):
        await ada.expect_error("rate_limited")
    await stage.expect_disconnect(ada, CloseCode.FORBIDDEN)


@scenario()
async def who_is_locked_out_is_cut_off(stage: ScenarioStage) -> None:
    """At each connection; the others go on."""
    talk = await stage.open_conversation()
    ada, mia, pad = await stage.connect_ready("ada", "mia", "mia")
    await administration.disable_user(stage.ports, mia.user.email)
    for player in (mia, pad):
        await stage.expect_disconnect(player, CloseCode.FORBIDDEN)
    await ada.send_message_and_receive(talk, "Hello")
