"""Users, sessions and API keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, evolve, frozen
from sqlalchemy import bindparam, delete, insert, or_, select, update

from staffbooking_adapters.sql.accounts import people
from staffbooking_adapters.sql.accounts.api_key_usage import UnwrittenUsage, read_key_calls
from staffbooking_adapters.sql.companions.writer import CompanionsWriter
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, upsert
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import (
    USER_COLUMNS,
    WRITABLE_USER_COLUMNS,
    api_keys,
    login_addresses,
    sessions,
    users,
)
from staffbooking_adapters.sql.schema.sandbox import sandbox_accounts
from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import (
    Language,
    Role,
    Session,
    Subscription,
    Theme,
    User,
    normalize_email,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import MAX_LOGIN_ADDRESSES, NewApiKey, NewUser, PeopleQuery


def _parse_permissions(text: str) -> frozenset[Permission]:
    return frozenset(map(Permission, filter(None, text.split(","))))


to_user = RowMapper(
    *(User, USER_COLUMNS), role=Role, subscription=Subscription, language=Language, theme=Theme
)
SESSION_COLUMNS = tuple(sessions.c)
to_session = RowMapper(Session, SESSION_COLUMNS, digest=bytes.fromhex)
API_KEY_COLUMNS = tuple(api_keys.c)
to_api_key = RowMapper(
    ApiKey, API_KEY_COLUMNS, digest=bytes.fromhex, permissions=_parse_permissions
)

_SELECT_USER_BY_ID = select(*USER_COLUMNS).where(users.c.id == bindparam("user_id"))
GET_USER = Statement(_SELECT_USER_BY_ID)
LOCK_USER = Statement(_SELECT_USER_BY_ID.with_for_update(key_share=True))
FIND_USER_BY_EMAIL = Statement(
    select(*USER_COLUMNS).where(users.c.email_folded == bindparam("folded"))
)
FIND_USERS = Statement(
    select(*USER_COLUMNS)
    .where(or_(in_array(users.c.id, "user_ids"), in_array(users.c.email_folded, "emails")))
    .order_by(users.c.id)
)
_USER_VALUES = {
    column.name: bindparam(column.name, type_=column.type) for column in WRITABLE_USER_COLUMNS
}
NEW_USER_DEFAULTS = dict.fromkeys(
    ("disabled_at", "email_verified_at", "erased_at", "language", "theme", "timezone")
)
ADD_USER = Statement(insert(users).values(_USER_VALUES).returning(users.c.id))
SAVE_USER = Statement(update(users).values(_USER_VALUES).where(users.c.id == bindparam("user_id")))

_SELECT_SESSIONS_WITH_USERS = select(*SESSION_COLUMNS, *USER_COLUMNS).join_from(sessions, users)
GET_SESSION = Statement(
    _SELECT_SESSIONS_WITH_USERS.where(sessions.c.digest == bindparam("session"))
)
LIST_EMAILS = Statement(select(users.c.id, users.c.email).where(in_array(users.c.id, "user_ids")))
GET_SESSIONS = Statement(_SELECT_SESSIONS_WITH_USERS.where(in_array(sessions.c.digest, "sessions")))
ADD_SESSION = Statement(
    insert(sessions).values({c.name: bindparam(c.name, type_=c.type) for c in sessions.c})
)
TOUCH_SESSION = Statement(
    update(sessions)
    .values(seen_at=bindparam("at", type_=sessions.c.seen_at.type))
    .where(sessions.c.digest == bindparam("session"))
)
DELETE_SESSION = Statement(delete(sessions).where(sessions.c.digest == bindparam("session")))
_IS_SESSION_OF_USER = sessions.c.user_id == bindparam("user")
SESSIONS_OF = Statement(
    select(*SESSION_COLUMNS)
    .where(_IS_SESSION_OF_USER)
    .order_by(sessions.c.created_at.desc(), sessions.c.digest)
)
DELETE_OTHER_SESSIONS = Statement(
    delete(sessions).where(_IS_SESSION_OF_USER, sessions.c.digest != bindparam("but"))
)

HAS_LOGGED_IN_FROM = Statement(
    select(login_addresses.c.at)
    .join_from(login_addresses, users)
    .where(
        users.c.email_folded == bindparam("folded"), login_addresses.c.digest == bindparam("digest")
    )
)
_NEW_LOGIN_ADDRESS = upsert(login_addresses).values(
    {c.name: bindparam(c.name, type_=c.type) for c in login_addresses.c}
)
ADD_LOGIN_ADDRESS = Statement(
    _NEW_LOGIN_ADDRESS.on_conflict_do_update(
        index_elements=["user_id", "digest"], set_={"at": _NEW_LOGIN_ADDRESS.excluded.at}
    )
)
_KEPT_LOGIN_ADDRESSES = (
    select(login_addresses.c.digest)
    .where(login_addresses.c.user_id == bindparam("user_id"))
    .order_by(login_addresses.c.at.desc(), login_addresses.c.digest.desc())
    .limit(MAX_LOGIN_ADDRESSES)
)
DELETE_OLD_LOGIN_ADDRESSES = Statement(
    delete(login_addresses).where(
        login_addresses.c.user_id == bindparam("user_id"),
        login_addresses.c.digest.not_in(_KEPT_LOGIN_ADDRESSES),
    )
)

API_KEYS_OF = Statement(
    select(*API_KEY_COLUMNS)
    .where(api_keys.c.owner_id == bindparam("owner"))
    .order_by(api_keys.c.created_at.desc(), api_keys.c.id.desc())
)
GET_API_KEY = Statement(select(*API_KEY_COLUMNS).where(api_keys.c.id == bindparam("key_id")))
_NEW_API_KEY_FIELDS = (
    "owner_id",
    "name",
    "digest",
    "masked_key",
    "permissions",
    "created_at",
    "expires_at",
)
ADD_API_KEY = Statement(
    insert(api_keys)
    .values({name: bindparam(name, type_=api_keys.c[name].type) for name in _NEW_API_KEY_FIELDS})
    .returning(api_keys.c.id)
)
SAVE_API_KEY_EXPIRY = Statement(
    update(api_keys)
    .values(expires_at=bindparam("at", type_=api_keys.c.expires_at.type))
    .where(api_keys.c.id == bindparam("key_id"))
)
REVOKE_API_KEY = Statement(
    update(api_keys)
    .values(revoked_at=bindparam("at", type_=api_keys.c.revoked_at.type))
    .where(api_keys.c.id == bindparam("key_id"), api_keys.c.revoked_at.is_(None))
)


@cache
def users_after(size: int) -> Statement:
    after = users.c.id > bindparam("after_id")
    found = select(*USER_COLUMNS).where(after).order_by(users.c.id)
    return Statement(found.limit(size).offset(OFFSET_PARAM))


LIST_SAMPLE_ACCOUNTS = Statement(
    select(*USER_COLUMNS)
    .join_from(sandbox_accounts, users, users.c.id == sandbox_accounts.c.user_id)
    .where(users.c.disabled_at.is_(None), users.c.erased_at.is_(None))
    .order_by(users.c.id)
)
MARK_SAMPLE_ACCOUNT = Statement(
    upsert(sandbox_accounts)
    .values(user_id=bindparam("user_id", type_=BigInt))
    .on_conflict_do_nothing()
)


@frozen
class AccountsReader:
    """Reads users, sessions and API keys."""

    connection: Connection
    unwritten_usage: UnwrittenUsage
    """The use of API keys that is not written to the database yet."""

    async def user(self, user_id: int) -> User | None:
        return to_user.map_optional(await self.connection.fetch_one(GET_USER, user_id=user_id))

    async def user_by_email(self, email: str) -> User | None:
        return to_user.map_optional(
            await self.connection.fetch_one(FIND_USER_BY_EMAIL, folded=normalize_email(email))
        )

    async def find_users(
        self, user_ids: Collection[int], emails: Collection[str]
    ) -> Sequence[User]:
        folded = [normalize_email(each) for each in emails]
        rows = await self.connection.fetch_all(FIND_USERS, user_ids=list(user_ids), emails=folded)
        return [to_user(row) for row in rows]

    async def users(self, after_id: int, limit: int, offset: int = 0) -> Sequence[User]:
        rows = await self.connection.fetch_all(
            users_after(page_size(limit)), after_id=after_id, offset=offset
        )
        return [to_user(row) for row in rows[:limit]]

    async def find_people(self, query: PeopleQuery) -> Sequence[User]:
        return [to_user(row) for row in await people.find_people(self.connection, query)]

    async def emails_of(self, user_ids: Collection[int]) -> Mapping[int, str]:
        rows = await self.connection.fetch_all(LIST_EMAILS, user_ids=list(user_ids))
        return dict(rows)

    async def session(self, digest: bytes) -> tuple[Session, User] | None:
        row = await self.connection.fetch_one(GET_SESSION, session=digest.hex())
        return None if row is None else _to_session_and_user(row)

    async def sessions(self, digests: Sequence[bytes]) -> Sequence[tuple[Session, User]]:
        hex_digests = [digest.hex() for digest in digests]
        return [
            _to_session_and_user(row)
            for row in await self.connection.fetch_all(GET_SESSIONS, sessions=hex_digests)
        ]

    async def sessions_of(self, user_id: int) -> Sequence[Session]:
        return [
            to_session(row) for row in await self.connection.fetch_all(SESSIONS_OF, user=user_id)
        ]

    async def has_logged_in_from(self, email: str, address_digest: bytes) -> bool:
        at = await self.connection.fetch_value(
            HAS_LOGGED_IN_FROM, folded=normalize_email(email), digest=address_digest.hex()
        )
        return at is not None

    async def api_keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        rows = await self.connection.fetch_all(API_KEYS_OF, owner=owner_id)
        return [self._with_last_use(to_api_key(row)) for row in rows]

    async def api_key(self, api_key_id: int) -> ApiKey | None:
        row = await self.connection.fetch_one(GET_API_KEY, key_id=api_key_id)
        return None if row is None else self._with_last_use(to_api_key(row))

    async def api_key_calls(
        self, key_ids: Sequence[int], since: datetime
    ) -> Mapping[tuple[int, datetime], int]:
        return await read_key_calls(self.connection, self.unwritten_usage, key_ids, since)

    def _with_last_use(self, key: ApiKey) -> ApiKey:
        used_at = self.unwritten_usage.last_uses.get(key.id)
        return key if used_at is None else evolve(key, last_used_at=used_at)

    async def sample_accounts(self) -> Sequence[User]:
        return [to_user(row) for row in await self.connection.fetch_all(LIST_SAMPLE_ACCOUNTS)]


@frozen
class AccountsWriter(AccountsReader):
    """Locks and writes users, sessions and API keys."""

    policy: Policy

    async def mark_sample_account(self, user_id: int) -> None:
        await self.connection.execute(MARK_SAMPLE_ACCOUNT, user_id=user_id)

    async def lock_user(self, user_id: int) -> User | None:
        return to_user.map_optional(await self.connection.fetch_one(LOCK_USER, user_id=user_id))

    async def add_user(self, user: NewUser) -> User:
        fields = asdict(user, recurse=False)
        folded = normalize_email(user.email)
        added = await self.connection.fetch_value(
            ADD_USER, **fields, **NEW_USER_DEFAULTS, email_folded=folded
        )
        new = User(id=added, **fields)
        await people.add_terms(self.connection, [new])
        return new

    async def save_user(self, user: User) -> None:
        fields = asdict(user, recurse=False)
        user_id = fields.pop("id")
        folded = normalize_email(user.email)
        await self.connection.execute(SAVE_USER, **fields, email_folded=folded, user_id=user_id)
        await people.save_terms(self.connection, [user])
        await self._update_companion(user)

    async def _update_companion(self, user: User) -> None:
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
        await self.connection.execute(ADD_SESSION, **{**fields, "digest": session.digest.hex()})

    async def add_login_address(self, user_id: int, address_digest: bytes, at: datetime) -> None:
        await self.connection.execute(
            ADD_LOGIN_ADDRESS, user_id=user_id, digest=address_digest.hex(), at=at
        )
        await self.connection.execute(DELETE_OLD_LOGIN_ADDRESSES, user_id=user_id)

    async def touch_session(self, digest: bytes, seen_at: datetime) -> None:
        await self.connection.execute(TOUCH_SESSION, session=digest.hex(), at=seen_at)

    async def end_session(self, digest: bytes) -> None:
        await self.connection.execute(DELETE_SESSION, session=digest.hex())

    async def end_sessions_of(self, user_id: int, except_digest: bytes | None = None) -> None:
        kept = "" if except_digest is None else except_digest.hex()
        await self.connection.execute(DELETE_OTHER_SESSIONS, user=user_id, but=kept)

    async def add_api_key(self, api_key: NewApiKey) -> ApiKey:
        fields = asdict(api_key, recurse=False)
        stored = {
            "digest": api_key.digest.hex(),
            "permissions": ",".join(sorted(api_key.permissions)),
        }
        added = await self.connection.fetch_value(ADD_API_KEY, **{**fields, **stored})
        return ApiKey(id=added, **fields)

    async def save_api_key_expiry(self, api_key: ApiKey) -> None:
        await self.connection.execute(SAVE_API_KEY_EXPIRY, key_id=api_key.id, at=api_key.expires_at)

    async def revoke_api_key(self, api_key_id: int, revoked_at: datetime) -> None:
        await self.connection.execute(REVOKE_API_KEY, key_id=api_key_id, at=revoked_at)


def _to_session_and_user(row: Row) -> tuple[Session, User]:
    """Build a session and its user from `SESSION_COLUMNS` and `USER_COLUMNS`."""
    return to_session(row), to_user(row[len(SESSION_COLUMNS) :])
