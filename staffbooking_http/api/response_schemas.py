"""The shapes of what the interface answers, as JSON schemas for the documents.

Beside `records` of the core, which makes them; a test holds answers to these.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.bookings.booking import PaymentStatus, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, Party, Trigger
from staffbooking_core.domain.companions.companion import Approval, Badge, Tier
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.messaging.conversations import ConversationKind
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    DeliveryFailure,
    DeliveryStatus,
)
from staffbooking_core.representations.events import API_VERSION, TEST_EVENT_NAME

Schema: TypeAlias = Mapping[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
ID: Schema = {"type": "integer", "minimum": 1}
BOOLEAN: Schema = {"type": "boolean"}
MONEY: Schema = {"type": "number", "description": "with the currency's exact decimals"}
DATE: Schema = {"type": "string", "format": "date"}
TIMESTAMP: Schema = {"type": "string", "format": "date-time", "description": "UTC, with Z"}
CLOCK_TIME: Schema = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}
CLOCK_END_TIME: Schema = {"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"}
RELATIVE_PATH: Schema = {"type": "string", "description": "relative path of an image"}
SUCCESS_FLAG: Schema = {"const": True}
RATING_AVG: Schema = {"type": "number", "minimum": 0, "maximum": 5}


def enum_schema(kind: Any) -> Schema:
    return {"type": "string", "enum": [str(member.value) for member in kind]}


def nullable_schema(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def array_schema(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def schema_ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def object_schema(
    fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object with these fields, and perhaps the optional ones; more may come later."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }


_SLOT_FIELDS: dict[str, Schema] = {"start": CLOCK_TIME, "end": CLOCK_END_TIME}
SLOT_SCHEMA = object_schema(_SLOT_FIELDS)

_COMPANION_SUMMARY_FIELDS: dict[str, Schema] = {
    "id": ID,
    "first_name": STRING,
    "profile_photo": RELATIVE_PATH,
    "tagline": STRING,
    "hourly_rate": MONEY,
    "daily_rate": nullable_schema(MONEY),
    "location_city": STRING,
    "location_country": STRING,
    "service_types": {"type": "string", "description": "names, separated by commas"},
    "rating_avg": RATING_AVG,
    "total_reviews": {"type": "integer", "minimum": 0},
    "tier": enum_schema(Tier),
    "badges": array_schema(enum_schema(Badge)),
}

_PORTFOLIO_ITEM_FIELDS: dict[str, Schema] = {
    "id": ID,
    "title": STRING,
    "image": RELATIVE_PATH,
    "description": STRING,
    "created_at": TIMESTAMP,
}

_COMPANION_FIELDS: dict[str, Schema] = {
    **_COMPANION_SUMMARY_FIELDS,
    "bio": STRING,
    "languages": array_schema(STRING),
    "years_experience": nullable_schema(INTEGER),
    "timezone": {"type": "string", "description": "IANA name"},
    "currency": {"type": "string", "description": "ISO 4217, lower case"},
    "member_since": TIMESTAMP,
}

_COMPANION_DETAIL_FIELDS: dict[str, Schema] = {
    **_COMPANION_FIELDS,
    "reviews": {**array_schema(schema_ref("Review")), "maxItems": 10},
    "portfolio": array_schema(object_schema(_PORTFOLIO_ITEM_FIELDS)),
}

_PROFILE_FIELDS: dict[str, Schema] = {
    **_COMPANION_FIELDS,
    "last_name": STRING,
    "hourly_rate": nullable_schema(MONEY),
    "service_types": array_schema(STRING),
    "status": enum_schema(Approval),
    "active": BOOLEAN,
    "missing": {**array_schema(STRING), "description": "the fields that an approval still needs"},
}

_WEEKDAY_SCHEMA: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": 6,
    "description": "Monday is 0",
}

_AVAILABILITY_FIELDS: dict[str, Schema] = {
    "timezone": _COMPANION_FIELDS["timezone"],
    "weekly": array_schema(object_schema({"weekday": _WEEKDAY_SCHEMA, **_SLOT_FIELDS})),
    "overrides": array_schema(object_schema({"date": DATE, "slots": array_schema(SLOT_SCHEMA)})),
}

_BOOKING_FIELDS: dict[str, Schema] = {
    "id": ID,
    "booking_code": {"type": "string", "pattern": "^BK[0-9A-HJKMNP-TV-Z]{12}$"},
    "status": enum_schema(BookingStatus),
    "companion_id": ID,
    "companion_name": STRING,
    "customer_id": ID,
    "customer_name": STRING,
    "booked_by": nullable_schema(ID),
    "service_type": STRING,
    "location": STRING,
    "event_date": DATE,
    "start_time": CLOCK_TIME,
    "duration_hours": {"type": "integer", "minimum": 1, "maximum": 24},
    "timezone": STRING,
    "starts_at": TIMESTAMP,
    "ends_at": TIMESTAMP,
    "currency": STRING,
    "price": MONEY,
    "insurance_premium": MONEY,
    "total_amount": MONEY,
    "refunded_amount": MONEY,
    "cancellation_insurance": BOOLEAN,
    "event_ref": nullable_schema(STRING),
    "priority": BOOLEAN,
    "checked_in_at": nullable_schema(TIMESTAMP),
    "accepted_at": nullable_schema(TIMESTAMP),
    "paid_at": nullable_schema(TIMESTAMP),
    "completed_at": nullable_schema(TIMESTAMP),
    "completed_by": nullable_schema(enum_schema((Party.CUSTOMER, Party.SYSTEM, Party.ADMIN))),
    "cancelled_at": nullable_schema(TIMESTAMP),
    "cancelled_by": nullable_schema(
        enum_schema((Party.CUSTOMER, Party.STAFF, Party.SYSTEM, Party.ADMIN))
    ),
    "cancel_reason": nullable_schema(STRING),
    "disputed_at": nullable_schema(TIMESTAMP),
    "payment_status": enum_schema(PaymentStatus),
    "created_at": TIMESTAMP,
    "version": {"type": "integer", "minimum": 1},
}

_STAFF_BOOKING_FIELDS: dict[str, Schema] = {
    "platform_fee": MONEY,
    "payout_amount": MONEY,
    "payout_status": enum_schema(PayoutStatus),
}

_TIMELINE_SCHEMA = array_schema(
    object_schema(
        {
            "at": TIMESTAMP,
            "from": nullable_schema(enum_schema(BookingStatus)),
            "to": enum_schema(BookingStatus),
            "trigger": enum_schema(Trigger),
            "actor": enum_schema(Party),
        }
    )
)

_RATING_SCHEMA: Schema = {"type": "integer", "minimum": 1, "maximum": 5}

_REVIEW_FIELDS: dict[str, Schema] = {
    "id": ID,
    "booking_id": ID,
    "reviewer_id": ID,
    "reviewer_name": STRING,
    "reviewer_role": enum_schema((Party.CUSTOMER, Party.STAFF)),
    "reviewee_id": ID,
    "rating": _RATING_SCHEMA,
    "comment": nullable_schema(STRING),
    "punctuality": nullable_schema(_RATING_SCHEMA),
    "professionalism": nullable_schema(_RATING_SCHEMA),
    "communication": nullable_schema(_RATING_SCHEMA),
    "appearance": nullable_schema(_RATING_SCHEMA),
    "response": nullable_schema(STRING),
    "responded_at": nullable_schema(TIMESTAMP),
    "created_at": TIMESTAMP,
}

_MESSAGE_FIELDS: dict[str, Schema] = {
    "id": {**ID, "description": "rises over all conversations"},
    "conversation_id": ID,
    "sender_id": ID,
    "sender_name": STRING,
    "content": STRING,
    "created_at": TIMESTAMP,
}

_CONVERSATION_FIELDS: dict[str, Schema] = {
    "id": ID,
    "type": enum_schema(ConversationKind),
    "title": {"type": "string", "description": "the other one's name, or a group's `event_ref`"},
    "booking_code": nullable_schema(
        {
            **_BOOKING_FIELDS["booking_code"],
            "description": "the newest one of the two; a group has none",
        }
    ),
    "participants": array_schema(object_schema({"user_id": ID, "name": STRING, "online": BOOLEAN})),
    "last_message": nullable_schema(schema_ref("Message")),
    "unread_count": {"type": "integer", "minimum": 0},
    "updated_at": TIMESTAMP,
}

_API_KEY_FIELDS: dict[str, Schema] = {
    "id": ID,
    "name": STRING,
    "masked_key": {"type": "string", "examples": ["ps_abcd…wxyz"]},
    "permissions": array_schema(enum_schema(Permission)),
    "created_at": TIMESTAMP,
    "last_used_at": nullable_schema(TIMESTAMP),
    "expires_at": nullable_schema(TIMESTAMP),
    "revoked_at": nullable_schema(TIMESTAMP),
}

_WEBHOOK_FIELDS: dict[str, Schema] = {
    "id": ID,
    "url": {"type": "string", "description": "as it was registered"},
    "events": array_schema(enum_schema(WEBHOOK_EVENTS)),
    "description": nullable_schema(STRING),
    "active": {"type": "boolean", "description": "false while it is paused or disabled"},
    "consecutive_failures": {"type": "integer", "minimum": 0},
    "disabled_at": nullable_schema(TIMESTAMP),
    "disabled_reason": nullable_schema(STRING),
    "created_at": TIMESTAMP,
}

_ATTEMPT_OUTCOME_FIELDS: dict[str, Schema] = {
    "response_status": nullable_schema(INTEGER),
    "duration_ms": {"type": "integer", "minimum": 0},
    "error": nullable_schema(enum_schema(DeliveryFailure)),
}

_DELIVERY_FIELDS: dict[str, Schema] = {
    "id": ID,
    "event_id": {"type": "string", "pattern": "^evt_"},
    "event": {"type": "string", "enum": [*WEBHOOK_EVENTS, TEST_EVENT_NAME]},
    "status": enum_schema(DeliveryStatus),
    "attempts": array_schema(
        object_schema(
            {
                "number": {"type": "integer", "minimum": 1},
                "at": TIMESTAMP,
                **_ATTEMPT_OUTCOME_FIELDS,
            }
        )
    ),
    "next_attempt_at": nullable_schema(TIMESTAMP),
    "created_at": TIMESTAMP,
}

_USER_FIELDS: dict[str, Schema] = {
    "id": ID,
    "email": STRING,
    "first_name": STRING,
    "last_name": STRING,
    "role": enum_schema(Role),
    "subscription": enum_schema(Subscription),
    "subscription_expires_at": nullable_schema(TIMESTAMP),
    "created_at": TIMESTAMP,
    "email_verified": BOOLEAN,
}

_SESSION_FIELDS: dict[str, Schema] = {
    "id": STRING,
    "created_at": TIMESTAMP,
    "last_seen_at": TIMESTAMP,
    "current": {"type": "boolean", "description": "whether it is the one that asks"},
}

_ERROR_SCHEMA = object_schema({"error": STRING, "code": STRING})

COMPONENT_SCHEMAS: dict[str, Schema] = {
    "Error": _ERROR_SCHEMA,
    "InvalidInput": object_schema(
        {
            "error": STRING,
            "code": {
                "type": "string",
                "enum": ["missing_field", "invalid_field", "content_blocked"],
            },
            "errors": array_schema(object_schema({"field": STRING, "message": STRING})),
        }
    ),
    "RateLimited": object_schema(
        {"error": STRING, "code": {"const": "rate_limited"}, "retry_after": INTEGER}
    ),
    "InternalError": object_schema({"error": STRING, "code": STRING}, {"request_id": STRING}),
    "User": object_schema(_USER_FIELDS),
    "Session": object_schema(_SESSION_FIELDS),
    "ApiKey": object_schema(_API_KEY_FIELDS),
    "Companion": object_schema(_COMPANION_SUMMARY_FIELDS),
    "CompanionDetail": object_schema(_COMPANION_DETAIL_FIELDS),
    "Profile": object_schema(_PROFILE_FIELDS),
    "Availability": object_schema(_AVAILABILITY_FIELDS),
    "PortfolioItem": object_schema(
        {**_PORTFOLIO_ITEM_FIELDS, "status": enum_schema(PortfolioItemStatus)}
    ),
    "Day": object_schema({"date": DATE, "available": BOOLEAN, "slots": array_schema(SLOT_SCHEMA)}),
    "Booking": object_schema(
        {**_BOOKING_FIELDS, "timeline": _TIMELINE_SCHEMA}, _STAFF_BOOKING_FIELDS
    ),
    "BookingGlimpse": object_schema(
        {name: _BOOKING_FIELDS[name] for name in ("booking_code", "status", "event_date")}
    ),
    "BookingInEvent": object_schema(_BOOKING_FIELDS),
    "Review": object_schema(_REVIEW_FIELDS),
    "Message": object_schema(_MESSAGE_FIELDS),
    "Conversation": object_schema(_CONVERSATION_FIELDS),
    "PayoutAccount": object_schema(
        {
            "status": enum_schema(PayeeStatus),
            "provider": STRING,
            "country": nullable_schema(STRING),
            "needs": array_schema(STRING),
            "message": nullable_schema({"type": "string", "description": "why it was refused"}),
        }
    ),
    "Webhook": object_schema(_WEBHOOK_FIELDS),
    "Delivery": object_schema(_DELIVERY_FIELDS),
    "TestDelivery": object_schema(
        {"id": ID, "status": _DELIVERY_FIELDS["status"], **_ATTEMPT_OUTCOME_FIELDS}
    ),
    "Payment": object_schema(
        {
            "id": ID,
            "booking_code": STRING,
            "amount": MONEY,
            "currency": STRING,
            "paid_at": TIMESTAMP,
        }
    ),
}

BOOKING_REPLY_SCHEMA = object_schema({"success": SUCCESS_FLAG, "booking": schema_ref("Booking")})
"""What every operation on a booking answers."""

_EVENT_DATA_SCHEMAS: dict[str, Schema] = {
    EventName.BOOKING_CREATED: object_schema({"booking": schema_ref("BookingInEvent")}),
    EventName.BOOKING_COMPLETED: object_schema({"booking": schema_ref("BookingInEvent")}),
    EventName.BOOKING_CANCELLED: object_schema({"booking": schema_ref("BookingInEvent")}),
    EventName.PAYMENT_COMPLETED: object_schema(
        {"booking": schema_ref("BookingInEvent"), "payment": schema_ref("Payment")}
    ),
    EventName.REVIEW_CREATED: object_schema(
        {"review": schema_ref("Review"), "booking_code": STRING}
    ),
    TEST_EVENT_NAME: object_schema({"webhook_id": ID}),
}

EVENT_DESCRIPTIONS: dict[str, str] = {
    EventName.BOOKING_CREATED: "A new booking request has been created",
    EventName.BOOKING_COMPLETED: "A booking has been marked completed",
    EventName.BOOKING_CANCELLED: "A booking has been cancelled by either party",
    EventName.PAYMENT_COMPLETED: "A payment has been successfully processed",
    EventName.REVIEW_CREATED: "A new review has been submitted",
    TEST_EVENT_NAME: "The owner of an endpoint tests it: it tells of nothing, and stands in no feed",
}


def _event_schema(event: str) -> Schema:
    """The body of an event (CONTRACT 7)."""
    rising = {"type": "integer", "minimum": 1, "description": "rises with each of a booking"}
    return object_schema(
        {
            "id": {"type": "string", "pattern": "^evt_"},
            "event": {"const": str(event)},
            "created_at": TIMESTAMP,
            "api_version": {"const": API_VERSION},
            "sequence": {"const": 0} if event == TEST_EVENT_NAME else rising,
            "data": _EVENT_DATA_SCHEMAS[event],
        }
    )


def event_schema_ref(event: str) -> Schema:
    """The component that is the body of an event."""
    return schema_ref(_event_component_name(event))


def _event_component_name(event: str) -> str:
    return event.title().replace(".", "")


COMPONENT_SCHEMAS |= {
    _event_component_name(event): _event_schema(event) for event in EVENT_DESCRIPTIONS
}
