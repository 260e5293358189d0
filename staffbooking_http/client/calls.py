"""Every call of the API by key, defined once for both clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from decimal import Decimal

from staffbooking_http.client.errors import NotReached, RateLimited, Unavailable
from staffbooking_http.client.exchange import Call, Flow, Listing, SansIoClient
from staffbooking_http.client.feed import Cursor, Feed
from staffbooking_http.client.shapes import (
    Booking,
    Companion,
    CompanionDetail,
    Delivery,
    Event,
    FreeDays,
    NewSecret,
    NewWebhook,
    Quote,
    ServiceType,
    TrialDelivery,
    UserReviews,
    Webhook,
)

FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 2.0, 30.0


def search(
    *,
    location: str | None = None,
    service: str | None = None,
    min_price: Decimal | int | None = None,
    max_price: Decimal | int | None = None,
    date: date | str | None = None,
    page: int | None = None,
    limit: int | None = None,
) -> Listing[Companion]:
    """Find companions, best rated first, from a page on; `limit` (1 to 50) is a page's size.
    Prices are per hour, `date` is a day with a free hour."""
    return Listing(
        Call("GET", "/api/v1/companions", query=locals(), result="companions", is_whole=True)
    )


def get_companion(companion_id: int) -> Call[CompanionDetail]:
    """A companion's profile. Raises NotFound."""
    return Call("GET", "/api/v1/companions/{id}", {"id": companion_id}, result="companion")


def get_availability(
    companion_id: int, start_date: date | str, end_date: date | str
) -> Call[FreeDays]:
    """The free hours of each day from start to end, at most 92 days. Raises NotFound."""
    path, values = "/api/v1/companions/{id}/availability", {"id": companion_id}
    query = {"start_date": start_date, "end_date": end_date}
    return Call("GET", path, values, query, result="availability", is_whole=True)


def get_service_types() -> Call[list[ServiceType]]:
    """All services, with the number of companions for each."""
    return Call("GET", "/api/v1/service-types", result="service_types")


def get_reviews(
    user_id: int, *, page: int | None = None, limit: int | None = None
) -> Call[UserReviews]:
    """One page of the reviews of a user, newest first. Raises NotFound."""
    path, query = "/reviews/user/{id}", {"page": page, "limit": limit}
    return Call("GET", path, {"id": user_id}, query, result="reviews", is_whole=True)


def quote(
    *,
    companion_id: int,
    event_date: date | str,
    start_time: time | str,
    duration_hours: int,
    service_type: str,
    cancellation_insurance: bool | None = None,
) -> Call[Quote]:
    """The price of a booking, and whether the companion is available; nothing is reserved. Date
    and time are local to the companion, the time is in whole minutes (ValueError for another, or
    one with a time zone). Raises InvalidInput, NotFound."""
    return Call("POST", "/api/v1/quotes", body=locals(), result="quote", changes=False)


def book(
    *,
    companion_id: int,
    event_date: date | str,
    start_time: time | str,
    duration_hours: int,
    service_type: str,
    location: str,
    customer_email: str,
    cancellation_insurance: bool | None = None,
    event_ref: str | None = None,
    rebooking_of: str | None = None,
    idempotency_key: str | None = None,
) -> Call[Booking]:
    """Request a booking for a registered customer: it is pending until the companion accepts.

    Date and time are as for `quote`. One call makes one booking at most, however often it is
    repeated. To keep that over a restart of your program, store an `idempotency_key` of your own
    before the call (1 to 255 printable ASCII characters; without one, a call makes one up). Raises
    InvalidInput, NotFound, and RuleBroken, for example with `companion_unavailable` and its
    `reason`.
    """
    body, path = _fields_of(locals()), "/api/v1/bookings"
    return Call("POST", path, body=body, result="booking", idempotency_key=idempotency_key)


def get_booking(booking_code: str) -> Call[Booking]:
    """A booking by its code. Raises NotFound."""
    return Call("GET", "/api/v1/bookings/{code}", {"code": booking_code}, result="booking")


def get_bookings(
    *, status: str | None = None, page: int | None = None, limit: int | None = None
) -> Listing[Booking]:
    """The bookings that the key's owner made or is a party of, from a page on, newest event
    first; `limit` (1 to 50) is a page's size."""
    return Listing(
        Call("GET", "/api/v1/bookings", query=locals(), result="bookings", is_whole=True)
    )


