"""All that is kept about one person, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import Place
from staffbooking_core.domain.accounts import User
from staffbooking_core.domain.bookings import Booking
from staffbooking_core.domain.erasure import NAME, forgotten
from staffbooking_core.domain.inquiries import Inquiry
from staffbooking_core.domain.messages import Message
from staffbooking_core.domain.reviews import Review


@frozen
class PeopleReader:
    place: Place

    async def bookings_of(self, user_id: int) -> Sequence[Booking]:
        bookings = self.place.state.bookings
        every = (bookings[number] for number in sorted(bookings))
        return [each for each in every if user_id in (each.customer_id, each.companion_id)]

    async def reviews_by(self, user_id: int) -> Sequence[Review]:
        reviews = self.place.state.reviews
        every = (reviews[number] for number in sorted(reviews))
        return [each for each in every if each.reviewer_id == user_id]

    async def messages_by(self, user_id: int) -> Sequence[Message]:
        messages = self.place.state.messages
        every = (messages[number] for number in sorted(messages))
        return [each for each in every if each.sender_id == user_id]

    async def inquiries_by(self, email: str) -> Sequence[Inquiry]:
        inquiries = self.place.state.inquiries
        every = (inquiries[number] for number in sorted(inquiries))
        return [each for each in every if each.email == email]


@frozen
class PeopleWriter(PeopleReader):
    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        return await self.bookings_of(user_id)

    async def forget(self, user: User, email: str) -> None:
        state = self.place.state
        for booking in await self.bookings_of(user.id):
            state.bookings[booking.id] = forgotten(booking, user.id)
        for review in await self.reviews_by(user.id):
            state.reviews[review.id] = evolve(review, reviewer_name=NAME)
        for message in await self.messages_by(user.id):
            state.messages[message.id] = evolve(message, sender_name=NAME, content=NAME)
        self._drop(user.id)
        for inquiry in await self.inquiries_by(email):
            state.inquiries.discard(inquiry.id)

    def _drop(self, user_id: int) -> None:
        """What was theirs alone."""
        state = self.place.state
        for session in list(state.sessions.values()):
            if session.user_id == user_id:
                state.sessions.discard(session.digest)
        for key in list(state.keys.values()):
            if key.owner_id == user_id:
                state.keys.discard(key.id)
                state.key_by_digest.discard(key.digest)
        for item in list(state.portfolio.values()):
            if item.companion_id == user_id:
                state.portfolio.discard(item.id)
        for image in list(state.images.values()):
            if image.owner_id == user_id:
                state.images.discard(image.name)
        state.feeds.discard(user_id)
        state.mutes.discard(user_id)
