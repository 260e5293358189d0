"""The channel: who connects, types, reads and is there (CONTRACT 6). The machine that decides
what a connection is told is `domain.channel`; what is said goes by `messages`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.users import is_session_valid
from staffbooking_core.domain.messaging.conversations import (
    Message,
    check_can_write,
    require_member,
)
from staffbooking_core.domain.shared.rate_limits import RateLimitDecision, RateLimitExceeded
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import MarkReadUpTo, QueryPresence, SetTyping
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Broadcast, Frame, ServerEvent
from staffbooking_core.usecases.messaging import messages

CHANNEL_BATCH_SIZE = 100
"""Nodes that are buried, and messages that are read, at a time."""

CONNECT_RETRY_DELAY = timedelta(seconds=5)
"""When a user with too many connections may try once more."""


async def connect(ports: Ports, user_id: int, node: str) -> None:
    """Count a connection of a user. Raises LimitExceeded where there are too many."""
    now, max_connections = ports.clock.wall(), ports.policy.max_connections

    async def unit(tx: Transaction) -> bool:
        return await tx.presence.add_connection(user_id, node, now, max_connections)

    if not await ports.store.run_transaction(unit):
        retry_at = now + CONNECT_RETRY_DELAY
        raise RateLimitExceeded(
            RateLimitDecision(
                max_connections,
                0,
                int(retry_at.timestamp()),
                allowed=False,
                retry_after=CONNECT_RETRY_DELAY.seconds,
            )
        )


async def disconnect(ports: Ports, user_id: int, node: str) -> None:
    """The end of a connection that was counted."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> None:
        await tx.presence.remove_connection(user_id, node, now)

    await ports.store.run_transaction(unit)


async def last_message_id(ports: Ports, user_id: int | None = None) -> int:
    """The last message that a user may read, or of all; 0 with none."""
    async with ports.store.read_view() as view:
        return await view.messages.last_message_id(user_id)


async def messages_after(ports: Ports, after_id: int) -> Sequence[Message]:
    """The next messages of all conversations, in the order of their ids."""
    async with ports.store.read_view() as view:
        return await view.messages.all_messages_after(after_id, CHANNEL_BATCH_SIZE)


async def missed_messages(
    ports: Ports, user_id: int, after_id: int
) -> tuple[Sequence[Message], bool]:
    """The next messages that a user may read, over all conversations and in the order of their
    ids, and whether there are more."""
    async with ports.store.read_view() as view:
        found = await view.messages.readable_messages_after(user_id, after_id, CHANNEL_BATCH_SIZE)
    return found, len(found) == CHANNEL_BATCH_SIZE


# What passes ----------------------------------------------------------------------------


async def broadcast_typing(ports: Ports, user_id: int, event: SetTyping) -> None:
    """Tell the others in a conversation that somebody types, or does no more. Raises NotFound
    for a stranger and Forbidden for who has left."""
    async with ports.store.read_view() as view:
        found = await view.messages.conversation(event.conversation_id)
    conversation, member = require_member(found, user_id)
    check_can_write(member)
    others = tuple(other for other in conversation.recipient_ids if other != user_id)
    data = channel.typing_data(conversation.id, user_id, member.name, event.is_typing)
    ports.pubsub.publish(Broadcast(others, ServerEvent.TYPING, data))


async def mark_read(ports: Ports, user_id: int, event: MarkReadUpTo) -> None:
    """Note that a user has read up to a message, and tell all in the conversation."""
    await messages.mark_read(ports, user_id, event.conversation_id, event.message_id)


# Presence -------------------------------------------------------------------------------


async def query_presence(ports: Ports, user_id: int, event: QueryPresence) -> Sequence[Frame]:
    """Who of some people is there: a frame for each with whom a conversation is shared, and
    an error where anybody else was asked for."""
    async with ports.store.read_view() as view:
        partners = await view.messages.conversation_partners(user_id, event.user_ids)
        if partners != set(event.user_ids):
            await messages.open_missing_conversations(ports, user_id)
            partners = await view.messages.conversation_partners(user_id, event.user_ids)
        visible_ids = [other for other in event.user_ids if other in partners]
        found = await view.presence.presence(visible_ids, ports.clock.wall())
    frames = [
        Frame(
            ServerEvent.PRESENCE, channel.presence_data(each.user_id, each.online, each.last_seen)
        )
        for each in found
    ]
    if len(visible_ids) < len(event.user_ids):
        frames.append(channel.error_frame(NotFound("User")))
    return frames


async def broadcast_presence(ports: Ports, user_id: int) -> None:
    """Tell those who are there, and share a conversation, whether a user is."""
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        others = await view.presence.online_conversation_partners(user_id, now)
        if not others:
            return
        [found] = await view.presence.presence([user_id], now)
    data = channel.presence_data(user_id, found.online, found.last_seen)
    ports.pubsub.publish(Broadcast(tuple(others), ServerEvent.PRESENCE, data))


# The process ----------------------------------------------------------------------------


@frozen
class HeartbeatResult:
    """What a sign of life brought to light."""

    was_expired: bool
    """The process was taken for dead, or is new: its users may have been told of as gone."""
    disconnected_user_ids: Sequence[int]
    """The users whose process has died."""


async def heartbeat(
    ports: Ports, node: str, connections: Mapping[int, int], *, is_recount: bool
) -> HeartbeatResult:
    """A sign of life of a process, with how many connections each user has there: they are
    counted `anew` on demand, and where it was taken for dead meanwhile."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> HeartbeatResult:
        is_alive = await tx.presence.renew_node_lease(node, now + ports.policy.presence_lease)
        if is_recount or not is_alive:
            await tx.presence.set_connections(node, connections)
        return HeartbeatResult(
            not is_alive, await tx.presence.delete_expired_nodes(now, CHANNEL_BATCH_SIZE)
        )

    return await ports.store.run_transaction(unit)


async def stop_node(ports: Ports, node: str, user_ids: Iterable[int]) -> None:
    """The end of a process: who was connected there may be so elsewhere at once, and who does
    not come back soon is not there."""
    until = ports.clock.wall() + ports.policy.presence_grace_period
    connections = dict.fromkeys(user_ids, 0)

    async def unit(tx: Transaction) -> None:
        await tx.presence.set_connections(node, connections)
        await tx.presence.renew_node_lease(node, until)

    await ports.store.run_transaction(unit)


async def ended_sessions(ports: Ports, digests: Sequence[bytes]) -> frozenset[bytes]:
    """Those of some sessions that sign nobody in any more."""
    now, policy = ports.clock.wall(), ports.policy
    async with ports.store.read_view() as view:
        found = await view.accounts.sessions(digests)
    idle, lifetime = policy.session_idle, policy.session_lifetime
    alive = {
        session.digest
        for session, user in found
        if is_session_valid(session, user, now, idle_timeout=idle, lifetime=lifetime)
    }
    return frozenset(digests) - alive
