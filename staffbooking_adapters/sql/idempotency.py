"""Stored responses of calls with an idempotency key."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import fields, frozen
from sqlalchemy import (
    ColumnElement,
    Delete,
    Insert,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    true,
    update,
)

from staffbooking_adapters.sql.engine.composite import parameters_for
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.leases import (
    LEASE_VALUES,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.idempotency import answers
from staffbooking_core.policy import Policy
from staffbooking_core.ports import IN_PROGRESS, Lease, StoredResponse

_COLUMNS = tuple(answers.c[field.name] for field in fields(StoredResponse))
to_stored_response = RowMapper(StoredResponse, _COLUMNS)

_IS_KEY = and_(
    answers.c.scope == bindparam("answer_scope"), answers.c.key == bindparam("answer_key")
)
GET_STORED_RESPONSE = Statement(select(*_COLUMNS).where(_IS_KEY, answers.c.expires_at > NOW_PARAM))
_STORED_RESPONSE_VALUES = {c.name: bindparam(f"answer_{c.name}", type_=c.type) for c in _COLUMNS}


def _delete_expired_response(condition: ColumnElement[bool]) -> Delete:
    return delete(answers).where(
        answers.c.scope == _STORED_RESPONSE_VALUES["scope"],
        answers.c.key == _STORED_RESPONSE_VALUES["key"],
        answers.c.expires_at <= bindparam("answer_made_at", type_=Instant),
        condition,
    )


def _insert_response(condition: ColumnElement[bool]) -> Insert:
    return insert(answers).from_select(
        list(_STORED_RESPONSE_VALUES), select(*_STORED_RESPONSE_VALUES.values()).where(condition)
    )


def _delete_expired_and_insert_response(condition: ColumnElement[bool]) -> Insert:
    """The insertion runs after the deletion, since it selects from its count."""
    expired = _delete_expired_response(true())
    deleted = expired.returning(literal_column("1").label("one")).cte("dropped")
    deleted_count = select(func.count().label("rows")).select_from(deleted).subquery("then")
    return insert(answers).from_select(
        list(_STORED_RESPONSE_VALUES),
        select(*_STORED_RESPONSE_VALUES.values())
        .select_from(deleted_count)
        .where(deleted_count.c.rows >= 0, condition),
    )


RESPONSE_WRITES = (_delete_expired_and_insert_response,)
"""The writes of a composite statement that store a response."""
SQLITE_RESPONSE_WRITES = (_delete_expired_response, _insert_response)
"""The same on SQLite, which has no write in a CTE."""
DELETE_EXPIRED_RESPONSE = Statement(sqlite=_delete_expired_response(true()))
SAVE_RESPONSE = Statement(
    postgresql=_delete_expired_and_insert_response(true()), sqlite=_insert_response(true())
)

_CLAIM_INSERT = upsert(answers).values(**_STORED_RESPONSE_VALUES, **LEASE_VALUES)
_IS_ABANDONED = and_(
    answers.c.status == IN_PROGRESS,
    answers.c.lease_until <= NOW_PARAM,
    answers.c.fingerprint == _STORED_RESPONSE_VALUES["fingerprint"],
)
CLAIM_KEY = Statement(
    _CLAIM_INSERT.on_conflict_do_update(
        index_elements=["scope", "key"],
        set_={**_STORED_RESPONSE_VALUES, **LEASE_VALUES},
        where=or_(answers.c.expires_at <= NOW_PARAM, _IS_ABANDONED),
    )
)
FINISH_CALL = Statement(
    update(answers)
    .where(_IS_KEY, is_held_by_caller(answers))
    .values(**_STORED_RESPONSE_VALUES, **RELEASED_LEASE_VALUES)
)
RELEASE_KEY = Statement(delete(answers).where(_IS_KEY, is_held_by_caller(answers)))


def stored_response_params(response: StoredResponse, policy: Policy) -> dict[str, Any]:
    """The parameters of the statements that store a response."""
    return {
        **_response_row(response),
        "answer_made_at": response.expires_at - policy.idempotency_lifetime,
    }


def _response_row(response: StoredResponse) -> dict[str, Any]:
    return {f"answer_{name}": getattr(response, name) for name in _STORED_RESPONSE_VALUES}


@frozen
class IdempotencyReader:
    """Reads stored responses."""

    connection: Connection

    async def stored_response(self, scope: str, key: str, now: datetime) -> StoredResponse | None:
        row = await self.connection.fetch_one(
            GET_STORED_RESPONSE, answer_scope=scope, answer_key=key, now=now
        )
        return to_stored_response.map_optional(row)


@frozen
class IdempotencyWriter(IdempotencyReader):
    """Writes stored responses."""

    policy: Policy

    async def save_response(self, response: StoredResponse) -> None:
        row = stored_response_params(response, self.policy)
        for statement in (DELETE_EXPIRED_RESPONSE, SAVE_RESPONSE):
            await self.connection.execute(
                statement, **parameters_for(statement, self.connection, row)
            )

    async def claim_key(self, claim: StoredResponse, lease: Lease, now: datetime) -> bool:
        row = _response_row(claim) | lease_parameters(lease)
        return bool(await self.connection.execute(CLAIM_KEY, **row, now=now))

    async def finish_call(self, response: StoredResponse, lease: Lease) -> bool:
        row = _response_row(response)
        return bool(await self.connection.execute(FINISH_CALL, **row, held_by=lease.token))

    async def release_key(self, scope: str, key: str, lease: Lease) -> None:
        await self.connection.execute(
            RELEASE_KEY, answer_scope=scope, answer_key=key, held_by=lease.token
        )
