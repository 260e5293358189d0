"""Payees, the accounts of staff members at the processor: reads, claims and writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import fields, frozen
from sqlalchemy import ColumnElement, and_, bindparam, select, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.reader import parse_texts
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.leases import (
    LEASE_VALUES,
    MAX_CLAIM_SIZE,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.payments import is_payee_due, payees
from staffbooking_core.domain.payments.payees import OpenPayee, Payee
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease


def _parse_command(text: str) -> OpenPayee:
    return codec.load(text, OpenPayee)


PAYEE_COLUMNS = tuple(payees.c[field.name] for field in fields(Payee))
to_payee = RowMapper(Payee, PAYEE_COLUMNS, command=_parse_command, needs=parse_texts)

_PAYEE_VALUES = {column.name: bindparam(column.name, type_=column.type) for column in PAYEE_COLUMNS}
_IS_OF_PROVIDER = payees.c.provider == _PAYEE_VALUES["provider"]
_IS_PAYEE = and_(_IS_OF_PROVIDER, payees.c.companion_id == _PAYEE_VALUES["companion_id"])
_IS_LEASED_PAYEE = and_(_IS_PAYEE, is_held_by_caller(payees))

GET_PAYEE = Statement(select(*PAYEE_COLUMNS).where(_IS_PAYEE))
GET_PAYEE_BY_REF = Statement(
    select(*PAYEE_COLUMNS).where(_IS_OF_PROVIDER, payees.c.ref == _PAYEE_VALUES["ref"])
)
LOCK_PAYEE = Statement(select(*PAYEE_COLUMNS).where(_IS_LEASED_PAYEE).with_for_update())
SAVE_LEASED_PAYEE = Statement(
    update(payees).values(_PAYEE_VALUES).values(LEASE_VALUES).where(_IS_LEASED_PAYEE)
)
SAVE_AND_RELEASE_PAYEE = Statement(
    upsert(payees)
    .values(_PAYEE_VALUES)
    .on_conflict_do_update(
        index_elements=["provider", "companion_id"], set_={**_PAYEE_VALUES, **RELEASED_LEASE_VALUES}
    )
)


@cache
def claim_payees_statement(limit: int, is_for_companion: bool) -> Statement:
    is_due: ColumnElement[bool] = (
        _IS_PAYEE if is_for_companion else and_(_IS_OF_PROVIDER, is_payee_due)
    )
    return claim_with_lease(
        payees,
        is_due,
        (payees.c.next_at, payees.c.companion_id),
        limit,
        returning=PAYEE_COLUMNS,
    )


@frozen
class PayeesReader:
    """Reads payees."""

    connection: Connection

    async def payee(self, provider: str, companion_id: int) -> Payee | None:
        row = await self.connection.fetch_one(
            GET_PAYEE, provider=provider, companion_id=companion_id
        )
        return to_payee.map_optional(row)

    async def payee_by_ref(self, provider: str, ref: str) -> Payee | None:
        return to_payee.map_optional(
            await self.connection.fetch_one(GET_PAYEE_BY_REF, provider=provider, ref=ref)
        )


@frozen
class PayeesWriter(PayeesReader):
    """Claims, locks and writes payees."""

    async def claim_payees(
        self,
        provider: str,
        now: datetime,
        lease: Lease,
        limit: int,
        companion_id: int | None = None,
    ) -> Sequence[Payee]:
        is_for_companion = companion_id is not None
        statement = claim_payees_statement(min(limit, MAX_CLAIM_SIZE), is_for_companion)
        companion_params = {"companion_id": companion_id} if is_for_companion else {}
        rows = await self.connection.fetch_all(
            statement, provider=provider, now=now, **lease_parameters(lease), **companion_params
        )
        claimed = [to_payee(row) for row in rows]
        return sorted(claimed, key=lambda payee: (payee.next_at or now, payee.companion_id))

    async def lock_payee(self, provider: str, companion_id: int, lease: Lease) -> Payee:
        row = await self.connection.fetch_one(
            LOCK_PAYEE, provider=provider, companion_id=companion_id, held_by=lease.token
        )
        if row is None:
            raise Conflict("payee")
        return to_payee(row)

    async def save_payee(self, payee: Payee, lease: Lease | None = None) -> None:
        params = {name: getattr(payee, name) for name in _PAYEE_VALUES}
        params["command"] = codec.dump(payee.command)
        params["needs"] = codec.dump(payee.needs)
        if lease is None:
            await self.connection.execute(SAVE_AND_RELEASE_PAYEE, **params)
        elif not await self.connection.execute(
            SAVE_LEASED_PAYEE, **params, **lease_parameters(lease), held_by=lease.token
        ):
            raise Conflict("payee")
