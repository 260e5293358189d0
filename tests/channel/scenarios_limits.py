"""Scenarios of event limits, and of a disabled user."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import MINUTE, POLICY, SECOND
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.operator_inputs import BookingsOfDisabled
from staffbooking_core.representations.channel import CloseCode
from staffbooking_core.usecases.bookings import disabling
from tests.channel.scenarios import ScenarioStage, make_frame, presence_frame, scenario

SMALL_RATE_LIMIT = {
    "limits": evolve(POLICY.limits, channel=RateLimit("channel", 4, MINUTE)),
    "channel_overrun": 3,
}
"""Four frames a minute; the thirteenth ends the connection."""


@scenario(**SMALL_RATE_LIMIT)
async def events_over_the_limit_are_dropped(stage: ScenarioStage) -> None:
    """A message over the limit gets `retry_after`, and messages of the next window are sent."""
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
async def invalid_frames_count(stage: ScenarioStage) -> None:
    """Invalid frames count against the limit."""
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
    """A connection over its limit does not limit another connection of the user."""
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
    """The frame after three times the limit closes the connection."""
    talk = await stage.open_conversation()
    ada = await stage.connect("ada")
    await ada.resume(0)
    for _ in range(12):
        await ada.send_typing(talk)
    for _ in range(8):
        await ada.expect_error("rate_limited")
    await stage.expect_disconnect(ada, CloseCode.FORBIDDEN)


@scenario()
async def disabling_a_user_closes_connections(stage: ScenarioStage) -> None:
    """Disabling a user closes all their connections and no others."""
    talk = await stage.open_conversation()
    ada, mia, pad = await stage.connect_ready("ada", "mia", "mia")
    await disabling.disable_user(stage.ports, mia.user.email, BookingsOfDisabled.KEEP)
    for player in (mia, pad):
        await stage.expect_disconnect(player, CloseCode.FORBIDDEN)
    await ada.send_message_and_receive(talk, "Hello")
