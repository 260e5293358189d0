"""Claims: due work is taken for a while by a lease, and given back or kept by its token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, bindparam, or_

from staffbooking_adapters.sql.engine.dialect import claim_rows
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_core.ports import Lease

MAX_CLAIM_SIZE = 500
"""So many rows are claimed at a time, at most."""

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
    """Whether the claim is still the holder's, who passes `held_by`: one that ran out is,
    until another claims."""
    return table.c.lease_token == bindparam("held_by")


def is_lease_free(table: Table) -> ColumnElement[bool]:
    """Whether nobody's lease runs."""
    return or_(table.c.lease_until.is_(None), table.c.lease_until <= NOW_PARAM)


def claim_with_lease(
    table: Table,
    is_due: ColumnElement[bool],
    order_by: Sequence[ColumnElement[Any]],
    limit: int,
    returning: Sequence[ColumnElement[Any]],
    values: Mapping[str, Any] = LEASE_VALUES,
) -> Statement:
    """Take due rows on which no lease runs."""
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
    """The parameters of HELD."""
    return {"token": lease.token, "until": lease.until}
