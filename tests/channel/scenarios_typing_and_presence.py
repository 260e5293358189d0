"""Plays: who types, who is there, and what was read."""

from __future__ import annotations

from staffbooking_core.usecases.messaging import messages
from tests.channel.scenarios import (
    UNKNOWN_ID,
    ScenarioStage,
    presence_frame,
    read_frame,
    scenario,
    typing_frame,
)
from tests.support.builders import POLICY, SECOND

TYPING_TIMEOUT, RESUME_GRACE_PERIOD = POLICY.typing_timeout, POLICY.presence_grace_period


# Typing -----------------------------------------------------------------------------------


@scenario()
async def who_types_is_told_to_the_others(stage: ScenarioStage) -> None:
    """To each of their connections, not to oneself, also elsewhere, and not to strangers; its
    end too."""
    talk = await stage.open_conversation()
    ada, _, mia, pad, _ = await stage.connect_ready("ada", "ada", "mia", "mia", "sam")
    for is_typing in (True, True, False):
        await ada.send_typing(talk, is_typing)
        for other in (mia, pad):
            await other.expect_frames(typing_frame(talk, ada, is_typing))


@scenario()
async def typing_lapses(stage: ScenarioStage) -> None:
    """By itself, and once."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    await ada.send_typing(talk)
    await mia.expect_frames(typing_frame(talk, ada))
    stage.pass_time(TYPING_TIMEOUT)
    await mia.expect_frames(typing_frame(talk, ada, False))
    stage.pass_time(TYPING_TIMEOUT)
    await ada.send_typing(talk)
    await mia.expect_frames(typing_frame(talk, ada))


@scenario()
async def who_goes_on_typing_does_not_lapse(stage: ScenarioStage) -> None:
    """Noa's lapses, who began later and did not go on."""
    gala, _ = await stage.open_event_group()
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    for player, seconds in ((mia, 2), (noa, 2), (mia, 4)):
        await player.send_typing(gala)
        await ada.expect_frames(typing_frame(gala, player))
        stage.pass_time(seconds * SECOND)
    await mia.expect_frames(typing_frame(gala, noa), typing_frame(gala, noa, False))
    await ada.expect_frames(typing_frame(gala, noa, False))
    stage.pass_time(2 * SECOND)
    await ada.expect_frames(typing_frame(gala, mia, False))
    await noa.expect_frames(
        typing_frame(gala, mia), typing_frame(gala, mia), typing_frame(gala, mia, False)
    )


@scenario()
async def who_stopped_typing_does_not_lapse(stage: ScenarioStage) -> None:
    """Its end was told; Noa's lapses."""
    gala, _ = await stage.open_event_group()
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    for player, is_typing in ((mia, True), (noa, True), (mia, False)):
        await player.send_typing(gala, is_typing)
        await ada.expect_frames(typing_frame(gala, player, is_typing))
    stage.pass_time(TYPING_TIMEOUT)
    await ada.expect_frames(typing_frame(gala, noa, False))
    await mia.expect_frames(typing_frame(gala, noa), typing_frame(gala, noa, False))
    await noa.expect_frames(typing_frame(gala, mia), typing_frame(gala, mia, False))


# Presence ---------------------------------------------------------------------------------


@scenario()
async def who_comes_is_told_to_those_who_know_them(stage: ScenarioStage) -> None:
    """At each of their connections; Sam and Noa, who share no conversation with her, and Mia
    herself are not told."""
    await stage.open_conversation("mia")
    await stage.open_conversation("noa")
    ada, phone, _, _ = await stage.connect_ready("ada", "ada", "noa", "sam")
    mia = await stage.connect("mia")
    for other in (ada, phone):
        await other.expect_frames(presence_frame(mia, True))
    again = await stage.connect("mia")
    for other in (ada, phone):
        await other.expect_frames(presence_frame(mia, True))
    for player in (mia, again):
        await player.resume(player.last_id)


@scenario()
async def who_is_there_can_be_asked(stage: ScenarioStage) -> None:
    """One frame for each, in the order in which they were asked for; also for oneself."""
    await stage.open_conversation("mia")
    await stage.open_conversation("noa")
    ada, mia = await stage.connect_ready("ada", "mia")
    noa = stage.users["noa"]
    await ada.request_presence(noa, mia, ada)
    await ada.expect_frames(
        presence_frame(noa, False), presence_frame(mia, True), presence_frame(ada, True)
    )


@scenario()
async def who_shares_a_booking_is_no_stranger(stage: ScenarioStage) -> None:
    """From then on, whoever was connected before."""
    ada, mia = await stage.connect_ready("ada", "mia")
    await ada.request_presence(mia)
    await ada.expect_error("not_found")
    await stage.add_accepted_booking()
    await ada.request_presence(mia)
    await ada.expect_frames(presence_frame(mia, True))


