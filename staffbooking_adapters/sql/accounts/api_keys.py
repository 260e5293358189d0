"""The callers of API keys: found in one statement, on PostgreSQL counted in it as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    union_all,
)

from staffbooking_adapters.sql.accounts.rate_limits import (
    HITS,
    WINDOW,
    Hits,
    counting,
    hit_rows,
    to_window,
)
from staffbooking_adapters.sql.accounts.store import KEY, USER, to_key, to_user
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, rowset
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import api_keys, users
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.shared.rate_limits import Rule, Window
from staffbooking_core.ports import KeyCaller


@frozen
class KeyedHit:
    """A rule's window of a key, to be counted if the key may be used for `permission`."""

    digest: str
    permission: Permission | None
    rule: Rule


_FOUND = (
    select(
        *(column.label(f"key_{column.name}") for column in KEY),
        *(column.label(f"owner_{column.name}") for column in USER),
    )
    .join_from(api_keys, users, users.c.id == api_keys.c.owner_id)
    .where(in_array(api_keys.c.digest, "digests"))
)
FIND = Statement(_FOUND)

_ASKED = rowset(
    "asked",
    digest=("asked_digests", Text()),
    permission=("asked_permissions", Text()),
    rule=("asked_rules", Text()),
    n=("asked_numbers", BigInt),
    resets_at=("asked_ends", Instant),
)
"""Of each `permission`, "" stands for none."""


def _is_permitted(found: CTE) -> ColumnElement[bool]:
    """What `accounts.judge_key` decides of a key for what is asked."""
    now, has = bindparam("now", type_=Instant), found.c
    is_admin = has.owner_role == Role.ADMIN
    comma = literal_column("','", Text())
    names, name = comma + has.key_permissions + comma, comma + _ASKED.c.permission + comma
    return and_(
        has.key_revoked_at.is_(None),
        or_(has.key_expires_at.is_(None), has.key_expires_at > now),
        has.owner_disabled_at.is_(None),
        or_(
            is_admin,
            and_(
                has.owner_subscription == Subscription.ENTERPRISE,
                or_(
                    has.owner_subscription_expires_at.is_(None),
                    has.owner_subscription_expires_at > now,
                ),
            ),
        ),
        or_(is_admin, _ASKED.c.permission == "", func.strpos(names, name) > 0),
    )


def _find_and_count() -> CompoundSelect[Any]:
    found = _FOUND.cte("found")
    scope = _ASKED.c.rule + literal_column("':key:'", Text()) + cast(found.c.key_id, Text())
    permitted = (
        select(scope.label("scope"), _ASKED.c.n, _ASKED.c.resets_at)
        .join_from(_ASKED, found, found.c.key_digest == _ASKED.c.digest)
        .where(_is_permitted(found))
    )
    hits = union_all(permitted, select(*HITS.c)).subquery("hits_of_all")
    together = (
        select(hits.c.scope, cast(func.sum(hits.c.n), BigInt), func.max(hits.c.resets_at))
        .group_by(hits.c.scope)
        .order_by(hits.c.scope)
    )
    counted = counting(together).cte("counted")
    rows: CompoundSelect[Any] = union_all(
        select(*counted.c, *(null() for _ in found.c)),
        select(*(null() for _ in counted.c), *found.c),
    )
    return rows


FIND_AND_COUNT = Statement(postgresql=_find_and_count())


async def find_callers(connection: Connection, digests: Iterable[str]) -> dict[str, KeyCaller]:
    """Those of the keys that there are, by digest."""
    rows = await connection.all(FIND, digests=sorted(digests))
    return dict(map(_to_caller, rows))


async def find_and_count(
    connection: Connection,
    digests: Collection[str],
    keyed: Mapping[KeyedHit, int],
    hits: Mapping[str, Hits],
    now: datetime,
) -> tuple[dict[str, KeyCaller], dict[str, Window]]:
    """The callers by digest, and by scope how each window stands in which hits counted."""
    rows = await connection.all(
        FIND_AND_COUNT,
        **hit_rows(hits, now),
        digests=sorted(digests),
        asked_digests=[hit.digest for hit in keyed],
        asked_permissions=[hit.permission or "" for hit in keyed],
        asked_rules=[hit.rule.name for hit in keyed],
        asked_numbers=list(keyed.values()),
        asked_ends=[now + hit.rule.window for hit in keyed],
        now=now,
    )
    windows = {row[0]: to_window(row) for row in rows if row[0] is not None}
    callers = dict(_to_caller(row[len(WINDOW) :]) for row in rows if row[0] is None)
    return callers, windows


@lru_cache(maxsize=4096)
def _to_caller(row: Row) -> tuple[str, KeyCaller]:
    """The same row makes the same caller: most requests show a key that was just read."""
    digest: str = row[3]
    return digest, KeyCaller(to_key(row), to_user(row[len(KEY) :]))
