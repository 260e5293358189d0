"""Presence: which users are connected to which channel node, and when they were last seen.

1. A node renews its lease. An unknown node is added, and the renewal returns False.
2. A new connection locks the user's row (PostgreSQL) and is counted by a second statement,
   so that concurrent connections cannot exceed the limit.
3. A closed connection decrements the count, deletes the row at zero and saves the time as
   last seen. Nothing is saved of an erased user, whose connections close after the erasure.
   A recount of a node does the same for users who have no connections there any more.
4. Nodes with an expired lease are deleted with their connections. The end of the lease is
   saved as the time their users were last seen.
5. A user is online while a node with an unexpired lease has a connection of theirs. Readers
   compare the lease themselves, so an expired node counts as gone before it is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import (
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    select,
    true,
    update,
)

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import (
    array_rows,
    claim_rows,
    in_array,
    sum_or_zero,
    upsert,
)
from staffbooking_adapters.sql.engine.leases import MAX_CLAIM_SIZE, NOW_PARAM
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.messaging.conversation_queries import (
    LIST_ONLINE_CONVERSATION_PARTNERS,
)
from staffbooking_adapters.sql.schema.accounts import users
from staffbooking_adapters.sql.schema.messaging import (
    channel_connections,
    channel_nodes,
    is_on_live_node,
    is_unclaimed_departure,
    last_seen,
)
from staffbooking_core.ports import UserPresence

_USER_ID = bindparam("user_id", type_=BigInt)
_NODE_ID = bindparam("node", type_=channel_nodes.c.id.type)

_REQUESTED_USERS = array_rows("asked", id=("user_ids", BigInt))
GET_PRESENCE = Statement(
    select(_REQUESTED_USERS.c.id, last_seen.c.at, func.max(channel_nodes.c.lease_until))
    .select_from(
        _REQUESTED_USERS.outerjoin(last_seen, last_seen.c.user_id == _REQUESTED_USERS.c.id)
        .outerjoin(channel_connections, channel_connections.c.user_id == _REQUESTED_USERS.c.id)
        .outerjoin(channel_nodes, channel_nodes.c.id == channel_connections.c.node)
    )
    .group_by(_REQUESTED_USERS.c.id, last_seen.c.at)
)

# Connections ------------------------------------------------------------------------------

LOCK_CONNECTING_USER = Statement(
    postgresql=select(users.c.id).where(users.c.id == _USER_ID).with_for_update(key_share=True)
)
"""Serializes the connection counts of one user."""

_LIVE_CONNECTION_COUNT = (
    select(sum_or_zero(channel_connections.c.n))
    .where(channel_connections.c.user_id == _USER_ID, is_on_live_node)
    .scalar_subquery()
)
_MAX_CONNECTIONS = bindparam("most", type_=BigInt)
ADD_CONNECTION = Statement(
    upsert(channel_connections)
    .from_select(
        ["user_id", "node", "n"],
        select(_USER_ID, _NODE_ID, literal(1)).where(_MAX_CONNECTIONS > _LIVE_CONNECTION_COUNT),
    )
    .on_conflict_do_update(
        index_elements=["user_id", "node"], set_={"n": channel_connections.c.n + 1}
    )
)
_IS_USER_CONNECTION_ROW = (
    channel_connections.c.user_id == _USER_ID,
    channel_connections.c.node == _NODE_ID,
)
DECREMENT_CONNECTION = Statement(
    update(channel_connections)
    .values(n=channel_connections.c.n - 1)
    .where(*_IS_USER_CONNECTION_ROW, channel_connections.c.n > 0)
    .returning(channel_connections.c.n)
)
DELETE_CONNECTION = Statement(delete(channel_connections).where(*_IS_USER_CONNECTION_ROW))

_LAST_SEEN_ROWS = array_rows("seen", user_id=("user_ids", BigInt), at=("times", Instant))
_IS_ERASED = exists().where(users.c.id == _LAST_SEEN_ROWS.c.user_id, users.c.erased_at.is_not(None))
_UPSERT_LAST_SEEN = upsert(last_seen).from_select(
    ["user_id", "at", "is_unclaimed"], select(*_LAST_SEEN_ROWS.c, true()).where(~_IS_ERASED)
)
SAVE_LAST_SEEN = Statement(
    _UPSERT_LAST_SEEN.on_conflict_do_update(
        index_elements=["user_id"],
        set_={"at": _UPSERT_LAST_SEEN.excluded.at, "is_unclaimed": true()},
        where=last_seen.c.at < _UPSERT_LAST_SEEN.excluded.at,
    )
)


@cache
def claim_departed_users(limit: int) -> Statement:
    is_due = and_(is_unclaimed_departure, last_seen.c.at <= bindparam("seen_before", type_=Instant))
    return Statement(
        claim_rows(
            last_seen,
            is_due=is_due,
            order_by=[last_seen.c.at],
            limit=limit,
            values={"is_unclaimed": false()},
            returning=[last_seen.c.user_id],
        )
    )


# Nodes ------------------------------------------------------------------------------------

_LEASE_UNTIL = bindparam("until", type_=Instant)
RENEW_NODE_LEASE = Statement(
    update(channel_nodes).values(lease_until=_LEASE_UNTIL).where(channel_nodes.c.id == _NODE_ID)
)
ADD_NODE = Statement(insert(channel_nodes).values(id=_NODE_ID, lease_until=_LEASE_UNTIL))

DELETE_NODE_CONNECTIONS = Statement(
    delete(channel_connections)
    .where(channel_connections.c.node == _NODE_ID)
    .returning(channel_connections.c.user_id)
)
_CONNECTION_COUNT_ROWS = array_rows("counted", user_id=("user_ids", BigInt), n=("counts", BigInt))
_UPSERT_CONNECTION_COUNTS = upsert(channel_connections).from_select(
    ["user_id", "node", "n"],
    select(_CONNECTION_COUNT_ROWS.c.user_id, _NODE_ID, _CONNECTION_COUNT_ROWS.c.n).where(true()),
)
SAVE_CONNECTION_COUNTS = Statement(
    _UPSERT_CONNECTION_COUNTS.on_conflict_do_update(
        index_elements=["user_id", "node"], set_={"n": _UPSERT_CONNECTION_COUNTS.excluded.n}
    )
)


@cache
def delete_dead_nodes(limit: int) -> Statement:
    expired = (
        select(channel_nodes.c.id)
        .where(channel_nodes.c.lease_until <= NOW_PARAM)
        .order_by(channel_nodes.c.lease_until)
    )
    locked_nodes = expired.limit(limit).with_for_update(skip_locked=True).cte("dead")
    delete_nodes = delete(channel_nodes).where(channel_nodes.c.id.in_(select(locked_nodes.c.id)))
    return Statement(delete_nodes.returning(channel_nodes.c.id, channel_nodes.c.lease_until))


DELETE_DEAD_NODE_CONNECTIONS = Statement(
    delete(channel_connections)
    .where(in_array(channel_connections.c.node, "nodes"))
    .returning(channel_connections.c.user_id, channel_connections.c.node)
)


@frozen
class PresenceReader:
    """Reads users' presence."""

    connection: Connection

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[UserPresence]:
        rows = await self.connection.fetch_all(GET_PRESENCE, user_ids=list(set(user_ids)))
        found = {row[0]: _to_presence(row, now) for row in rows}
        return [found[user_id] for user_id in user_ids]

    async def online_conversation_partners(self, user_id: int, now: datetime) -> Sequence[int]:
        rows = await self.connection.fetch_all(
            LIST_ONLINE_CONVERSATION_PARTNERS, user_id=user_id, now=now
        )
        return [other_id for (other_id,) in rows]


