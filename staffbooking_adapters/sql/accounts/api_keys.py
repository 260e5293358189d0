"""Finds the callers of API keys; on PostgreSQL the same statement counts rate limit hits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Text,
    and_,
    any_,
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
    HIT_ROWS,
    WINDOW_COLUMNS,
    HitCount,
    count_hits_upsert,
    hit_parameters,
    to_window,
)
from staffbooking_adapters.sql.accounts.store import API_KEY_COLUMNS, to_api_key, to_user
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, split_text, split_text_rows
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Duration, Instant
from staffbooking_adapters.sql.schema.accounts import USER_COLUMNS, api_keys, users
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitWindow
from staffbooking_core.ports import ApiKeyCaller

ApiKeyHit: TypeAlias = tuple[str, Permission | None, RateLimit]
"""A hit of the key with a digest under a rule, counted only if the key grants the permission."""


_SELECT_CALLERS = select(
    *(column.label(f"key_{column.name}") for column in API_KEY_COLUMNS),
    *(column.label(f"owner_{column.name}") for column in USER_COLUMNS),
).join_from(api_keys, users, users.c.id == api_keys.c.owner_id)
FIND_CALLERS = Statement(_SELECT_CALLERS.where(in_array(api_keys.c.digest, "digests")))

_API_KEY_HIT_ROWS = split_text_rows(
    "asked",
    digest=("asked_digests", Text()),
    permission=("asked_permissions", Text()),
    rule=("asked_rules", Text()),
    seconds=("asked_seconds", BigInt),
)
"""The hits of keys; `seconds` is the length of the window."""
_NO_PERMISSION = "-"
"""Stands for a hit that needs no permission. A text that is empty would be no list of one value."""
_SECOND = timedelta(seconds=1)


def _is_permitted(callers: CTE) -> ColumnElement[bool]:
    """The condition of `check_api_key` in SQL, for each hit row."""
    now, caller = bindparam("now", type_=Instant), callers.c
    is_admin = caller.owner_role == Role.ADMIN
    comma = literal_column("','", Text())
    names, name = (
        comma + caller.key_permissions + comma,
        comma + _API_KEY_HIT_ROWS.c.permission + comma,
    )
    return and_(
        caller.key_revoked_at.is_(None),
        or_(caller.key_expires_at.is_(None), caller.key_expires_at > now),
        caller.owner_disabled_at.is_(None),
        or_(
            is_admin,
            and_(
                caller.owner_subscription == Subscription.ENTERPRISE,
                or_(
                    caller.owner_subscription_expires_at.is_(None),
                    caller.owner_subscription_expires_at > now,
                ),
            ),
        ),
        or_(
            is_admin,
            _API_KEY_HIT_ROWS.c.permission == _NO_PERMISSION,
            func.strpos(names, name) > 0,
        ),
    )


def _find_callers_and_count_hits() -> CompoundSelect[Any]:
    has_digest = api_keys.c.digest == any_(split_text("digests", Text()))
    callers = _SELECT_CALLERS.where(has_digest).cte("found")
    scope = (
        _API_KEY_HIT_ROWS.c.rule
        + literal_column("':key:'", Text())
        + cast(callers.c.key_id, Text())
    )
    permitted = (
        select(
            scope.label("scope"),
            literal_column("1", BigInt).label("n"),
            (
                bindparam("now", type_=Instant)
                + _API_KEY_HIT_ROWS.c.seconds * literal_column("interval '1 second'", Duration)
            ).label("resets_at"),
        )
        .join_from(_API_KEY_HIT_ROWS, callers, callers.c.key_digest == _API_KEY_HIT_ROWS.c.digest)
        .where(_is_permitted(callers))
    )
    hits = union_all(permitted, select(*HIT_ROWS.c)).subquery("hits_of_all")
    hits_by_scope = (
        select(hits.c.scope, cast(func.sum(hits.c.n), BigInt), func.max(hits.c.resets_at))
        .group_by(hits.c.scope)
        .order_by(hits.c.scope)
    )
    counted_windows = count_hits_upsert(hits_by_scope).cte("counted")
    rows: CompoundSelect[Any] = union_all(
        select(*counted_windows.c, *(null() for _ in callers.c)),
        select(*(null() for _ in counted_windows.c), *callers.c),
    )
    return rows


FIND_CALLERS_AND_COUNT_HITS = Statement(postgresql=_find_callers_and_count_hits())


async def find_callers(connection: Connection, digests: Iterable[str]) -> dict[str, ApiKeyCaller]:
    """The callers of the existing keys, by digest."""
    rows = await connection.fetch_all(FIND_CALLERS, digests=sorted(digests))
    return dict(map(_to_caller, rows))


async def find_callers_and_count_hits(
    connection: Connection,
    digests: Collection[str],
    key_hits: Sequence[ApiKeyHit],
    hits: Mapping[str, HitCount],
    now: datetime,
) -> tuple[dict[str, ApiKeyCaller], dict[str, RateLimitWindow]]:
    """Find callers and count hits. Returns the callers by digest and the windows by scope."""
    rows = await connection.fetch_all(
        FIND_CALLERS_AND_COUNT_HITS,
        **hit_parameters(hits, now),
        digests=",".join(digests),
        asked_digests=",".join([digest for digest, _, _ in key_hits]),
        asked_permissions=",".join([permission or _NO_PERMISSION for _, permission, _ in key_hits]),
        asked_rules=",".join([rule.name for _, _, rule in key_hits]),
        asked_seconds=",".join([str(rule.window // _SECOND) for _, _, rule in key_hits]),
        now=now,
    )
    windows = {row[0]: to_window(row) for row in rows if row[0] is not None}
    callers = dict(_to_caller(row[len(WINDOW_COLUMNS) :]) for row in rows if row[0] is None)
    return callers, windows


_MAX_KNOWN_CALLERS = 4096
_known_callers: dict[str, tuple[Row, ApiKeyCaller]] = {}
"""The rows of keys and the callers made of them, by digest: keys are used repeatedly."""


def _to_caller(row: Row) -> tuple[str, ApiKeyCaller]:
    """The digest and the caller of a row."""
    digest: str = row[3]
    known = _known_callers.get(digest)
    if known is None or known[0] != row:
        if len(_known_callers) >= _MAX_KNOWN_CALLERS:
            _known_callers.clear()
        caller = ApiKeyCaller(to_api_key(row), to_user(row[len(API_KEY_COLUMNS) :]))
        known = _known_callers[digest] = row, caller
    return digest, known[1]
