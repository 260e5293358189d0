"""Messages: conversations, their history, and what is said in them (SPECIFICATION 4.8,
CONTRACT 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import field, frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.messaging.conversations import (
    BOOKED,
    OPENS_GROUP,
    Conversation,
    Findings,
    Message,
    NewMessage,
    Overview,
    as_found_by,
    as_member,
    check_content,
    check_writer,
    follow,
    last_readable,
    may_share_contacts,
    say,
)
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, StaffbookingError
from staffbooking_core.ports import Pair, Ports, Writing
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Tell, Told

AT_A_TIME = 500
"""Conversations that are opened in one unit of work."""

# Conversations --------------------------------------------------------------------------


async def open_missing(ports: Ports, user_id: int) -> None:
    """Open the direct conversations that a user's bookings call for and that nobody has
    needed yet."""
    async with ports.store.reading() as view:
        pairs = await view.messages.unopened(user_id, AT_A_TIME)
    while pairs:
        await _open(ports, pairs)
        async with ports.store.reading() as view:
            pairs = await view.messages.unopened(user_id, AT_A_TIME)


async def _open(ports: Ports, pairs: Sequence[Pair]) -> Sequence[int]:
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Sequence[int]:
        return [await tx.messages.open_direct(pair, now) for pair in pairs]

    return await ports.store.write(unit)


async def listing(ports: Ports, actor: Actor, page: int, limit: int) -> Sequence[Overview]:
    """A page of the actor's conversations, up to `limit + 1`, the one updated last first."""
    await open_missing(ports, actor.user_id)
    async with ports.store.reading() as view:
        found = await view.messages.overviews(actor.user_id, page, limit, ports.clock.wall())
    return [as_found_by(each, actor.user_id) for each in found]


async def overview(ports: Ports, actor: Actor, conversation_id: int) -> Overview:
    """A conversation as the actor finds it. Raises NotFound for a stranger too."""
    async with ports.store.reading() as view:
        found = await view.messages.overview(conversation_id, actor.user_id, ports.clock.wall())
    if found is None:
        raise NotFound("Conversation")
    return as_found_by(found, actor.user_id)


async def authorize(ports: Ports, actor: Actor, conversation_id: int) -> None:
    """Raise NotFound for a stranger to a conversation, and Forbidden for who has left it."""
    async with ports.store.reading() as view:
        _, member = as_member(await view.messages.conversation(conversation_id), actor.user_id)
    check_writer(member)


async def with_user(ports: Ports, actor: Actor, user_id: int) -> int | None:
    """The id of the direct conversation with somebody; None for oneself. Raises NotFound
    where there is no such user and Forbidden where no booking is shared."""
    if user_id == actor.user_id:
        return None
    async with ports.store.reading() as view:
        pair = await view.messages.pair(actor.user_id, user_id)
        if pair is None:
            if await view.accounts.user(user_id) is None:
                raise NotFound("User")
            raise Forbidden("no_shared_booking", "You share no booking with this user")
        known = await view.messages.direct(pair)
    return (await _open(ports, [pair]))[0] if known is None else known


# Reading --------------------------------------------------------------------------------


async def history(
    ports: Ports,
    actor: Actor,
    conversation_id: int,
    *,
    before: int | None,
    after: int | None,
    limit: int,
) -> tuple[Sequence[Message], bool]:
    """Messages of a conversation, oldest first, and whether there are more that way: those
    next above `after`, else the last ones, each time below `before`."""
    async with ports.store.reading() as view:
        found = await view.messages.conversation(conversation_id)
        conversation, member = as_member(found, actor.user_id)
        upto = last_readable(conversation, member)
        if after is None:
            some = await view.messages.newest(conversation_id, before, upto, limit + 1)
            return some[-limit:], len(some) > limit
        upto = upto if before is None else min(upto, before - 1)
        some = await view.messages.newer(conversation_id, after, upto, limit + 1)
        return some[:limit], len(some) > limit


async def visit(
    ports: Ports,
    actor: Actor,
    conversation_id: int,
    *,
    before: int | None,
    after: int | None,
    limit: int,
) -> tuple[Overview, Sequence[Message], bool]:
    """A conversation as the actor finds it, with messages of it as by `history`: what is shown
    is marked as read."""
    shown, has_more = await history(
        ports, actor, conversation_id, before=before, after=after, limit=limit
    )
    found = await overview(ports, actor, conversation_id)
    if shown and found.unread:
        await mark_read(ports, actor.user_id, conversation_id, shown[-1].id)
        found = await overview(ports, actor, conversation_id)
    return found, shown, has_more


