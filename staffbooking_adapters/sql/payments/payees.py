"""Payees: the staff members' accounts at the processor, and the work on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import ColumnElement, and_, bindparam, select, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.reader import to_texts
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.leases import (
    HELD,
    MOST,
    NOW,
    RELEASED,
    claiming,
    is_held,
    terms,
)
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.payments import payees
from staffbooking_core.domain.payments.payees import OpenPayee, Payee
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease


def _command(text: str) -> OpenPayee:
    return codec.load(text, OpenPayee)


PAYEE = tuple(payees.c)[:-2]
to_payee = Reader(Payee, PAYEE, command=_command, needs=to_texts)

_FIELDS = {column.name: bindparam(column.name, type_=column.type) for column in PAYEE}
_IS_PROVIDERS = payees.c.provider == _FIELDS["provider"]
_IS_IT = and_(_IS_PROVIDERS, payees.c.companion_id == _FIELDS["companion_id"])
_IS_MINE = and_(_IS_IT, is_held(payees))

GET = Statement(select(*PAYEE).where(_IS_IT))
GET_BY_REF = Statement(select(*PAYEE).where(_IS_PROVIDERS, payees.c.ref == _FIELDS["ref"]))
LOCK = Statement(select(*PAYEE).where(_IS_MINE).with_for_update())
KEEP = Statement(update(payees).values(_FIELDS).values(HELD).where(_IS_MINE))
RELEASE = Statement(
    upsert(payees)
    .values(_FIELDS)
    .on_conflict_do_update(
        index_elements=["provider", "companion_id"], set_={**_FIELDS, **RELEASED}
    )
)


@cache
def claim_payees(limit: int, of_companion: bool) -> Statement:
    due: ColumnElement[bool] = (
        _IS_IT if of_companion else and_(_IS_PROVIDERS, payees.c.next_at <= NOW)
    )
    return claiming(
        payees,
        due,
        (payees.c.next_at, payees.c.companion_id),
        limit,
        returning=PAYEE,
    )


@frozen
class PayeesReader:
    connection: Connection

    async def payee(self, provider: str, companion_id: int) -> Payee | None:
        row = await self.connection.one(GET, provider=provider, companion_id=companion_id)
        return to_payee.optional(row)

    async def payee_by_ref(self, provider: str, ref: str) -> Payee | None:
        return to_payee.optional(await self.connection.one(GET_BY_REF, provider=provider, ref=ref))


@frozen
class PayeesWriter(PayeesReader):
    async def claim_payees(
        self,
        provider: str,
        now: datetime,
        lease: Lease,
        limit: int,
        companion_id: int | None = None,
    ) -> Sequence[Payee]:
        of_companion = companion_id is not None
        statement = claim_payees(min(limit, MOST), of_companion)
        given = {"companion_id": companion_id} if of_companion else {}
        rows = await self.connection.all(
            statement, provider=provider, now=now, **terms(lease), **given
        )
        claimed = [to_payee(row) for row in rows]
        return sorted(claimed, key=lambda payee: (payee.next_at or now, payee.companion_id))

    async def lock_payee(self, provider: str, companion_id: int, lease: Lease) -> Payee:
        row = await self.connection.one(
            LOCK, provider=provider, companion_id=companion_id, held_by=lease.token
        )
        if row is None:
            raise Conflict("payee")
        return to_payee(row)

    async def save_payee(self, payee: Payee, lease: Lease | None = None) -> None:
        fields = {name: getattr(payee, name) for name in _FIELDS}
        fields["command"] = codec.dump(payee.command)
        fields["needs"] = codec.dump(payee.needs)
        if lease is None:
            await self.connection.run(RELEASE, **fields)
        elif not await self.connection.run(KEEP, **fields, **terms(lease), held_by=lease.token):
            raise Conflict("payee")
