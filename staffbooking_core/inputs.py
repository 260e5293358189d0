"""What use-cases take from outside: each input with the bounds of its fields.

The bounds are declared once, as annotations, and serve three ends: the strict converter
at the edge enforces them (every fault at once), the published documents show them, and
whoever embeds the core reads them. An input's attribute names are the published names.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any

from attrs import AttrsInstance, field, fields, frozen

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import PASSWORD_LENGTH_RANGE, Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.companions.companion import Badge, Tier
from staffbooking_core.domain.webhooks.deliveries import MAX_WEBHOOK_URL_LENGTH

MAX_ID = 2**63 - 1

# The bounds -----------------------------------------------------------------------------


class AllowedCharacters(Enum):
    """What a text may hold beside the letters and signs of all scripts, emoji, joiners and marks
    of direction (U+200E, U+200F, U+061C). None may hold NUL or half a surrogate."""

    LINE = "line"
    """Nothing: it stays on its line, and can't change how the text around it is shown."""
    LINES = "lines"
    """Tabs and line breaks: U+000A, also after U+000D, and U+2028 and U+2029."""
    CHAT = "chat"
    """The same, and bidi embeddings and isolates (U+202A to U+202C, U+2066 to U+2069): phones
    put them around names and numbers by themselves, and a message is shown alone, so that they
    reach no further than it. Overrides (U+202D, U+202E) are of no language's use: what they show
    is in another order than what is stored, and judged by the filter of contents."""
    OPAQUE = "opaque"
    """Anything: what is compared, and never shown."""


@frozen
class TextBounds:
    """Text of so many code points, of certain characters; not only blanks."""

    max: int = 100
    min: int = 1
    form: str | None = None
    """`email`, `timezone`, `country` (ISO 3166), `clock` (HH:MM), `clock_end` (to 24:00),
    `image` (a relative path), `listed` (it stands in a list that commas separate) or `webhook`
    (the URL of a receiver, as a sandbox may take it)."""
    characters: AllowedCharacters = AllowedCharacters.LINE


@frozen
class IntegerBounds:
    """An integer, to the letter: neither `"4"` nor `4.0` nor `true`."""

    ge: int
    le: int


@frozen
class AmountBounds:
    """A JSON number of money, finite, with at most the currency's decimals (checked later)."""

    gt: Decimal = Decimal(0)
    le: Decimal = Decimal(1_000_000)


@frozen
class ListBounds:
    """A list of so many elements; where each is unique no two names differ in case alone."""

    max: int = 50
    min: int = 0
    unique: bool = True


@frozen
class UtcInstant:
    """ISO 8601 in UTC with Z."""


class Unset(Enum):
    """What a field of a change holds that nothing was said of: it stays as it is. Where such a
    field may be None too, null is no absence: it empties the field."""

    UNSET = "as is"


def provided_fields(change: AttrsInstance) -> dict[str, Any]:
    """What a change says, by name: without what stays as it is."""
    every = ((field.name, getattr(change, field.name)) for field in fields(type(change)))
    return {name: value for name, value in every if value is not Unset.UNSET}


Id = Annotated[int, IntegerBounds(1, MAX_ID)]
Name = Annotated[str, TextBounds(100)]
ShortText = Annotated[str, TextBounds(300, 0)]
MultilineText = Annotated[str, TextBounds(300, characters=AllowedCharacters.LINES)]
"""An address as it stands on an envelope, or a reason."""
LongText = Annotated[str, TextBounds(5000, characters=AllowedCharacters.LINES)]
OptionalLongText = Annotated[str, TextBounds(5000, 0, characters=AllowedCharacters.LINES)]
MessageText = Annotated[str, TextBounds(5000, characters=AllowedCharacters.CHAT)]
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

TokenText = Annotated[str, TextBounds(1000, characters=AllowedCharacters.OPAQUE)]

# The inputs -----------------------------------------------------------------------------


class RegistrationRole(StrEnum):
    """Roles that one can register for; admins are made by an operator."""

    CUSTOMER = "customer"
    STAFF = "staff"


@frozen(kw_only=True)
class Register:
    email: EmailAddress
    password: Password = field(repr=False)
    first_name: Name
    last_name: Name
    role: RegistrationRole


@frozen(kw_only=True)
class Login:
    email: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)]
    password: Annotated[str, TextBounds(1000, 0, characters=AllowedCharacters.OPAQUE)] = field(
        repr=False
    )


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
    """Whether one is told of these, by their kinds; what is left out stays as it is."""

    accepted: bool | None = None
    payout: bool | None = None
    new_message: bool | None = None


@frozen(kw_only=True)
class ChangeNotificationPreferences:
    notifications: NotificationPreferences


@frozen(kw_only=True)
class SubmitInquiry:
    name: Name
    email: EmailAddress
    message: LongText = field(repr=False)
    subject: ShortText | None = None


@frozen(kw_only=True)
class CreateApiKey:
    name: Name
    permissions: Annotated[tuple[Permission, ...], ListBounds(2, 1)]
    expires_at: Annotated[str, UtcInstant()] | None = None


