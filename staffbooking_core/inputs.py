"""What use-cases take from outside: each input with the bounds of its fields.

The bounds are declared once, as annotations, and serve three ends: the strict converter
at the edge enforces them (every fault at once), the published documents show them, and
whoever embeds the core reads them. An input's attribute names are the published names.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from attrs import field, frozen

from staffbooking_core.domain.accounts import PASSWORD_LENGTH, Role
from staffbooking_core.domain.companions import Badge, Tier
from staffbooking_core.domain.keys import Permission
from staffbooking_core.domain.lifecycle import EventName
from staffbooking_core.domain.webhooks import MAX_URL

MAX_ID = 2**63 - 1

# The bounds -----------------------------------------------------------------------------


@frozen
class Text:
    """Text of so many code points, without NUL and lone surrogates; not only blanks."""

    max: int = 100
    min: int = 1
    form: str | None = None
    """`email`, `timezone`, `country` (ISO 3166), `clock` (HH:MM), `clock_end` (to 24:00) or
    `webhook` (the URL of a receiver, as a sandbox may take it)."""


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
    """A list of so many elements."""

    max: int = 50
    min: int = 0
    unique: bool = True


@frozen
class Instant:
    """ISO 8601 in UTC with Z."""


Id = Annotated[int, Whole(1, MAX_ID)]
Name = Annotated[str, Text(100)]
ShortText = Annotated[str, Text(300)]
LongText = Annotated[str, Text(5000)]
Email = Annotated[str, Text(254, form="email")]
Country = Annotated[str, Text(2, 2, form="country")]
Clock = Annotated[str, Text(5, 5, form="clock")]
ClockEnd = Annotated[str, Text(5, 5, form="clock_end")]
Mark = Annotated[int, Whole(1, 5)]
Password = Annotated[str, Text(PASSWORD_LENGTH[1], PASSWORD_LENGTH[0])]

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
    email: Annotated[str, Text(1000, 0)]
    password: Annotated[str, Text(1000, 0)] = field(repr=False)


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
    location: ShortText
    cancellation_insurance: bool = False
    event_ref: Annotated[str, Text(64)] | None = None
    rebooking_of: Annotated[str, Text(64)] | None = None


@frozen(kw_only=True)
class RequestBookingFor(RequestBooking):
    """SPECIFICATION 4.5: through the API, for a registered customer."""

    customer_email: Email


@frozen(kw_only=True)
class CancelBooking:
    reason: ShortText | None = None
    quote: Annotated[str, Text(1000)] | None = None


@frozen(kw_only=True)
class DisputeBooking:
    reason: ShortText


@frozen(kw_only=True)
class SubmitReview:
    """SPECIFICATION 2.4."""

    rating: Mark
    comment: Annotated[str, Text(2000, 0)] | None = None
    punctuality: Mark | None = None
    professionalism: Mark | None = None
    communication: Mark | None = None
    appearance: Mark | None = None


@frozen(kw_only=True)
class RespondToReview:
    response: Annotated[str, Text(2000)]


@frozen(kw_only=True)
class SendMessage:
    content: LongText


@frozen(kw_only=True)
class OpenPayoutAccount:
    country: Country | None = None
    """Where the account is, in letters of either case; the deployment's unless given."""


@frozen(kw_only=True)
class CreateWebhook:
    url: Annotated[str, Text(MAX_URL, form="webhook")]
    events: Annotated[tuple[EventName, ...], Items(5, 1)] | None = None
    """All five unless given."""
    description: Annotated[str, Text(5000, 0)] | None = None


@frozen(kw_only=True)
class ChangeWebhook:
    events: Annotated[tuple[EventName, ...], Items(5, 1)] | None = None
    description: Annotated[str, Text(5000, 0)] | None = None
    active: bool | None = None
    """False pauses it; true sends what was held, also where it was disabled."""


# Events of the channel (CONTRACT 6) -----------------------------------------------------


@frozen(kw_only=True)
class SendToConversation:
    conversation_id: Id
    content: LongText
    client_message_id: Annotated[str, Text(100)] | None = None
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
class ImportedSlot:
    start: Clock
    end: ClockEnd


@frozen(kw_only=True)
class ImportedWeekly(ImportedSlot):
    weekday: Annotated[int, Whole(0, 6)]


@frozen(kw_only=True)
class ImportedOverride:
    date: date
    slots: Annotated[tuple[ImportedSlot, ...], Items(50, unique=False)]


@frozen(kw_only=True)
class ImportedCompanion:
    email: Email
    first_name: Name
    last_name: Name
    hourly_rate: Annotated[Decimal, Amount()]
    location_city: Name
    location_country: Name
    timezone: Annotated[str, Text(64, form="timezone")]
    service_types: Annotated[tuple[Name, ...], Items(50, 1)]
    password: Password | None = field(default=None, repr=False)
    tagline: Annotated[str, Text(300, 0)] = ""
    bio: Annotated[str, Text(5000, 0)] = ""
    profile_photo: Annotated[str, Text(300, 0)] = ""
    daily_rate: Annotated[Decimal, Amount()] | None = None
    languages: Annotated[tuple[Name, ...], Items(50)] = ()
    tier: Tier = Tier.STANDARD
    badges: Annotated[tuple[Badge, ...], Items(50)] = ()
    weekly: Annotated[tuple[ImportedWeekly, ...], Items(100, unique=False)] = ()
    overrides: Annotated[tuple[ImportedOverride, ...], Items(1000, unique=False)] = ()
    payout_account: Annotated[str, Text(300, 0)] | None = None
    approved: bool = False


ROLE_OF = {OpenRole.CUSTOMER: Role.CUSTOMER, OpenRole.STAFF: Role.STAFF}
