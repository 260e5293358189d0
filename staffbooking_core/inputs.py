"""Inputs of use-cases, with the bounds of their fields.

Bounds are declared once, as annotations: the strict converter in the adapters enforces them and
reports every error at once, and the published documents show them. Attribute names are the
published field names.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from attrs import field, frozen

from staffbooking_core.bounds import (
    MAX_ID,
    AllowedCharacters,
    AmountBounds,
    IntegerBounds,
    ListBounds,
    TextBounds,
    Unset,
    UtcInstant,
    trimmed,
)
from staffbooking_core.domain.accounts.api_keys import MAX_KEY_OVERLAP_HOURS, Permission
from staffbooking_core.domain.accounts.users import (
    PASSWORD_LENGTH_RANGE,
    Language,
    Role,
    Theme,
)
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.companions.booking_limits import (
    MAX_BUFFER_MINUTES,
    MAX_HORIZON_DAYS,
    MAX_NOTICE_HOURS,
)
from staffbooking_core.domain.companions.companion import Badge, Tier
from staffbooking_core.domain.webhooks.deliveries import MAX_WEBHOOK_URL_LENGTH

__all__ = [
    "AddCalendarAddress",
    "AddDisputeStatement",
    "AddPortfolioItem",
    "CancelBooking",
    "ChangeNotificationPreferences",
    "ChangePassword",
    "ChangeProfile",
    "ChangeWebhook",
    "ChooseSettings",
    "CreateApiKey",
    "CreateWebhook",
    "DateHours",
    "DisputeBooking",
    "EraseAccount",
    "ForgotPassword",
    "ImportedCompanion",
    "Login",
    "MarkReadUpTo",
    "NotificationPreferences",
    "OpenPayoutAccount",
    "QueryPresence",
    "Register",
    "RegistrationRole",
    "RequestBooking",
    "RequestBookingFor",
    "RequestQuote",
    "ResetPassword",
    "RespondToReview",
    "Resume",
    "RotateApiKey",
    "SendMessage",
    "SendToConversation",
    "SetAvailability",
    "SetTyping",
    "SlotHours",
    "SubmitInquiry",
    "SubmitReview",
    "VerifyEmail",
    "WeeklyHours",
]

Id = Annotated[int, IntegerBounds(1, MAX_ID)]
Name = Annotated[str, TextBounds(100)]
ShortText = Annotated[str, TextBounds(300, 0)]
MultilineText = Annotated[str, TextBounds(300, characters=AllowedCharacters.LINES)]
"""A postal address, or a reason."""
LongText = Annotated[str, TextBounds(5000, characters=AllowedCharacters.LINES)]
OptionalLongText = Annotated[str, TextBounds(5000, 0, characters=AllowedCharacters.LINES)]
MessageText = Annotated[str, TextBounds(5000, characters=AllowedCharacters.CHAT)]
ClientMessageId = Annotated[str, TextBounds(100, characters=AllowedCharacters.OPAQUE)]
EmailAddress = Annotated[str, TextBounds(254, form="email")]
CountryCode = Annotated[str, TextBounds(2, 2, form="country")]
TimeOfDay = Annotated[str, TextBounds(5, 5, form="clock")]
EndTimeOfDay = Annotated[str, TextBounds(5, 5, form="clock_end")]
TimezoneName = Annotated[str, TextBounds(64, form="timezone")]
Rate = Annotated[Decimal, AmountBounds()]
ImagePath = Annotated[str, TextBounds(300, 0, form="image")]
ServiceTypes = Annotated[
    tuple[Annotated[str, TextBounds(100, form="listed")], ...], ListBounds(50, 1)
]
Languages = Annotated[tuple[Name, ...], ListBounds(50)]
RatingValue = Annotated[int, IntegerBounds(1, 5)]
Password = Annotated[
    str,
    TextBounds(
        PASSWORD_LENGTH_RANGE[1], PASSWORD_LENGTH_RANGE[0], characters=AllowedCharacters.OPAQUE
    ),
]

FileIds = Annotated[
    tuple[Annotated[str, TextBounds(100, characters=AllowedCharacters.OPAQUE)], ...],
    ListBounds(50),
]
"""Ids of uploaded files of a booking."""

TokenText = Annotated[str, TextBounds(1000, characters=AllowedCharacters.OPAQUE)]

# The inputs -----------------------------------------------------------------------------


class RegistrationRole(StrEnum):
    """The roles open to registration; admins are created by an operator."""

    CUSTOMER = "customer"
    STAFF = "staff"


@frozen(kw_only=True)
class Register:
    email: EmailAddress
    password: Password = field(repr=False)
    first_name: Name = field(converter=trimmed)
    last_name: Name = field(converter=trimmed)
    role: RegistrationRole


@frozen(kw_only=True)
class Login:
    email: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)]
    password: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = field(
        repr=False
    )


@frozen(kw_only=True)
class ChooseSettings:
    """Settings of the pages; None: what the browser asks for, the system's theme, UTC."""

    language: Language | Unset | None = Unset.UNSET
    theme: Theme | Unset | None = Unset.UNSET
    timezone: TimezoneName | Unset | None = Unset.UNSET