@frozen(kw_only=True)
class RequestBooking:
    """SPECIFICATION 4.5, without the customer: a customer books for themself."""

    companion_id: Id
    event_date: date
    start_time: TimeOfDay
    duration_hours: Annotated[int, IntegerBounds(1, 24)]
    service_type: Name
    location: MultilineText
    cancellation_insurance: bool = False
    event_ref: Annotated[str, TextBounds(64)] | None = None
    rebooking_of: Annotated[str, TextBounds(64, characters=AllowedCharacters.OPAQUE)] | None = None


@frozen(kw_only=True)
class RequestBookingFor(RequestBooking):
    """SPECIFICATION 4.5: through the API, for a registered customer."""

    customer_email: EmailAddress


@frozen(kw_only=True)
class CancelBooking:
    reason: Annotated[str, TextBounds(300, 0, characters=AllowedCharacters.LINES)] | None = None
    quote: Annotated[str, TextBounds(1000, characters=AllowedCharacters.OPAQUE)] | None = None


@frozen(kw_only=True)
class DisputeBooking:
    reason: MultilineText


@frozen(kw_only=True)
class SubmitReview:
    """SPECIFICATION 2.4."""

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


@frozen(kw_only=True)
class OpenPayoutAccount:
    country: CountryCode | None = None
    """Where the account is, in letters of either case; the deployment's unless given."""


# What staff members say of themselves (CONTRACT 3) --------------------------------------


@frozen(kw_only=True)
class ChangeProfile:
    first_name: Name | Unset = Unset.UNSET
    last_name: Name | Unset = Unset.UNSET
    tagline: ShortText | Unset = Unset.UNSET
    bio: OptionalLongText | Unset = Unset.UNSET
    profile_photo: ImagePath | Unset = Unset.UNSET
    hourly_rate: Rate | Unset = Unset.UNSET
    daily_rate: Rate | Unset | None = Unset.UNSET
    location_city: Name | Unset = Unset.UNSET
    location_country: Name | Unset = Unset.UNSET
    service_types: ServiceTypes | Unset = Unset.UNSET
    languages: Languages | Unset = Unset.UNSET
    years_experience: Annotated[int, IntegerBounds(0, 80)] | Unset | None = Unset.UNSET
    timezone: TimezoneName | Unset = Unset.UNSET


@frozen(kw_only=True)
class SlotHours:
    """Of a local day: `start` before `end`, which is judged later."""

    start: TimeOfDay
    end: EndTimeOfDay


@frozen(kw_only=True)
class WeeklyHours(SlotHours):
    weekday: Annotated[int, IntegerBounds(0, 6)]
    """Monday is 0."""


@frozen(kw_only=True)
class DateHours:
    """Of one date, in place of the weekly ones; no slots: a day off."""

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


@frozen(kw_only=True)
class AddPortfolioItem:
    title: Annotated[str, TextBounds(120)]
    image: Annotated[str, TextBounds(300, form="image")]
    description: Annotated[str, TextBounds(2000, 0, characters=AllowedCharacters.LINES)] = ""


# Webhooks (CONTRACT 7) ------------------------------------------------------------------


@frozen(kw_only=True)
class CreateWebhook:
    url: Annotated[str, TextBounds(MAX_WEBHOOK_URL_LENGTH, form="webhook")]
    events: Annotated[tuple[EventName, ...], ListBounds(5, 1)] | None = None
    """All five unless given."""
    description: OptionalLongText | None = None


@frozen(kw_only=True)
class ChangeWebhook:
    events: Annotated[tuple[EventName, ...], ListBounds(5, 1)] | None = None
    description: OptionalLongText | None = None
    active: bool | None = None
    """False pauses it; true sends what was held, also where it was disabled."""


# Events of the channel (CONTRACT 6) -----------------------------------------------------


@frozen(kw_only=True)
class SendToConversation:
    conversation_id: Id
    content: MessageText
    client_message_id: (
        Annotated[str, TextBounds(100, characters=AllowedCharacters.OPAQUE)] | None
    ) = None
    """The client's own name for it: sent again, it is stored once and acknowledged again."""


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
    """The last message that the client has; 0 for all."""


# Import of companions (CONTRACT 9) ------------------------------------------------------


@frozen(kw_only=True)
class ImportedCompanion:
    """What is not said of somebody known stays as it is; a newcomer gets the defaults."""

    email: EmailAddress
    first_name: Name
    last_name: Name
    hourly_rate: Rate
    location_city: Name
    location_country: Name
    timezone: TimezoneName
    service_types: ServiceTypes
    password: Password | None = field(default=None, repr=False)
    tagline: ShortText | Unset = Unset.UNSET
    bio: OptionalLongText | Unset = Unset.UNSET
    profile_photo: ImagePath | Unset = Unset.UNSET
    daily_rate: Rate | Unset = Unset.UNSET
    languages: Languages | Unset = Unset.UNSET
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
