"""Claims of due rows by lease: a token and an expiry, set and checked in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, bindparam, or_

from staffbooking_adapters.sql.engine.dialect import claim_rows
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_core.ports import Lease

MAX_CLAIM_SIZE = 500
"""Maximum number of rows in one claim."""

NOW_PARAM = bindparam("now", type_=Instant)
"""Wall time."""
BUSINESS_NOW_PARAM = bindparam("business", type_=Instant)
"""Business time, which the sandbox moves."""
LEASE_VALUES: Mapping[str, Any] = {
    "lease_token": bindparam("token"),
    "lease_until": bindparam("until", type_=Instant),
}
RELEASED_LEASE_VALUES: Mapping[str, Any] = {"lease_token": None, "lease_until": None}


def is_held_by_caller(table: Table) -> ColumnElement[bool]:
    """Whether the row's lease token equals the parameter `held_by`.

    An expired lease still counts as held until another worker claims the row.
    """
    return table.c.lease_token == bindparam("held_by")


def is_lease_free(table: Table) -> ColumnElement[bool]:
    """Whether the row has no lease, or an expired one."""
    return or_(table.c.lease_until.is_(None), table.c.lease_until <= NOW_PARAM)


def claim_with_lease(
    table: Table,
    is_due: ColumnElement[bool],
    order_by: Sequence[ColumnElement[Any]],
    limit: int,
    returning: Sequence[ColumnElement[Any]],
    values: Mapping[str, Any] = LEASE_VALUES,
) -> Statement:
    """Claim due rows whose lease is free."""
    return Statement(
        claim_rows(
            table,
            is_due=and_(is_lease_free(table), is_due),
            order_by=order_by,
            limit=limit,
            values=values,
            returning=returning,
        )
    )


def lease_parameters(lease: Lease) -> dict[str, Any]:
    """The parameters of `LEASE_VALUES`."""
    return {"token": lease.token, "until": lease.until}
