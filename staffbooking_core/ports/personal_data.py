"""Personal data: all that is stored about one person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import DisputeStatement
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry

__all__ = ["PersonalDataReadPort", "PersonalDataWritePort"]


class PersonalDataReadPort(Protocol):
    """Queries for the export of a person's data. Pages are in the order of ids, up to `limit` rows
    above `after_id`."""

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        """A page of the bookings of which the user is the customer or the companion, or who booked
        them."""
        ...

    async def reviews_written_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        """A page of the reviews that the user wrote; hidden ones too."""
        ...

    async def reviewee_ids_of(self, user_id: int) -> Sequence[int]:
        """The ids of all users whom this user reviewed, each once, ascending."""
        ...

    async def messages_sent_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        """A page of the messages that the user sent."""
        ...

    async def inquiries_from(self, email: str) -> Sequence[Inquiry]:
        """The inquiries from an e-mail (compared by `normalize_email`), by id."""
        ...

    async def dispute_statements_by(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[DisputeStatement]:
        """A page of the statements that the user made in disputes."""
        ...


class PersonalDataWritePort(PersonalDataReadPort, Protocol):
    """Commands that erase a person."""

    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        """All bookings of which the user is the customer or the companion, locked in the order of
        ids until the transaction ends."""
        ...

    async def erase(self, user: User, email: str | None) -> None:
        """Erase a person whose user row is saved as erased: what names them, and what was theirs
        alone. Their companion is saved by the caller.

        Changed: names and texts in bookings (`erase_party_from_booking`), reviews
        (`erase_party_from_review`), messages and statements in disputes
        (`erase_statement`), the commands of finished checkouts
        (`erase_checkout_command`; their `last_error` becomes None), payees (`erase_payee`), texts
        and addresses in the audit of what is or was theirs or by them (`erase_audit_entry`), the
        references that name event groups.
        Deleted: sessions, API keys, saved people (theirs, and
        them as saved by others), portfolio items, calendar feed and subscriptions, muted
        kinds, the time of their last connection; and with `email`, which is given where it is
        known to be theirs, its inquiries, and the address in skipped rows of imports. Notifications
        expire by themselves, as they are sent to no erased user; images and files of disputes are
        deleted with their contents.
        """
        ...
