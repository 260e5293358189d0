"""The life of a booking through the client that openapi-python-client generates.

    python walk.py BASE_URL API_KEY

Every step is checked; the script ends with the line `done`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from staffbooking_client import AuthenticatedClient, Client
from staffbooking_client.api.accounts import login
from staffbooking_client.api.bookings import (
    accept_booking,
    cancel_booking,
    create_booking,
    get_booking,
    list_bookings,
    open_checkout,
    quote_booking,
    quote_cancellation,
)
from staffbooking_client.api.companions import get_availability, search_companions
from staffbooking_client.api.sandbox import act_on_checkout
from staffbooking_client.api.webhooks import (
    create_webhook,
    delete_webhook,
    list_deliveries,
    list_events,
    list_webhooks,
    rotate_webhook_secret,
    try_webhook,
    update_webhook,
)
from staffbooking_client.models import (
    ActOnCheckoutRequest,
    Booking,
    BookingCreatedEvent,
    BookingOrGlimpse,
    BookingPage,
    BookingReply,
    BookingStatus,
    CancelBookingRequest,
    CancellationQuote,
    Checkout,
    CheckoutOutcome,
    CheckoutState,
    CompanionPage,
    CreateBookingRequest,
    CreateWebhookRequest,
    DeliveryPage,
    Error,
    EventName,
    EventPage,
    FreeDays,
    InvalidInput,
    LoginRequest,
    NewSecret,
    NewSession,
    NewWebhook,
    QuoteReply,
    RequestQuote,
    Success,
    TrialDeliveryReply,
    UpdateWebhookRequest,
    WebhookList,
    WebhookReply,
)

T = TypeVar("T")
PASSWORD = "demo-password-1"
FIRST_DAY = datetime.now(UTC).date() + timedelta(days=20)


def expect(kind: type[T], found: object) -> T:
    """The answer, which must be of this kind."""
    if not isinstance(found, kind):
        raise SystemExit(f"expected {kind.__name__}, not {found}")
    return found


def sign_in(base_url: str, email: str) -> tuple[Client, NewSession]:
    client = Client(base_url=base_url)
    body = LoginRequest(email=email, password=PASSWORD)
    session = expect(NewSession, login.sync(client=client, body=body))
    client.get_httpx_client().headers["X-CSRF-Token"] = session.csrf_token
    return client, session


def wait_for(read: Callable[[], Booking], status: BookingStatus) -> Booking:
    for _ in range(300):
        if (booking := read()).status == status:
            return booking
        time.sleep(0.1)
    raise SystemExit(f"never {status}")


def book(program: AuthenticatedClient, companion_id: int) -> Booking:
    """Search, quote and request, with a mistake and a repetition on the way."""
    found = expect(CompanionPage, search_companions.sync(client=program, location="Lisbon"))
    companion = next(each for each in found.companions if each.id == companion_id)
    days = expect(
        FreeDays,
        get_availability.sync(
            companion.id,
            client=program,
            start_date=FIRST_DAY,
            end_date=FIRST_DAY + timedelta(days=30),
        ),
    )
    day = next(each for each in days.availability if each.slots)
    wanted = RequestQuote(
        companion_id=companion.id,
        event_date=day.date,
        start_time=day.slots[0].start,
        duration_hours=1,
        service_type=companion.service_types.split(",")[0],
    )
    quote = expect(QuoteReply, quote_booking.sync(client=program, body=wanted)).quote
    assert quote.available
    body = CreateBookingRequest(
        **wanted.to_dict() | {"event_date": day.date},
        location="Rua Augusta 1",
        customer_email="customer@demo.test",
    )
    body.duration_hours = 99
    refused = expect(InvalidInput, create_booking.sync(client=program, body=body))
    assert [each.field for each in refused.errors] == ["duration_hours"]
    body.duration_hours = 1
    key = f"python-{time.time_ns()}"
    made, again = (
        create_booking.sync_detailed(client=program, body=body, idempotency_key=key)
        for _ in range(2)
    )
    assert again.headers["Idempotent-Replay"] == "true"
    booking = expect(BookingReply, made.parsed).booking
    assert expect(BookingReply, again.parsed).booking.id == booking.id
    assert booking.total_amount == quote.total_amount
    return booking


def walk_booking(base_url: str, program: AuthenticatedClient) -> Booking:
    """From the request to its cancellation after the payment."""
    staff, signed_in = sign_in(base_url, "staff@demo.test")
    customer, _ = sign_in(base_url, "customer@demo.test")
    booking = book(program, signed_in.user.id)
    code = booking.booking_code

    def read() -> Booking:
        told = expect(BookingOrGlimpse, get_booking.sync(code, client=program))
        return expect(Booking, told.booking)

    expect(BookingReply, accept_booking.sync(booking.id, client=staff))
    wait_for(read, BookingStatus.ACCEPTED)
    checkout = expect(Checkout, open_checkout.sync(booking.id, client=customer))
    page = checkout.checkout_url.rpartition("/")[2]
    paying = ActOnCheckoutRequest(outcome=CheckoutOutcome.SUCCEED)
    expect(CheckoutState, act_on_checkout.sync(page, client=customer, body=paying))
    wait_for(read, BookingStatus.PAID)
    offer = expect(CancellationQuote, quote_cancellation.sync(booking.id, client=customer))
    cancelled = expect(
        BookingReply,
        cancel_booking.sync(
            booking.id, client=customer, body=CancelBookingRequest(quote=offer.quote)
        ),
    )
    assert cancelled.booking.status == BookingStatus.CANCELLED
    listed = expect(BookingPage, list_bookings.sync(client=program, status=BookingStatus.CANCELLED))
    assert code in [each.booking_code for each in listed.bookings]
    lost = expect(Error, get_booking.sync("BK00000000000A", client=program))
    assert lost.code == "not_found"
    return booking


def walk_webhooks(program: AuthenticatedClient, booking: Booking) -> None:
    """An endpoint from its registration to its end, and the feed of its events."""
    wanted = CreateWebhookRequest(
        url="https://hooks.example.com/in", events=[EventName.BOOKING_CREATED]
    )
    made = expect(NewWebhook, create_webhook.sync(client=program, body=wanted))
    number = made.webhook.id
    tried = expect(TrialDeliveryReply, try_webhook.sync(number, client=program))
    assert not tried.success
    assert tried.delivery.error is not None
    listed = expect(DeliveryPage, list_deliveries.sync(number, client=program))
    assert [each.id for each in listed.deliveries] == [tried.delivery.id]
    assert expect(NewSecret, rotate_webhook_secret.sync(number, client=program)).secret
    pause = UpdateWebhookRequest(active=False)
    paused = expect(WebhookReply, update_webhook.sync(number, client=program, body=pause))
    assert not paused.webhook.active
    known = expect(WebhookList, list_webhooks.sync(client=program)).webhooks
    assert number in [each.id for each in known]
    expect(Success, delete_webhook.sync(number, client=program))
    page = expect(EventPage, list_events.sync(client=program, limit=100))
    while page.has_more:
        last = page.events[-1].id
        page = expect(EventPage, list_events.sync(client=program, limit=100, after=last))
    created = [each for each in page.events if isinstance(each, BookingCreatedEvent)]
    assert booking.booking_code in [each.data.booking.booking_code for each in created]


def main(base_url: str, api_key: str) -> None:
    program = AuthenticatedClient(base_url=base_url, token=api_key)
    booking = walk_booking(base_url, program)
    walk_webhooks(program, booking)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
