"""Records of webhook endpoints and their deliveries (CONTRACT 7)."""

from collections.abc import Iterable
from typing import Annotated, TypeAlias, TypedDict

from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.representations.events import TEST_EVENT_NAME
from staffbooking_core.representations.json_types import (
    Count,
    EventId,
    Id,
    JsonSchema,
    PositiveCount,
    Timestamp,
    format_instant,
)

__all__ = ["WebhookRecord"]


class WebhookRecord(TypedDict):
    """A webhook endpoint, without its secret."""

    id: Id
    url: Annotated[str, JsonSchema(description="as it was registered")]
    events: list[EventName]
    description: str | None
    ordered: Annotated[bool, JsonSchema(description="whether events of one booking wait in line")]
    active: Annotated[bool, JsonSchema(description="false while it is paused or disabled")]
    consecutive_failures: Count
    disabled_at: Timestamp | None
    disabled_reason: str | None
    created_at: Timestamp


def webhook_record(endpoint: WebhookEndpoint) -> WebhookRecord:
    """The record of a webhook endpoint."""
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": [event for event in WEBHOOK_EVENTS if event in endpoint.events],
        "description": endpoint.description,
        "ordered": endpoint.ordered,
        "active": endpoint.active,
        "consecutive_failures": endpoint.consecutive_failures,
        "disabled_at": format_instant(endpoint.disabled_at),
        "disabled_reason": endpoint.disabled_reason,
        "created_at": format_instant(endpoint.created_at),
    }


class _OutcomeFields(TypedDict):
    """The outcome of an attempt; `error` is null if it succeeded."""

    response_status: int | None
    duration_ms: Count
    error: Annotated[str, JsonSchema(title="DeliveryFailure", enum=list(DeliveryFailure))] | None


class AttemptRecord(_OutcomeFields):
    """One attempt of a delivery."""

    number: PositiveCount
    at: Timestamp


def attempt_record(attempt: DeliveryAttempt) -> AttemptRecord:
    """The record of an attempt."""
    return {
        "number": attempt.number,
        "at": format_instant(attempt.at),
        "response_status": attempt.response_status,
        "duration_ms": attempt.duration_ms,
        "error": attempt.error,
    }


_DeliveryStatusName: TypeAlias = Annotated[
    str,
    JsonSchema(
        title="DeliveryStatus",
        enum=[each for each in DeliveryStatus if each is not DeliveryStatus.WAITING],
    ),
]
"""A waiting delivery is published as pending."""


class DeliveryRecord(TypedDict):
    """The delivery of an event to an endpoint, with its attempts."""

    id: Id
    event_id: EventId
    event: Annotated[
        str, JsonSchema(title="DeliveredEvent", enum=[*WEBHOOK_EVENTS, TEST_EVENT_NAME])
    ]
    status: _DeliveryStatusName
    attempts: list[AttemptRecord]
    next_attempt_at: Timestamp | None
    created_at: Timestamp


def delivery_record(delivery: Delivery, attempts: Iterable[DeliveryAttempt]) -> DeliveryRecord:
    """The record of a delivery. One that is held or waits has no `next_attempt_at`."""
    pending, waiting = DeliveryStatus.PENDING, delivery.status is DeliveryStatus.WAITING
    return {
        "id": delivery.id,
        "event_id": delivery.event_id,
        "event": delivery.event,
        "status": pending if waiting else delivery.status,
        "attempts": [attempt_record(attempt) for attempt in attempts],
        "next_attempt_at": (
            format_instant(delivery.next_at) if delivery.status is pending else None
        ),
        "created_at": format_instant(delivery.created_at),
    }


class TrialDeliveryRecord(_OutcomeFields):
    """The one attempt to deliver a test event."""

    id: Id
    status: _DeliveryStatusName


def webhook_test_record(delivery: Delivery, attempt: DeliveryAttempt) -> TrialDeliveryRecord:
    """The record of the attempt to deliver a test event."""
    return {
        "id": delivery.id,
        "status": delivery.status,
        "response_status": attempt.response_status,
        "duration_ms": attempt.duration_ms,
        "error": attempt.error,
    }
