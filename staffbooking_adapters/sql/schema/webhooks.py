"""Tables of webhook endpoints, their deliveries, and the pull feed.

Times of claims, leases, deliveries and attempts are wall time; `created_at` is business time, for a
delivery the time at which its event was fanned out.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    false,
    or_,
    true,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index
from staffbooking_core.domain.webhooks.deliveries import FINISHED_DELIVERY_STATUSES, DeliveryStatus

# Endpoints --------------------------------------------------------------------------------

endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("owner_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("events", Text, nullable=False),
    Column("description", Text),
    Column("created_at", Instant, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("next_secret", LargeBinary),
    Column("next_secret_from", Instant),
    Column("active", Boolean, nullable=False),
    Column("consecutive_failures", BigInt, nullable=False),
    Column("disabled_at", Instant),
    Column("disabled_reason", Text),
    Column("deleted_at", Instant),
    Column("troubled", Boolean, nullable=False),
    Column("succeeded", BigInt, nullable=False),
    Column("failed", BigInt, nullable=False),
    Column("ordered", Boolean, nullable=False, server_default=false()),
    Column("due_at", Instant),
    Column("lease_token", Text),
    Column("lease_until", Instant),
)
"""One column for each field of the domain's `WebhookEndpoint`, in its order (three for its
secrets); the time of its next batch, NULL if no delivery is pending; and the claim."""

is_endpoint_not_deleted = endpoints.c.deleted_at.is_(None)

is_silent_endpoint = and_(
    is_endpoint_not_deleted,
    or_(
        endpoints.c.disabled_at.is_not(None),
        endpoints.c.consecutive_failures > 0,
        endpoints.c.troubled == true(),
    ),
)
partial_index("ix_webhook_endpoints_silent", endpoints.c.id, where=is_silent_endpoint)

Index("ix_webhook_endpoints_owner", endpoints.c.owner_id, endpoints.c.id)
partial_index(
    "ix_webhook_endpoints_turns",
    *(endpoints.c.troubled, endpoints.c.due_at, endpoints.c.id),
    where=endpoints.c.due_at.is_not(None),
)
partial_index(
    "ix_webhook_endpoints_claims",
    endpoints.c.lease_token,
    where=endpoints.c.lease_token.is_not(None),
)

# Deliveries -------------------------------------------------------------------------------

deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("endpoint_id", BigInt, ForeignKey("webhook_endpoints.id"), nullable=False),
    Column("event_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("status", Text, nullable=False),
    Column("next_at", Instant, nullable=False),
    Column("attempts", BigInt, nullable=False),
    Column("tries", BigInt, nullable=False),
    Column("counts", Boolean, nullable=False),
    Column("held_at", Instant),
    Column("body", LargeBinary),
    UniqueConstraint("endpoint_id", "event_id", name="uq_webhook_deliveries_event"),
    Index("ix_webhook_deliveries_newest", "endpoint_id", "id"),
    sqlite_autoincrement=True,
)
"""One column for each field of the domain's `Delivery`, in its order; and its own body where its
event is in no feed. `next_at` of a finished delivery is when it was last due; retention counts
from then. Ids are not reused, since owners retrieve deliveries by id."""

is_pending_delivery = deliveries.c.status == DeliveryStatus.PENDING
is_retry = and_(is_pending_delivery, deliveries.c.tries > 0)
is_first_try = and_(is_pending_delivery, deliveries.c.tries == 0)
is_held_delivery = deliveries.c.status == DeliveryStatus.HELD
is_waiting_delivery = deliveries.c.status == DeliveryStatus.WAITING
is_finished_delivery = deliveries.c.status.in_(sorted(FINISHED_DELIVERY_STATUSES))

is_open_or_failed = deliveries.c.status.not_in([DeliveryStatus.SUCCEEDED, DeliveryStatus.CANCELLED])
"""What needs a look: the few rows among many that have succeeded."""

partial_index(
    "ix_webhook_deliveries_troubles",
    deliveries.c.endpoint_id,
    deliveries.c.id,
    where=is_open_or_failed,
)

is_cancelled_delivery = deliveries.c.status == DeliveryStatus.CANCELLED
partial_index(
    "ix_webhook_deliveries_cancelled",
    *(deliveries.c.endpoint_id, deliveries.c.id),
    where=is_cancelled_delivery,
)

_QUEUE_COLUMNS = (deliveries.c.endpoint_id, deliveries.c.next_at, deliveries.c.id)
partial_index("ix_webhook_deliveries_retries", *_QUEUE_COLUMNS, where=is_retry)
partial_index("ix_webhook_deliveries_first_tries", *_QUEUE_COLUMNS, where=is_first_try)
partial_index("ix_webhook_deliveries_held", deliveries.c.endpoint_id, where=is_held_delivery)
partial_index("ix_webhook_deliveries_waiting", deliveries.c.endpoint_id, where=is_waiting_delivery)
partial_index(
    "ix_webhook_deliveries_held_since",
    deliveries.c.held_at,
    deliveries.c.id,
    where=is_held_delivery,
)
partial_index(
    "ix_webhook_deliveries_done", deliveries.c.next_at, deliveries.c.id, where=is_finished_delivery
)

attempts = Table(
    "webhook_attempts",
    metadata,
    Column(
        "delivery_id",
        BigInt,
        ForeignKey("webhook_deliveries.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("number", BigInt, nullable=False),
    Column("at", Instant, nullable=False),
    Column("duration_ms", BigInt, nullable=False),
    Column("response_status", BigInt),
    Column("error", Text),
    PrimaryKeyConstraint("delivery_id", "number"),
    Index("ix_webhook_attempts_at", "at", "delivery_id", "number"),
)
"""One column for each field of the domain's `DeliveryAttempt`, in its order, after its delivery."""

# The feed ---------------------------------------------------------------------------------

event_readers = Table(
    "event_readers",
    metadata,
    Column("user_id", BigInt, nullable=False),
    Column("position", BigInt, nullable=False),
    PrimaryKeyConstraint("user_id", "position"),
)
"""The feed of each party of an event; admins read all of `events`."""

is_unsequenced_event = events.c.position.is_(None)
is_positioned_event = events.c.position.is_not(None)

partial_index("ix_events_unplaced", events.c.id, where=is_unsequenced_event)
Index(
    "uq_events_position",
    events.c.position,
    unique=True,
    postgresql_where=is_positioned_event,
    sqlite_where=is_positioned_event,
)
