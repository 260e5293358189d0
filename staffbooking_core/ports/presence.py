"""Presence: which users are connected to the channel, over all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

__all__ = ["PresenceReadPort", "PresenceWritePort", "UserPresence"]


@frozen
class UserPresence:
    """Whether a user is connected to the channel. `last_seen` is wall time: None for a user who
    never was, and the end of the last connection for one who is not."""

    user_id: int
    online: bool
    last_seen: datetime | None


class PresenceReadPort(Protocol):
    """Queries on presence. A process that keeps connections is a node, alive while its lease runs
    (wall time). Connections of expired nodes do not count."""

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[UserPresence]:
        """The presence of each of these users, in their order."""
        ...

    async def online_conversation_partners(self, user_id: int, now: datetime) -> Sequence[int]:
        """The ids of other connected users with whom a user currently shares a conversation,
        ascending."""
        ...


class PresenceWritePort(PresenceReadPort, Protocol):
    """Commands on nodes and their connections. Times are wall time."""

    async def renew_node_lease(self, node: str, expires_at: datetime) -> bool:
        """Prolong a node's lease, or start one; False where it was started."""
        ...

    async def add_connection(
        self, user_id: int, node: str, now: datetime, max_connections: int
    ) -> bool:
        """Count one more connection of a user; False, and nothing changes, where the user already
        has `max_connections` over all living nodes. Exact under concurrency."""
        ...

    async def remove_connection(self, user_id: int, node: str, now: datetime) -> None:
        """Count one connection less, and set the user's `last_seen` to `now`, except of an erased
        user; nothing happens where the node has none of theirs."""
        ...

    async def set_connections(
        self, node: str, connections: Mapping[int, int], now: datetime
    ) -> None:
        """Replace the number of connections of each user at a node. A user with 0 stays online as
        long as the node lives. The `last_seen` of users who are left out but had connections there
        becomes `now`, except of erased ones."""
        ...

    async def delete_expired_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        """Delete up to `limit` expired nodes with their connections; the ids of the users who were
        connected there, ascending. Their `last_seen` becomes the end of the lease, unless it is
        later already or the user is erased."""
        ...

    async def claim_departed_users(self, seen_before: datetime, limit: int) -> Sequence[int]:
        """Up to `limit` ids of users whose `last_seen` is not after `seen_before`, ascending. Each
        is returned once for each time that `last_seen` was set."""
        ...
