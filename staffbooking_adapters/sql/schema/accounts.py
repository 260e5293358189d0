"""Tables of users, their sessions and API keys, and of operators' changes.

Times of sessions, keys and logins are wall time.
"""

from __future__ import annotations

from attrs import fields
from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from staffbooking_adapters.sql.engine.types import BigInt, ByteOrderedText, Instant
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.accounts.users import Role, User

# Users ------------------------------------------------------------------------------------

users = Table(
    "users",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("email", Text, nullable=False),
    Column("email_folded", Text, nullable=False),
    Column("first_name", Text, nullable=False),
    Column("last_name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("subscription", Text, nullable=False),
    Column("subscription_expires_at", Instant),
    Column("password_hash", Text),
    *(Column(name, Instant) for name in ("disabled_at", "email_verified_at", "erased_at")),
    *(Column(name, Text) for name in ("language", "theme", "timezone")),
    # Accepted bookings: a new one is stored if there are as many as when it was decided.
    Column("acceptances", BigInt, nullable=False, server_default="0"),
    UniqueConstraint("email_folded", name="uq_users_email"),
    sqlite_autoincrement=True,
)
"""One column for each field of the domain's `User`, in its order; `email_folded` after the email
address, and `acceptances` at the end."""

USER_COLUMNS = tuple(users.c[field.name] for field in fields(User))
WRITABLE_USER_COLUMNS = tuple(
    column for column in users.c if column.name not in ("id", "acceptances")
)
"""The columns that are saved with a user; acceptances are counted apart."""

Index("ix_users_role", users.c.role, users.c.id)

is_disabled = users.c.disabled_at.is_not(None)
partial_index("ix_users_disabled", users.c.id, where=is_disabled)

is_admin = users.c.role == Role.ADMIN
partial_index("ix_users_admins", users.c.id, where=is_admin)
"""Admins receive every event."""

person_terms = Table(
    "person_terms",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("term", ByteOrderedText, nullable=False),
    PrimaryKeyConstraint("user_id", "term"),
    Index("ix_person_terms_term", "term", "user_id"),
)
"""The `search_terms` of accounts that are not erased, in the order of their code points."""

login_addresses = Table(
    "login_addresses",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("at", Instant, nullable=False),
    PrimaryKeyConstraint("user_id", "digest"),
)
"""Addresses from which a user has logged in, the newest `MAX_LOGIN_ADDRESSES`. Digests are keyed,
as hexadecimal text."""

# Sessions and keys ------------------------------------------------------------------------

sessions = Table(
    "sessions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False, index=True),
    Column("created_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    *(Column(name, Text) for name in ("browser", "system", "network")),
    Index("ix_sessions_seen_at", "seen_at"),
    Index("ix_sessions_created_at", "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("owner_id", BigInt, ForeignKey("users.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("masked_key", Text, nullable=False),
    Column("permissions", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("last_used_at", Instant),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    UniqueConstraint("digest", name="uq_api_keys_digest"),
    sqlite_autoincrement=True,
)
"""API keys. Digests are hexadecimal text, so that many can be looked up by one array. Ids of
erased keys are not reused, so that a revocation by id never applies to a later key."""

api_key_calls = Table(
    "api_key_calls",
    metadata,
    Column("key_id", BigInt, nullable=False, autoincrement=False),
    Column("hour", Instant, nullable=False),
    Column("calls", BigInt, nullable=False),
    PrimaryKeyConstraint("key_id", "hour"),
    Index("ix_api_key_calls_hour", "hour"),
)
"""How many requests each API key made in each hour of wall time. Not a foreign key: what is written
late for a key that was erased meanwhile must fail nothing."""

# Operators --------------------------------------------------------------------------------

audit = Table(
    "audit",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor_id", BigInt),
    Column("actor", Text),
    Column("act", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("subject_id", Text, nullable=False),
    Column("reason", Text),
    Column("origin", Text),
    Index("ix_audit_subject", "subject_id", "subject", "id"),
    Index("ix_audit_kind", "subject", "id"),
    Index("ix_audit_actor_id", "actor_id", "id"),
    Index("ix_audit_actor", "actor", "id"),
    sqlite_autoincrement=True,
)
"""Changes by operators. Triggers refuse every change of a row but one that only sets `reason` or
`origin` to NULL, as erasure does."""