@frozen
class PresenceWriter(PresenceReader):
    """Writes node leases, connection counts and last-seen times."""

    async def renew_node_lease(self, node: str, expires_at: datetime) -> bool:
        is_known = bool(
            await self.connection.execute(RENEW_NODE_LEASE, node=node, until=expires_at)
        )
        if not is_known:
            await self.connection.execute(ADD_NODE, node=node, until=expires_at)
        return is_known

    async def add_connection(
        self, user_id: int, node: str, now: datetime, max_connections: int
    ) -> bool:
        await self.connection.execute(LOCK_CONNECTING_USER, user_id=user_id)
        params = {"user_id": user_id, "node": node, "now": now, "most": max_connections}
        return bool(await self.connection.execute(ADD_CONNECTION, **params))

    async def remove_connection(self, user_id: int, node: str, now: datetime) -> None:
        remaining = await self.connection.fetch_value(
            DECREMENT_CONNECTION, user_id=user_id, node=node
        )
        if remaining is None:
            return
        if remaining == 0:
            await self.connection.execute(DELETE_CONNECTION, user_id=user_id, node=node)
        await self._save_last_seen({user_id: now})

    async def set_connections(
        self, node: str, connections: Mapping[int, int], now: datetime
    ) -> None:
        rows = await self.connection.fetch_all(DELETE_NODE_CONNECTIONS, node=node)
        params = {"user_ids": list(connections), "counts": list(connections.values())}
        await self.connection.execute(SAVE_CONNECTION_COUNTS, node=node, **params)
        await self._save_last_seen(
            {user_id: now for (user_id,) in rows if user_id not in connections}
        )

    async def delete_expired_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        node_rows = await self.connection.fetch_all(
            delete_dead_nodes(min(limit, MAX_CLAIM_SIZE)), now=now
        )
        if not node_rows:
            return []
        ends: dict[str, datetime] = dict(node_rows)
        rows = await self.connection.fetch_all(DELETE_DEAD_NODE_CONNECTIONS, nodes=list(ends))
        last_seen: dict[int, datetime] = {}
        for user_id, node in rows:
            last_seen[user_id] = max(ends[node], last_seen.get(user_id, ends[node]))
        await self._save_last_seen(last_seen)
        return sorted(last_seen)

    async def claim_departed_users(self, seen_before: datetime, limit: int) -> Sequence[int]:
        rows = await self.connection.fetch_all(
            claim_departed_users(min(limit, MAX_CLAIM_SIZE)), seen_before=seen_before
        )
        return sorted(user_id for (user_id,) in rows)

    async def _save_last_seen(self, seen_at_by_user: Mapping[int, datetime]) -> None:
        user_ids = sorted(seen_at_by_user)
        await self.connection.execute(
            SAVE_LAST_SEEN, user_ids=user_ids, times=[seen_at_by_user[each] for each in user_ids]
        )


def _to_presence(row: Row, now: datetime) -> UserPresence:
    """Build a presence. Connections of a node with an expired lease do not count."""
    user_id, seen_at, lease_until = row
    if lease_until is None or lease_until > now:
        return UserPresence(user_id, lease_until is not None, seen_at)
    return UserPresence(user_id, False, max(lease_until, seen_at or lease_until))