@scenario()
async def strangers_are_not_there_for_each_other(stage: ScenarioStage) -> None:
    """Whom one may not ask for looks as if there were nobody; the others are told."""
    await stage.open_conversation()
    ada, mia, sam = await stage.connect_ready("ada", "mia", "sam")
    await ada.request_presence(sam, mia, ref=1)
    await ada.expect_frames(presence_frame(mia, True))
    await ada.expect_error("not_found", ref=1)
    await sam.request_presence(ada, ref=2)
    await sam.expect_error("not_found", ref=2)
    await sam.request_presence(UNKNOWN_ID, ref=3)
    await sam.expect_error("not_found", ref=3)


@scenario()
async def who_leaves_is_told_when_the_grace_ends(stage: ScenarioStage) -> None:
    """With the time at which they were last seen, which may be asked for before."""
    await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    last_seen = stage.now
    await stage.disconnect(mia)
    await ada.wait_until_offline(mia, last_seen)
    stage.pass_time(RESUME_GRACE_PERIOD)
    await ada.expect_frames(presence_frame(mia, False, last_seen))


@scenario(typing_timeout=2 * SECOND)
async def who_leaves_has_time_to_come_back(stage: ScenarioStage) -> None:
    """Nobody is told that they left before the grace ends, whatever else happens."""
    gala, _ = await stage.open_event_group()
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    last_seen = stage.now
    await stage.disconnect(mia)
    await ada.wait_until_offline(mia, last_seen)
    for _ in range(2):
        await noa.send_typing(gala)
        await ada.expect_frames(typing_frame(gala, noa))
        stage.pass_time(2 * SECOND)
        await ada.expect_frames(typing_frame(gala, noa, False))
    stage.pass_time(SECOND)
    for player in (ada, noa):
        await player.expect_frames(presence_frame(mia, False, last_seen))


@scenario()
async def who_comes_back_was_never_away(stage: ScenarioStage) -> None:
    """Within the grace: it is told that they are there, and not that they left. Noa stays
    away, and is told of."""
    await stage.open_conversation("mia")
    await stage.open_conversation("noa")
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    last_seen = stage.now
    for player in (mia, noa):
        await stage.disconnect(player)
        await ada.wait_until_offline(player, last_seen)
    stage.pass_time(RESUME_GRACE_PERIOD - SECOND)
    mia = await stage.connect("mia")
    await ada.expect_frames(presence_frame(mia, True, last_seen))
    await mia.resume(mia.last_id)
    stage.pass_time(SECOND)
    await ada.expect_frames(presence_frame(noa, False, last_seen))


@scenario()
async def who_has_another_connection_is_there(stage: ScenarioStage) -> None:
    """When one of two ends, nothing is told; Noa, who left later, is told of."""
    await stage.open_conversation("mia")
    await stage.open_conversation("noa")
    ada, mia, pad, noa = await stage.connect_ready("ada", "mia", "mia", "noa")
    last_seen = stage.now
    await stage.disconnect(pad)
    await stage.disconnect(noa)
    await ada.wait_until_offline(noa, last_seen)
    stage.pass_time(RESUME_GRACE_PERIOD)
    await ada.expect_frames(presence_frame(noa, False, last_seen))
    await ada.request_presence(mia)
    assert (await ada.receive())["data"]["online"] is True


# Marks ------------------------------------------------------------------------------------


@scenario()
async def what_was_read_is_told_to_both_sides(stage: ScenarioStage) -> None:
    """To each connection; the reader's other one takes its badge away."""
    talk = await stage.open_conversation()
    players = await stage.connect_ready("ada", "ada", "mia", "mia", "sam")
    ada, mia = players[0], players[2]
    hello = await ada.send_message_and_receive(talk, "Hello")
    for other in players[1:4]:
        await other.expect_new_messages(hello)
    await mia.send_read(hello)
    for each in players[:4]:
        await each.expect_frames(read_frame(hello, mia))


@scenario()
async def a_mark_never_goes_back(stage: ScenarioStage) -> None:
    """The one that stands is told."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    one, two = await stage.send_outside_channel("ada", talk, "one", "two")
    for player in (ada, mia):
        await player.expect_new_messages(one, two)
    for message in (two, one, two):
        await mia.send_read(message)
        for player in (ada, mia):
            await player.expect_frames(read_frame(two, mia))


@scenario()
async def what_was_not_said_there_is_not_read(stage: ScenarioStage) -> None:
    """A message of another conversation, or none."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    [elsewhere] = await stage.send_outside_channel("noa", other, "Hello")
    [ada] = await stage.connect_ready("ada")
    for number in (elsewhere["id"], UNKNOWN_ID):
        await ada.send_read({"conversation_id": talk, "id": number}, ref=number)
        await ada.expect_error("not_found", ref=number)


@scenario()
async def what_was_read_elsewhere_is_told(stage: ScenarioStage) -> None:
    """Over REST."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    hello = await ada.send_message_and_receive(talk, "Hello")
    mia = stage.users["mia"]
    await messages.mark_read(stage.ports, mia.id, talk, hello["id"])
    await ada.expect_frames(read_frame(hello, mia))
