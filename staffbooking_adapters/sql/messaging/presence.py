"""Who is connected to the channel: at which node, and how often; and when it was last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import bindparam, delete, func, insert, literal, select, true, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, rowset, total, upsert
from staffbooking_adapters.sql.engine.leases import MOST, NOW
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.messaging.conversations import ONLINE_ACQUAINTANCES
from staffbooking_adapters.sql.schema.bookings import users
from staffbooking_adapters.sql.schema.messaging import (
    connections,
    is_at_living_node,
    last_seen,
    nodes,
)
from staffbooking_core.ports import Presence

_USER = bindparam("user_id", type_=BigInt)
_NODE = bindparam("node", type_=nodes.c.id.type)

_ASKED = rowset("asked", id=("user_ids", BigInt))
PRESENCE = Statement(
    select(_ASKED.c.id, last_seen.c.at, func.max(nodes.c.lease_until))
    .select_from(
        _ASKED.outerjoin(last_seen, last_seen.c.user_id == _ASKED.c.id)
        .outerjoin(connections, connections.c.user_id == _ASKED.c.id)
        .outerjoin(nodes, nodes.c.id == connections.c.node)
    )
    .group_by(_ASKED.c.id, last_seen.c.at)
)

# Connections ------------------------------------------------------------------------------

LOCK_USER = Statement(
    postgresql=select(users.c.id).where(users.c.id == _USER).with_for_update(key_share=True)
)
"""One after the other they are counted, by a statement of its own each."""

_COUNT = (
    select(total(connections.c.n))
    .where(connections.c.user_id == _USER, is_at_living_node)
    .scalar_subquery()
)
_MOST = bindparam("most", type_=BigInt)
CONNECT = Statement(
    upsert(connections)
    .from_select(["user_id", "node", "n"], select(_USER, _NODE, literal(1)).where(_MOST > _COUNT))
    .on_conflict_do_update(index_elements=["user_id", "node"], set_={"n": connections.c.n + 1})
)
_ITS = (connections.c.user_id == _USER, connections.c.node == _NODE)
DISCONNECT = Statement(
    update(connections)
    .values(n=connections.c.n - 1)
    .where(*_ITS, connections.c.n > 0)
    .returning(connections.c.n)
)
DROP = Statement(delete(connections).where(*_ITS))

_SEEN = rowset("seen", user_id=("user_ids", BigInt), at=("times", Instant))
_SEE = upsert(last_seen).from_select(["user_id", "at"], select(*_SEEN.c).where(true()))
SEE = Statement(
    _SEE.on_conflict_do_update(
        index_elements=["user_id"],
        set_={"at": _SEE.excluded.at},
        where=last_seen.c.at < _SEE.excluded.at,
    )
)

# Nodes ------------------------------------------------------------------------------------

_UNTIL = bindparam("until", type_=Instant)
RENEW = Statement(update(nodes).values(lease_until=_UNTIL).where(nodes.c.id == _NODE))
BEGIN = Statement(insert(nodes).values(id=_NODE, lease_until=_UNTIL))

DROP_ALL = Statement(delete(connections).where(connections.c.node == _NODE))
_COUNTED = rowset("counted", user_id=("user_ids", BigInt), n=("counts", BigInt))
_COUNT_ANEW = upsert(connections).from_select(
    ["user_id", "node", "n"],
    select(_COUNTED.c.user_id, _NODE, _COUNTED.c.n).where(true()),
)
COUNT_ANEW = Statement(
    _COUNT_ANEW.on_conflict_do_update(
        index_elements=["user_id", "node"], set_={"n": _COUNT_ANEW.excluded.n}
    )
)


@cache
def bury(limit: int) -> Statement:
    dead = select(nodes.c.id).where(nodes.c.lease_until <= NOW).order_by(nodes.c.lease_until)
    held = dead.limit(limit).with_for_update(skip_locked=True).cte("dead")
    buried = delete(nodes).where(nodes.c.id.in_(select(held.c.id)))
    return Statement(buried.returning(nodes.c.id, nodes.c.lease_until))


DROP_DEAD = Statement(
    delete(connections)
    .where(in_array(connections.c.node, "nodes"))
    .returning(connections.c.user_id, connections.c.node)
)


@frozen
class PresenceReader:
    connection: Connection

    async def presence(self, user_ids: Sequence[int], now: datetime) -> Sequence[Presence]:
        rows = await self.connection.all(PRESENCE, user_ids=list(set(user_ids)))
        found = {row[0]: _to_presence(row, now) for row in rows}
        return [found[user_id] for user_id in user_ids]

    async def online_acquaintances(self, user_id: int, now: datetime) -> Sequence[int]:
        rows = await self.connection.all(ONLINE_ACQUAINTANCES, user_id=user_id, now=now)
        return [other_id for (other_id,) in rows]


@frozen
class PresenceWriter(PresenceReader):
    async def renew_node(self, node: str, until: datetime) -> bool:
        is_known = bool(await self.connection.run(RENEW, node=node, until=until))
        if not is_known:
            await self.connection.run(BEGIN, node=node, until=until)
        return is_known

    async def connect(self, user_id: int, node: str, now: datetime, most: int) -> bool:
        await self.connection.run(LOCK_USER, user_id=user_id)
        given = {"user_id": user_id, "node": node, "now": now, "most": most}
        return bool(await self.connection.run(CONNECT, **given))

    async def disconnect(self, user_id: int, node: str, now: datetime) -> None:
        left = await self.connection.value(DISCONNECT, user_id=user_id, node=node)
        if left is None:
            return
        if left == 0:
            await self.connection.run(DROP, user_id=user_id, node=node)
        await self._see({user_id: now})

    async def restore(self, node: str, connections: Mapping[int, int]) -> None:
        await self.connection.run(DROP_ALL, node=node)
        given = {"user_ids": list(connections), "counts": list(connections.values())}
        await self.connection.run(COUNT_ANEW, node=node, **given)

    async def bury_nodes(self, now: datetime, limit: int) -> Sequence[int]:
        buried = await self.connection.all(bury(min(limit, MOST)), now=now)
        if not buried:
            return []
        dead: dict[str, datetime] = dict(buried)
        rows = await self.connection.all(DROP_DEAD, nodes=list(dead))
        ended: dict[int, datetime] = {}
        for user_id, node in rows:
            ended[user_id] = max(dead[node], ended.get(user_id, dead[node]))
        await self._see(ended)
        return sorted(ended)

    async def _see(self, seen: Mapping[int, datetime]) -> None:
        user_ids = sorted(seen)
        await self.connection.run(SEE, user_ids=user_ids, times=[seen[each] for each in user_ids])


def _to_presence(row: Row, now: datetime) -> Presence:
    """The end of a lease ended its connections, though nobody may have buried the node yet."""
    user_id, seen_at, lease_until = row
    if lease_until is None or lease_until > now:
        return Presence(user_id, lease_until is not None, seen_at)
    return Presence(user_id, False, max(lease_until, seen_at or lease_until))
