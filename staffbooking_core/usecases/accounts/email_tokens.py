"""Tokens in the links of mails: who holds one may do one thing, signed in or not.

A token names its user and what it is good for, and is signed by the vault over that and a
fingerprint of what using it changes: so it is kept nowhere, and a used one is worth nothing.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.errors import RuleBroken
from staffbooking_core.inputs import MAX_ID
from staffbooking_core.ports import Ports


class TokenPurpose(StrEnum):
    """What a token is for; the vault's purpose."""

    VERIFY_EMAIL = "verify-email"
    RESET_PASSWORD = "reset-password"
    UNSUBSCRIBE = "unsubscribe"


_TOKEN_PATTERN = re.compile(r"([1-9][0-9]{0,18})\.([a-z0-9_]{1,32})\.([A-Za-z0-9_-]{43})")


@frozen
class EmailToken:
    """A token as it was shown: nothing of it is known to be true yet."""

    user_id: int
    detail: str
    """Of an unsubscription the kind of notices, of the others when they expire (Unix time)."""
    signature: bytes


def invalid_token() -> RuleBroken:
    return RuleBroken("token_invalid", "The link is wrong, was used already, or has expired")


def verification_token(ports: Ports, user: User) -> str:
    """The token by which somebody shows that they read the mail to their address."""
    until = ports.clock.wall() + ports.policy.verification_lifetime
    return _sign_token(ports, TokenPurpose.VERIFY_EMAIL, user, str(int(until.timestamp())))


def password_reset_token(ports: Ports, user: User) -> str:
    """The token that lets somebody set a password."""
    until = ports.clock.wall() + ports.policy.reset_lifetime
    return _sign_token(ports, TokenPurpose.RESET_PASSWORD, user, str(int(until.timestamp())))


def unsubscribe_token(ports: Ports, user: User, kind: NotificationKind) -> str:
    """The token that ends notices of a kind; it never expires, as mails don't."""
    return _sign_token(ports, TokenPurpose.UNSUBSCRIBE, user, kind)


def parse_token(token_text: str) -> EmailToken:
    """What a token says of itself. Raises RuleBroken `token_invalid` for no token."""
    if not (match := _TOKEN_PATTERN.fullmatch(token_text)) or int(match[1]) > MAX_ID:
        raise invalid_token()
    return EmailToken(int(match[1]), match[2], base64.urlsafe_b64decode(match[3] + "="))


def check_token(ports: Ports, purpose: TokenPurpose, token: EmailToken, user: User | None) -> User:
    """The user of a token, as they are now, who must be the one it was made for. Raises
    RuleBroken `token_invalid`, also for a token that has expired or was used."""
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
    """What is signed: it changes with what the token is used for."""
    match purpose:
        case TokenPurpose.VERIFY_EMAIL:
            state = f"{normalize_email(user.email)} {user.email_verified_at}"
        case TokenPurpose.RESET_PASSWORD:
            state = user.password_hash or ""
        case TokenPurpose.UNSUBSCRIBE:
            state = ""
    return f"{user.id}.{detail}.{state}".encode()
