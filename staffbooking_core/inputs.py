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
from staffbooking_core.domain.accounts.users import PASSWORD_LENGTH, Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.companions.companion import Badge, Tier
from staffbooking_core.domain.webhooks.deliveries import MAX_URL

MAX_ID = 2**63 - 1

# The bounds -----------------------------------------------------------------------------


class Characters(Enum):
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
class Text:
    """Text of so many code points, of certain characters; not only blanks."""

    max: int = 100
    min: int = 1
    form: str | None = None
    """`email`, `timezone`, `country` (ISO 3166), `clock` (HH:MM), `clock_end` (to 24:00),
    `image` (a relative path), `listed` (it stands in a list that commas separate) or `webhook`
    (the URL of a receiver, as a sandbox may take it)."""
    characters: Characters = Characters.LINE


@frozen
class Whole:
    """An integer, to the letter: neither `"4"` nor `4.0` nor `true`."""

    ge: int
    le: int


@frozen
class Amount:
    """A JSON number of money, finite, with at most the currency's decimals (checked later)."""

    gt: Decimal = Decimal(0)
    le: Decimal = Decimal(1_000_000)


@frozen
class Items:
    """A list of so many elements; where each is unique no two names differ in case alone."""

    max: int = 50
    min: int = 0
    unique: bool = True


@frozen
class Instant:
    """ISO 8601 in UTC with Z."""


class Left(Enum):
    """What a field of a change holds that nothing was said of: it stays as it is. Where such a
    field may be None too, null is no absence: it empties the field."""

    AS_IS = "as is"


def said_fields(given: AttrsInstance) -> dict[str, Any]:
    """What a change says, by name: without what stays as it is."""
    every = ((field.name, getattr(given, field.name)) for field in fields(type(given)))
    return {name: value for name, value in every if value is not Left.AS_IS}


Id = Annotated[int, Whole(1, MAX_ID)]
Name = Annotated[str, Text(100)]
ShortText = Annotated[str, Text(300, 0)]
Lines = Annotated[str, Text(300, characters=Characters.LINES)]
"""An address as it stands on an envelope, or a reason."""
LongText = Annotated[str, Text(5000, characters=Characters.LINES)]
OptionalLongText = Annotated[str, Text(5000, 0, characters=Characters.LINES)]
Message = Annotated[str, Text(5000, characters=Characters.CHAT)]
Email = Annotated[str, Text(254, form="email")]
Country = Annotated[str, Text(2, 2, form="country")]
Clock = Annotated[str, Text(5, 5, form="clock")]
ClockEnd = Annotated[str, Text(5, 5, form="clock_end")]
Timezone = Annotated[str, Text(64, form="timezone")]
Rate = Annotated[Decimal, Amount()]
Photo = Annotated[str, Text(300, 0, form="image")]
Services = Annotated[tuple[Annotated[str, Text(100, form="listed")], ...], Items(50, 1)]
Languages = Annotated[tuple[Name, ...], Items(50)]
Mark = Annotated[int, Whole(1, 5)]
Password = Annotated[
    str, Text(PASSWORD_LENGTH[1], PASSWORD_LENGTH[0], characters=Characters.OPAQUE)
]

Token = Annotated[str, Text(1000, characters=Characters.OPAQUE)]

# The inputs -----------------------------------------------------------------------------


class OpenRole(StrEnum):
    """Roles that one can register for; admins are made by an operator."""

    CUSTOMER = "customer"
    STAFF = "staff"


@frozen(kw_only=True)
class Register:
    email: Email
    password: Password = field(repr=False)
    first_name: Name
    last_name: Name
    role: OpenRole


@frozen(kw_only=True)
class Login:
    email: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)]
    password: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)] = field(repr=False)


@frozen(kw_only=True)
class ChangePassword:
    current_password: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)] = field(
        repr=False
    )
    new_password: Password = field(repr=False)


@frozen(kw_only=True)
class ForgotPassword:
    email: Email


@frozen(kw_only=True)
class VerifyEmail:
    token: Token = field(repr=False)


@frozen(kw_only=True)
class ResetPassword:
    token: Token = field(repr=False)
    password: Password = field(repr=False)


@frozen(kw_only=True)
class EraseAccount:
    password: Annotated[str, Text(1000, 0, characters=Characters.OPAQUE)] = field(repr=False)


@frozen(kw_only=True)
class Notifications:
    """Whether one is told of these, by their kinds; what is left out stays as it is."""

    accepted: bool | None = None
    payout: bool | None = None
    new_message: bool | None = None


@frozen(kw_only=True)
class ChooseNotifications:
    notifications: Notifications


@frozen(kw_only=True)
class Contact:
    name: Name
    email: Email
    message: LongText = field(repr=False)
    subject: ShortText | None = None


@frozen(kw_only=True)
class CreateKey:
    name: Name
    permissions: Annotated[tuple[Permission, ...], Items(2, 1)]
    expires_at: Annotated[str, Instant()] | None = None


@frozen(kw_only=True)
class RequestBooking:
    """SPECIFICATION 4.5, without the customer: a customer books for themself."""

    companion_id: Id
    event_date: date
    start_time: Clock
    duration_hours: Annotated[int, Whole(1, 24)]
    service_type: Name
    location: Lines
    cancellation_insurance: bool = False
    event_ref: Annotated[str, Text(64)] | None = None
    rebooking_of: Annotated[str, Text(64, characters=Characters.OPAQUE)] | None = None


@frozen(kw_only=True)
class RequestBookingFor(RequestBooking):
    """SPECIFICATION 4.5: through the API, for a registered customer."""

    customer_email: Email


