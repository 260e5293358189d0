"""The shapes of what the interface answers, as JSON schemas for the documents.

Beside `records` of the core, which makes them; a test holds answers to these.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.bookings.booking import PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import EventName, Party, Status, Trigger
from staffbooking_core.domain.companions.companion import Approval, Badge, Tier
from staffbooking_core.domain.companions.portfolio import ItemStatus
from staffbooking_core.domain.messaging.conversations import Kind
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.domain.webhooks.deliveries import EVENTS, DeliveryStatus, Failure
from staffbooking_core.representations.events import API_VERSION, TEST_EVENT

Schema: TypeAlias = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
ID: Schema = {"type": "integer", "minimum": 1}
FLAG: Schema = {"type": "boolean"}
MONEY: Schema = {"type": "number", "description": "with the currency's exact decimals"}
DATE: Schema = {"type": "string", "format": "date"}
INSTANT: Schema = {"type": "string", "format": "date-time", "description": "UTC, with Z"}
CLOCK: Schema = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
CLOCK_END: Schema = {"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"}
RELATIVE_PATH: Schema = {"type": "string", "description": "relative path of an image"}
SUCCESS: Schema = {"const": True}
RATING_AVG: Schema = {"type": "number", "minimum": 0, "maximum": 5}


def choice(kind: Any) -> Schema:
    return {"type": "string", "enum": [str(member.value) for member in kind]}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def items(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def shape(fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object with these fields, and perhaps the optional ones; more may come later."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }


_HOURS: dict[str, Schema] = {"start": CLOCK, "end": CLOCK_END}
SLOT = shape(_HOURS)

_SUMMARY: dict[str, Schema] = {
    "id": ID,
    "first_name": TEXT,
    "profile_photo": RELATIVE_PATH,
    "tagline": TEXT,
    "hourly_rate": MONEY,
    "daily_rate": nullable(MONEY),
    "location_city": TEXT,
    "location_country": TEXT,
    "service_types": {"type": "string", "description": "names, separated by commas"},
    "rating_avg": RATING_AVG,
    "total_reviews": {"type": "integer", "minimum": 0},
    "tier": choice(Tier),
    "badges": items(choice(Badge)),
}

_ITEM: dict[str, Schema] = {
    "id": ID,
    "title": TEXT,
    "image": RELATIVE_PATH,
    "description": TEXT,
    "created_at": INSTANT,
}

_FULL: dict[str, Schema] = {
    **_SUMMARY,
    "bio": TEXT,
    "languages": items(TEXT),
    "years_experience": nullable(WHOLE),
    "timezone": {"type": "string", "description": "IANA name"},
    "currency": {"type": "string", "description": "ISO 4217, lower case"},
    "member_since": INSTANT,
}

_DETAIL: dict[str, Schema] = {
    **_FULL,
    "reviews": {**items(ref("Review")), "maxItems": 10},
    "portfolio": items(shape(_ITEM)),
}

_PROFILE: dict[str, Schema] = {
    **_FULL,
    "last_name": TEXT,
    "hourly_rate": nullable(MONEY),
    "service_types": items(TEXT),
    "status": choice(Approval),
    "active": FLAG,
    "missing": {**items(TEXT), "description": "the fields that an approval still needs"},
}

_WEEKDAY: Schema = {"type": "integer", "minimum": 0, "maximum": 6, "description": "Monday is 0"}

_AVAILABILITY: dict[str, Schema] = {
    "timezone": _FULL["timezone"],
    "weekly": items(shape({"weekday": _WEEKDAY, **_HOURS})),
    "overrides": items(shape({"date": DATE, "slots": items(SLOT)})),
}

_BOOKING: dict[str, Schema] = {
    "id": ID,
    "booking_code": {"type": "string", "pattern": "^BK[0-9A-HJKMNP-TV-Z]{12}$"},
    "status": choice(Status),
    "companion_id": ID,
    "companion_name": TEXT,
    "customer_id": ID,
    "customer_name": TEXT,
    "booked_by": nullable(ID),
    "service_type": TEXT,
    "location": TEXT,
    "event_date": DATE,
    "start_time": CLOCK,
    "duration_hours": {"type": "integer", "minimum": 1, "maximum": 24},
    "timezone": TEXT,
    "starts_at": INSTANT,
    "ends_at": INSTANT,
    "currency": TEXT,
    "price": MONEY,
    "insurance_premium": MONEY,
    "total_amount": MONEY,
    "refunded_amount": MONEY,
    "cancellation_insurance": FLAG,
    "event_ref": nullable(TEXT),
    "priority": FLAG,
    "checked_in_at": nullable(INSTANT),
    "accepted_at": nullable(INSTANT),
    "paid_at": nullable(INSTANT),
    "completed_at": nullable(INSTANT),
    "completed_by": nullable(choice((Party.CUSTOMER, Party.SYSTEM, Party.ADMIN))),
    "cancelled_at": nullable(INSTANT),
    "cancelled_by": nullable(choice((Party.CUSTOMER, Party.STAFF, Party.SYSTEM, Party.ADMIN))),
    "cancel_reason": nullable(TEXT),
    "disputed_at": nullable(INSTANT),
    "payment_status": choice(PaymentStatus),
    "created_at": INSTANT,
    "version": {"type": "integer", "minimum": 1},
}

_FOR_STAFF: dict[str, Schema] = {
    "platform_fee": MONEY,
    "payout_amount": MONEY,
    "payout_status": choice(PayoutStatus),
}

_TIMELINE = items(
    shape(
        {
            "at": INSTANT,
            "from": nullable(choice(Status)),
            "to": choice(Status),
            "trigger": choice(Trigger),
            "actor": choice(Party),
        }
    )
)

_MARK: Schema = {"type": "integer", "minimum": 1, "maximum": 5}

_REVIEW: dict[str, Schema] = {
    "id": ID,
    "booking_id": ID,
    "reviewer_id": ID,
    "reviewer_name": TEXT,
    "reviewer_role": choice((Party.CUSTOMER, Party.STAFF)),
    "reviewee_id": ID,
    "rating": _MARK,
    "comment": nullable(TEXT),
    "punctuality": nullable(_MARK),
    "professionalism": nullable(_MARK),
    "communication": nullable(_MARK),
    "appearance": nullable(_MARK),
    "response": nullable(TEXT),
    "responded_at": nullable(INSTANT),
    "created_at": INSTANT,
}

_MESSAGE: dict[str, Schema] = {
    "id": {**ID, "description": "rises over all conversations"},
    "conversation_id": ID,
    "sender_id": ID,
    "sender_name": TEXT,
    "content": TEXT,
    "created_at": INSTANT,
}

_CONVERSATION: dict[str, Schema] = {
    "id": ID,
    "type": choice(Kind),
    "title": {"type": "string", "description": "the other one's name, or a group's `event_ref`"},
    "booking_code": nullable(
        {**_BOOKING["booking_code"], "description": "the newest one of the two; a group has none"}
    ),
    "participants": items(shape({"user_id": ID, "name": TEXT, "online": FLAG})),
    "last_message": nullable(ref("Message")),
    "unread_count": {"type": "integer", "minimum": 0},
    "updated_at": INSTANT,
}

_KEY: dict[str, Schema] = {
    "id": ID,
    "name": TEXT,
    "masked_key": {"type": "string", "examples": ["ps_abcd…wxyz"]},
    "permissions": items(choice(Permission)),
    "created_at": INSTANT,
    "last_used_at": nullable(INSTANT),
    "expires_at": nullable(INSTANT),
    "revoked_at": nullable(INSTANT),
}

_WEBHOOK: dict[str, Schema] = {
    "id": ID,
    "url": {"type": "string", "description": "as it was registered"},
    "events": items(choice(EVENTS)),
    "description": nullable(TEXT),
    "active": {"type": "boolean", "description": "false while it is paused or disabled"},
    "consecutive_failures": {"type": "integer", "minimum": 0},
    "disabled_at": nullable(INSTANT),
    "disabled_reason": nullable(TEXT),
    "created_at": INSTANT,
}

_OUTCOME: dict[str, Schema] = {
    "response_status": nullable(WHOLE),
    "duration_ms": {"type": "integer", "minimum": 0},
    "error": nullable(choice(Failure)),
}

_DELIVERY: dict[str, Schema] = {
    "id": ID,
    "event_id": {"type": "string", "pattern": "^evt_"},
    "event": {"type": "string", "enum": [*EVENTS, TEST_EVENT]},
    "status": choice(DeliveryStatus),
    "attempts": items(
        shape({"number": {"type": "integer", "minimum": 1}, "at": INSTANT, **_OUTCOME})
    ),
    "next_attempt_at": nullable(INSTANT),
    "created_at": INSTANT,
}

_USER: dict[str, Schema] = {
    "id": ID,
    "email": TEXT,
    "first_name": TEXT,
    "last_name": TEXT,
    "role": choice(Role),
    "subscription": choice(Subscription),
    "subscription_expires_at": nullable(INSTANT),
    "created_at": INSTANT,
    "email_verified": FLAG,
}

_SESSION: dict[str, Schema] = {
    "id": TEXT,
    "created_at": INSTANT,
    "last_seen_at": INSTANT,
    "current": {"type": "boolean", "description": "whether it is the one that asks"},
}

_ERROR = shape({"error": TEXT, "code": TEXT})

COMPONENTS: dict[str, Schema] = {
    "Error": _ERROR,
    "InvalidInput": shape(
        {
            "error": TEXT,
            "code": {
                "type": "string",
                "enum": ["missing_field", "invalid_field", "content_blocked"],
            },
            "errors": items(shape({"field": TEXT, "message": TEXT})),
        }
    ),
    "RateLimited": shape({"error": TEXT, "code": {"const": "rate_limited"}, "retry_after": WHOLE}),
    "InternalError": shape({"error": TEXT, "code": TEXT}, {"request_id": TEXT}),
    "User": shape(_USER),
    "Session": shape(_SESSION),
    "ApiKey": shape(_KEY),
    "Companion": shape(_SUMMARY),
    "CompanionDetail": shape(_DETAIL),
    "Profile": shape(_PROFILE),
    "Availability": shape(_AVAILABILITY),
    "PortfolioItem": shape({**_ITEM, "status": choice(ItemStatus)}),
    "Day": shape({"date": DATE, "available": FLAG, "slots": items(SLOT)}),
    "Booking": shape({**_BOOKING, "timeline": _TIMELINE}, _FOR_STAFF),
    "BookingGlimpse": shape(
        {name: _BOOKING[name] for name in ("booking_code", "status", "event_date")}
    ),
    "BookingInEvent": shape(_BOOKING),
    "Review": shape(_REVIEW),
    "Message": shape(_MESSAGE),
    "Conversation": shape(_CONVERSATION),
    "PayoutAccount": shape(
        {
            "status": choice(PayeeStatus),
            "provider": TEXT,
            "country": nullable(TEXT),
            "needs": items(TEXT),
            "message": nullable({"type": "string", "description": "why it was refused"}),
        }
    ),
    "Webhook": shape(_WEBHOOK),
    "Delivery": shape(_DELIVERY),
    "TestDelivery": shape({"id": ID, "status": _DELIVERY["status"], **_OUTCOME}),
    "Payment": shape(
        {
            "id": ID,
            "booking_code": TEXT,
            "amount": MONEY,
            "currency": TEXT,
            "paid_at": INSTANT,
        }
    ),
}

BOOKED = shape({"success": SUCCESS, "booking": ref("Booking")})
"""What every operation on a booking answers."""

_DATA: dict[str, Schema] = {
    EventName.BOOKING_CREATED: shape({"booking": ref("BookingInEvent")}),
    EventName.BOOKING_COMPLETED: shape({"booking": ref("BookingInEvent")}),
    EventName.BOOKING_CANCELLED: shape({"booking": ref("BookingInEvent")}),
    EventName.PAYMENT_COMPLETED: shape(
        {"booking": ref("BookingInEvent"), "payment": ref("Payment")}
    ),
    EventName.REVIEW_CREATED: shape({"review": ref("Review"), "booking_code": TEXT}),
    TEST_EVENT: shape({"webhook_id": ID}),
}

WHEN: dict[str, str] = {
    EventName.BOOKING_CREATED: "A new booking request has been created",
    EventName.BOOKING_COMPLETED: "A booking has been marked completed",
    EventName.BOOKING_CANCELLED: "A booking has been cancelled by either party",
    EventName.PAYMENT_COMPLETED: "A payment has been successfully processed",
    EventName.REVIEW_CREATED: "A new review has been submitted",
    TEST_EVENT: "The owner of an endpoint tests it: it tells of nothing, and stands in no feed",
}


def _envelope(event: str) -> Schema:
    """The body of an event (CONTRACT 7)."""
    rising = {"type": "integer", "minimum": 1, "description": "rises with each of a booking"}
    return shape(
        {
            "id": {"type": "string", "pattern": "^evt_"},
            "event": {"const": str(event)},
            "created_at": INSTANT,
            "api_version": {"const": API_VERSION},
            "sequence": {"const": 0} if event == TEST_EVENT else rising,
            "data": _DATA[event],
        }
    )


def event_ref(event: str) -> Schema:
    """The component that is the body of an event."""
    return ref(_event_component(event))


def _event_component(event: str) -> str:
    return event.title().replace(".", "")


COMPONENTS |= {_event_component(event): _envelope(event) for event in WHEN}
