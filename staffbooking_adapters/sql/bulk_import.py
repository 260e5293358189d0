"""Bulk imports: each statement writes many staff members; stores the import's progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, delete, insert, select, text, true, update

from staffbooking_adapters.sql.accounts.people import add_terms, save_terms
from staffbooking_adapters.sql.accounts.store import NEW_USER_DEFAULTS, to_user
from staffbooking_adapters.sql.companions.batch_writes import save_companions
from staffbooking_adapters.sql.companions.reader import COMPANION_COLUMNS, to_companion
from staffbooking_adapters.sql.engine.composite import BatchStatement
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import batch_rows, claim_rows, in_array, upsert
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper, field_values_getter
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.accounts import (
    USER_COLUMNS,
    WRITABLE_USER_COLUMNS,
    sessions,
    users,
)
from staffbooking_adapters.sql.schema.companions import companions
from staffbooking_adapters.sql.schema.imports import imports, skipped_rows
from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.policy import Policy
from staffbooking_core.ports import ImportProgress, NewUser, SkippedRow

IMPORT_COLUMNS = tuple(imports.c)
to_import = RowMapper(ImportProgress, IMPORT_COLUMNS)
_SKIPPED_ROW_COLUMNS = (skipped_rows.c.line, skipped_rows.c.email, skipped_rows.c.reason)
to_skipped_row = RowMapper(SkippedRow, _SKIPPED_ROW_COLUMNS)

_SELECT_IMPORT = select(*IMPORT_COLUMNS).where(imports.c.fingerprint == bindparam("file"))
LOCK_IMPORT = Statement(_SELECT_IMPORT.with_for_update())
_UPSERT_IMPORT = upsert(imports).values(
    {c.name: bindparam(c.name, type_=c.type) for c in IMPORT_COLUMNS}
)
SAVE_IMPORT = Statement(
    _UPSERT_IMPORT.on_conflict_do_update(
        index_elements=["fingerprint"],
        set_={c.name: _UPSERT_IMPORT.excluded[c.name] for c in IMPORT_COLUMNS[1:]},
    )
)
DELETE_IMPORT = Statement(delete(imports).where(imports.c.fingerprint == bindparam("file")))
DELETE_SKIPPED_ROWS = Statement(
    delete(skipped_rows).where(skipped_rows.c.fingerprint == bindparam("file"))
)
_NEW_SKIPPED_ROWS = batch_rows("given", **{column.name: column.type for column in skipped_rows.c})
ADD_SKIPPED_ROWS = BatchStatement(
    insert(skipped_rows).from_select(
        list(_NEW_SKIPPED_ROWS.c.keys()), select(_NEW_SKIPPED_ROWS).where(true())
    )
)

# Cached plans were made when the tables had fewer rows.
FORCE_CUSTOM_PLANS = Statement(postgresql=text("SET LOCAL plan_cache_mode = force_custom_plan"))
LOCK_USERS_BY_EMAIL = Statement(
    select(*USER_COLUMNS)
    .where(in_array(users.c.email_folded, "folded"))
    .order_by(users.c.id)
    .with_for_update(key_share=True)
)
LOCK_COMPANIONS_BY_ID = Statement(
    select(*COMPANION_COLUMNS)
    .where(in_array(companions.c.id, "ids"))
    .order_by(companions.c.id)
    .with_for_update(key_share=True)
)
FIND_USER_IDS_BY_EMAIL = Statement(
    select(users.c.email_folded, users.c.id).where(in_array(users.c.email_folded, "folded"))
)
_USER_COLUMN_TYPES = {column.name: column.type for column in WRITABLE_USER_COLUMNS}
_NEW_USER_ROWS = batch_rows("given", **_USER_COLUMN_TYPES)
ADD_USERS = BatchStatement(
    insert(users).from_select(list(_USER_COLUMN_TYPES), select(_NEW_USER_ROWS).where(true()))
)
_EXISTING_USER_ROWS = batch_rows("given", id=users.c.id.type, **_USER_COLUMN_TYPES)
SAVE_USERS = BatchStatement(
    update(users)
    .values({name: _EXISTING_USER_ROWS.c[name] for name in _USER_COLUMN_TYPES})
    .where(users.c.id == _EXISTING_USER_ROWS.c.id)
)
DELETE_SESSIONS_OF_USERS = Statement(delete(sessions).where(in_array(sessions.c.user_id, "ids")))
_new_user_values, _user_values = field_values_getter(NewUser), field_values_getter(User)
_companion_values_without_id = attrgetter(*(field.name for field in fields(Companion)[1:]))


@cache
def skipped_rows_after(size: int) -> Statement:
    is_of_file = skipped_rows.c.fingerprint == bindparam("file")
    after = select(*_SKIPPED_ROW_COLUMNS).where(
        is_of_file, skipped_rows.c.line > bindparam("after_line")
    )
    return Statement(after.order_by(skipped_rows.c.line).limit(size))


@frozen
class ImportsReader:
    """Reads the skipped rows of imports."""

    connection: Connection

    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        params = {"file": fingerprint, "after_line": after_line}
        rows = await self.connection.fetch_all(skipped_rows_after(page_size(limit)), **params)
        return [to_skipped_row(row) for row in rows[:limit]]


@frozen
class ImportsWriter(ImportsReader):
    """Writes imported staff members and the import's progress."""

    policy: Policy

    async def lock_progress(self, fingerprint: str) -> ImportProgress | None:
        return to_import.map_optional(
            await self.connection.fetch_one(LOCK_IMPORT, file=fingerprint)
        )

    async def save_progress(
        self, progress: ImportProgress, skipped: Sequence[SkippedRow] = ()
    ) -> None:
        await self.connection.execute(SAVE_IMPORT, **asdict(progress))
        file = progress.fingerprint
        await ADD_SKIPPED_ROWS.execute(
            self.connection, [_skipped_row_params(file, row) for row in skipped]
        )

    async def delete_progress(self, fingerprint: str) -> None:
        await self.connection.execute(DELETE_IMPORT, file=fingerprint)
        await self.connection.execute(DELETE_SKIPPED_ROWS, file=fingerprint)

    async def lock_users_by_email(
        self, emails: Sequence[str]
    ) -> Sequence[tuple[User, Companion | None]]:
        await self.connection.execute(FORCE_CUSTOM_PLANS)
        rows = await self.connection.fetch_all(
            LOCK_USERS_BY_EMAIL, folded=[*map(normalize_email, emails)]
        )
        if not rows:
            return []
        found = [to_user(row) for row in rows]
        ids = [user.id for user in found]
        companions_found = map(
            to_companion, await self.connection.fetch_all(LOCK_COMPANIONS_BY_ID, ids=ids)
        )
        companions_by_id = {companion.id: companion for companion in companions_found}
        return [(user, companions_by_id.get(user.id)) for user in found]

    async def add_staff_members(self, staff_members: Sequence[tuple[NewUser, Companion]]) -> None:
        if not staff_members:
            return
        rows = [
            {**_new_user_values(new), **_folded_email_values(new), **NEW_USER_DEFAULTS}
            for new, _ in staff_members
        ]
        await ADD_USERS.execute(self.connection, rows)
        folded = [row["email_folded"] for row in rows]
        ids: dict[str, int] = dict(
            await self.connection.fetch_all(FIND_USER_IDS_BY_EMAIL, folded=folded)
        )
        added = [
            Companion(ids[email], *_companion_values_without_id(companion))
            for email, (_, companion) in zip(folded, staff_members, strict=True)
        ]
        await save_companions(self.connection, self.policy, added)
        await add_terms(
            self.connection,
            [
                User(id=ids[email], **_new_user_values(new))
                for email, (new, _) in zip(folded, staff_members, strict=True)
            ],
        )

    async def save_staff_members(self, staff_members: Sequence[tuple[User, Companion]]) -> None:
        if not staff_members:
            return
        rows = [{**_user_values(user), **_folded_email_values(user)} for user, _ in staff_members]
        await SAVE_USERS.execute(self.connection, rows)
        await save_companions(
            self.connection, self.policy, [companion for _, companion in staff_members]
        )
        await save_terms(self.connection, [user for user, _ in staff_members])

    async def end_sessions_of_users(self, user_ids: Sequence[int]) -> None:
        if user_ids:
            await self.connection.execute(DELETE_SESSIONS_OF_USERS, ids=user_ids)


