"""The personal data of one user in memory: export and erasure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import MemoryTransaction, PayeeRow
from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.audit import BOOKING_SUBJECTS, AuditSubject
from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import DisputeStatement
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.processor import OpenCheckout
from staffbooking_core.domain.privacy import (
    ERASED_NAME,
    ERASED_URL,
    erase_audit_entry,
    erase_checkout_command,
    erase_party_from_booking,
    erase_party_from_review,
    erase_payee,
    erase_statement,
)


@frozen
class PersonalDataReader:
    """Reads a user's personal data."""

    tx: MemoryTransaction

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        bookings = self.tx.state.bookings
        every = (bookings[booking_id] for booking_id in sorted(bookings) if booking_id > after_id)
        return [each for each in every if each.party_of(user_id) is not None][:limit]

    async def reviews_written_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        return [each for each in self._all_reviews_by(user_id) if each.id > after_id][:limit]

    async def reviewee_ids_of(self, user_id: int) -> Sequence[int]:
        return sorted({each.reviewee_id for each in self._all_reviews_by(user_id)})

    async def messages_sent_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        return [each for each in self._all_messages_by(user_id) if each.id > after_id][:limit]

    async def dispute_statements_by(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[DisputeStatement]:
        return [each for each in self._all_statements_by(user_id) if each.id > after_id][:limit]

    async def inquiries_from(self, email: str) -> Sequence[Inquiry]:
        inquiries = self.tx.state.inquiries
        every = (inquiries[inquiry_id] for inquiry_id in sorted(inquiries))
        return [each for each in every if normalize_email(each.email) == normalize_email(email)]

    def _all_bookings_of(self, user_id: int) -> list[Booking]:
        bookings = self.tx.state.bookings
        every = (bookings[booking_id] for booking_id in sorted(bookings))
        return [each for each in every if user_id in (each.customer_id, each.companion_id)]

    def _all_reviews_by(self, user_id: int) -> list[Review]:
        reviews = self.tx.state.reviews
        every = (reviews[review_id] for review_id in sorted(reviews))
        return [each for each in every if each.reviewer_id == user_id]

    def _all_statements_by(self, user_id: int) -> list[DisputeStatement]:
        statements = self.tx.state.dispute_statements
        every = (statements[statement_id] for statement_id in sorted(statements))
        return [each for each in every if each.author_id == user_id]

    def _all_messages_by(self, user_id: int) -> list[Message]:
        messages = self.tx.state.messages
        every = (messages[message_id] for message_id in sorted(messages))
        return [each for each in every if each.sender_id == user_id]


@frozen
class PersonalDataWriter(PersonalDataReader):
    """Reads and writes a user's personal data."""

    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        return self._all_bookings_of(user_id)

    async def erase(self, user: User, email: str | None) -> None:
        state = self.tx.state
        for booking in self._all_bookings_of(user.id):
            state.bookings[booking.id] = erase_party_from_booking(booking, user.id)
            self._forget_checkouts(booking.id)
        for review in list(state.reviews.values()):
            if user.id in (review.reviewer_id, review.reviewee_id):
                state.reviews[review.id] = erase_party_from_review(review, user.id)
        self._forget_messages(user.id)
        for statement in self._all_statements_by(user.id):
            state.dispute_statements[statement.id] = erase_statement(statement)
        for name, row in list(state.payees.items()):
            if row.payee.companion_id == user.id:
                state.payees[name] = PayeeRow(erase_payee(row.payee))
        self._forget_endpoints(user.id)
        self._forget_in_audit(user.id)
        self._forget_in_conversations(user.id)
        self._delete_owned_rows(user.id)
        if email is not None:
            await self._forget_address(email)

    def _forget_messages(self, user_id: int) -> None:
        state = self.tx.state
        for message in self._all_messages_by(user_id):
            state.messages[message.id] = evolve(
                message, sender_name=ERASED_NAME, content=ERASED_NAME, client_id=None
            )
            if message.client_id is not None:
                state.message_by_client_id.discard(
                    (message.conversation_id, message.sender_id, message.client_id)
                )

    def _forget_endpoints(self, user_id: int) -> None:
        endpoints = self.tx.state.endpoints
        for row in list(endpoints.values()):
            if row.endpoint.owner_id == user_id:
                erased = evolve(row.endpoint, url=ERASED_URL, description=None)
                endpoints[erased.id] = evolve(row, endpoint=erased)

    def _forget_checkouts(self, booking_id: int) -> None:
        operations = self.tx.state.operations
        for operation_id in self.tx.state.operations_of.get(booking_id) or ():
            operation = operations[operation_id].operation
            if operation.is_finished and isinstance(operation.command, OpenCheckout):
                command = erase_checkout_command(operation.command)
                forgotten = evolve(operation, command=command, last_error=None)
                operations[operation_id] = evolve(operations[operation_id], operation=forgotten)

    def _forget_in_audit(self, user_id: int) -> None:
        state, own = self.tx.state, {str(user_id)}
        reviews, keys = state.reviews.values(), state.keys.values()
        items = state.portfolio.values()
        codes = {each.code for each in self._all_bookings_of(user_id)}
        names = {
            AuditSubject.PERSON: own,
            AuditSubject.COMPANION: own,
            AuditSubject.API_KEY: {str(each.id) for each in keys if each.owner_id == user_id},
            AuditSubject.PORTFOLIO_ITEM: {
                str(each.id) for each in items if each.companion_id == user_id
            },
            AuditSubject.REVIEW: {
                str(each.id) for each in reviews if user_id in (each.reviewer_id, each.reviewee_id)
            },
            AuditSubject.WEBHOOK: {
                str(row.endpoint.id)
                for row in state.endpoints.values()
                if row.endpoint.owner_id == user_id
            },
            AuditSubject.DELIVERY: {
                str(row.delivery.id)
                for row in state.deliveries.values()
                if state.endpoints[row.delivery.endpoint_id].endpoint.owner_id == user_id
            },
            **dict.fromkeys(BOOKING_SUBJECTS, codes),
        }
        for entry in list(state.audit.values()):
            if entry.actor_id == user_id or entry.subject_id in names.get(entry.subject, ()):
                state.audit[entry.id] = erase_audit_entry(entry)

    def _forget_in_conversations(self, user_id: int) -> None:
        state = self.tx.state
        for conversation_id in state.conversations_of.get(user_id) or ():
            row = state.conversations[conversation_id]
            conversation = row.conversation
            members = [
                evolve(each, name=ERASED_NAME) if each.user_id == user_id else each
                for each in conversation.members
            ]
            conversation = evolve(conversation, members=tuple(members))
            if conversation.customer_id == user_id and conversation.event_ref is not None:
                state.group_by_event.discard((user_id, conversation.event_ref))
                conversation = evolve(conversation, event_ref=None)
            state.conversations[conversation_id] = evolve(row, conversation=conversation)

    async def _forget_address(self, email: str) -> None:
        state = self.tx.state
        for inquiry in await self.inquiries_from(email):
            state.inquiries.discard(inquiry.id)
            for entry in list(state.audit.values()):
                if (entry.subject, entry.subject_id) == (AuditSubject.INQUIRY, str(inquiry.id)):
                    state.audit[entry.id] = erase_audit_entry(entry)
        for file_and_line, row in list(state.skipped_rows.items()):
            if row.email is not None and normalize_email(row.email) == normalize_email(email):
                state.skipped_rows[file_and_line] = evolve(row, email=None)

    def _delete_key(self, key: ApiKey) -> None:
        self.tx.state.keys.discard(key.id)
        self.tx.state.key_by_digest.discard(key.digest)
        calls = self.tx.shared.key_calls
        for key_and_hour in [key_and_hour for key_and_hour in calls if key_and_hour[0] == key.id]:
            del calls[key_and_hour]

    def _forget_saved(self, user_id: int) -> None:
        """Delete whom the user saved, and the user as saved by others."""
        saved = self.tx.state.saved_people
        for pair in [pair for pair in saved if user_id in pair]:
            saved.discard(pair)

    def _delete_owned_rows(self, user_id: int) -> None:
        """Delete the rows that belong to the user alone."""
        self._forget_saved(user_id)
        state = self.tx.state
        for session in list(state.sessions.values()):
            if session.user_id == user_id:
                state.sessions.discard(session.digest)
        for owned in [owned for owned in state.login_addresses if owned[0] == user_id]:
            state.login_addresses.discard(owned)
        for key in list(state.keys.values()):
            if key.owner_id == user_id:
                self._delete_key(key)
        for item in list(state.portfolio.values()):
            if item.companion_id == user_id:
                state.portfolio.discard(item.id)
        state.calendar_feeds.discard(user_id)
        for row in list(state.calendar_subscriptions.values()):
            if row.subscription.companion_id == user_id:
                state.calendar_subscriptions.discard(row.subscription.id)
        state.muted_kinds.discard(user_id)
        state.last_seen.discard(user_id)
        state.unclaimed_departures.discard(user_id)
