"""Accounts: users, their sessions and API keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import (
    AccountState,
    Role,
    Session,
    Subscription,
    User,
)

__all__ = [
    "EMAIL_TAKEN",
    "MAX_LOGIN_ADDRESSES",
    "AccountsReadPort",
    "AccountsWritePort",
    "NewApiKey",
    "NewUser",
    "PeopleQuery",
]

EMAIL_TAKEN = "uq_users_email"
"""Constraint: two users have the same e-mail, compared without case."""

MAX_LOGIN_ADDRESSES = 50
"""Maximum known addresses per user."""


@frozen
class NewUser:
    """A user that has no id yet."""

    email: str
    first_name: str
    last_name: str
    role: Role
    created_at: datetime
    password_hash: str | None = field(default=None, repr=False)
    subscription: Subscription = Subscription.NONE
    subscription_expires_at: datetime | None = None


@frozen
class NewApiKey:
    """An API key that has no id yet."""

    owner_id: int
    name: str
    digest: bytes = field(repr=False)
    masked_key: str
    permissions: frozenset[Permission]
    created_at: datetime
    expires_at: datetime | None = None


@frozen(kw_only=True)
class PeopleQuery:
    """The accounts that operators look for."""

    term: str = ""
    """The beginning of one of their `search_terms`, folded by `fold_search_text`; empty for any."""
    role: Role | None = None
    state: AccountState | None = None
    after_id: int | None = None
    """The last account of the page before."""
    limit: int


class AccountsReadPort(Protocol):
    """Queries on users, sessions and API keys."""

    async def user(self, user_id: int) -> User | None:
        """A user by id."""
        ...

    async def user_by_email(self, email: str) -> User | None:
        """A user by e-mail, compared by `normalize_email`."""
        ...

    async def find_users(
        self, user_ids: Collection[int], emails: Collection[str]
    ) -> Sequence[User]:
        """The users that exist among these ids and e-mails (compared by `normalize_email`), each
        once, by id."""
        ...

    async def users(self, after_id: int, limit: int, offset: int = 0) -> Sequence[User]:
        """Up to `limit` users above `after_id`, after the first `offset` of them, by id."""
        ...

    async def find_people(self, query: PeopleQuery) -> Sequence[User]:
        """A page of the accounts that match: with a term, ordered by their first matching term and
        id, else the newest first. Erased accounts match no term."""
        ...

    async def emails_of(self, user_ids: Collection[int]) -> Mapping[int, str]:
        """The e-mails of the users that exist among these ids, by id."""
        ...

    async def session(self, digest: bytes) -> tuple[Session, User] | None:
        """A session by the digest of its token, with its user; valid or not."""
        ...

    async def sessions(self, digests: Sequence[bytes]) -> Sequence[tuple[Session, User]]:
        """The sessions that exist among these digests, with their users."""
        ...

    async def sessions_of(self, user_id: int) -> Sequence[Session]:
        """All sessions of a user, the newest first; expired ones too until they are deleted."""
        ...

    async def has_logged_in_from(self, email: str, address_digest: bytes) -> bool:
        """Whether the user of an e-mail has logged in from an address; False without a user."""
        ...

    async def api_keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        """All API keys of a user, the newest first; revoked ones too."""
        ...

    async def api_key_calls(
        self, key_ids: Sequence[int], since: datetime
    ) -> Mapping[tuple[int, datetime], int]:
        """How many requests these API keys made, by key and hour (`start_of_hour`), in the hours
        that began at `since` or later; hours without any are left out. Requests over a rate limit
        are counted, those of a refused key are not. Wall time."""
        ...

    async def api_key(self, api_key_id: int) -> ApiKey | None:
        """An API key by id."""
        ...

    async def sample_accounts(self) -> Sequence[User]:
        """The accounts that the sample of a sandbox made and that are neither disabled nor erased,
        by id."""
        ...


class AccountsWritePort(AccountsReadPort, Protocol):
    """Commands on users, sessions and API keys."""

    async def lock_user(self, user_id: int) -> User | None:
        """A user by id, locked until the transaction ends."""
        ...

    async def add_user(self, user: NewUser) -> User:
        """Insert a user. Raises ConstraintViolated(EMAIL_TAKEN)."""
        ...

    async def save_user(self, user: User) -> None:
        """Update a user, and the names and `active` of the companion of a staff user.

        Raises ConstraintViolated(EMAIL_TAKEN).
        """
        ...

    async def add_session(self, session: Session) -> None:
        """Insert a session."""
        ...

    async def add_login_address(self, user_id: int, address_digest: bytes, at: datetime) -> None:
        """Record that a user has logged in from an address (wall time). The newest
        MAX_LOGIN_ADDRESSES of a user are kept."""
        ...

    async def touch_session(self, digest: bytes, seen_at: datetime) -> None:
        """Set the time at which a session was last seen (wall time)."""
        ...

    async def end_session(self, digest: bytes) -> None:
        """Delete a session; nothing happens where there is none."""
        ...

    async def end_sessions_of(self, user_id: int, except_digest: bytes | None = None) -> None:
        """Delete all sessions of a user, except the one of a digest."""
        ...

    async def add_api_key(self, api_key: NewApiKey) -> ApiKey:
        """Insert an API key."""
        ...

    async def save_api_key_expiry(self, api_key: ApiKey) -> None:
        """Save when an API key expires."""
        ...

    async def revoke_api_key(self, api_key_id: int, revoked_at: datetime) -> None:
        """Revoke an API key; one that is revoked keeps its first time."""
        ...

    async def mark_sample_account(self, user_id: int) -> None:
        """Mark an account as one that the sample made; marking it again changes nothing."""
        ...
