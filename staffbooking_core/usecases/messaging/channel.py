"""The channel: who connects, types, reads and is there (CONTRACT 6). The machine that decides
what a connection is told is `domain.channel`; what is said goes by `messages`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.users import judge_session
from staffbooking_core.domain.messaging.conversations import Message, as_member, check_writer
from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Verdict
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import AskPresence, ReadUpTo, Type
from staffbooking_core.ports import Ports, Writing
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Frame, Tell, Told
from staffbooking_core.usecases.messaging import messages

AT_A_TIME = 100
"""Nodes that are buried, and messages that are read, at a time."""

COME_AGAIN = timedelta(seconds=5)
"""When a user with too many connections may try once more."""


async def connect(ports: Ports, user_id: int, node: str) -> None:
    """Count a connection of a user. Raises LimitExceeded where there are too many."""
    now, most = ports.clock.wall(), ports.policy.max_connections

    async def unit(tx: Writing) -> bool:
        return await tx.presence.connect(user_id, node, now, most)

    if not await ports.store.write(unit):
        again = now + COME_AGAIN
        raise LimitExceeded(
            Verdict(most, 0, int(again.timestamp()), allowed=False, retry_after=COME_AGAIN.seconds)
        )


async def disconnect(ports: Ports, user_id: int, node: str) -> None:
    """The end of a connection that was counted."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> None:
        await tx.presence.disconnect(user_id, node, now)

    await ports.store.write(unit)


async def last_id(ports: Ports, user_id: int | None = None) -> int:
    """The last message that a user may read, or of all; 0 with none."""
    async with ports.store.reading() as view:
        return await view.messages.last_id(user_id)


async def tail(ports: Ports, after: int) -> Sequence[Message]:
    """The next messages of all conversations, in the order of their ids."""
    async with ports.store.reading() as view:
        return await view.messages.tail(after, AT_A_TIME)


async def missed(ports: Ports, user_id: int, after: int) -> tuple[Sequence[Message], bool]:
    """The next messages that a user may read, over all conversations and in the order of their
    ids, and whether there are more."""
    async with ports.store.reading() as view:
        found = await view.messages.inbox(user_id, after, AT_A_TIME)
    return found, len(found) == AT_A_TIME


# What passes ----------------------------------------------------------------------------


async def type_(ports: Ports, user_id: int, given: Type) -> None:
    """Tell the others in a conversation that somebody types, or does no more. Raises NotFound
    for a stranger and Forbidden for who has left."""
    async with ports.store.reading() as view:
        found = await view.messages.conversation(given.conversation_id)
    conversation, member = as_member(found, user_id)
    check_writer(member)
    others = tuple(other for other in conversation.recipients if other != user_id)
    data = channel.typing(conversation.id, user_id, member.name, given.is_typing)
    ports.chat.tell(Tell(others, Told.TYPING, data))


async def read(ports: Ports, user_id: int, given: ReadUpTo) -> None:
    """Note that a user has read up to a message, and tell all in the conversation."""
    await messages.mark_read(ports, user_id, given.conversation_id, given.message_id)


# Presence -------------------------------------------------------------------------------


async def ask(ports: Ports, user_id: int, given: AskPresence) -> Sequence[Frame]:
    """Who of some people is there: a frame for each with whom a conversation is shared, and
    an error where anybody else was asked for."""
    async with ports.store.reading() as view:
        known = await view.messages.acquaintances(user_id, given.user_ids)
        if known != set(given.user_ids):
            await messages.open_missing(ports, user_id)
            known = await view.messages.acquaintances(user_id, given.user_ids)
        asked = [other for other in given.user_ids if other in known]
        found = await view.presence.presence(asked, ports.clock.wall())
    frames = [
        Frame(Told.PRESENCE, channel.presence(each.user_id, each.online, each.last_seen))
        for each in found
    ]
    if len(asked) < len(given.user_ids):
        frames.append(channel.error(NotFound("User")))
    return frames


async def show(ports: Ports, user_id: int) -> None:
    """Tell those who are there, and share a conversation, whether a user is."""
    now = ports.clock.wall()
    async with ports.store.reading() as view:
        others = await view.presence.online_acquaintances(user_id, now)
        if not others:
            return
        [found] = await view.presence.presence([user_id], now)
    data = channel.presence(user_id, found.online, found.last_seen)
    ports.chat.tell(Tell(tuple(others), Told.PRESENCE, data))


# The process ----------------------------------------------------------------------------


@frozen
class Beat:
    """What a sign of life brought to light."""

    was_dead: bool
    """The process was taken for dead, or is new: its users may have been told of as gone."""
    dead: Sequence[int]
    """The users whose process has died."""


async def beat(ports: Ports, node: str, connections: Mapping[int, int], *, anew: bool) -> Beat:
    """A sign of life of a process, with how many connections each user has there: they are
    counted `anew` on demand, and where it was taken for dead meanwhile."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> Beat:
        is_known = await tx.presence.renew_node(node, now + ports.policy.presence_lease)
        if anew or not is_known:
            await tx.presence.restore(node, connections)
        return Beat(not is_known, await tx.presence.bury_nodes(now, AT_A_TIME))

    return await ports.store.write(unit)


async def leave(ports: Ports, node: str, user_ids: Iterable[int]) -> None:
    """The end of a process: who was connected there may be so elsewhere at once, and who does
    not come back soon is not there."""
    until = ports.clock.wall() + ports.policy.presence_grace
    connections = dict.fromkeys(user_ids, 0)

    async def unit(tx: Writing) -> None:
        await tx.presence.restore(node, connections)
        await tx.presence.renew_node(node, until)

    await ports.store.write(unit)


async def ended(ports: Ports, digests: Sequence[bytes]) -> frozenset[bytes]:
    """Those of some sessions that sign nobody in any more."""
    now, policy = ports.clock.wall(), ports.policy
    async with ports.store.reading() as view:
        found = await view.accounts.sessions(digests)
    idle, lifetime = policy.session_idle, policy.session_lifetime
    alive = {
        session.digest
        for session, user in found
        if judge_session(session, user, now, idle=idle, lifetime=lifetime)
    }
    return frozenset(digests) - alive
