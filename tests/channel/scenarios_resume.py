"""Plays: what was missed, and groups, which people join and leave."""

from __future__ import annotations

import anyio

from tests.channel.scenarios import (
    ScenarioStage,
    new_message_frame,
    presence_frame,
    read_frame,
    scenario,
    typing_frame,
)
from tests.support.builders import SECOND

# Resuming ---------------------------------------------------------------------------------


@scenario()
async def ready_tells_the_last_message(stage: ScenarioStage) -> None:
    """Of one's own conversations; 0 where there is none."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    [one] = await stage.send_outside_channel("mia", talk, "one")
    [two] = await stage.send_outside_channel("noa", other, "two")
    ada, mia, sam = await stage.connect_ready("ada", "mia", "sam")
    assert (ada.last_id, mia.last_id, sam.last_id) == (two["id"], one["id"], 0)


@scenario()
async def from_zero_all_is_told(stage: ScenarioStage) -> None:
    """Of all one's conversations, the oldest first; then it goes on."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    said = [
        *await stage.send_outside_channel("mia", talk, "one", "two"),
        *await stage.send_outside_channel("noa", other, "three"),
        *await stage.send_outside_channel("ada", talk, "four"),
    ]
    ada, mia = await stage.connect("ada"), await stage.connect("mia")
    for player in (ada, mia):
        await player.resume(0)
    await ada.expect_frames(presence_frame(mia, True), *map(new_message_frame, said))
    await mia.expect_new_messages(said[0], said[1], said[3])
    await mia.expect_new_messages(await ada.send_message_and_receive(talk, "five"))


@scenario()
async def from_the_middle_the_newer_ones_are_told(stage: ScenarioStage) -> None:
    """Those after the one that is named; from the last one on, none."""
    talk = await stage.open_conversation()
    said = await stage.send_outside_channel("mia", talk, "one", "two", "three")
    for start in range(4):
        ada = await stage.connect("ada")
        await ada.resume(said[start - 1]["id"] if start else 0)
        await ada.expect_new_messages(*said[start:])


@scenario()
async def it_may_be_asked_at_the_door(stage: ScenarioStage) -> None:
    """What came after a message is told by itself, and then what comes."""
    talk = await stage.open_conversation()
    said = await stage.send_outside_channel("mia", talk, "one", "two", "three")
    ada, phone = [await stage.connect("ada", after=said[place]["id"]) for place in (0, 2)]
    await ada.expect_new_messages(*said[1:])
    await phone.expect_new_messages(await ada.send_message_and_receive(talk, "four"))


@scenario()
async def it_may_be_asked_again(stage: ScenarioStage) -> None:
    """All that is newer is told each time."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    said = [
        await ada.send_message_and_receive(talk, content) for content in ("one", "two", "three")
    ]
    for after in (0, said[0]["id"], 0, said[2]["id"]):
        await ada.resume(after)
        await ada.expect_new_messages(*(each for each in said if each["id"] > after))


@scenario()
async def from_the_future_nothing_is_told(stage: ScenarioStage) -> None:
    """Until there is something new."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "one", "two")
    [ada] = await stage.connect_ready("ada")
    await ada.resume(2**63 - 1)
    await ada.send_message_and_receive(talk, "three")


@scenario()
async def what_was_missed_is_told_once(stage: ScenarioStage) -> None:
    """Between two connections, and between the greeting and the resuming."""
    talk = await stage.open_conversation()
    ada, mia = await stage.connect_ready("ada", "mia")
    hello = await mia.send_message_and_receive(talk, "Hello")
    await ada.expect_new_messages(hello)
    await stage.disconnect(ada)
    missed = [await mia.send_message_and_receive(talk, content) for content in ("one", "two")]
    await mia.wait_until_offline(ada, stage.now)
    ada = await stage.connect("ada")
    await mia.expect_frames(presence_frame(ada, True, stage.now))
    missed.append(await mia.send_message_and_receive(talk, "three"))
    await ada.resume(hello["id"])
    await ada.expect_new_messages(*missed)


@scenario()
async def others_go_on_talking_meanwhile(stage: ScenarioStage) -> None:
    """Many messages of the past, and new ones at the same time: none is left out, none comes
    twice, each in its order."""
    talk = await stage.open_conversation()
    texts = [f"{number}" for number in range(400)]
    await stage.send_outside_channel("mia", talk, *texts[:350])
    ada, phone = await stage.connect("ada"), await stage.connect("ada")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.send_outside_channel, "mia", talk, *texts[350:])
        for player in (ada, phone):
            await player.resume(0)
        told = [await ada.receive() for _ in texts]
    assert [each["data"]["content"] for each in told] == texts
    await phone.expect_frames(*told)


