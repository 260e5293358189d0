"""Users, sessions and API keys in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.companions.store import put_companion
from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import (
    Session,
    User,
    normalize_email,
    search_terms,
)
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import (
    EMAIL_TAKEN,
    MAX_LOGIN_ADDRESSES,
    NewApiKey,
    NewUser,
    PeopleQuery,
)

KEY_DIGEST_TAKEN = "uq_api_keys_digest"


@frozen
class AccountsReader:
    """Reads users, sessions and API keys."""

    tx: MemoryTransaction

    async def user(self, user_id: int) -> User | None:
        return self.tx.state.users.get(user_id)

    async def user_by_email(self, email: str) -> User | None:
        return find_by_email(self.tx, email)

    async def find_users(
        self, user_ids: Collection[int], emails: Collection[str]
    ) -> Sequence[User]:
        users = self.tx.state.users
        by_email = (find_by_email(self.tx, each) for each in emails)
        ids = {*user_ids, *(user.id for user in by_email if user is not None)}
        return [users[user_id] for user_id in sorted(ids) if user_id in users]

    async def users(self, after_id: int, limit: int, offset: int = 0) -> Sequence[User]:
        users = self.tx.state.users
        found = [users[user_id] for user_id in sorted(users) if user_id > after_id]
        return found[offset : offset + limit]

    async def find_people(self, query: PeopleQuery) -> Sequence[User]:
        users, term, after_id = self.tx.state.users, query.term, query.after_id
        found = [
            user
            for user in users.values()
            if query.role in (None, user.role) and query.state in (None, user.state)
        ]
        # The last account of the page before may not match any more.
        if not term:
            older = [user for user in found if after_id is None or user.id < after_id]
            return sorted(older, key=lambda user: -user.id)[: query.limit]
        places = {(first, user.id): user for user in found if (first := _first_term(user, term))}
        after = ("", 0)
        if after_id is not None:
            last = users.get(after_id)
            after = (last and _first_term(last, term)) or term, after_id
        return [places[place] for place in sorted(places) if place > after][: query.limit]

    async def emails_of(self, user_ids: Collection[int]) -> Mapping[int, str]:
        users = self.tx.state.users
        return {user_id: users[user_id].email for user_id in user_ids if user_id in users}

    async def session(self, digest: bytes) -> tuple[Session, User] | None:
        state = self.tx.state
        if (session := state.sessions.get(digest)) is None:
            return None
        return session, state.users[session.user_id]

    async def sessions(self, digests: Sequence[bytes]) -> Sequence[tuple[Session, User]]:
        found = [await self.session(digest) for digest in digests]
        return [each for each in found if each is not None]

    async def sessions_of(self, user_id: int) -> Sequence[Session]:
        mine = [each for each in self.tx.state.sessions.values() if each.user_id == user_id]
        mine.sort(key=lambda session: session.digest)
        return sorted(mine, key=lambda session: session.created_at, reverse=True)

    async def has_logged_in_from(self, email: str, address_digest: bytes) -> bool:
        user = find_by_email(self.tx, email)
        return user is not None and (user.id, address_digest) in self.tx.state.login_addresses

    async def api_keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        keys = [key for key in self.tx.state.keys.values() if key.owner_id == owner_id]
        keys.sort(key=lambda key: (key.created_at, key.id), reverse=True)
        return [_with_last_used_at(self.tx, key) for key in keys]

    async def api_key_calls(
        self, key_ids: Sequence[int], since: datetime
    ) -> Mapping[tuple[int, datetime], int]:
        return {
            (key_id, hour): count
            for (key_id, hour), count in self.tx.shared.key_calls.items()
            if key_id in key_ids and hour >= since
        }

    async def api_key(self, api_key_id: int) -> ApiKey | None:
        key = self.tx.state.keys.get(api_key_id)
        return None if key is None else _with_last_used_at(self.tx, key)

    async def sample_accounts(self) -> Sequence[User]:
        state = self.tx.state
        marked = [state.users[user_id] for user_id in sorted(state.sample_accounts)]
        return [user for user in marked if user.disabled_at is None and user.erased_at is None]


@frozen
class AccountsWriter(AccountsReader):
    """Reads and writes users, sessions and API keys."""

    async def mark_sample_account(self, user_id: int) -> None:
        self.tx.state.sample_accounts[user_id] = None

    async def lock_user(self, user_id: int) -> User | None:
        return await self.user(user_id)

    async def add_user(self, user: NewUser) -> User:
        added = User(id=next(self.tx.shared.user_ids), **asdict(user, recurse=False))
        self._put_user(added)
        return added

    async def save_user(self, user: User) -> None:
        state = self.tx.state
        if (before := state.users.get(user.id)) is None:
            return
        state.user_by_email.discard(normalize_email(before.email))
        self._put_user(user)
        if row := state.companions.get(user.id):
            companion = evolve(
                row.companion,
                first_name=user.first_name,
                last_name=user.last_name,
                active=user.disabled_at is None,
            )
            put_companion(self.tx, companion)

    def _put_user(self, user: User) -> None:
        state, email = self.tx.state, normalize_email(user.email)
        if email in state.user_by_email:
            raise ConstraintViolated(EMAIL_TAKEN)
        state.users[user.id] = user
        state.user_by_email[email] = user.id

    async def add_session(self, session: Session) -> None:
        self.tx.state.sessions[session.digest] = session

    async def add_login_address(self, user_id: int, address_digest: bytes, at: datetime) -> None:
        addresses = self.tx.state.login_addresses
        addresses[user_id, address_digest] = at
        mine = [key for key in addresses if key[0] == user_id]
        mine.sort(key=lambda key: (addresses[key], key[1]), reverse=True)
        for key in mine[MAX_LOGIN_ADDRESSES:]:
            addresses.discard(key)

    async def touch_session(self, digest: bytes, seen_at: datetime) -> None:
        sessions = self.tx.state.sessions
        if session := sessions.get(digest):
            sessions[digest] = evolve(session, seen_at=seen_at)

    async def end_session(self, digest: bytes) -> None:
        self.tx.state.sessions.discard(digest)

    async def end_sessions_of(self, user_id: int, except_digest: bytes | None = None) -> None:
        for session in await self.sessions_of(user_id):
            if session.digest != except_digest:
                self.tx.state.sessions.discard(session.digest)

    async def add_api_key(self, api_key: NewApiKey) -> ApiKey:
        state = self.tx.state
        if api_key.digest in state.key_by_digest:
            raise ConstraintViolated(KEY_DIGEST_TAKEN)
        added = ApiKey(id=next(self.tx.shared.key_ids), **asdict(api_key, recurse=False))
        state.keys[added.id] = added
        state.key_by_digest[added.digest] = added.id
        return added

    async def save_api_key_expiry(self, api_key: ApiKey) -> None:
        keys = self.tx.state.keys
        keys[api_key.id] = evolve(keys[api_key.id], expires_at=api_key.expires_at)

    async def revoke_api_key(self, api_key_id: int, revoked_at: datetime) -> None:
        keys = self.tx.state.keys
        key = keys.get(api_key_id)
        if key is not None and key.revoked_at is None:
            keys[api_key_id] = evolve(key, revoked_at=revoked_at)


def find_by_email(tx: MemoryTransaction, email: str) -> User | None:
    user_id = tx.state.user_by_email.get(normalize_email(email))
    return None if user_id is None else tx.state.users[user_id]


def _with_last_used_at(tx: MemoryTransaction, key: ApiKey) -> ApiKey:
    return evolve(key, last_used_at=tx.shared.key_last_used_at.get(key.id))


def _first_term(user: User, beginning: str) -> str | None:
    if user.erased_at is not None:
        return None
    terms = search_terms(user.first_name, user.last_name, user.email)
    return min((each for each in terms if each.startswith(beginning)), default=None)
