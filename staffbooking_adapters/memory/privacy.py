"""All that is kept about one person, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import PayeeRow, Place
from staffbooking_core.domain.accounts.users import User, fold_email
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.processor import OpenCheckout
from staffbooking_core.domain.privacy import NAME, closed, forgotten, unnamed, unsigned


@frozen
class PeopleReader:
    place: Place

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        bookings = self.place.state.bookings
        every = (bookings[number] for number in sorted(bookings) if number > after_id)
        return [each for each in every if each.party_of(user_id) is not None][:limit]

    async def reviews_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        return [each for each in self._all_reviews_by(user_id) if each.id > after_id][:limit]

    async def reviewed_by(self, user_id: int) -> Sequence[int]:
        return sorted({each.reviewee_id for each in self._all_reviews_by(user_id)})

    async def messages_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        return [each for each in self._all_messages_by(user_id) if each.id > after_id][:limit]

    async def inquiries_by(self, email: str) -> Sequence[Inquiry]:
        inquiries = self.place.state.inquiries
        every = (inquiries[number] for number in sorted(inquiries))
        return [each for each in every if fold_email(each.email) == fold_email(email)]

    def _all_bookings_of(self, user_id: int) -> list[Booking]:
        bookings = self.place.state.bookings
        every = (bookings[number] for number in sorted(bookings))
        return [each for each in every if user_id in (each.customer_id, each.companion_id)]

    def _all_reviews_by(self, user_id: int) -> list[Review]:
        reviews = self.place.state.reviews
        every = (reviews[number] for number in sorted(reviews))
        return [each for each in every if each.reviewer_id == user_id]

    def _all_messages_by(self, user_id: int) -> list[Message]:
        messages = self.place.state.messages
        every = (messages[number] for number in sorted(messages))
        return [each for each in every if each.sender_id == user_id]


@frozen
class PeopleWriter(PeopleReader):
    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        return self._all_bookings_of(user_id)

    async def forget(self, user: User, email: str | None) -> None:
        state = self.place.state
        for booking in self._all_bookings_of(user.id):
            state.bookings[booking.id] = forgotten(booking, user.id)
            self._forget_checkouts(booking.id)
        for review in list(state.reviews.values()):
            if user.id in (review.reviewer_id, review.reviewee_id):
                state.reviews[review.id] = unsigned(review, user.id)
        for message in self._all_messages_by(user.id):
            state.messages[message.id] = evolve(message, sender_name=NAME, content=NAME)
        for name, row in list(state.payees.items()):
            if row.payee.companion_id == user.id:
                state.payees[name] = PayeeRow(closed(row.payee))
        self._forget_in_conversations(user.id)
        self._drop(user.id)
        if email is not None:
            await self._forget_address(email)

    def _forget_checkouts(self, booking_id: int) -> None:
        operations = self.place.state.operations
        for number in self.place.state.operations_of.get(booking_id) or ():
            operation = operations[number].operation
            if operation.is_finished and isinstance(operation.command, OpenCheckout):
                forgotten = evolve(operation, command=unnamed(operation.command))
                operations[number] = evolve(operations[number], operation=forgotten)

    def _forget_in_conversations(self, user_id: int) -> None:
        state = self.place.state
        for number in state.conversations_of.get(user_id) or ():
            row = state.conversations[number]
            talk = row.conversation
            members = [
                evolve(each, name=NAME) if each.user_id == user_id else each
                for each in talk.members
            ]
            talk = evolve(talk, members=tuple(members))
            if talk.customer_id == user_id and talk.event_ref is not None:
                state.group_by_event.discard((user_id, talk.event_ref))
                talk = evolve(talk, event_ref=None)
            state.conversations[number] = evolve(row, conversation=talk)

    async def _forget_address(self, email: str) -> None:
        state = self.place.state
        for inquiry in await self.inquiries_by(email):
            state.inquiries.discard(inquiry.id)
        for place, row in list(state.skipped_rows.items()):
            if row.email is not None and fold_email(row.email) == fold_email(email):
                state.skipped_rows[place] = evolve(row, email=None)

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
        state.feeds.discard(user_id)
        state.mutes.discard(user_id)
        state.last_seen.discard(user_id)
