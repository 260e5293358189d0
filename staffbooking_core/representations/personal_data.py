"""The export of a user's personal data."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, TypedDict

from staffbooking_core.domain.accounts.users import Language, Theme
from staffbooking_core.domain.notifications.notifications import (
    OPTIONAL_NOTIFICATION_KINDS,
    NotificationKind,
)
from staffbooking_core.representations.accounts import ApiKeyRecord, UserRecord
from staffbooking_core.representations.bookings import BookingRecord
from staffbooking_core.representations.calendars import (
    BusyTimeRecord,
    CalendarAddressRecord,
    CalendarFeedRecord,
)
from staffbooking_core.representations.companions import ReviewRecord
from staffbooking_core.representations.disputes import (
    DisputeFileRecord,
    OwnDisputeStatementRecord,
)
from staffbooking_core.representations.json_types import Id, JsonSchema, Timestamp
from staffbooking_core.representations.messaging import MessageRecord
from staffbooking_core.representations.webhooks import WebhookRecord

__all__ = ["OpenedDisputeRecord", "PersonalDataRecord", "RebookingCreditRecord"]


class OpenedDisputeRecord(TypedDict):
    """A dispute that the user opened."""

    booking_code: str
    reason: str


class RebookingCreditRecord(TypedDict):
    """A priority rebooking of the user."""

    booking_code: str
    expires_at: Timestamp
    used: bool


class _SignInRecord(TypedDict):
    """A session of the user."""

    created_at: Timestamp
    last_seen_at: Timestamp
    browser: str | None
    system: str | None
    network: str | None


class _SettingsRecord(TypedDict):
    """The settings of the pages; null where the user chose none."""

    language: Language | None
    theme: Theme | None
    timezone: str | None


class _SavedRecord(TypedDict):
    """A staff member whom the user saved."""

    companion_id: Id
    saved_at: Timestamp


class StaffData(TypedDict):
    """The data of a staff member."""

    profile: Mapping[str, object] | None
    availability: Mapping[str, object] | None
    busy_times: list[BusyTimeRecord]
    calendar_addresses: list[CalendarAddressRecord]
    payout_account: Mapping[str, object] | None


class BookingsData(TypedDict):
    """The data of bookings; each list is an iterator of its pages."""

    bookings: AsyncIterator[Sequence[BookingRecord]]
    disputes_opened: AsyncIterator[Sequence[OpenedDisputeRecord]]
    rebooking_credits: AsyncIterator[Sequence[RebookingCreditRecord]]


class WritingsData(TypedDict):
    """Texts that the user wrote, and reviews about the user."""

    messages: AsyncIterator[Sequence[MessageRecord]]
    reviews_written: AsyncIterator[Sequence[ReviewRecord]]
    reviews_received: AsyncIterator[Sequence[ReviewRecord]]
    dispute_statements: AsyncIterator[Sequence[OwnDisputeStatementRecord]]
    dispute_files: list[DisputeFileRecord]
    inquiries: Sequence[Mapping[str, object]]


class AccountData(TypedDict):
    """The data of the account, without secrets."""

    sessions: list[_SignInRecord]
    settings: _SettingsRecord
    saved_people: list[_SavedRecord]
    api_keys: list[ApiKeyRecord]
    webhooks: list[WebhookRecord]
    portfolio: Sequence[Mapping[str, object]]
    images: list[str]
    calendar_feed: CalendarFeedRecord | None
    refused_notices: list[
        Annotated[
            NotificationKind,
            JsonSchema(title="OptionalNotification", enum=list(OPTIONAL_NOTIFICATION_KINDS)),
        ]
    ]


class PersonalDataRecord(StaffData, BookingsData, WritingsData, AccountData):
    """All stored data of a user."""

    exported_at: Timestamp
    user: UserRecord
    last_seen_at: Timestamp | None