@frozen(kw_only=True)
class CancelBooking:
    reason: Annotated[str, Text(300, 0, characters=Characters.LINES)] | None = None
    quote: Annotated[str, Text(1000, characters=Characters.OPAQUE)] | None = None


@frozen(kw_only=True)
class DisputeBooking:
    reason: Lines


@frozen(kw_only=True)
class SubmitReview:
    """SPECIFICATION 2.4."""

    rating: Mark
    comment: Annotated[str, Text(2000, 0, characters=Characters.LINES)] | None = None
    punctuality: Mark | None = None
    professionalism: Mark | None = None
    communication: Mark | None = None
    appearance: Mark | None = None


@frozen(kw_only=True)
class RespondToReview:
    response: Annotated[str, Text(2000, characters=Characters.LINES)]


@frozen(kw_only=True)
class SendMessage:
    content: Message


@frozen(kw_only=True)
class OpenPayoutAccount:
    country: Country | None = None
    """Where the account is, in letters of either case; the deployment's unless given."""


# What staff members say of themselves (CONTRACT 3) --------------------------------------


@frozen(kw_only=True)
class ChangeProfile:
    first_name: Name | Left = Left.AS_IS
    last_name: Name | Left = Left.AS_IS
    tagline: ShortText | Left = Left.AS_IS
    bio: OptionalLongText | Left = Left.AS_IS
    profile_photo: Photo | Left = Left.AS_IS
    hourly_rate: Rate | Left = Left.AS_IS
    daily_rate: Rate | Left | None = Left.AS_IS
    location_city: Name | Left = Left.AS_IS
    location_country: Name | Left = Left.AS_IS
    service_types: Services | Left = Left.AS_IS
    languages: Languages | Left = Left.AS_IS
    years_experience: Annotated[int, Whole(0, 80)] | Left | None = Left.AS_IS
    timezone: Timezone | Left = Left.AS_IS


@frozen(kw_only=True)
class Hours:
    """Of a local day: `start` before `end`, which is judged later."""

    start: Clock
    end: ClockEnd


@frozen(kw_only=True)
class WeeklyHours(Hours):
    weekday: Annotated[int, Whole(0, 6)]
    """Monday is 0."""


@frozen(kw_only=True)
class DateHours:
    """Of one date, in place of the weekly ones; no slots: a day off."""

    date: date
    slots: Annotated[tuple[Hours, ...], Items(50, unique=False)]


Weekly = Annotated[tuple[WeeklyHours, ...], Items(100, unique=False)]
MAX_OVERRIDES = 1000
Overrides = Annotated[tuple[DateHours, ...], Items(MAX_OVERRIDES, unique=False)]


@frozen(kw_only=True)
class SetAvailability:
    timezone: Timezone
    weekly: Weekly | Left = Left.AS_IS
    overrides: Overrides | Left = Left.AS_IS


@frozen(kw_only=True)
class AddPortfolioItem:
    title: Annotated[str, Text(120)]
    image: Annotated[str, Text(300, form="image")]
    description: Annotated[str, Text(2000, 0, characters=Characters.LINES)] = ""


# Webhooks (CONTRACT 7) ------------------------------------------------------------------


@frozen(kw_only=True)
class CreateWebhook:
    url: Annotated[str, Text(MAX_URL, form="webhook")]
    events: Annotated[tuple[EventName, ...], Items(5, 1)] | None = None
    """All five unless given."""
    description: OptionalLongText | None = None


@frozen(kw_only=True)
class ChangeWebhook:
    events: Annotated[tuple[EventName, ...], Items(5, 1)] | None = None
    description: OptionalLongText | None = None
    active: bool | None = None
    """False pauses it; true sends what was held, also where it was disabled."""


# Events of the channel (CONTRACT 6) -----------------------------------------------------


@frozen(kw_only=True)
class SendToConversation:
    conversation_id: Id
    content: Message
    client_message_id: Annotated[str, Text(100, characters=Characters.OPAQUE)] | None = None
    """The client's own name for it: sent again, it is stored once and acknowledged again."""


@frozen(kw_only=True)
class Type:
    conversation_id: Id
    is_typing: bool


@frozen(kw_only=True)
class ReadUpTo:
    conversation_id: Id
    message_id: Id


@frozen(kw_only=True)
class AskPresence:
    user_ids: Annotated[tuple[Id, ...], Items(50)]


@frozen(kw_only=True)
class Resume:
    after: Annotated[int, Whole(0, MAX_ID)]
    """The last message that the client has; 0 for all."""


# Import of companions (CONTRACT 9) ------------------------------------------------------


@frozen(kw_only=True)
class ImportedCompanion:
    """What is not said of somebody known stays as it is; a newcomer gets the defaults."""

    email: Email
    first_name: Name
    last_name: Name
    hourly_rate: Rate
    location_city: Name
    location_country: Name
    timezone: Timezone
    service_types: Services
    password: Password | None = field(default=None, repr=False)
    tagline: ShortText | Left = Left.AS_IS
    bio: OptionalLongText | Left = Left.AS_IS
    profile_photo: Photo | Left = Left.AS_IS
    daily_rate: Rate | Left = Left.AS_IS
    languages: Languages | Left = Left.AS_IS
    tier: Tier | Left = Left.AS_IS
    badges: Annotated[tuple[Badge, ...], Items(50)] | Left = Left.AS_IS
    weekly: Weekly | Left = Left.AS_IS
    overrides: Overrides | Left = Left.AS_IS
    payout_account: Annotated[str, Text(300, 0)] | Left = Left.AS_IS
    approved: bool = False


ROLE_OF = {OpenRole.CUSTOMER: Role.CUSTOMER, OpenRole.STAFF: Role.STAFF}
