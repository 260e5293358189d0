"""Tables of conversations, messages and presence.

`updated_at` and `created_at` are business time; leases of nodes and the time a user was last seen
are wall time.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
    true,
)

from staffbooking_adapters.sql.engine.leases import NOW_PARAM
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index

# Conversations ----------------------------------------------------------------------------

conversations = Table(
    "conversations",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("companion_id", BigInt, ForeignKey("companions.id")),
    Column("event_ref", Text),
    Column("updated_at", Instant, nullable=False),
    Column("last_id", BigInt, nullable=False),
    Column("opened", Boolean, nullable=False),
    UniqueConstraint("companion_id", "customer_id", name="uq_conversations_pair"),
    UniqueConstraint("customer_id", "event_ref", name="uq_conversations_event"),
)
"""One column for each field of the domain's `Conversation` except its members, in its order; and
whether it is open: all are, except groups whose event has too few bookings so far."""

conversation_members = Table(
    "conversation_members",
    metadata,
    Column("conversation_id", BigInt, ForeignKey("conversations.id"), nullable=False),
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("read_id", BigInt, nullable=False),
    Column("left_id", BigInt),
    Column("told_id", BigInt, nullable=False, server_default="0"),
    PrimaryKeyConstraint("conversation_id", "user_id"),
    Index("ix_conversation_members_user", "user_id", "conversation_id"),
)

Index("ix_bookings_pair", bookings.c.companion_id, bookings.c.customer_id, bookings.c.id)
partial_index(
    "ix_bookings_event",
    *(bookings.c.customer_id, bookings.c.event_ref),
    where=bookings.c.event_ref.is_not(None),
)
"""Bookings determine who may be a member of a conversation."""

# Messages ---------------------------------------------------------------------------------

messages = Table(
    "messages",
    metadata,
    Column("conversation_id", BigInt, nullable=False),
    Column("sender_id", BigInt, nullable=False),
    Column("sender_name", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("recipients", Text, nullable=False),
    Column("client_id", Text),
    Column("id", BigInt, primary_key=True, autoincrement=False),
    Index("ix_messages_conversation", "conversation_id", "id", "sender_id"),
)
"""One column for each field of the domain's `Message`, in its order; `recipients` is a JSON
array of user ids. The table has no foreign keys: checking one would double the time
for which the lock that assigns ids is held."""

has_client_id = messages.c.client_id.is_not(None)
Index(
    "uq_messages_conversation_id_sender_id_client_id",
    *(messages.c.conversation_id, messages.c.sender_id, messages.c.client_id),
    unique=True,
    postgresql_where=has_client_id,
    sqlite_where=has_client_id,
)

# Presence ---------------------------------------------------------------------------------

channel_nodes = Table(
    "channel_nodes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("lease_until", Instant, nullable=False),
)

channel_connections = Table(
    "channel_connections",
    metadata,
    Column("user_id", BigInt, nullable=False),
    Column("node", Text, nullable=False),
    Column("n", BigInt, nullable=False),
    PrimaryKeyConstraint("user_id", "node"),
    Index("ix_channel_connections_node", "node"),
)

is_on_live_node = and_(
    channel_connections.c.node == channel_nodes.c.id, channel_nodes.c.lease_until > NOW_PARAM
)

last_seen = Table(
    "last_seen",
    metadata,
    Column("user_id", BigInt, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("is_unclaimed", Boolean, nullable=False, server_default=false()),
)
"""`is_unclaimed` is true until the messages are looked at that the user missed."""
is_unclaimed_departure = last_seen.c.is_unclaimed == true()
partial_index("ix_last_seen_unclaimed", last_seen.c.at, where=is_unclaimed_departure)
