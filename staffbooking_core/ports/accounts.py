"""The store's family of users, sessions and API keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Role, Session, Subscription, User

EMAIL_TAKEN = "uq_users_email"
"""Constraint: two users have the same e-mail, compared without case."""


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


class AccountsReadPort(Protocol):
    async def user(self, user_id: int) -> User | None: ...
    async def user_by_email(self, email: str) -> User | None:
        """Compared by `fold_email`."""
        ...

    async def users(self, after_id: int, limit: int) -> Sequence[User]:
        """In the order of ids, from the first above `after_id`."""
        ...

    async def session(self, digest: bytes) -> tuple[Session, User] | None: ...
    async def sessions(self, digests: Sequence[bytes]) -> Sequence[tuple[Session, User]]:
        """Those that are there, with their users."""
        ...

    async def sessions_of(self, user_id: int) -> Sequence[Session]:
        """All that are there, ended ones too until they are swept; the newest first."""
        ...

    async def api_keys_of(self, owner_id: int) -> Sequence[ApiKey]:
        """All, revoked ones too, the newest first."""
        ...

    async def api_key(self, api_key_id: int) -> ApiKey | None: ...


class AccountsWritePort(AccountsReadPort, Protocol):
    async def lock_user(self, user_id: int) -> User | None:
        """The user, held until the unit of work ends."""
        ...

    async def add_user(self, user: NewUser) -> User:
        """Raises ConstraintViolated(EMAIL_TAKEN), by folded e-mail."""
        ...

    async def save_user(self, user: User) -> None:
        """Keeps `Companion.active` and the names of a staff user's companion in step."""
        ...

    async def add_session(self, session: Session) -> None: ...
    async def touch_session(self, digest: bytes, seen_at: datetime) -> None: ...
    async def end_session(self, digest: bytes) -> None: ...
    async def end_sessions_of(self, user_id: int, except_digest: bytes | None = None) -> None:
        """All sessions of a user, or all but the one of a digest."""
        ...

    async def add_api_key(self, api_key: NewApiKey) -> ApiKey: ...
    async def revoke_api_key(self, api_key_id: int, revoked_at: datetime) -> None:
        """A key revoked already keeps its first time."""
        ...
