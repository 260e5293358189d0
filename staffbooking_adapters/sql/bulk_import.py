"""Imports: staff members many at a time, in as many statements as for one, and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, delete, insert, select, text, true, update

from staffbooking_adapters.sql.accounts.store import USER, to_user
from staffbooking_adapters.sql.companions.reader import COMPANION, to_companion
from staffbooking_adapters.sql.companions.writer import save_companions
from staffbooking_adapters.sql.engine.composite import Batch
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import given_rows, in_array, upsert
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader, fields_of
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.accounts import imports, skipped_rows
from staffbooking_adapters.sql.schema.bookings import companions, sessions, users
from staffbooking_core.domain.accounts.users import User, fold_email
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Import, NewUser, SkippedRow

IMPORT = tuple(imports.c)
to_import = Reader(Import, IMPORT)
_SKIPPED = (skipped_rows.c.line, skipped_rows.c.email, skipped_rows.c.reason)
to_skipped = Reader(SkippedRow, _SKIPPED)

_PROGRESS = select(*IMPORT).where(imports.c.fingerprint == bindparam("file"))
LOCK = Statement(_PROGRESS.with_for_update())
_NEW = upsert(imports).values({c.name: bindparam(c.name, type_=c.type) for c in IMPORT})
SAVE = Statement(
    _NEW.on_conflict_do_update(
        index_elements=["fingerprint"], set_={c.name: _NEW.excluded[c.name] for c in IMPORT[1:]}
    )
)
FORGET = Statement(delete(imports).where(imports.c.fingerprint == bindparam("file")))
FORGET_SKIPPED = Statement(
    delete(skipped_rows).where(skipped_rows.c.fingerprint == bindparam("file"))
)
_STAYED_OUT = given_rows("given", **{column.name: column.type for column in skipped_rows.c})
SKIP = Batch(
    insert(skipped_rows).from_select(list(_STAYED_OUT.c.keys()), select(_STAYED_OUT).where(true()))
)

# The plans that are kept were made for tables of another size, and for few people.
PLAN_ANEW = Statement(postgresql=text("SET LOCAL plan_cache_mode = force_custom_plan"))
LOCK_USERS = Statement(
    select(*USER)
    .where(in_array(users.c.email_folded, "folded"))
    .order_by(users.c.id)
    .with_for_update(key_share=True)
)
LOCK_COMPANIONS = Statement(
    select(*COMPANION)
    .where(in_array(companions.c.id, "ids"))
    .order_by(companions.c.id)
    .with_for_update(key_share=True)
)
IDS = Statement(
    select(users.c.email_folded, users.c.id).where(in_array(users.c.email_folded, "folded"))
)
_FIELDS = {column.name: column.type for column in users.c if column is not users.c.id}
_NEWCOMERS = given_rows("given", **_FIELDS)
ADD_USERS = Batch(insert(users).from_select(list(_FIELDS), select(_NEWCOMERS).where(true())))
_KNOWN = given_rows("given", id=users.c.id.type, **_FIELDS)
SAVE_USERS = Batch(
    update(users)
    .values({name: _KNOWN.c[name] for name in _FIELDS})
    .where(users.c.id == _KNOWN.c.id)
)
END_SESSIONS = Statement(delete(sessions).where(in_array(sessions.c.user_id, "ids")))
_NOT_YET = dict.fromkeys(("disabled_at", "email_verified_at", "erased_at"))
_of_new, _of_user = fields_of(NewUser), fields_of(User)
_behind_id = attrgetter(*(field.name for field in fields(Companion)[1:]))


@cache
def skipped_after(size: int) -> Statement:
    mine = skipped_rows.c.fingerprint == bindparam("file")
    after = select(*_SKIPPED).where(mine, skipped_rows.c.line > bindparam("after_line"))
    return Statement(after.order_by(skipped_rows.c.line).limit(size))


@frozen
class ImportsReader:
    connection: Connection

    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        given = {"file": fingerprint, "after_line": after_line}
        rows = await self.connection.all(skipped_after(page_size(limit)), **given)
        return [to_skipped(row) for row in rows[:limit]]


@frozen
class ImportsWriter(ImportsReader):
    policy: Policy

    async def lock(self, fingerprint: str) -> Import | None:
        return to_import.optional(await self.connection.one(LOCK, file=fingerprint))

    async def save(self, progress: Import, skipped: Sequence[SkippedRow] = ()) -> None:
        await self.connection.run(SAVE, **asdict(progress))
        file = progress.fingerprint
        await SKIP.run(self.connection, [_skipped_row(file, row) for row in skipped])

    async def forget(self, fingerprint: str) -> None:
        await self.connection.run(FORGET, file=fingerprint)
        await self.connection.run(FORGET_SKIPPED, file=fingerprint)

    async def lock_people(self, emails: Sequence[str]) -> Sequence[tuple[User, Companion | None]]:
        await self.connection.run(PLAN_ANEW)
        rows = await self.connection.all(LOCK_USERS, folded=[*map(fold_email, emails)])
        if not rows:
            return []
        found = [to_user(row) for row in rows]
        ids = [user.id for user in found]
        held = map(to_companion, await self.connection.all(LOCK_COMPANIONS, ids=ids))
        known = {companion.id: companion for companion in held}
        return [(user, known.get(user.id)) for user in found]

    async def add_people(self, people: Sequence[tuple[NewUser, Companion]]) -> None:
        if not people:
            return
        rows = [{**_of_new(new), **_folded(new), **_NOT_YET} for new, _ in people]
        await ADD_USERS.run(self.connection, rows)
        folded = [row["email_folded"] for row in rows]
        ids: dict[str, int] = dict(await self.connection.all(IDS, folded=folded))
        added = [
            Companion(ids[email], *_behind_id(companion))
            for email, (_, companion) in zip(folded, people, strict=True)
        ]
        await save_companions(self.connection, self.policy, added)

    async def save_people(self, people: Sequence[tuple[User, Companion]]) -> None:
        if not people:
            return
        rows = [{**_of_user(user), **_folded(user)} for user, _ in people]
        await SAVE_USERS.run(self.connection, rows)
        await save_companions(self.connection, self.policy, [companion for _, companion in people])

    async def end_sessions(self, user_ids: Sequence[int]) -> None:
        if user_ids:
            await self.connection.run(END_SESSIONS, ids=user_ids)


def _folded(user: User | NewUser) -> Mapping[str, str]:
    return {"email_folded": fold_email(user.email)}


def _skipped_row(file: str, row: SkippedRow) -> Mapping[str, Any]:
    folded = None if row.email is None else fold_email(row.email)
    return {"fingerprint": file, "email_folded": folded, **asdict(row)}


# Sweeping -------------------------------------------------------------------------------

DROP = Statement(
    delete(imports)
    .where(imports.c.at <= bindparam("old_since", type_=Instant))
    .returning(imports.c.fingerprint)
)
DROP_SKIPPED = Statement(delete(skipped_rows).where(in_array(skipped_rows.c.fingerprint, "files")))


async def drop_imports(database: Database, old_since: datetime) -> int:
    """Forget the files that nobody went on with since then; how many rows went."""

    async def unit(connection: Connection) -> int:
        files = [name for (name,) in await connection.all(DROP, old_since=old_since)]
        return len(files) + (await connection.run(DROP_SKIPPED, files=files) if files else 0)

    return await database.write(unit)