def wait_for(
    booking: Booking | str, status: str, timeout: float
) -> Callable[[SansIoClient], Flow[Booking]]:
    """Wait until a booking, given by its record or code, has reached a status, even if it has
    passed on since, and return its record. `timeout` is in seconds. Raises NotReached when
    it is over, and at once when the booking is cancelled. Unavailable and RateLimited are raised
    only by the last poll, other errors at once."""
    code = booking if isinstance(booking, str) else booking["booking_code"]

    def flow(client: SansIoClient) -> Flow[Booking]:
        end, pause = client.clock() + timeout, FIRST_POLL_SECONDS
        while True:
            retry_after = 0.0
            try:
                record = yield from client.send(get_booking(code))
            except (RateLimited, Unavailable) as error:
                remaining = end - client.clock()
                if remaining <= 0:
                    raise
                retry_after = error.retry_after or 0.0
            else:
                statuses = (each["to"] for each in record.get("timeline", ()))
                if status in {record["status"], *statuses}:
                    return record
                remaining = end - client.clock()
                if remaining <= 0 or record["status"] == "cancelled":
                    raise NotReached(record, status)
            yield min(remaining, max(pause, retry_after))
            pause = min(pause * 2, LONGEST_POLL_SECONDS)

    return flow


def get_webhooks() -> Call[list[Webhook]]:
    """Your endpoints."""
    return Call("GET", "/api/webhooks", result="webhooks")


def create_webhook(
    url: str,
    *,
    events: Sequence[str] | None = None,
    description: str | None = None,
    ordered: bool | None = None,
    idempotency_key: str | None = None,
) -> Call[NewWebhook]:
    """Register an https address, by default for the first five events. The answer has the secret
    for `WebhookReceiver`, this once. Raises InvalidInput, RuleBroken `too_many_webhooks`."""
    body, path = _fields_of(locals()), "/api/webhooks"
    return Call(
        "POST", path, body=body, result="secret", is_whole=True, idempotency_key=idempotency_key
    )


def update_webhook(
    webhook_id: int,
    *,
    events: Sequence[str] | None = None,
    description: str | None = None,
    active: bool | None = None,
    ordered: bool | None = None,
) -> Call[Webhook]:
    """Change what is given; `active=False` pauses an endpoint. Raises InvalidInput, NotFound."""
    body, path = _fields_of(locals()), "/api/webhooks/{id}"
    return Call("PATCH", path, {"id": webhook_id}, body=body, result="webhook")


def delete_webhook(webhook_id: int) -> Call[object]:
    """Delete an endpoint; what was not yet sent to it is cancelled. Raises NotFound."""
    path, values = "/api/webhooks/{id}", {"id": webhook_id}
    return Call("DELETE", path, values, result="success", is_whole=True)


def rotate_webhook_secret(
    webhook_id: int, *, idempotency_key: str | None = None
) -> Call[NewSecret]:
    """Make a new secret beside the old one. Raises NotFound."""
    path, values = "/api/webhooks/{id}/rotate-secret", {"id": webhook_id}
    return Call(
        "POST", path, values, result="secret", is_whole=True, idempotency_key=idempotency_key
    )


def activate_webhook_secret(
    webhook_id: int, *, idempotency_key: str | None = None
) -> Call[Webhook]:
    """Let the new secret replace the old one now. Raises NotFound, RuleBroken."""
    path, values = "/api/webhooks/{id}/activate-secret", {"id": webhook_id}
    return Call("POST", path, values, result="webhook", idempotency_key=idempotency_key)


def try_webhook(webhook_id: int, *, idempotency_key: str | None = None) -> Call[TrialDelivery]:
    """Send a test event now, and return what came of it. Raises NotFound."""
    path, values = "/api/webhooks/{id}/test", {"id": webhook_id}
    return Call("POST", path, values, result="delivery", idempotency_key=idempotency_key)


def get_deliveries(
    webhook_id: int, *, page: int | None = None, limit: int | None = None
) -> Listing[Delivery]:
    """The deliveries to an endpoint, from a page on; `limit` (1 to 50) is a page's size."""
    path, values = "/api/webhooks/{id}/deliveries", {"id": webhook_id}
    query = {"page": page, "limit": limit}
    return Listing(Call("GET", path, values, query, result="deliveries", is_whole=True))


def redeliver(
    webhook_id: int, delivery_id: int, *, idempotency_key: str | None = None
) -> Call[Delivery]:
    """Send a finished delivery again. Raises NotFound, RuleBroken."""
    path = "/api/webhooks/{id}/deliveries/{delivery_id}/redeliver"
    values = {"id": webhook_id, "delivery_id": delivery_id}
    return Call("POST", path, values, result="delivery", idempotency_key=idempotency_key)


def get_events(cursor: Cursor | None = None, *, limit: int | None = None) -> Listing[Event]:
    """Your events after the cursor, oldest first, to the newest at present. The cursor moves past
    an event when the next one is asked for: an event that your program fails to process comes
    again. `limit` (1 to 100) is a page's size. Raises RuleBroken `unknown_event` for a cursor
    that is not in your feed."""
    query = {"limit": limit}
    return Feed(Call("GET", "/api/events", query=query, result="events", is_whole=True), cursor)


def _fields_of(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call that are fields of its body."""
    others = {"webhook_id", "idempotency_key"}
    return {name: value for name, value in arguments.items() if name not in others}