async def mark_read(ports: Ports, user_id: int, conversation_id: int, message_id: int) -> Tell:
    """Note that a user has read up to a message, and tell the others. Raises NotFound for no
    such message of a conversation of theirs. Marks never go back: the one that stands is
    told."""
    async with ports.store.reading() as view:
        found = await view.messages.conversation(conversation_id)
        conversation, member = as_member(found, user_id)
        upto = last_readable(conversation, member)
        last = await view.messages.newest(conversation_id, message_id + 1, upto, 1)
    if not last or last[0].id != message_id:
        raise NotFound("Message")
    mark = member.read_id
    if message_id > mark:

        async def unit(tx: Writing) -> int:
            return await tx.messages.mark_read(conversation_id, user_id, message_id)

        mark = await ports.store.write(unit)
    data = channel.read(conversation_id, mark, user_id)
    tell = Tell(conversation.recipients, Told.READ, data)
    ports.chat.tell(tell)
    return tell


# Saying something -----------------------------------------------------------------------

_Name: TypeAlias = tuple[int, int, str]
"""Of a conversation and a sender, the sender's own name for a message."""


@frozen
class Letter:
    """What somebody wants to say in a conversation."""

    sender_id: int
    conversation_id: int
    content: str = field(repr=False)
    client_id: str | None = None
    """The sender's own name for it: where it is known already, it was said before."""

    @property
    def name(self) -> _Name | None:
        """By which a repetition is known; None where it can't be."""
        if self.client_id is None:
            return None
        return self.conversation_id, self.sender_id, self.client_id


@frozen
class Screened:
    """A letter with what the content filter has found in it: nothing else is ever sent."""

    letter: Letter
    found: Findings


async def send(ports: Ports, letter: Letter) -> Message:
    """Say something. When this returns it is stored, once, and on its way to all who are in
    the conversation. Raises NotFound for a stranger, Forbidden for who has left, and
    ContentBlocked."""
    [result] = await send_all(ports, [await screen(ports, letter)])
    if isinstance(result, StaffbookingError):
        raise result
    return result


async def screen(ports: Ports, letter: Letter) -> Screened:
    """Have a letter looked through, which is to be sent."""
    return Screened(letter, await ports.content_filter.find(letter.content))


async def send_all(
    ports: Ports, letters: Sequence[Screened]
) -> Sequence[Message | StaffbookingError]:
    """Say several things in one unit of work: what became of each, in their order."""
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Sequence[Message | StaffbookingError]:
        return await _keep(tx, letters, now)

    results = await ports.store.write(unit)
    ports.chat.stored()
    return results


async def _keep(
    tx: Writing, letters: Sequence[Screened], now: datetime
) -> Sequence[Message | StaffbookingError]:
    held = await tx.messages.hold({each.letter.conversation_id for each in letters})
    names = [each.letter.name for each in letters if each.letter.name is not None]
    known = await tx.messages.known(names) if names else {}
    keys = [each.letter.name or place for place, each in enumerate(letters)]
    kept: dict[_Name | int, Message] = {}
    new: dict[_Name | int, NewMessage] = {}
    refused: dict[int, StaffbookingError] = {}
    for place, (key, screened) in enumerate(zip(keys, letters, strict=True)):
        if key in new:
            continue
        try:
            decided = await _decide(tx, screened, held, known, now)
        except StaffbookingError as error:
            refused[place] = error
            continue
        if isinstance(decided, Message):
            kept[key] = decided
        else:
            new[key] = decided
    if new:
        kept.update(zip(new, await tx.messages.add([*new.values()]), strict=True))
    return [refused.get(place) or kept[key] for place, key in enumerate(keys)]


async def _decide(
    tx: Writing,
    screened: Screened,
    held: Mapping[int, Conversation],
    known: Mapping[_Name, Message],
    now: datetime,
) -> NewMessage | Message:
    """What is to be kept; or what was kept before, which needs no more judging."""
    letter, found = screened.letter, screened.found
    conversation, member = as_member(held.get(letter.conversation_id), letter.sender_id)
    if letter.name is not None and (before := known.get(letter.name)) is not None:
        return before
    said = say(conversation, member, letter.content, letter.client_id, now)
    shares = True
    if found.has_contact:
        shares = may_share_contacts(conversation, await tx.messages.cleared(conversation))
    check_content(found, may_share_contacts=shares)
    return said


async def send_to_user(ports: Ports, actor: Actor, user_id: int, content: str) -> Message:
    """Say something to somebody with whom a booking is shared, whatever its status."""
    conversation_id = await with_user(ports, actor, user_id)
    if conversation_id is None:
        raise RuleBroken("message_to_oneself", "You can't send messages to yourself")
    return await send(ports, Letter(actor.user_id, conversation_id, content))


# Groups ---------------------------------------------------------------------------------


async def follow_event(tx: Writing, before: Booking, after: Booking, now: datetime) -> None:
    """Let the group of a booking's event follow who is booked, once the booking is saved."""
    was_booked, is_booked = before.status in BOOKED, after.status in BOOKED
    if after.event_ref is None or was_booked == is_booked:
        return
    # Held before who is booked is looked at: two accepts at the same time see each other.
    group = await tx.messages.hold_group(after.customer_id, after.event_ref, now)
    booked = await tx.messages.booked(after.customer_id, after.event_ref)
    await tx.messages.save_group(follow(group, dict(booked)), opens=len(booked) >= OPENS_GROUP)
