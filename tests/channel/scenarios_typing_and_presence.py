"""Scenarios of typing, presence and read messages."""

from __future__ import annotations

from staffbooking_adapters.testing.builders import POLICY, SECOND
from staffbooking_core.usecases.messaging import messages
from tests.channel.scenarios import (
    UNKNOWN_ID,
    ScenarioStage,
    presence_frame,
    read_frame,
    scenario,
    typing_frame,
)

TYPING_TIMEOUT, RESUME_GRACE_PERIOD = POLICY.typing_timeout, POLICY.presence_grace_period


# Typing -----------------------------------------------------------------------------------


@scenario()
async def typing_reaches_the_other_participant(stage: ScenarioStage) -> None:
    """Typing and its end reach each connection of the other participant only."""
    talk = await stage.open_conversation()
    ada, _, mia, pad, _ = await stage.connect_ready("ada", "ada", "mia", "mia", "sam")
    for is_typing in (True, True, False):
        await ada.send_typing(talk, is_typing)
        for other in (mia, pad):
            await other.expect_frames(typing_frame(talk, ada, is_typing))


@scenario()
async def typing_expires(stage: ScenarioStage) -> None:
    """Typing expires once after the timeout, and can begin again."""
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
async def repeated_typing_restarts_the_timeout(stage: ScenarioStage) -> None:
    """Repeated typing restarts the timeout of its sender, and that of another member expires."""
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
async def stopped_typing_does_not_expire(stage: ScenarioStage) -> None:
    """Typing that was stopped does not expire again, and that of another member does."""
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
async def a_new_connection_is_broadcast_to_contacts(stage: ScenarioStage) -> None:
    """Each new connection is broadcast to every connection of users who share a conversation, and
    to no others."""
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
async def presence_is_returned_in_the_requested_order(stage: ScenarioStage) -> None:
    """`presence` returns one frame per user in the requested order, including the requester."""
    await stage.open_conversation("mia")
    await stage.open_conversation("noa")
    ada, mia = await stage.connect_ready("ada", "mia")
    noa = stage.users["noa"]
    await ada.request_presence(noa, mia, ada)
    await ada.expect_frames(
        presence_frame(noa, False), presence_frame(mia, True), presence_frame(ada, True)
    )


@scenario()
async def a_shared_booking_permits_presence(stage: ScenarioStage) -> None:
    """The presence of a user can be requested once a booking is shared."""
    ada, mia = await stage.connect_ready("ada", "mia")
    await ada.request_presence(mia)
    await ada.expect_error("not_found")
    await stage.add_accepted_booking()
    await ada.request_presence(mia)
    await ada.expect_frames(presence_frame(mia, True))


@scenario()
async def the_presence_of_strangers_is_not_found(stage: ScenarioStage) -> None:
    """The presence of a stranger is `not_found` like that of an unknown user, and permitted users
    are returned."""
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
async def a_departure_is_broadcast_after_the_grace(stage: ScenarioStage) -> None:
    """A departure can be requested at once and is broadcast after the grace period, with
    `last_seen`."""
    await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    last_seen = stage.now
    await stage.disconnect(mia)
    await ada.wait_until_offline(mia, last_seen)
    stage.pass_time(RESUME_GRACE_PERIOD)
    await ada.expect_frames(presence_frame(mia, False, last_seen))


@scenario(typing_timeout=2 * SECOND)
async def no_departure_is_broadcast_within_the_grace(stage: ScenarioStage) -> None:
    """No departure is broadcast before the grace period ends, whatever other frames are sent."""
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
async def reconnecting_within_the_grace_broadcasts_no_departure(stage: ScenarioStage) -> None:
    """Reconnecting within the grace period broadcasts no departure, and a user who stays away is
    broadcast."""
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
async def another_connection_keeps_a_user_online(stage: ScenarioStage) -> None:
    """A user with another connection stays online, and one without is broadcast as departed."""
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


# Reads ------------------------------------------------------------------------------------


@scenario()
async def a_read_reaches_both_participants(stage: ScenarioStage) -> None:
    """A read message is broadcast to each connection of both participants."""
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
async def a_read_never_goes_back(stage: ScenarioStage) -> None:
    """A read of an earlier message is answered with the latest read message."""
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
async def a_read_of_another_conversation_is_not_found(stage: ScenarioStage) -> None:
    """A read of a message of another conversation, or of an unknown one, is `not_found`."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    [elsewhere] = await stage.send_outside_channel("noa", other, "Hello")
    [ada] = await stage.connect_ready("ada")
    for number in (elsewhere["id"], UNKNOWN_ID):
        await ada.send_read({"conversation_id": talk, "id": number}, ref=number)
        await ada.expect_error("not_found", ref=number)


@scenario()
async def a_read_from_outside_is_broadcast(stage: ScenarioStage) -> None:
    """A read outside the channel is broadcast."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    hello = await ada.send_message_and_receive(talk, "Hello")
    mia = stage.users["mia"]
    await messages.mark_read(stage.ports, mia.id, talk, hello["id"])
    await ada.expect_frames(read_frame(hello, mia))
