"""JSON schemas of responses, derived from the record classes of the core.

A class in `COMPONENTS` is a named component that other schemas refer to; any other record is
written inline.
"""

import types
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from staffbooking_core.representations.accounts import ApiKeyRecord, SessionRecord, UserRecord
from staffbooking_core.representations.administration import (
    AdminCompanionRecord,
    AdminDisputeRecord,
    AdminPayoutRecord,
    AdminPortfolioItemRecord,
    AdminRefundRecord,
    AdminReviewRecord,
    AdminWebhookRecord,
    AuditRecord,
    OperationRecord,
    PersonRecord,
)
from staffbooking_core.representations.bookings import (
    BookingGlimpseRecord,
    BookingRecord,
    EventBookingRecord,
)
from staffbooking_core.representations.calendars import AvailabilityRecord, DayRecord
from staffbooking_core.representations.companions import (
    CompanionDetailRecord,
    CompanionSummaryRecord,
    OwnPortfolioItemRecord,
    ProfileRecord,
    ReviewRecord,
)
from staffbooking_core.representations.errors import (
    ErrorRecord,
    InternalErrorRecord,
    InvalidInputRecord,
    RateLimitedRecord,
)
from staffbooking_core.representations.events import EVENT_RECORDS
from staffbooking_core.representations.json_types import JsonSchema
from staffbooking_core.representations.messaging import ConversationRecord, MessageRecord
from staffbooking_core.representations.payments import PaymentRecord, PayoutAccountRecord
from staffbooking_core.representations.webhooks import (
    DeliveryRecord,
    WebhookRecord,
    WebhookTestRecord,
)

Schema: TypeAlias = Mapping[str, Any]

COMPONENTS: dict[str, type] = {
    "Error": ErrorRecord,
    "InvalidInput": InvalidInputRecord,
    "RateLimited": RateLimitedRecord,
    "InternalError": InternalErrorRecord,
    "User": UserRecord,
    "Session": SessionRecord,
    "ApiKey": ApiKeyRecord,
    "Companion": CompanionSummaryRecord,
    "CompanionDetail": CompanionDetailRecord,
    "Profile": ProfileRecord,
    "Availability": AvailabilityRecord,
    "PortfolioItem": OwnPortfolioItemRecord,
    "Day": DayRecord,
    "Booking": BookingRecord,
    "BookingGlimpse": BookingGlimpseRecord,
    "BookingInEvent": EventBookingRecord,
    "Review": ReviewRecord,
    "Message": MessageRecord,
    "Conversation": ConversationRecord,
    "PayoutAccount": PayoutAccountRecord,
    "Webhook": WebhookRecord,
    "Delivery": DeliveryRecord,
    "TestDelivery": WebhookTestRecord,
    "Person": PersonRecord,
    "AdminCompanion": AdminCompanionRecord,
    "AdminPortfolioItem": AdminPortfolioItemRecord,
    "AdminReview": AdminReviewRecord,
    "AdminWebhook": AdminWebhookRecord,
    "AdminDispute": AdminDisputeRecord,
    "AdminPayout": AdminPayoutRecord,
    "AdminRefund": AdminRefundRecord,
    "Operation": OperationRecord,
    "AuditEntry": AuditRecord,
    "Payment": PaymentRecord,
    **{event.title().replace(".", ""): record for event, record in EVENT_RECORDS.items()},
}
"""The record class of each component of the documents, by the component's name."""

_COMPONENT_NAMES = {record: name for name, record in COMPONENTS.items()}
_PRIMITIVE_TYPES = {
    str: "string",
    int: "integer",
    bool: "boolean",
    Decimal: "number",
    type(None): "null",
}


def type_schema(kind: Any) -> Schema:
    """The schema of a type: of a field of a record, or of a record itself."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated_schema(*arguments)
    if origin is Literal:
        [value] = arguments
        return {"const": _plain_value(value)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(each) for each in arguments]}
    if origin in (list, Sequence):
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is AsyncIterator:  # `codec.iterate_json` writes its pages as one list.
        return type_schema(arguments[0])
    if origin is Mapping:
        return {"type": "object"}
    if kind in _COMPONENT_NAMES:
        return {"$ref": f"#/components/schemas/{_COMPONENT_NAMES[kind]}"}
    if kind in _PRIMITIVE_TYPES:
        return {"type": _PRIMITIVE_TYPES[kind]}
    return enum_schema(kind) if issubclass(kind, Enum) else _record_schema(kind)


def _annotated_schema(inner: Any, *metadata: JsonSchema) -> Schema:
    schema = dict(type_schema(inner))
    for each in metadata:
        schema |= {name: _plain_value(value) for name, value in each.keywords.items()}
    return schema


def _plain_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_value(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def _record_schema(record: type) -> Schema:
    """An object with the fields of a record class; fields may be added to it later."""
    required: dict[str, Schema] = {}
    optional: dict[str, Schema] = {}
    for name, kind in get_type_hints(record, include_extras=True).items():
        if get_origin(kind) is NotRequired:
            optional[name] = type_schema(get_args(kind)[0])
        else:
            required[name] = type_schema(kind)
    return object_schema(required, optional)


def enum_schema(members: Iterable[Any]) -> Schema:
    """A string that is one of the values of an enumeration."""
    return {"type": "string", "enum": [str(member.value) for member in members]}


def reply_schema(**fields: Any) -> Schema:
    """An object with fields of these types."""
    return object_schema({name: type_schema(kind) for name, kind in fields.items()})


def nullable_schema(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def object_schema(
    fields: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object with required and optional fields; more may be added later."""
    return {
        "type": "object",
        "properties": {**fields, **(optional or {})},
        "required": list(fields),
    }


COMPONENT_SCHEMAS: dict[str, Schema] = {
    name: _record_schema(record) for name, record in COMPONENTS.items()
}