@frozen(kw_only=True)
class ChangePassword:
    current_password: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = (
        field(repr=False)
    )
    new_password: Password = field(repr=False)


@frozen(kw_only=True)
class ForgotPassword:
    email: EmailAddress


@frozen(kw_only=True)
class VerifyEmail:
    token: TokenText = field(repr=False)


@frozen(kw_only=True)
class ResetPassword:
    token: TokenText = field(repr=False)
    password: Password = field(repr=False)


@frozen(kw_only=True)
class EraseAccount:
    password: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = field(
        repr=False
    )


@frozen(kw_only=True)
class NotificationPreferences:
    """Whether the user is notified, by kind of notification; None keeps the stored preference."""

    accepted: bool | None = None
    payout: bool | None = None
    new_message: bool | None = None


@frozen(kw_only=True)
class ChangeNotificationPreferences:
    notifications: NotificationPreferences


@frozen(kw_only=True)
class SubmitInquiry:
    name: Name = field(converter=trimmed)
    email: EmailAddress
    message: LongText = field(repr=False)
    subject: ShortText | None = None


@frozen(kw_only=True)
class CreateApiKey:
    name: Name
    permissions: Annotated[tuple[Permission, ...], ListBounds(2, 1)]
    expires_at: Annotated[str, UtcInstant()] | None = None


@frozen(kw_only=True)
class RotateApiKey:
    """The replacement of a key by a new one of the same name and permissions."""

    overlap_hours: Annotated[int, IntegerBounds(0, MAX_KEY_OVERLAP_HOURS)]
    """How long the old key works beside the new one."""
    expires_at: Annotated[str, UtcInstant()] | None = None
    """When the new key expires."""


@frozen(kw_only=True)
class RequestQuote:
    """The input of a quote: that of a booking without its customer and its location
    (CONTRACT 10)."""

    companion_id: Id
    event_date: date
    start_time: TimeOfDay
    duration_hours: Annotated[int, IntegerBounds(1, 24)]
    service_type: Name
    cancellation_insurance: bool = False


@frozen(kw_only=True)
class RequestBooking(RequestQuote):
    """A booking request by the customer (SPECIFICATION 4.5, without the customer fields)."""

    location: MultilineText
    event_ref: Annotated[str, TextBounds(64)] | None = None
    rebooking_of: Annotated[str, TextBounds(64, characters=AllowedCharacters.OPAQUE)] | None = None


@frozen(kw_only=True)
class RequestBookingFor(RequestBooking):
    """A booking request through the API for a registered customer (SPECIFICATION 4.5)."""

    customer_email: EmailAddress


@frozen(kw_only=True)
class CancelBooking:
    reason: Annotated[str, TextBounds(300, 0, characters=AllowedCharacters.LINES)] | None = None
    quote: Annotated[str, TextBounds(1000, characters=AllowedCharacters.OPAQUE)] | None = None


