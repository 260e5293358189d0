"""One call of each method of the clients."""

from __future__ import annotations

import inspect
from datetime import date, time
from decimal import Decimal
from typing import Any

from staffbooking_http.client import Client
from staffbooking_http.client.exchange import Call, Listing

EVENT = {
    "companion_id": 1,
    "event_date": date(2027, 3, 3),
    "start_time": time(18, 0),
    "duration_hours": 4,
    "service_type": "Gala dinner",
    "cancellation_insurance": True,
}

SAMPLES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "search": (
        (),
        {
            "location": "Lisbon",
            "service": "Gala dinner",
            "min_price": Decimal("10.50"),
            "max_price": 500,
            "date": date(2027, 3, 3),
            "page": 1,
            "limit": 2,
        },
    ),
    "get_companion": ((1,), {}),
    "get_availability": ((1, date(2027, 3, 3), "2027-03-04"), {}),
    "get_service_types": ((), {}),
    "get_reviews": ((1,), {"page": 1, "limit": 5}),
    "quote": ((), EVENT),
    "book": (
        (),
        {
            **EVENT,
            "location": "Rua Augusta 1",
            "customer_email": "ada@example.com",
            "event_ref": "gala",
            "rebooking_of": "BK000000000000",
            "idempotency_key": "order-1",
        },
    ),
    "get_booking": (("BK000000000000",), {}),
    "get_bookings": ((), {"status": "pending", "page": 1, "limit": 5}),
    "get_webhooks": ((), {}),
    "create_webhook": (
        ("https://example.com/hooks",),
        {
            "events": ["booking.created"],
            "description": "ours",
            "ordered": True,
            "idempotency_key": "order-1",
        },
    ),
    "update_webhook": (
        (1,),
        {"events": ["booking.created"], "description": "", "active": False, "ordered": True},
    ),
    "delete_webhook": ((1,), {}),
    "rotate_webhook_secret": ((1,), {"idempotency_key": "order-1"}),
    "activate_webhook_secret": ((1,), {"idempotency_key": "order-1"}),
    "try_webhook": ((1,), {"idempotency_key": "order-1"}),
    "get_deliveries": ((1,), {"page": 1, "limit": 5}),
    "redeliver": ((1, 2), {"idempotency_key": "order-1"}),
    "get_events": ((), {"limit": 5}),
}

FLOWS = {"wait_for", "run", "close"}
"""Methods that are no calls of their own."""


def method_names() -> set[str]:
    """The public methods of a client that make one call."""
    return {name for name, _ in inspect.getmembers(Client, callable) if name[0] != "_"} - FLOWS


def sample_call(name: str) -> Call[Any]:
    """The call that a method makes with every argument; of a list, the call for its first page."""
    args, kwargs = SAMPLES[name]
    made = getattr(Client, name)(*args, **kwargs)
    return made.first_call() if isinstance(made, Listing) else made
