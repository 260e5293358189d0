"""Plays: what was missed, and groups, which people join and leave."""

from __future__ import annotations

import anyio

from tests.channel.scenarios import Stage, new_message, play, presence, read, typing
from tests.support.builders import SECOND

# Resuming ---------------------------------------------------------------------------------


@play()
async def ready_tells_the_last_message(stage: Stage) -> None:
    """Of one's own conversations; 0 where there is none."""
    talk, other = await stage.talk("mia"), await stage.talk("noa")
    [one] = await stage.said("mia", talk, "one")
    [two] = await stage.said("noa", other, "two")
    ada, mia, sam = await stage.enter("ada", "mia", "sam")
    assert (ada.last_id, mia.last_id, sam.last_id) == (two["id"], one["id"], 0)


@play()
async def from_zero_all_is_told(stage: Stage) -> None:
    """Of all one's conversations, the oldest first; then it goes on."""
    talk, other = await stage.talk("mia"), await stage.talk("noa")
    said = [
        *await stage.said("mia", talk, "one", "two"),
        *await stage.said("noa", other, "three"),
        *await stage.said("ada", talk, "four"),
    ]
    ada, mia = await stage.connect("ada"), await stage.connect("mia")
    for player in (ada, mia):
        await player.resumes(0)
    await ada.hears(presence(mia, True), *map(new_message, said))
    await mia.hears_message(said[0], said[1], said[3])
    await mia.hears_message(await ada.says(talk, "five"))


@play()
async def from_the_middle_the_newer_ones_are_told(stage: Stage) -> None:
    """Those after the one that is named; from the last one on, none."""
    talk = await stage.talk()
    said = await stage.said("mia", talk, "one", "two", "three")
    for start in range(4):
        ada = await stage.connect("ada")
        await ada.resumes(said[start - 1]["id"] if start else 0)
        await ada.hears_message(*said[start:])


@play()
async def it_may_be_asked_at_the_door(stage: Stage) -> None:
    """What came after a message is told by itself, and then what comes."""
    talk = await stage.talk()
    said = await stage.said("mia", talk, "one", "two", "three")
    ada, phone = [await stage.connect("ada", after=said[place]["id"]) for place in (0, 2)]
    await ada.hears_message(*said[1:])
    await phone.hears_message(await ada.says(talk, "four"))


@play()
async def it_may_be_asked_again(stage: Stage) -> None:
    """All that is newer is told each time."""
    talk = await stage.talk()
    [ada] = await stage.enter("ada")
    said = [await ada.says(talk, content) for content in ("one", "two", "three")]
    for after in (0, said[0]["id"], 0, said[2]["id"]):
        await ada.resumes(after)
        await ada.hears_message(*(each for each in said if each["id"] > after))


@play()
async def from_the_future_nothing_is_told(stage: Stage) -> None:
    """Until there is something new."""
    talk = await stage.talk()
    await stage.said("mia", talk, "one", "two")
    [ada] = await stage.enter("ada")
    await ada.resumes(2**63 - 1)
    await ada.says(talk, "three")


