"""The audit of operators' changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from attrs import asdict, frozen
from sqlalchemy import ColumnElement, Text, and_, bindparam, func, insert, or_, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import audit, users
from staffbooking_core.domain.accounts.audit import (
    BOOKING_SUBJECTS,
    AuditEntry,
    AuditSubject,
    NewAuditEntry,
)
from staffbooking_core.ports import ALL_ENTRIES, AuditFilters

ADD_AUDIT_ENTRY = Statement(
    insert(audit).values(
        {c.name: bindparam(c.name, type_=c.type) for c in audit.c if c.name != "id"}
    )
)


_ACTOR = func.coalesce(audit.c.actor, users.c.email)
_SELECT_NEWEST = (
    select(*(_ACTOR if each is audit.c.actor else each for each in audit.c))
    .join_from(audit, users, users.c.id == audit.c.actor_id, isouter=True)
    .order_by(audit.c.id.desc())
)


_CONDITIONS: Mapping[str, ColumnElement[bool]] = {
    "subject": audit.c.subject == bindparam("subject", type_=Text()),
    "code": and_(
        audit.c.subject_id == bindparam("code", type_=Text()),
        audit.c.subject.in_(sorted(BOOKING_SUBJECTS)),
    ),
}
_IS_BY: Mapping[str, ColumnElement[bool]] = {
    "actor_id": audit.c.actor_id == bindparam("actor_id", type_=BigInt),
    "actor": audit.c.actor == bindparam("actor", type_=Text()),
}
"""The conditions of the fields of `AuditFilters`; of those about the operator one is enough."""


@cache
def newest_audit_entries(size: int, *filters: str) -> Statement:
    found = _SELECT_NEWEST.where(*(_CONDITIONS[name] for name in filters if name in _CONDITIONS))
    if is_by := [_IS_BY[name] for name in filters if name in _IS_BY]:
        found = found.where(or_(*is_by))
    return Statement(found.limit(size).offset(OFFSET_PARAM))


@cache
def newest_audit_entries_about(size: int) -> Statement:
    return Statement(
        _SELECT_NEWEST.where(
            audit.c.subject_id == bindparam("subject_id", type_=Text()),
            audit.c.subject.in_((AuditSubject.PERSON, AuditSubject.COMPANION)),
        ).limit(size)
    )


@frozen
class AuditReader:
    """Reads the audit."""

    connection: Connection

    async def audit_entries(
        self, limit: int, offset: int = 0, filters: AuditFilters = ALL_ENTRIES
    ) -> Sequence[AuditEntry]:
        given = {name: value for name, value in asdict(filters).items() if value is not None}
        statement = newest_audit_entries(page_size(limit), *given)
        rows = await self.connection.fetch_all(statement, offset=offset, **given)
        return [_to_audit_entry(row) for row in rows[:limit]]

    async def audit_entries_about(self, user_id: int, limit: int) -> Sequence[AuditEntry]:
        statement = newest_audit_entries_about(page_size(limit))
        rows = await self.connection.fetch_all(statement, subject_id=str(user_id))
        return [_to_audit_entry(row) for row in rows[:limit]]


@frozen
class AuditWriter(AuditReader):
    """Reads and extends the audit."""

    async def add_audit_entry(self, entry: NewAuditEntry) -> None:
        await self.connection.execute(ADD_AUDIT_ENTRY, **asdict(entry, recurse=False))


def _to_audit_entry(row: Row) -> AuditEntry:
    values = dict(zip(audit.c.keys(), row, strict=True))
    return AuditEntry(**{**values, "subject": AuditSubject(values["subject"])})
