"""Plays: who types, who is there, and what was read."""

from __future__ import annotations

from staffbooking_core.usecases.messaging import messages
from tests.channel.scenarios import NOBODY, Stage, play, presence, read, typing
from tests.support.builders import POLICY, SECOND

LAPSE, GRACE = POLICY.typing_lapse, POLICY.presence_grace


# Typing -----------------------------------------------------------------------------------


@play()
async def who_types_is_told_to_the_others(stage: Stage) -> None:
    """To each of their connections, not to oneself, also elsewhere, and not to strangers; its
    end too."""
    talk = await stage.talk()
    ada, _, mia, pad, _ = await stage.enter("ada", "ada", "mia", "mia", "sam")
    for is_typing in (True, True, False):
        await ada.types(talk, is_typing)
        for other in (mia, pad):
            await other.hears(typing(talk, ada, is_typing))


@play()
async def typing_lapses(stage: Stage) -> None:
    """By itself, and once."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    await ada.types(talk)
    await mia.hears(typing(talk, ada))
    stage.pass_time(LAPSE)
    await mia.hears(typing(talk, ada, False))
    stage.pass_time(LAPSE)
    await ada.types(talk)
    await mia.hears(typing(talk, ada))


@play()
async def who_goes_on_typing_does_not_lapse(stage: Stage) -> None:
    """Noa's lapses, who began later and did not go on."""
    gala, _ = await stage.gala()
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    for player, seconds in ((mia, 2), (noa, 2), (mia, 4)):
        await player.types(gala)
        await ada.hears(typing(gala, player))
        stage.pass_time(seconds * SECOND)
    await mia.hears(typing(gala, noa), typing(gala, noa, False))
    await ada.hears(typing(gala, noa, False))
    stage.pass_time(2 * SECOND)
    await ada.hears(typing(gala, mia, False))
    await noa.hears(typing(gala, mia), typing(gala, mia), typing(gala, mia, False))


@play()
async def who_stopped_typing_does_not_lapse(stage: Stage) -> None:
    """Its end was told; Noa's lapses."""
    gala, _ = await stage.gala()
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    for player, is_typing in ((mia, True), (noa, True), (mia, False)):
        await player.types(gala, is_typing)
        await ada.hears(typing(gala, player, is_typing))
    stage.pass_time(LAPSE)
    await ada.hears(typing(gala, noa, False))
    await mia.hears(typing(gala, noa), typing(gala, noa, False))
    await noa.hears(typing(gala, mia), typing(gala, mia, False))


# Presence ---------------------------------------------------------------------------------


@play()
async def who_comes_is_told_to_those_who_know_them(stage: Stage) -> None:
    """At each of their connections; Sam and Noa, who share no conversation with her, and Mia
    herself are not told."""
    await stage.talk("mia")
    await stage.talk("noa")
    ada, phone, _, _ = await stage.enter("ada", "ada", "noa", "sam")
    mia = await stage.connect("mia")
    for other in (ada, phone):
        await other.hears(presence(mia, True))
    again = await stage.connect("mia")
    for other in (ada, phone):
        await other.hears(presence(mia, True))
    for player in (mia, again):
        await player.resumes(player.last_id)


@play()
async def who_is_there_can_be_asked(stage: Stage) -> None:
    """One frame for each, in the order in which they were asked for; also for oneself."""
    await stage.talk("mia")
    await stage.talk("noa")
    ada, mia = await stage.enter("ada", "mia")
    noa = stage.people["noa"]
    await ada.asks_for(noa, mia, ada)
    await ada.hears(presence(noa, False), presence(mia, True), presence(ada, True))


@play()
async def who_shares_a_booking_is_no_stranger(stage: Stage) -> None:
    """From then on, whoever was connected before."""
    ada, mia = await stage.enter("ada", "mia")
    await ada.asks_for(mia)
    await ada.is_refused("not_found")
    await stage.book()
    await ada.asks_for(mia)
    await ada.hears(presence(mia, True))


@play()
async def strangers_are_not_there_for_each_other(stage: Stage) -> None:
    """Whom one may not ask for looks as if there were nobody; the others are told."""
    await stage.talk()
    ada, mia, sam = await stage.enter("ada", "mia", "sam")
    await ada.asks_for(sam, mia, ref=1)
    await ada.hears(presence(mia, True))
    await ada.is_refused("not_found", ref=1)
    await sam.asks_for(ada, ref=2)
    await sam.is_refused("not_found", ref=2)
    await sam.asks_for(NOBODY, ref=3)
    await sam.is_refused("not_found", ref=3)


