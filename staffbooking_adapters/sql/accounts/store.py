"""Users, sessions and API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, evolve, frozen
from sqlalchemy import bindparam, delete, insert, select, update

from staffbooking_adapters.sql.companions.reader import CompanionsWriter
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.schema.bookings import api_keys, sessions, users
from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Role, Session, Subscription, User, fold_email
from staffbooking_core.policy import Policy
from staffbooking_core.ports import NewKey, NewUser


def _permissions(text: str) -> frozenset[Permission]:
    return frozenset(map(Permission, filter(None, text.split(","))))


USER = tuple(column for column in users.c if column is not users.c.email_folded)
to_user = Reader(User, USER, role=Role, subscription=Subscription)
SESSION = tuple(sessions.c)
to_session = Reader(Session, SESSION, digest=bytes.fromhex)
KEY = tuple(api_keys.c)
to_key = Reader(ApiKey, KEY, digest=bytes.fromhex, permissions=_permissions)

_BY_ID = select(*USER).where(users.c.id == bindparam("user_id"))
GET_USER = Statement(_BY_ID)
LOCK_USER = Statement(_BY_ID.with_for_update(key_share=True))
FIND_USER = Statement(select(*USER).where(users.c.email_folded == bindparam("folded")))
_USER_FIELDS = [column for column in users.c if column is not users.c.id]
_USER_VALUES = {column.name: bindparam(column.name, type_=column.type) for column in _USER_FIELDS}
_NOT_YET = dict.fromkeys(("disabled_at", "email_verified_at", "erased_at"))
ADD_USER = Statement(insert(users).values(_USER_VALUES).returning(users.c.id))
SAVE_USER = Statement(update(users).values(_USER_VALUES).where(users.c.id == bindparam("user_id")))

_SIGNED_IN = select(*SESSION, *USER).join_from(sessions, users)
GET_SESSION = Statement(_SIGNED_IN.where(sessions.c.digest == bindparam("session")))
GET_SESSIONS = Statement(_SIGNED_IN.where(in_array(sessions.c.digest, "sessions")))
ADD_SESSION = Statement(
    insert(sessions).values({c.name: bindparam(c.name, type_=c.type) for c in sessions.c})
)
TOUCH_SESSION = Statement(
    update(sessions)
    .values(seen_at=bindparam("at", type_=sessions.c.seen_at.type))
    .where(sessions.c.digest == bindparam("session"))
)
END_SESSION = Statement(delete(sessions).where(sessions.c.digest == bindparam("session")))
_THEIRS = sessions.c.user_id == bindparam("user")
SESSIONS_OF = Statement(
    select(*SESSION).where(_THEIRS).order_by(sessions.c.created_at.desc(), sessions.c.digest)
)
END_SESSIONS = Statement(delete(sessions).where(_THEIRS, sessions.c.digest != bindparam("but")))

KEYS_OF = Statement(
    select(*KEY)
    .where(api_keys.c.owner_id == bindparam("owner"))
    .order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc())
)
GET_KEY = Statement(select(*KEY).where(api_keys.c.id == bindparam("key_id")))
_NEW_KEY = ("owner_id", "name", "digest", "masked_key", "permissions", "created_at", "expires_at")
ADD_KEY = Statement(
    insert(api_keys)
    .values({name: bindparam(name, type_=api_keys.c[name].type) for name in _NEW_KEY})
    .returning(api_keys.c.id)
)
REVOKE_KEY = Statement(
    update(api_keys)
    .values(revoked_at=bindparam("at", type_=api_keys.c.revoked_at.type))
    .where(api_keys.c.id == bindparam("key_id"), api_keys.c.revoked_at.is_(None))
)


@cache
def users_after(size: int) -> Statement:
    after = users.c.id > bindparam("after_id")
    return Statement(select(*USER).where(after).order_by(users.c.id).limit(size))


@frozen
class AccountsReader:
    connection: Connection
    uses: Mapping[int, datetime]
    """When keys were used last, as far as that is not written yet."""

    async def user(self, user_id: int) -> User | None:
        return to_user.optional(await self.connection.one(GET_USER, user_id=user_id))

    async def user_by_email(self, email: str) -> User | None:
        return to_user.optional(await self.connection.one(FIND_USER, folded=fold_email(email)))

    async def users(self, after_id: int, limit: int) -> Sequence[User]:
        rows = await self.connection.all(users_after(page_size(limit)), after_id=after_id)
        return [to_user(row) for row in rows[:limit]]

    async def session(self, digest: bytes) -> tuple[Session, User] | None:
        row = await self.connection.one(GET_SESSION, session=digest.hex())
        return None if row is None else _signed_in(row)

    async def sessions(self, digests: Sequence[bytes]) -> Sequence[tuple[Session, User]]:
        wanted = [digest.hex() for digest in digests]
        return [_signed_in(row) for row in await self.connection.all(GET_SESSIONS, sessions=wanted)]

    async def sessions_of(self, user_id: int) -> Sequence[Session]:
        return [to_session(row) for row in await self.connection.all(SESSIONS_OF, user=user_id)]

    async def keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        rows = await self.connection.all(KEYS_OF, owner=owner_id)
        return [self._with_use(to_key(row)) for row in rows]

    async def key(self, key_id: int) -> ApiKey | None:
        row = await self.connection.one(GET_KEY, key_id=key_id)
        return None if row is None else self._with_use(to_key(row))

    def _with_use(self, key: ApiKey) -> ApiKey:
        used_at = self.uses.get(key.id)
        return key if used_at is None else evolve(key, last_used_at=used_at)


@frozen
class AccountsWriter(AccountsReader):
    policy: Policy

    async def lock_user(self, user_id: int) -> User | None:
        return to_user.optional(await self.connection.one(LOCK_USER, user_id=user_id))

    async def add_user(self, user: NewUser) -> User:
        fields = asdict(user, recurse=False)
        folded = fold_email(user.email)
        added = await self.connection.value(ADD_USER, **fields, **_NOT_YET, email_folded=folded)
        return User(id=added, **fields)

    async def save_user(self, user: User) -> None:
        fields = asdict(user, recurse=False)
        user_id = fields.pop("id")
        folded = fold_email(user.email)
        await self.connection.run(SAVE_USER, **fields, email_folded=folded, user_id=user_id)
        await self._keep_companion_in_step(user)

    async def _keep_companion_in_step(self, user: User) -> None:
        writer = CompanionsWriter(self.connection, self.policy)
        if (companion := await writer.lock_companion(user.id)) is None:
            return
        changed = evolve(
            companion,
            first_name=user.first_name,
            last_name=user.last_name,
            active=user.disabled_at is None,
        )
        if changed != companion:
            await writer.save_companion(changed)

    async def add_session(self, session: Session) -> None:
        fields = asdict(session, recurse=False)
        await self.connection.run(ADD_SESSION, **{**fields, "digest": session.digest.hex()})

    async def touch_session(self, digest: bytes, seen_at: datetime) -> None:
        await self.connection.run(TOUCH_SESSION, session=digest.hex(), at=seen_at)

    async def end_session(self, digest: bytes) -> None:
        await self.connection.run(END_SESSION, session=digest.hex())

    async def end_sessions_of(self, user_id: int, but: bytes | None = None) -> None:
        kept = "" if but is None else but.hex()
        await self.connection.run(END_SESSIONS, user=user_id, but=kept)

    async def add_key(self, key: NewKey) -> ApiKey:
        fields = asdict(key, recurse=False)
        stored = {"digest": key.digest.hex(), "permissions": ",".join(sorted(key.permissions))}
        added = await self.connection.value(ADD_KEY, **{**fields, **stored})
        return ApiKey(id=added, **fields)

    async def revoke_key(self, key_id: int, at: datetime) -> None:
        await self.connection.run(REVOKE_KEY, key_id=key_id, at=at)


def _signed_in(row: Row) -> tuple[Session, User]:
    """From the columns of a session and its user."""
    return to_session(row), to_user(row[len(SESSION) :])
