"""Conversations, messages, and connections to the channel."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    _add_conversations()
    _add_messages()
    _add_presence()
    _open_groups()


def _where(rows: str) -> dict[str, Any]:
    """The condition of a partial index."""
    return {"postgresql_where": text(rows), "sqlite_where": text(rows)}


def _add_conversations() -> None:
    op.create_table(
        "conversations",
        Column("id", BigInt, nullable=False),
        Column("kind", Text(), nullable=False),
        Column("customer_id", BigInt, nullable=False),
        Column("companion_id", BigInt),
        Column("event_ref", Text()),
        Column("updated_at", Instant, nullable=False),
        Column("last_id", BigInt, nullable=False),
        Column("opened", Boolean(), nullable=False),
        ForeignKeyConstraint(["customer_id"], ["users.id"], name="fk_conversations_customer_id"),
        ForeignKeyConstraint(
            ["companion_id"], ["companions.id"], name="fk_conversations_companion_id"
        ),
        PrimaryKeyConstraint("id", name="pk_conversations"),
        UniqueConstraint("companion_id", "customer_id", name="uq_conversations_pair"),
        UniqueConstraint("customer_id", "event_ref", name="uq_conversations_event"),
    )
    op.create_table(
        "conversation_members",
        Column("conversation_id", BigInt, nullable=False),
        Column("user_id", BigInt, nullable=False),
        Column("read_id", BigInt, nullable=False),
        Column("left_id", BigInt),
        ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name="fk_conversation_members_conversation_id",
        ),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_conversation_members_user_id"),
        PrimaryKeyConstraint("conversation_id", "user_id", name="pk_conversation_members"),
    )
    op.create_index(
        "ix_conversation_members_user", "conversation_members", ["user_id", "conversation_id"]
    )
    op.create_index("ix_bookings_pair", "bookings", ["companion_id", "customer_id", "id"])
    op.create_index(
        "ix_bookings_event",
        "bookings",
        ["customer_id", "event_ref"],
        **_where("event_ref IS NOT NULL"),
    )


def _add_messages() -> None:
    op.create_table(
        "messages",
        Column("conversation_id", BigInt, nullable=False),
        Column("sender_id", BigInt, nullable=False),
        Column("sender_name", Text(), nullable=False),
        Column("content", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("recipients", Text(), nullable=False),
        Column("client_id", Text()),
        Column("id", BigInt, nullable=False, autoincrement=False),
        PrimaryKeyConstraint("id", name="pk_messages"),
    )
    op.create_index("ix_messages_conversation", "messages", ["conversation_id", "id", "sender_id"])
    op.create_index(
        "uq_messages_conversation_id_sender_id_client_id",
        "messages",
        ["conversation_id", "sender_id", "client_id"],
        unique=True,
        **_where("client_id IS NOT NULL"),
    )


def _add_presence() -> None:
    op.create_table(
        "channel_nodes",
        Column("id", Text(), nullable=False),
        Column("lease_until", Instant, nullable=False),
        PrimaryKeyConstraint("id", name="pk_channel_nodes"),
    )
    op.create_table(
        "channel_connections",
        Column("user_id", BigInt, nullable=False),
        Column("node", Text(), nullable=False),
        Column("n", BigInt, nullable=False),
        PrimaryKeyConstraint("user_id", "node", name="pk_channel_connections"),
    )
    op.create_index("ix_channel_connections_node", "channel_connections", ["node"])
    op.create_table(
        "last_seen",
        Column("user_id", BigInt, nullable=False, autoincrement=False),
        Column("at", Instant, nullable=False),
        PrimaryKeyConstraint("user_id", name="pk_last_seen"),
    )


BOOKED = "status IN ('accepted', 'paid', 'completed', 'disputed')"


def _open_groups() -> None:
    """Create the groups of events that have at least two bookings, with their members."""
    op.execute(
        "INSERT INTO conversations (kind, customer_id, event_ref, updated_at, last_id, opened)"
        " SELECT 'group', customer_id, event_ref, max(coalesce(accepted_at, created_at)), 0, true"
        f" FROM bookings WHERE event_ref IS NOT NULL AND {BOOKED}"
        " GROUP BY customer_id, event_ref HAVING count(*) >= 2"
    )
    op.execute(
        "INSERT INTO conversation_members (conversation_id, user_id, read_id)"
        " SELECT id, customer_id, 0 FROM conversations"
        " UNION SELECT conversations.id, bookings.companion_id, 0 FROM conversations"
        " JOIN bookings ON bookings.customer_id = conversations.customer_id"
        f" AND bookings.event_ref = conversations.event_ref WHERE bookings.{BOOKED}"
    )
