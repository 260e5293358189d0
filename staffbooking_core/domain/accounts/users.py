"""People: users, their sessions, and the actor that a use-case is called by."""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.errors import Forbidden, Unauthenticated

PASSWORD_LENGTH_RANGE = (10, 128)


class Role(StrEnum):
    CUSTOMER = "customer"
    STAFF = "staff"
    ADMIN = "admin"


class Subscription(StrEnum):
    NONE = "none"
    BASIC = "basic"
    ENTERPRISE = "enterprise"


@frozen
class User:
    """A person with an account. A staff user's companion has the same id (CONTRACT 2)."""

    id: int
    email: str
    first_name: str
    last_name: str
    role: Role
    created_at: datetime
    subscription: Subscription = Subscription.NONE
    subscription_expires_at: datetime | None = None
    password_hash: str | None = field(default=None, repr=False)
    """None: nobody can sign in until a password is set."""
    disabled_at: datetime | None = None
    email_verified_at: datetime | None = None
    """Since when it is known that mail to the address reaches this person."""
    erased_at: datetime | None = None
    """The person asked to be forgotten: nothing that names them is left."""

    @property
    def name(self) -> str:
        return full_name(self.first_name, self.last_name)

    def has_api_access(self, now: datetime) -> bool:
        """Whether keys of this person work: an admin's, or an active enterprise subscriber's."""
        return self.role is Role.ADMIN or (
            self.subscription is Subscription.ENTERPRISE
            and (self.subscription_expires_at is None or now < self.subscription_expires_at)
        )


@frozen
class Session:
    """A signed-in browser. Only the digest of its token is ever stored."""

    digest: bytes = field(repr=False)
    user_id: int
    created_at: datetime
    seen_at: datetime


@frozen
class Actor:
    """Who calls a use-case, by which way."""

    user_id: int
    role: Role
    key_id: int | None = None
    """The API key that was used; None for a session."""

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN


def full_name(first: str, last: str) -> str:
    """Of somebody who was erased one word is left, and no last name."""
    return f"{first} {last}" if last else first


def normalize_email(email: str) -> str:
    """The form in which e-mail addresses are compared: without regard to case."""
    return email.casefold()


_EMAIL_CHARACTER = (
    r"[^\s@\x00-\x1f\x7f-\x9f<>()\",;:\\"
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
"""Of an address: none that could end it in a mail's header, and none that nobody sees."""
_EMAIL_PATTERN = re.compile(
    rf"{_EMAIL_CHARACTER}{{1,64}}@{_EMAIL_CHARACTER}+\.{_EMAIL_CHARACTER}+(?<!\.)"
)


def is_email(text: str) -> bool:
    """Whether a text has the form of an e-mail address; only a mail sent proves more."""
    if len(text) > 254 or ".." in text or "=?" in text:  # The last would begin an encoded word.
        return False
    return _EMAIL_PATTERN.fullmatch(text) is not None


def hash_session_token(token: str) -> bytes:
    """What is stored of a session's token."""
    return hashlib.sha256(token.encode()).digest()


def session_public_id(digest: bytes) -> str:
    """By which people tell their sessions apart: neither the token nor its digest."""
    return hashlib.sha256(b"session" + digest).hexdigest()[:16]


def csrf_token(session_token: str) -> str:
    """The session's CSRF token: derived from the secret cookie, so it needs no storing,
    turns with each login and tells nothing about the cookie."""
    return hmac.new(session_token.encode(), b"csrf", hashlib.sha256).hexdigest()


def check_api_key(key: ApiKey, owner: User, permission: Permission | None, now: datetime) -> None:
    """Decide whether a key may be used now, for something that needs `permission`.

    Raises Unauthenticated or Forbidden (SPECIFICATION 5, CONTRACT 2). An admin passes every
    check of permission and tier, but not of the key itself.
    """
    if not key.is_active(now) or owner.disabled_at is not None:
        raise Unauthenticated("invalid_api_key", "The API key is not valid")
    if not owner.has_api_access(now):
        raise Forbidden("subscription_required", "An active enterprise subscription is required")
    granted = owner.role is Role.ADMIN or permission is None or permission in key.permissions
    if not granted:
        raise Forbidden("permission_required", f"The key lacks the {permission} permission")


def is_session_valid(
    session: Session, user: User, now: datetime, *, idle_timeout: timedelta, lifetime: timedelta
) -> bool:
    """Whether a session still signs its user in."""
    return user.disabled_at is None and not is_session_expired(
        session, now, idle_timeout=idle_timeout, lifetime=lifetime
    )


def is_session_expired(
    session: Session, now: datetime, *, idle_timeout: timedelta, lifetime: timedelta
) -> bool:
    """Whether a session was unused for too long, or has lived its time, whoever's it is."""
    return session.seen_at + idle_timeout <= now or session.created_at + lifetime <= now
