"""The real-time channel: connections, typing, read marks and presence (SPECIFICATION 6.2, CONTRACT
6). `messages` sends messages. A node is a process that serves connections."""

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
from staffbooking_core.validation import validated

_CHANNEL_BATCH_SIZE = 100
"""Expired nodes that are deleted, and messages that are read, at a time."""

_CONNECT_RETRY_DELAY = timedelta(seconds=5)
"""Retry delay for a user with too many connections."""


@validated
async def connect(ports: Ports, user_id: int, node: str) -> None:
    """Count a connection of a user on a node. Raises RateLimitExceeded above
    `policy.max_connections`."""
    now, max_connections = ports.clock.wall(), ports.policy.max_connections

    async def unit(tx: Transaction) -> bool:
        return await tx.presence.add_connection(user_id, node, now, max_connections)

    if not await ports.store.run_transaction(unit):
        retry_at = now + _CONNECT_RETRY_DELAY
        raise RateLimitExceeded(
            RateLimitDecision(
                max_connections,
                0,
                int(retry_at.timestamp()),
                allowed=False,
                retry_after=_CONNECT_RETRY_DELAY.seconds,
            )
        )


@validated
async def disconnect(ports: Ports, user_id: int, node: str) -> None:
    """Uncount a connection of a user on a node."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> None:
        await tx.presence.remove_connection(user_id, node, now)

    await ports.store.run_transaction(unit)


@validated
async def last_message_id(ports: Ports, user_id: int | None = None) -> int:
    """The id of the last message that a user may read, or of all messages; 0 without any."""
    async with ports.store.read_view() as view:
        return await view.messages.last_message_id(user_id)


@validated
async def messages_after(ports: Ports, after_id: int) -> Sequence[Message]:
    """The next messages of all conversations above `after_id`, by id."""
    async with ports.store.read_view() as view:
        return await view.messages.all_messages_after(after_id, _CHANNEL_BATCH_SIZE)


@validated
async def missed_messages(
    ports: Ports, user_id: int, after_id: int
) -> tuple[Sequence[Message], bool]:
    """The next messages above `after_id` that a user may read in any conversation, by id, and
    whether more may follow."""
    async with ports.store.read_view() as view:
        found = await view.messages.readable_messages_after(user_id, after_id, _CHANNEL_BATCH_SIZE)
    return found, len(found) == _CHANNEL_BATCH_SIZE


# Events of clients ----------------------------------------------------------------------


@validated
async def broadcast_typing(ports: Ports, user_id: int, event: SetTyping) -> None:
    """Broadcast to the others in a conversation that a user started or stopped typing.

    Raises NotFound for a stranger, and Forbidden `conversation_left`.
    """
    async with ports.store.read_view() as view:
        found = await view.messages.conversation(event.conversation_id)
    conversation, member = require_member(found, user_id)
    check_can_write(conversation, member)
    others = tuple(other for other in conversation.recipient_ids if other != user_id)
    data = channel.typing_data(conversation.id, user_id, member.name, event.is_typing)
    ports.pubsub.publish(Broadcast(others, ServerEvent.TYPING, data))


@validated
async def mark_read(ports: Ports, user_id: int, event: MarkReadUpTo) -> None:
    """Mark a conversation as read up to a message, and broadcast it. Raises NotFound."""
    await messages.mark_read(ports, user_id, event.conversation_id, event.message_id)


# Presence -------------------------------------------------------------------------------


@validated
async def query_presence(ports: Ports, user_id: int, event: QueryPresence) -> Sequence[Frame]:
    """One presence frame for each of the given users with whom a conversation is shared, and one
    error frame if there were any others."""
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


@validated
async def broadcast_presence(ports: Ports, user_id: int) -> None:
    """Broadcast a user's presence to the online users who share a conversation with them."""
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        others = await view.presence.online_conversation_partners(user_id, now)
        if not others:
            return
        [found] = await view.presence.presence([user_id], now)
    data = channel.presence_data(user_id, found.online, found.last_seen)
    ports.pubsub.publish(Broadcast(tuple(others), ServerEvent.PRESENCE, data))


# Nodes ----------------------------------------------------------------------------------


@frozen
class HeartbeatResult:
    """Outcome of a heartbeat."""

    was_expired: bool
    """The node's lease had expired, or the node is new: others may see its users as offline."""
    disconnected_user_ids: Sequence[int]
    """Users of nodes whose lease expired."""


@validated
async def heartbeat(
    ports: Ports, node: str, connections: Mapping[int, int], *, is_recount: bool
) -> HeartbeatResult:
    """Renew a node's lease, and delete expired nodes. `connections` is the number of connections of
    each user on this node; it is stored with `is_recount`, and where the lease had expired."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> HeartbeatResult:
        is_alive = await tx.presence.renew_node_lease(node, now + ports.policy.presence_lease)
        if is_recount or not is_alive:
            await tx.presence.set_connections(node, connections, now)
        return HeartbeatResult(
            not is_alive, await tx.presence.delete_expired_nodes(now, _CHANNEL_BATCH_SIZE)
        )

    return await ports.store.run_transaction(unit)


@validated
async def stop_node(ports: Ports, node: str, user_ids: Iterable[int]) -> None:
    """Remove a stopping node's connections at once, so that its users can connect elsewhere; its
    lease lasts for the grace period, within which users who reconnect stay online for others."""
    now = ports.clock.wall()
    connections = dict.fromkeys(user_ids, 0)

    async def unit(tx: Transaction) -> None:
        await tx.presence.set_connections(node, connections, now)
        await tx.presence.renew_node_lease(node, now + ports.policy.presence_grace_period)

    await ports.store.run_transaction(unit)


@validated
async def ended_sessions(ports: Ports, digests: Sequence[bytes]) -> frozenset[bytes]:
    """Those of the given sessions that are no longer valid."""
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
