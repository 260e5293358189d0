"""The store's family of all that is kept about one person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry


class PersonalDataReadPort(Protocol):
    """Pages are in the order of ids, from the first above `after_id`."""

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        """A page of those that they are the customer or the companion of, or booked for others."""
        ...

    async def reviews_written_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        """A page of those that they wrote, hidden ones too."""
        ...

    async def reviewee_ids_of(self, user_id: int) -> Sequence[int]:
        """The ids of all whom they wrote reviews of, each once, rising."""
        ...

    async def messages_sent_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        """A page of those that they wrote."""
        ...

    async def inquiries_from(self, email: str) -> Sequence[Inquiry]:
        """Those from an address, whatever its case (`fold_email`), in the order of ids."""
        ...


class PersonalDataWritePort(PersonalDataReadPort, Protocol):
    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        """All that they are the customer or the companion of, held in the order of ids until the
        unit of work ends."""
        ...

    async def erase(self, user: User, email: str | None) -> None:
        """Erase all that names a person who was saved as erased, but their companion, or that
        was theirs alone: names and words in bookings (`erasure.forgotten`), reviews (`unsigned`)
        and messages, what finished checkouts (`unnamed`) and payees (`closed`) were opened with,
        events that groups are called by, sessions, keys, portfolio, feed, mutes, when they were
        seen; and from what was their `email`, if it is known to be theirs, inquiries, and the
        address in imports' skipped rows. Notices go by themselves, since nobody is told of them,
        and images with their files."""
        ...