@play()
async def what_was_missed_is_told_once(stage: Stage) -> None:
    """Between two connections, and between the greeting and the resuming."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    hello = await mia.says(talk, "Hello")
    await ada.hears_message(hello)
    await stage.exit(ada)
    missed = [await mia.says(talk, content) for content in ("one", "two")]
    await mia.misses(ada, stage.now)
    ada = await stage.connect("ada")
    await mia.hears(presence(ada, True, stage.now))
    missed.append(await mia.says(talk, "three"))
    await ada.resumes(hello["id"])
    await ada.hears_message(*missed)


@play()
async def others_go_on_talking_meanwhile(stage: Stage) -> None:
    """Many messages of the past, and new ones at the same time: none is left out, none comes
    twice, each in its order."""
    talk = await stage.talk()
    texts = [f"{number}" for number in range(400)]
    await stage.said("mia", talk, *texts[:350])
    ada, phone = await stage.connect("ada"), await stage.connect("ada")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.said, "mia", talk, *texts[350:])
        for player in (ada, phone):
            await player.resumes(0)
        told = [await ada.next() for _ in texts]
    assert [each["data"]["content"] for each in told] == texts
    await phone.hears(*told)


@play(resume_grace=SECOND / 5)
async def who_does_not_resume_is_told_after_the_grace(stage: Stage) -> None:
    """What came in the meantime, and then what comes; nothing older."""
    talk = await stage.talk()
    await stage.said("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.said("mia", talk, "new")
    await ada.hears_message(new)
    await ada.says(talk, "newer")


@play()
async def who_speaks_first_wants_no_older_ones(stage: Stage) -> None:
    """What came since the greeting is told then."""
    talk = await stage.talk()
    await stage.said("mia", talk, "old")
    ada = await stage.connect("ada")
    [new] = await stage.said("mia", talk, "new")
    await ada.types(talk)
    await ada.hears_message(new)


# Groups -----------------------------------------------------------------------------------


@play()
async def a_group_hears_what_is_said(stage: Stage) -> None:
    """All three, whoever says it."""
    gala, _ = await stage.gala()
    players = await stage.enter("ada", "mia", "noa")
    for speaker in players:
        said = await speaker.says(gala, f"Hello from {speaker.user.first_name}")
        for other in players:
            if other is not speaker:
                await other.hears_message(said)


@play()
async def one_alone_is_no_group(stage: Stage) -> None:
    """Until a second one is accepted; then it is there for those who are connected too."""
    await stage.book("mia", event_ref="Gala")
    ada, mia = await stage.enter("ada", "mia")
    assert await stage.groups() == []
    await stage.book("noa", event_ref="Gala")
    [gala] = await stage.groups()
    await mia.hears_message(await ada.says(gala, "Welcome"))


@play()
async def who_leaves_a_group_hears_no_more(stage: Stage) -> None:
    """Nor may they say anything, or type; what was said until then they may read."""
    gala, booking = await stage.gala()
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    hello = await ada.says(gala, "Hello")
    for other in (mia, noa):
        await other.hears_message(hello)
    await stage.scene("mia").cancel(booking)
    bye = await ada.says(gala, "Mia has left")
    await noa.hears_message(bye)
    await ada.types(gala)
    await noa.hears(typing(gala, ada))
    await mia.sends_message(gala, "Wait", ref=1)
    await mia.types(gala, ref=2)
    for ref in (1, 2):
        await mia.is_refused("conversation_left", ref=ref)
    await mia.reads(bye, ref=3)
    await mia.is_refused("not_found", ref=3)
    await mia.resumes(0)
    await mia.hears_message(hello)


@play()
async def who_left_a_group_reads_up_to_the_end(stage: Stage) -> None:
    """The last message is what was the last one when they left; their mark is told to those
    who are still there."""
    gala, booking = await stage.gala()
    [hello] = await stage.said("ada", gala, "Hello")
    await stage.scene("mia").cancel(booking)
    await stage.said("ada", gala, "Mia has left")
    ada, mia = await stage.enter("ada", "mia")
    assert mia.last_id == hello["id"]
    await mia.reads(hello)
    await ada.hears(read(hello, mia))


@play()
async def who_joins_a_group_hears_the_rest(stage: Stage) -> None:
    """And may ask for what was said before."""
    gala, _ = await stage.gala()
    ada, noa, kim = await stage.enter("ada", "noa", "kim")
    hello = await ada.says(gala, "Hello")
    await stage.book("kim", event_ref="Gala")
    welcome = await ada.says(gala, "Kim is with us")
    await noa.hears_message(hello, welcome)
    await kim.hears_message(welcome)
    await kim.resumes(0)
    await kim.hears_message(hello, welcome)
    answer = await kim.says(gala, "Hello")
    for other in (ada, noa):
        await other.hears_message(answer)


@play()
async def who_comes_again_hears_all(stage: Stage) -> None:
    """Also what was said while they were not in the group."""
    gala, booking = await stage.gala()
    [ada] = await stage.enter("ada")
    first = await ada.says(gala, "one")
    await stage.scene("mia").cancel(booking)
    second = await ada.says(gala, "two")
    await stage.book("mia", event_ref="Gala")
    third = await ada.says(gala, "three")
    mia = await stage.connect("mia")
    await ada.hears(presence(mia, True))
    await mia.resumes(0)
    await mia.hears_message(first, second, third)