@frozen(kw_only=True)
class DisputeBooking:
    """A dispute with its reason, and the ids of files that support it (CONTRACT 10)."""

    reason: LongText
    files: FileIds = ()


@frozen(kw_only=True)
class AddDisputeStatement:
    """A statement in an open dispute (CONTRACT 10)."""

    text: LongText
    files: FileIds = ()


@frozen(kw_only=True)
class SubmitReview:
    """A review of a completed booking (SPECIFICATION 2.4)."""

    rating: RatingValue
    comment: Annotated[str, TextBounds(2000, 0, characters=AllowedCharacters.LINES)] | None = None
    punctuality: RatingValue | None = None
    professionalism: RatingValue | None = None
    communication: RatingValue | None = None
    appearance: RatingValue | None = None


@frozen(kw_only=True)
class RespondToReview:
    response: Annotated[str, TextBounds(2000, characters=AllowedCharacters.LINES)]


@frozen(kw_only=True)
class SendMessage:
    content: MessageText
    client_message_id: ClientMessageId | None = None
    """The client's own id of the message: a repeated send is stored once."""


@frozen(kw_only=True)
class OpenPayoutAccount:
    country: CountryCode | None = None
    """The account's country, in any letter case; the deployment's country by default."""


# Profiles of staff members (CONTRACT 3) -------------------------------------------------


@frozen(kw_only=True)
class ChangeProfile:
    first_name: Name | Unset = field(default=Unset.UNSET, converter=trimmed)
    last_name: Name | Unset = field(default=Unset.UNSET, converter=trimmed)
    tagline: ShortText | Unset = Unset.UNSET
    bio: OptionalLongText | Unset = Unset.UNSET
    profile_photo: ImagePath | Unset = Unset.UNSET
    hourly_rate: Rate | Unset = Unset.UNSET
    daily_rate: Rate | Unset | None = Unset.UNSET
    location_city: Name | Unset = field(default=Unset.UNSET, converter=trimmed)
    location_country: Name | Unset = field(default=Unset.UNSET, converter=trimmed)
    service_types: ServiceTypes | Unset = field(default=Unset.UNSET, converter=trimmed)
    languages: Languages | Unset = field(default=Unset.UNSET, converter=trimmed)
    years_experience: Annotated[int, IntegerBounds(0, 80)] | Unset | None = Unset.UNSET
    timezone: TimezoneName | Unset = Unset.UNSET


@frozen(kw_only=True)
class SlotHours:
    """Hours within a local day; that `start` is before `end` is checked later."""

    start: TimeOfDay
    end: EndTimeOfDay


@frozen(kw_only=True)
class WeeklyHours(SlotHours):
    weekday: Annotated[int, IntegerBounds(0, 6)]
    """Monday is 0."""


@frozen(kw_only=True)
class DateHours:
    """The hours of one date, which replace the weekly ones; without slots it is a day off."""

    date: date
    slots: Annotated[tuple[SlotHours, ...], ListBounds(50, unique=False)]


WeeklyHoursList = Annotated[tuple[WeeklyHours, ...], ListBounds(100, unique=False)]
MAX_DATE_OVERRIDES = 1000
DateHoursList = Annotated[tuple[DateHours, ...], ListBounds(MAX_DATE_OVERRIDES, unique=False)]


@frozen(kw_only=True)
class SetAvailability:
    timezone: TimezoneName
    weekly: WeeklyHoursList | Unset = Unset.UNSET
    overrides: DateHoursList | Unset = Unset.UNSET
    buffer_minutes: Annotated[int, IntegerBounds(0, MAX_BUFFER_MINUTES)] | Unset = Unset.UNSET
    """Free time kept before and after each booking."""
    min_notice_hours: Annotated[int, IntegerBounds(0, MAX_NOTICE_HOURS)] | Unset = Unset.UNSET
    """The least time from a request to the start of its booking."""
    horizon_days: Annotated[int, IntegerBounds(1, MAX_HORIZON_DAYS)] | Unset = Unset.UNSET
    """The last day on which a booking may start, counted from the current one."""


