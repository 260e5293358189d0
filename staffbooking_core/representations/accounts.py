"""Records of accounts: users, sessions, API keys, inquiries, preferences (CONTRACT 2)."""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import (
    Role,
    Session,
    Subscription,
    User,
    session_public_id,
)
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.representations.json_types import (
    Id,
    JsonSchema,
    Timestamp,
    format_instant,
)

__all__ = ["ApiKeyRecord", "UserRecord"]


class UserRecord(TypedDict):
    """A user, without the password."""

    id: Id
    email: str
    first_name: str
    last_name: str
    role: Role
    subscription: Subscription
    subscription_expires_at: Timestamp | None
    created_at: Timestamp
    email_verified: bool


def user_record(user: User) -> UserRecord:
    """The record of a user."""
    return {
        "id": user.id,
        "email": user.email,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "role": user.role,
        "subscription": user.subscription,
        "subscription_expires_at": format_instant(user.subscription_expires_at),
        "created_at": format_instant(user.created_at),
        "email_verified": user.email_verified_at is not None,
    }


class SessionRecord(TypedDict):
    """A session, as its user sees it."""

    id: str
    created_at: Timestamp
    last_seen_at: Timestamp
    current: Annotated[bool, JsonSchema(description="whether it is the session of this request")]


def session_record(session: Session, current: Session) -> SessionRecord:
    """The record of a session; `current` is the session of the request."""
    return {
        "id": session_public_id(session.digest),
        "created_at": format_instant(session.created_at),
        "last_seen_at": format_instant(session.seen_at),
        "current": session.digest == current.digest,
    }


class ApiKeyRecord(TypedDict):
    """An API key, without the key itself."""

    id: Id
    name: str
    masked_key: Annotated[str, JsonSchema(examples=["ps_abcd…wxyz"])]
    permissions: list[Permission]
    created_at: Timestamp
    last_used_at: Timestamp | None
    expires_at: Timestamp | None
    revoked_at: Timestamp | None


def api_key_record(key: ApiKey) -> ApiKeyRecord:
    """The record of an API key."""
    return {
        "id": key.id,
        "name": key.name,
        "masked_key": key.masked_key,
        "permissions": sorted(key.permissions, reverse=True),
        "created_at": format_instant(key.created_at),
        "last_used_at": format_instant(key.last_used_at),
        "expires_at": format_instant(key.expires_at),
        "revoked_at": format_instant(key.revoked_at),
    }


class InquiryRecord(TypedDict):
    """An inquiry, as operators and its author see it."""

    id: Id
    name: str
    email: str
    subject: str
    message: str
    created_at: Timestamp


def inquiry_record(inquiry: Inquiry) -> InquiryRecord:
    """The record of an inquiry."""
    return {
        "id": inquiry.id,
        "name": inquiry.name,
        "email": inquiry.email,
        "subject": inquiry.subject,
        "message": inquiry.message,
        "created_at": format_instant(inquiry.created_at),
    }


class NotificationPreferencesRecord(TypedDict):
    """Whether a user receives each optional kind of email."""

    accepted: bool
    payout: bool
    new_message: bool


def notification_preferences_record(
    preferences: Mapping[NotificationKind, bool],
) -> NotificationPreferencesRecord:
    """The record of a user's notification preferences."""
    return {
        "accepted": preferences[NotificationKind.ACCEPTED],
        "payout": preferences[NotificationKind.PAYOUT],
        "new_message": preferences[NotificationKind.NEW_MESSAGE],
    }
