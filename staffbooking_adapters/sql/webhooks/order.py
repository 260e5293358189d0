"""Deliveries of ordered endpoints that wait for an earlier one of their booking."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Exists, FromClause, exists, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import events
from staffbooking_adapters.sql.schema.webhooks import deliveries
from staffbooking_core.domain.webhooks.deliveries import (
    FINISHED_DELIVERY_STATUSES,
    DeliveryStatus,
)


def _has_earlier_unfinished(delivery: FromClause) -> Exists:
    """Whether the endpoint has an unfinished delivery of an earlier event of the booking;
    redeliveries are outside the order."""
    event, earlier_event = events.alias("event"), events.alias("earlier_event")
    earlier = deliveries.alias("earlier")
    return (
        exists()
        .where(
            event.c.id == delivery.c.event_id,
            earlier_event.c.booking_id == event.c.booking_id,
            earlier_event.c.sequence < event.c.sequence,
            earlier.c.endpoint_id == delivery.c.endpoint_id,
            earlier.c.event_id == earlier_event.c.id,
            earlier.c.counts,
            earlier.c.status.not_in(sorted(FINISHED_DELIVERY_STATUSES)),
        )
        .correlate(delivery)
    )


MAKE_DELIVERIES_WAIT = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.WAITING)
    .where(
        in_array(deliveries.c.id, "delivery_ids"),
        deliveries.c.counts,
        _has_earlier_unfinished(deliveries),
    )
    .returning(deliveries.c.id)
)

_finished, _finished_event = deliveries.alias("finished"), events.alias("finished_event")
_later, _later_event = deliveries.alias("later"), events.alias("later_event")
RELEASE_WAITING_DELIVERIES = Statement(
    update(deliveries)
    .values(status=DeliveryStatus.PENDING)
    .where(
        deliveries.c.id.in_(
            select(_later.c.id).where(
                in_array(_finished.c.id, "delivery_ids"),
                _finished_event.c.id == _finished.c.event_id,
                _later_event.c.booking_id == _finished_event.c.booking_id,
                _later_event.c.sequence > _finished_event.c.sequence,
                _later.c.endpoint_id == _finished.c.endpoint_id,
                _later.c.event_id == _later_event.c.id,
                _later.c.status == DeliveryStatus.WAITING,
                ~_has_earlier_unfinished(_later),
            )
        )
    )
)


async def make_deliveries_wait(connection: Connection, delivery_ids: Sequence[int]) -> set[int]:
    """Make those of these deliveries wait that have an unfinished one before them; returns their
    ids."""
    rows = await connection.fetch_all(MAKE_DELIVERIES_WAIT, delivery_ids=list(delivery_ids))
    return {delivery_id for (delivery_id,) in rows}