@frozen(kw_only=True)
class AddPortfolioItem:
    title: Annotated[str, TextBounds(120)]
    image: Annotated[str, TextBounds(300, form="image")]
    description: Annotated[str, TextBounds(2000, 0, characters=AllowedCharacters.LINES)] = ""


# Webhooks (CONTRACT 7) ------------------------------------------------------------------


@frozen(kw_only=True)
class AddCalendarAddress:
    url: Annotated[str, TextBounds(MAX_WEBHOOK_URL_LENGTH, characters=AllowedCharacters.OPAQUE)]
    name: Annotated[str, TextBounds(60, 0)] = ""
    """The owner's name for the calendar."""


@frozen(kw_only=True)
class CreateWebhook:
    url: Annotated[str, TextBounds(MAX_WEBHOOK_URL_LENGTH, form="webhook")]
    events: Annotated[tuple[EventName, ...], ListBounds(len(EventName), 1)] | None = None
    """The subscribed events; by default the first five."""
    description: OptionalLongText | None = None
    ordered: bool = False
    """Whether the events of a booking are sent one after the other, in their sequence."""


@frozen(kw_only=True)
class ChangeWebhook:
    events: Annotated[tuple[EventName, ...], ListBounds(len(EventName), 1)] | None = None
    description: OptionalLongText | None = None
    active: bool | None = None
    """False pauses the endpoint; true enables it, even if it was disabled, and sends its held
    deliveries."""
    ordered: bool | None = None


# Events of the channel (CONTRACT 6) -----------------------------------------------------


@frozen(kw_only=True)
class SendToConversation:
    conversation_id: Id
    content: MessageText
    client_message_id: ClientMessageId | None = None
    """The client's own id of the message: a repeated send is stored once and acknowledged again."""


@frozen(kw_only=True)
class SetTyping:
    conversation_id: Id
    is_typing: bool


@frozen(kw_only=True)
class MarkReadUpTo:
    conversation_id: Id
    message_id: Id


@frozen(kw_only=True)
class QueryPresence:
    user_ids: Annotated[tuple[Id, ...], ListBounds(50)]


@frozen(kw_only=True)
class Resume:
    after: Annotated[int, IntegerBounds(0, MAX_ID)]
    """The id of the last message that the client has; 0 requests all."""


# Import of companions (CONTRACT 9) ------------------------------------------------------


@frozen(kw_only=True)
class ImportedCompanion:
    """One companion of an import: absent fields keep the stored values of a known companion, and
    take the defaults for a new one."""

    email: EmailAddress
    first_name: Name = field(converter=trimmed)
    last_name: Name = field(converter=trimmed)
    hourly_rate: Rate
    location_city: Name = field(converter=trimmed)
    location_country: Name = field(converter=trimmed)
    timezone: TimezoneName
    service_types: ServiceTypes = field(converter=trimmed)
    password: Password | None = field(default=None, repr=False)
    tagline: ShortText | Unset = Unset.UNSET
    bio: OptionalLongText | Unset = Unset.UNSET
    profile_photo: ImagePath | Unset = Unset.UNSET
    daily_rate: Rate | Unset = Unset.UNSET
    languages: Languages | Unset = field(default=Unset.UNSET, converter=trimmed)
    tier: Tier | Unset = Unset.UNSET
    badges: Annotated[tuple[Badge, ...], ListBounds(50)] | Unset = Unset.UNSET
    weekly: WeeklyHoursList | Unset = Unset.UNSET
    overrides: DateHoursList | Unset = Unset.UNSET
    payout_account: Annotated[str, TextBounds(300, 0)] | Unset = Unset.UNSET
    approved: bool = False


ROLE_BY_REGISTRATION_ROLE = {
    RegistrationRole.CUSTOMER: Role.CUSTOMER,
    RegistrationRole.STAFF: Role.STAFF,
}
