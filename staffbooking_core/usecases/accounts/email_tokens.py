"""Tokens in the links of e-mails: each lets its holder do one thing, logged in or not.

A token names its user and purpose, and is signed by the vault over both and over the state that its
use changes. So tokens are not stored, and a used token is invalid.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports

__all__ = ["TokenPurpose"]


class TokenPurpose(StrEnum):
    """Purpose of a token; the vault's purpose of its signature."""

    VERIFY_EMAIL = "verify-email"
    RESET_PASSWORD = "reset-password"
    UNSUBSCRIBE = "unsubscribe"


_TOKEN_PATTERN = re.compile(r"([1-9][0-9]{0,18})\.([a-z0-9_]{1,32})\.([A-Za-z0-9_-]{43})")


@frozen
class EmailToken:
    """A parsed token, not verified yet."""

    user_id: int
    detail: str
    """The notification kind of an unsubscription; the expiry of the others (Unix time, seconds)."""
    signature: bytes


def invalid_token() -> RuleBroken:
    """The error for every invalid token: RuleBroken `token_invalid`."""
    return RuleBroken("token_invalid", "The link is wrong, was used already, or has expired")


def verification_token(ports: Ports, user: User) -> str:
    """A token that verifies the user's e-mail address, until `policy.verification_lifetime`
    ends."""
    until = ports.clock.wall() + ports.policy.verification_lifetime
    return _sign_token(ports, TokenPurpose.VERIFY_EMAIL, user, str(int(until.timestamp())))


def password_reset_token(ports: Ports, user: User) -> str:
    """A token that sets the user's password, until `policy.reset_lifetime` ends."""
    until = ports.clock.wall() + ports.policy.reset_lifetime
    return _sign_token(ports, TokenPurpose.RESET_PASSWORD, user, str(int(until.timestamp())))


def unsubscribe_token(ports: Ports, user: User, kind: NotificationKind) -> str:
    """A token that ends notifications of a kind. It never expires, since e-mails are kept."""
    return _sign_token(ports, TokenPurpose.UNSUBSCRIBE, user, kind)


def parse_token(token_text: str) -> EmailToken:
    """The fields of a token, unverified. Raises RuleBroken `token_invalid` where it is
    malformed."""
    if not (match := _TOKEN_PATTERN.fullmatch(token_text)) or int(match[1]) > MAX_ID:
        raise invalid_token()
    return EmailToken(int(match[1]), match[2], base64.urlsafe_b64decode(match[3] + "="))


def check_token(ports: Ports, purpose: TokenPurpose, token: EmailToken, user: User | None) -> User:
    """The user of a valid token. `user` is the current row of `token.user_id`.

    Raises RuleBroken `token_invalid` for a forged, expired or used token, and for a disabled user
    except to unsubscribe.
    """
    if user is None or (user.disabled_at is not None and purpose is not TokenPurpose.UNSUBSCRIBE):
        raise invalid_token()
    message = _signed_message(purpose, user, token.detail)
    if not ports.vault.verify(purpose, message, token.signature):
        raise invalid_token()
    if purpose is not TokenPurpose.UNSUBSCRIBE:
        until = datetime.fromtimestamp(int(token.detail), UTC)
        if ports.clock.wall() >= until:
            raise invalid_token()
    return user


def _sign_token(ports: Ports, purpose: TokenPurpose, user: User, detail: str) -> str:
    signature = ports.vault.sign(purpose, _signed_message(purpose, user, detail))
    return f"{user.id}.{detail}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def _signed_message(purpose: TokenPurpose, user: User, detail: str) -> bytes:
    """The signed bytes; they contain the state that the use of the token changes."""
    match purpose:
        case TokenPurpose.VERIFY_EMAIL:
            state = f"{normalize_email(user.email)} {user.email_verified_at}"
        case TokenPurpose.RESET_PASSWORD:
            state = user.password_hash or ""
        case TokenPurpose.UNSUBSCRIBE:
            state = ""
    return f"{user.id}.{detail}.{state}".encode()
