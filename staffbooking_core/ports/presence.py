"""Presence: which users are connected to the channel, over all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen


@frozen
class UserPresence:
    """Whether somebody is connected to the channel; `last_seen` is wall time, None for who
    never was, and the end of the last connection for who is not."""

    user_id: int
    online: bool
    last_seen: datetime | None


class PresenceReadPort(Protocol):
    """A process that keeps connections is a node, alive while its lease runs (wall time).
    Connections of a dead node count for nothing."""

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[UserPresence]:
        """One for each, in their order."""
        ...

    async def online_conversation_partners(self, user_id: int, now: datetime) -> Sequence[int]:
        """Others with whom a user is in a conversation now and who are connected; rising."""
        ...


class PresenceWritePort(PresenceReadPort, Protocol):
    async def renew_node_lease(self, node: str, expires_at: datetime) -> bool:
        """Prolong a node's lease, or begin it; False where it began."""
        ...

    async def add_connection(
        self, user_id: int, node: str, now: datetime, max_connections: int
    ) -> bool:
        """Count one more connection; False, and nothing changes, where the user has `most`
        already over all living nodes, also if others connect at the same time."""
        ...

    async def remove_connection(self, user_id: int, node: str, now: datetime) -> None:
        """Count one less, and the user was last seen now; nothing happens where the node has
        none of theirs."""
        ...

    async def set_connections(self, node: str, connections: Mapping[int, int]) -> None:
        """Set how many connections each user has at a node, and drop all others of it. With 0
        they are there as long as the node lives, and have all of theirs to make anew."""
        ...

    async def delete_expired_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        """Forget up to `limit` nodes whose lease has ended, with their connections; the users
        who were connected there, rising. They were last seen when the lease ended, unless it
        is known that they were later."""
        ...
