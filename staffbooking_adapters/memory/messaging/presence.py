"""Connections of the channel in memory: who has how many, at which node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.messaging.conversations import acquainted
from staffbooking_adapters.memory.state import Place, State
from staffbooking_core.ports import Presence


@frozen
class PresenceReader:
    place: Place

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[Presence]:
        state = self.place.state
        online = connected(state, user_ids, now)
        return [
            Presence(user_id, user_id in online, _last_seen(state, user_id, now))
            for user_id in user_ids
        ]

    async def online_acquaintances(self, user_id: int, now: datetime) -> Sequence[int]:
        others = acquainted(self.place.state, user_id) - {user_id}
        return sorted(connected(self.place.state, others, now))


@frozen
class PresenceWriter(PresenceReader):
    async def renew_node(self, node: str, until: datetime) -> bool:
        nodes = self.place.state.nodes
        is_known = node in nodes
        nodes[node] = until
        return is_known

    async def connect(self, user_id: int, node: str, now: datetime, most: int) -> bool:
        state = self.place.state
        if sum(_counts(state, user_id, now)) >= most:
            return False
        state.connections[user_id, node] = (state.connections.get((user_id, node)) or 0) + 1
        return True

    async def disconnect(self, user_id: int, node: str, now: datetime) -> None:
        connections = self.place.state.connections
        if not (many := connections.get((user_id, node))):
            return
        if many == 1:
            connections.discard((user_id, node))
        else:
            connections[user_id, node] = many - 1
        _see(self.place.state, user_id, now)

    async def restore(self, node: str, connections: Mapping[int, int]) -> None:
        state = self.place.state
        _drop(state, node)
        for user_id, many in connections.items():
            state.connections[user_id, node] = many

    async def bury_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        state, gone = self.place.state, set[int]()
        dead = sorted((until, node) for node, until in state.nodes.items() if until <= now)
        for until, node in dead[:limit]:
            users = _drop(state, node)
            for user_id in users:
                _see(state, user_id, until)
            state.nodes.discard(node)
            gone.update(users)
        return sorted(gone)


def connected(state: State, user_ids: Iterable[int], now: datetime) -> frozenset[int]:
    """Those of the users who are at a living node."""
    return frozenset(user_id for user_id in user_ids if [*_counts(state, user_id, now)])


def _counts(state: State, user_id: int, now: datetime) -> Iterator[int]:
    """How many connections a user has at each living node where they are."""
    living = (node for node, until in state.nodes.items() if now < until)
    found = (state.connections.get((user_id, node)) for node in living)
    return (many for many in found if many is not None)


def _last_seen(state: State, user_id: int, now: datetime) -> datetime | None:
    """The end of a user's last connection, also at a dead node that nobody has buried yet."""
    ended = (
        until
        for node, until in state.nodes.items()
        if until <= now and (user_id, node) in state.connections
    )
    seen_at = state.last_seen.get(user_id)
    return max(ended if seen_at is None else (seen_at, *ended), default=None)


def _drop(state: State, node: str) -> list[int]:
    """Forget the connections of a node; who had them."""
    users = [user_id for user_id, at in state.connections if at == node]
    for user_id in users:
        state.connections.discard((user_id, node))
    return users


def _see(state: State, user_id: int, at: datetime) -> None:
    """Note that a user was there, unless a later time is known."""
    state.last_seen[user_id] = max(at, state.last_seen.get(user_id) or at)