@scenario(resume_grace=SECOND / 5)
async def who_does_not_resume_is_told_after_the_grace(stage: ScenarioStage) -> None:
    """What came in the meantime, and then what comes; nothing older."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.send_outside_channel("mia", talk, "new")
    await ada.expect_new_messages(new)
    await ada.send_message_and_receive(talk, "newer")


@scenario()
async def who_speaks_first_wants_no_older_ones(stage: ScenarioStage) -> None:
    """What came since the greeting is told then."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.send_outside_channel("mia", talk, "new")
    await ada.send_typing(talk)
    await ada.expect_new_messages(new)


# Groups -----------------------------------------------------------------------------------


@scenario()
async def a_group_hears_what_is_said(stage: ScenarioStage) -> None:
    """All three, whoever says it."""
    gala, _ = await stage.open_event_group()
    players = await stage.connect_ready("ada", "mia", "noa")
    for speaker in players:
        said = await speaker.send_message_and_receive(gala, f"Hello from {speaker.user.first_name}")
        for other in players:
            if other is not speaker:
                await other.expect_new_messages(said)


@scenario()
async def one_alone_is_no_group(stage: ScenarioStage) -> None:
    """Until a second one is accepted; then it is there for those who are connected too."""
    await stage.add_accepted_booking("mia", event_ref="Gala")
    ada, mia = await stage.connect_ready("ada", "mia")
    assert await stage.list_groups() == []
    await stage.add_accepted_booking("noa", event_ref="Gala")
    [gala] = await stage.list_groups()
    await mia.expect_new_messages(await ada.send_message_and_receive(gala, "Welcome"))


@scenario()
async def who_leaves_a_group_hears_no_more(stage: ScenarioStage) -> None:
    """Nor may they say anything, or type; what was said until then they may read."""
    gala, booking = await stage.open_event_group()
    ada, mia, noa = await stage.connect_ready("ada", "mia", "noa")
    hello = await ada.send_message_and_receive(gala, "Hello")
    for other in (mia, noa):
        await other.expect_new_messages(hello)
    await stage.booking_scenario("mia").cancel(booking)
    bye = await ada.send_message_and_receive(gala, "Mia has left")
    await noa.expect_new_messages(bye)
    await ada.send_typing(gala)
    await noa.expect_frames(typing_frame(gala, ada))
    await mia.send_message(gala, "Wait", ref=1)
    await mia.send_typing(gala, ref=2)
    for ref in (1, 2):
        await mia.expect_error("conversation_left", ref=ref)
    await mia.send_read(bye, ref=3)
    await mia.expect_error("not_found", ref=3)
    await mia.resume(0)
    await mia.expect_new_messages(hello)


@scenario()
async def who_left_a_group_reads_up_to_the_end(stage: ScenarioStage) -> None:
    """The last message is what was the last one when they left; their mark is told to those
    who are still there."""
    gala, booking = await stage.open_event_group()
    [hello] = await stage.send_outside_channel("ada", gala, "Hello")
    await stage.booking_scenario("mia").cancel(booking)
    await stage.send_outside_channel("ada", gala, "Mia has left")
    ada, mia = await stage.connect_ready("ada", "mia")
    assert mia.last_id == hello["id"]
    await mia.send_read(hello)
    await ada.expect_frames(read_frame(hello, mia))


@scenario()
async def who_joins_a_group_hears_the_rest(stage: ScenarioStage) -> None:
    """And may ask for what was said before."""
    gala, _ = await stage.open_event_group()
    ada, noa, kim = await stage.connect_ready("ada", "noa", "kim")
    hello = await ada.send_message_and_receive(gala, "Hello")
    await stage.add_accepted_booking("kim", event_ref="Gala")
    welcome = await ada.send_message_and_receive(gala, "Kim is with us")
    await noa.expect_new_messages(hello, welcome)
    await kim.expect_new_messages(welcome)
    await kim.resume(0)
    await kim.expect_new_messages(hello, welcome)
    answer = await kim.send_message_and_receive(gala, "Hello")
    for other in (ada, noa):
        await other.expect_new_messages(answer)


@scenario()
async def who_comes_again_hears_all(stage: ScenarioStage) -> None:
    """Also what was said while they were not in the group."""
    gala, booking = await stage.open_event_group()
    [ada] = await stage.connect_ready("ada")
    first = await ada.send_message_and_receive(gala, "one")
    await stage.booking_scenario("mia").cancel(booking)
    second = await ada.send_message_and_receive(gala, "two")
    await stage.add_accepted_booking("mia", event_ref="Gala")
    third = await ada.send_message_and_receive(gala, "three")
    mia = await stage.connect("mia")
    await ada.expect_frames(presence_frame(mia, True))
    await mia.resume(0)
    await mia.expect_new_messages(first, second, third)
