"""Users, their sessions, and the actor of a use-case."""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.errors import Forbidden, Unauthenticated, invalid_field

__all__ = ["AccountState", "Actor", "Language", "Role", "Session", "Subscription", "Theme", "User"]

PASSWORD_LENGTH_RANGE = (10, 128)


class Role(StrEnum):
    CUSTOMER = "customer"
    STAFF = "staff"
    ADMIN = "admin"


class Subscription(StrEnum):
    NONE = "none"
    BASIC = "basic"
    ENTERPRISE = "enterprise"


class Language(StrEnum):
    """The languages of the pages, by their tags."""

    ENGLISH = "en"
    GERMAN = "de"
    PORTUGUESE = "pt"


class Theme(StrEnum):
    LIGHT = "light"
    DARK = "dark"


class AccountState(StrEnum):
    """Whether an account works."""

    ACTIVE = "active"
    DISABLED = "disabled"
    ERASED = "erased"


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
    """None until a password is set: nobody can sign in."""
    disabled_at: datetime | None = None
    email_verified_at: datetime | None = None
    """When the user confirmed the email address."""
    erased_at: datetime | None = None
    """When the user was erased: no personal data is left."""
    language: Language | None = None
    """The chosen language of the pages; None: what the browser asks for."""
    theme: Theme | None = None
    """The chosen theme; None: the system's."""
    timezone: str | None = None
    """The IANA name of the zone in which moments are shown that belong to no event; None: UTC."""

    @property
    def name(self) -> str:
        return full_name(self.first_name, self.last_name)

    @property
    def state(self) -> AccountState:
        if self.erased_at is not None:
            return AccountState.ERASED
        return AccountState.ACTIVE if self.disabled_at is None else AccountState.DISABLED

    def has_api_access(self, now: datetime) -> bool:
        """Whether the user's API keys work: for an admin, or an active enterprise subscription."""
        return self.role is Role.ADMIN or (
            self.subscription is Subscription.ENTERPRISE
            and (self.subscription_expires_at is None or now < self.subscription_expires_at)
        )


@frozen
class Session:
    """A signed-in browser. Only the digest of its token is stored."""

    digest: bytes = field(repr=False)
    user_id: int
    created_at: datetime
    seen_at: datetime
    browser: str | None = None
    """The name of the browser at sign-in; None if it is unknown, as the two below."""
    system: str | None = None
    network: str | None = None
    """The network that the address belonged to, such as `203.0.113.0/24`."""
    """The two letters of the country that the address was in."""


def _check_user_id(_: Actor, __: object, value: int) -> None:
    if type(value) is not int:
        raise invalid_field("user_id", "must be an integer")


def _to_role(value: Role | str) -> Role:
    if type(value) is Role:  # Each request has an actor.
        return value
    try:
        return Role(value)
    except ValueError:
        raise invalid_field("role", f"must be one of {', '.join(Role)}") from None


@frozen
class Actor:
    """The caller of a use-case. The role may be given by its value, such as `"staff"`.

    Raises InvalidField for another role, and a user id that is no integer.
    """

    user_id: int = field(validator=_check_user_id)
    role: Role = field(converter=_to_role)
    key_id: int | None = None
    """The id of the API key; None for a session."""

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN


def full_name(first: str, last: str) -> str:
    """The full name; an erased user has a first name only."""
    return f"{first} {last}" if last else first


def normalize_email(email: str) -> str:
    """The form in which email addresses are compared: case is ignored. `casefold` would also make
    one of `ß` and `ss`, which are addresses of different people."""
    return email.lower()


_MAX_SEARCH_TERM_LENGTH = 100
_MAX_SEARCH_TERMS_OF_NAME = 6


def fold_search_text(text: str) -> str:
    """The form in which operators' searches compare text: without case, accents and surplus spaces,
    cut to what is stored of a term."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(each for each in decomposed if not unicodedata.combining(each))
    return " ".join(bare.split())[:_MAX_SEARCH_TERM_LENGTH]


def search_terms(first_name: str, last_name: str, email: str) -> frozenset[str]:
    """The terms by whose beginnings operators find a person: the name from each of its words on,
    and the e-mail address. A name counts up to its sixth word."""
    words = fold_search_text(full_name(first_name, last_name)).split()
    starts = range(min(len(words), _MAX_SEARCH_TERMS_OF_NAME))
    names = {" ".join(words[start:]) for start in starts}
    return frozenset({*names, fold_search_text(email)} - {""})


_EMAIL_CHARACTER = (
    r"[^\s@\x00-\x1f\x7f-\x9f<>()\",;:\\"
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
"""Allowed characters of an address: none that could end it in an email header, and no invisible
ones."""
_EMAIL_PATTERN = re.compile(
    rf"{_EMAIL_CHARACTER}{{1,64}}@{_EMAIL_CHARACTER}+\.{_EMAIL_CHARACTER}+(?<!\.)"
)


def is_email(text: str) -> bool:
    """Whether a text has the form of an email address; only a sent email proves more."""
    if len(text) > 254 or ".." in text or "=?" in text:  # "=?" would begin an encoded word.
        return False
    return _EMAIL_PATTERN.fullmatch(text) is not None


def hash_session_token(token: str) -> bytes:
    """The stored digest of a session's token."""
    return hashlib.sha256(token.encode()).digest()


def session_public_id(digest: bytes) -> str:
    """A public id of the session, from which neither token nor digest can be derived."""
    return hashlib.sha256(b"session" + digest).hexdigest()[:16]


def csrf_token(session_token: str) -> str:
    """The session's CSRF token, derived from the secret cookie: it needs no storage, changes with
    each login, and does not reveal the cookie."""
    return hmac.new(session_token.encode(), b"csrf", hashlib.sha256).hexdigest()


class ApiKeyForbidden(Forbidden):
    """The API key is valid, but may not be used for this."""

    def __init__(self, key: ApiKey, code: str, message: str) -> None:
        super().__init__(code, message)
        self.key = key


def check_api_key(key: ApiKey, owner: User, permission: Permission | None, now: datetime) -> None:
    """Check that a key may be used now for something that needs `permission`.

    Raises Unauthenticated or ApiKeyForbidden (SPECIFICATION 5, CONTRACT 2). An admin needs no
    permission and no subscription, but a valid key.
    """
    if not key.is_active(now) or owner.disabled_at is not None:
        raise Unauthenticated("invalid_api_key", "The API key is not valid")
    if not owner.has_api_access(now):
        message = "An active enterprise subscription is required"
        raise ApiKeyForbidden(key, "subscription_required", message)
    granted = owner.role is Role.ADMIN or permission is None or permission in key.permissions
    if not granted:
        message = f"The key lacks the {permission} permission"
        raise ApiKeyForbidden(key, "permission_required", message)


def is_session_valid(
    session: Session, user: User, now: datetime, *, idle_timeout: timedelta, lifetime: timedelta
) -> bool:
    """Whether the session is valid: not expired, and its user not disabled."""
    return user.disabled_at is None and not is_session_expired(
        session, now, idle_timeout=idle_timeout, lifetime=lifetime
    )


def is_session_expired(
    session: Session, now: datetime, *, idle_timeout: timedelta, lifetime: timedelta
) -> bool:
    """Whether the session was idle for too long, or exceeded its lifetime."""
    return session.seen_at + idle_timeout <= now or session.created_at + lifetime <= now
