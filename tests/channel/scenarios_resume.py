"""Scenarios of `resume`, and of groups that staff join and leave."""

from __future__ import annotations

import anyio

from staffbooking_adapters.testing.builders import SECOND
from tests.channel.scenarios import (
    ScenarioStage,
    new_message_frame,
    presence_frame,
    read_frame,
    scenario,
    typing_frame,
)

# Resuming ---------------------------------------------------------------------------------


@scenario()
async def ready_has_the_last_message_id(stage: ScenarioStage) -> None:
    """`ready` has the id of the last message of the user's conversations, or 0."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    [one] = await stage.send_outside_channel("mia", talk, "one")
    [two] = await stage.send_outside_channel("noa", other, "two")
    ada, mia, sam = await stage.connect_ready("ada", "mia", "sam")
    assert (ada.last_id, mia.last_id, sam.last_id) == (two["id"], one["id"], 0)


@scenario()
async def resume_from_zero_sends_all_messages(stage: ScenarioStage) -> None:
    """`resume` from 0 sends all messages of the user, oldest first, and later messages follow."""
    talk, other = await stage.open_conversation("mia"), await stage.open_conversation("noa")
    sent = [
        *await stage.send_outside_channel("mia", talk, "one", "two"),
        *await stage.send_outside_channel("noa", other, "three"),
        *await stage.send_outside_channel("ada", talk, "four"),
    ]
    ada, mia = await stage.connect("ada"), await stage.connect("mia")
    for player in (ada, mia):
        await player.resume(0)
    await ada.expect_frames(presence_frame(mia, True), *map(new_message_frame, sent))
    await mia.expect_new_messages(sent[0], sent[1], sent[3])
    await mia.expect_new_messages(await ada.send_message_and_receive(talk, "five"))


@scenario()
async def resume_sends_messages_after_the_named_one(stage: ScenarioStage) -> None:
    """`resume` sends exactly the messages after the named one."""
    talk = await stage.open_conversation()
    sent = await stage.send_outside_channel("mia", talk, "one", "two", "three")
    for start in range(4):
        ada = await stage.connect("ada")
        await ada.resume(sent[start - 1]["id"] if start else 0)
        await ada.expect_new_messages(*sent[start:])


@scenario()
async def opening_after_a_message_sends_later_ones(stage: ScenarioStage) -> None:
    """A connection opened after a message id gets the later messages without `resume`."""
    talk = await stage.open_conversation()
    sent = await stage.send_outside_channel("mia", talk, "one", "two", "three")
    ada, phone = [await stage.connect("ada", after=sent[place]["id"]) for place in (0, 2)]
    await ada.expect_new_messages(*sent[1:])
    await phone.expect_new_messages(await ada.send_message_and_receive(talk, "four"))


@scenario()
async def resume_can_be_repeated(stage: ScenarioStage) -> None:
    """Each `resume` sends all messages after the named one again."""
    talk = await stage.open_conversation()
    [ada] = await stage.connect_ready("ada")
    sent = [
        await ada.send_message_and_receive(talk, content) for content in ("one", "two", "three")
    ]
    for after in (0, sent[0]["id"], 0, sent[2]["id"]):
        await ada.resume(after)
        await ada.expect_new_messages(*(each for each in sent if each["id"] > after))


@scenario()
async def resume_from_a_future_id_sends_nothing(stage: ScenarioStage) -> None:
    """`resume` after a future id sends nothing, and new messages are sent."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "one", "two")
    [ada] = await stage.connect_ready("ada")
    await ada.resume(2**63 - 1)
    await ada.send_message_and_receive(talk, "three")


@scenario()
async def missed_messages_are_sent_once(stage: ScenarioStage) -> None:
    """Messages stored between two connections, and between `ready` and `resume`, are sent once."""
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
async def resume_during_new_messages(stage: ScenarioStage) -> None:
    """400 messages, some stored during `resume`, are each sent once and in order."""
    talk = await stage.open_conversation()
    texts = [f"{number}" for number in range(400)]
    await stage.send_outside_channel("mia", talk, *texts[:350])
    ada, phone = await stage.connect("ada"), await stage.connect("ada")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.send_outside_channel, "mia", talk, *texts[350:])
        for player in (ada, phone):
            await player.resume(0)
        frames = [await ada.receive() for _ in texts]
    assert [each["data"]["content"] for each in frames] == texts
    await phone.expect_frames(*frames)


@scenario(resume_grace=SECOND / 5)
async def messages_are_sent_after_the_resume_grace(stage: ScenarioStage) -> None:
    """Without `resume`, messages since `ready` are sent after `resume_grace`, and no older ones."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.send_outside_channel("mia", talk, "new")
    await ada.expect_new_messages(new)
    await ada.send_message_and_receive(talk, "newer")


@scenario()
async def another_first_event_skips_older_messages(stage: ScenarioStage) -> None:
    """A first event other than `resume` starts delivery with the messages since `ready`."""
    talk = await stage.open_conversation()
    await stage.send_outside_channel("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.send_outside_channel("mia", talk, "new")
    await ada.send_typing(talk)
    await ada.expect_new_messages(new)


# Groups -----------------------------------------------------------------------------------


@scenario()
async def a_group_message_reaches_all_members(stage: ScenarioStage) -> None:
    """A message of any member reaches the other two."""
    gala, _ = await stage.open_event_group()
    players = await stage.connect_ready("ada", "mia", "noa")
    for speaker in players:
        sent = await speaker.send_message_and_receive(gala, f"Hello from {speaker.user.first_name}")
        for other in players:
            if other is not speaker:
                await other.expect_new_messages(sent)


@scenario()
async def a_group_needs_two_bookings(stage: ScenarioStage) -> None:
    """A group begins with the second accepted booking, also for open connections."""
    await stage.add_accepted_booking("mia", event_ref="Gala")
    ada, mia = await stage.connect_ready("ada", "mia")
    assert await stage.list_groups() == []
    await stage.add_accepted_booking("noa", event_ref="Gala")
    [gala] = await stage.list_groups()
    await mia.expect_new_messages(await ada.send_message_and_receive(gala, "Welcome"))


@scenario()
async def a_former_member_gets_no_new_messages(stage: ScenarioStage) -> None:
    """A former member gets no new messages, cannot send or type, and can resume the earlier
    messages."""
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
async def a_former_member_reads_earlier_messages(stage: ScenarioStage) -> None:
    """The last message id of a former member is that of the last message before leaving, and can be
    marked as read."""
    gala, booking = await stage.open_event_group()
    [hello] = await stage.send_outside_channel("ada", gala, "Hello")
    await stage.booking_scenario("mia").cancel(booking)
    await stage.send_outside_channel("ada", gala, "Mia has left")
    ada, mia = await stage.connect_ready("ada", "mia")
    assert mia.last_id == hello["id"]
    await mia.send_read(hello)
    await ada.expect_frames(read_frame(hello, mia))


@scenario()
async def a_new_member_gets_new_messages(stage: ScenarioStage) -> None:
    """A new member gets new messages, and earlier ones by `resume`."""
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
async def a_returning_member_resumes_all_messages(stage: ScenarioStage) -> None:
    """A member who left and joined again resumes also the messages sent in between."""
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