@play()
async def who_leaves_is_told_when_the_grace_ends(stage: Stage) -> None:
    """With the time at which they were last seen, which may be asked for before."""
    await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    last_seen = stage.now
    await stage.exit(mia)
    await ada.misses(mia, last_seen)
    stage.pass_time(GRACE)
    await ada.hears(presence(mia, False, last_seen))


@play(typing_lapse=2 * SECOND)
async def who_leaves_has_time_to_come_back(stage: Stage) -> None:
    """Nobody is told that they left before the grace ends, whatever else happens."""
    gala, _ = await stage.gala()
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    last_seen = stage.now
    await stage.exit(mia)
    await ada.misses(mia, last_seen)
    for _ in range(2):
        await noa.types(gala)
        await ada.hears(typing(gala, noa))
        stage.pass_time(2 * SECOND)
        await ada.hears(typing(gala, noa, False))
    stage.pass_time(SECOND)
    for player in (ada, noa):
        await player.hears(presence(mia, False, last_seen))


@play()
async def who_comes_back_was_never_away(stage: Stage) -> None:
    """Within the grace: it is told that they are there, and not that they left. Noa stays
    away, and is told of."""
    await stage.talk("mia")
    await stage.talk("noa")
    ada, mia, noa = await stage.enter("ada", "mia", "noa")
    last_seen = stage.now
    for player in (mia, noa):
        await stage.exit(player)
        await ada.misses(player, last_seen)
    stage.pass_time(GRACE - SECOND)
    mia = await stage.connect("mia")
    await ada.hears(presence(mia, True, last_seen))
    await mia.resumes(mia.last_id)
    stage.pass_time(SECOND)
    await ada.hears(presence(noa, False, last_seen))


@play()
async def who_has_another_connection_is_there(stage: Stage) -> None:
    """When one of two ends, nothing is told; Noa, who left later, is told of."""
    await stage.talk("mia")
    await stage.talk("noa")
    ada, mia, pad, noa = await stage.enter("ada", "mia", "mia", "noa")
    last_seen = stage.now
    await stage.exit(pad)
    await stage.exit(noa)
    await ada.misses(noa, last_seen)
    stage.pass_time(GRACE)
    await ada.hears(presence(noa, False, last_seen))
    await ada.asks_for(mia)
    assert (await ada.next())["data"]["online"] is True


# Marks ------------------------------------------------------------------------------------


@play()
async def what_was_read_is_told_to_both_sides(stage: Stage) -> None:
    """To each connection; the reader's other one takes its badge away."""
    talk = await stage.talk()
    players = await stage.enter("ada", "ada", "mia", "mia", "sam")
    ada, mia = players[0], players[2]
    hello = await ada.says(talk, "Hello")
    for other in players[1:4]:
        await other.hears_message(hello)
    await mia.reads(hello)
    for each in players[:4]:
        await each.hears(read(hello, mia))


@play()
async def a_mark_never_goes_back(stage: Stage) -> None:
    """The one that stands is told."""
    talk = await stage.talk()
    ada, mia = await stage.enter("ada", "mia")
    one, two = await stage.said("ada", talk, "one", "two")
    for player in (ada, mia):
        await player.hears_message(one, two)
    for message in (two, one, two):
        await mia.reads(message)
        for player in (ada, mia):
            await player.hears(read(two, mia))


@play()
async def what_was_not_said_there_is_not_read(stage: Stage) -> None:
    """A message of another conversation, or none."""
    talk, other = await stage.talk("mia"), await stage.talk("noa")
    [elsewhere] = await stage.said("noa", other, "Hello")
    [ada] = await stage.enter("ada")
    for number in (elsewhere["id"], NOBODY):
        await ada.reads({"conversation_id": talk, "id": number}, ref=number)
        await ada.is_refused("not_found", ref=number)


@play()
async def what_was_read_elsewhere_is_told(stage: Stage) -> None:
    """Over REST."""
    talk = await stage.talk()
    [ada] = await stage.enter("ada")
    hello = await ada.says(talk, "Hello")
    mia = stage.people["mia"]
    await messages.mark_read(stage.ports, mia.id, talk, hello["id"])
    await ada.hears(read(hello, mia))