def _folded_email_values(user: User | NewUser) -> Mapping[str, str]:
    return {"email_folded": normalize_email(user.email)}


def _skipped_row_params(file: str, row: SkippedRow) -> Mapping[str, Any]:
    folded = None if row.email is None else normalize_email(row.email)
    return {"fingerprint": file, "email_folded": folded, **asdict(row)}


# Deletion of expired rows ---------------------------------------------------------------

MAX_DELETED_ROWS = 500
"""Number of skipped rows that are deleted in one transaction."""

# At line 0 the file begins anew: a resumed import would report rows of which some are deleted.
RESET_OLD_IMPORT = Statement(
    claim_rows(
        imports,
        is_due=imports.c.at <= bindparam("before", type_=Instant),
        order_by=[imports.c.at],
        limit=1,
        values={"line": 0, "imported": 0, "updated": 0, "skipped": 0},
        returning=[imports.c.fingerprint],
    )
)
_IS_OF_FILE = skipped_rows.c.fingerprint == bindparam("file")
DELETE_SKIPPED_ROWS_OF_FILE = Statement(
    delete(skipped_rows)
    .where(
        _IS_OF_FILE,
        skipped_rows.c.line.in_(
            select(skipped_rows.c.line)
            .where(_IS_OF_FILE)
            .order_by(skipped_rows.c.line)
            .limit(MAX_DELETED_ROWS)
        ),
    )
    .returning(skipped_rows.c.line)
)


async def delete_old_import(database: Database, before: datetime) -> int:
    """Delete the progress of an import that was not continued since then, or some of its skipped
    rows, and then it begins anew; returns the number of rows."""

    async def delete_in_transaction(connection: Connection) -> int:
        file = await connection.fetch_value(RESET_OLD_IMPORT, before=before)
        if file is None:
            return 0
        rows = len(await connection.fetch_all(DELETE_SKIPPED_ROWS_OF_FILE, file=file))
        is_last = rows < MAX_DELETED_ROWS
        return rows + (await connection.execute(DELETE_IMPORT, file=file) if is_last else 0)

    return await database.run_transaction(delete_in_transaction)
