"""Personal data of one person, for export and erasure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from attrs import frozen
from sqlalchemy import (
    Column,
    ColumnElement,
    Null,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    delete,
    literal,
    null,
    or_,
    select,
    union,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings.disputes import STATEMENT_COLUMNS, to_statement
from staffbooking_adapters.sql.bookings.reader import BOOKING_COLUMNS, to_booking
from staffbooking_adapters.sql.companions.reviews import REVIEW_COLUMNS, to_review
from staffbooking_adapters.sql.engine.composite import BatchStatement
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import batch_rows, in_array, json_items_cleared
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.messaging.conversation_queries import MESSAGE_COLUMNS, to_message
from staffbooking_adapters.sql.notifications.store import INQUIRY_COLUMNS, to_inquiry
from staffbooking_adapters.sql.payments.payees import PAYEE_COLUMNS, PayeesWriter, to_payee
from staffbooking_adapters.sql.schema.accounts import (
    api_key_calls,
    api_keys,
    audit,
    login_addresses,
    sessions,
    users,
)
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.companions import (
    calendar_feeds,
    calendar_subscriptions,
    portfolio_items,
    reviews,
    saved_people,
)
from staffbooking_adapters.sql.schema.disputes import dispute_statements
from staffbooking_adapters.sql.schema.imports import skipped_rows
from staffbooking_adapters.sql.schema.messaging import (
    conversation_members,
    conversations,
    last_seen,
    messages,
)
from staffbooking_adapters.sql.schema.notifications import inquiries, mutes
from staffbooking_adapters.sql.schema.payments import is_unfinished, payees, payment_operations
from staffbooking_adapters.sql.schema.webhooks import deliveries, endpoints
from staffbooking_core.domain.accounts.audit import BOOKING_SUBJECTS, AuditSubject
from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.disputes import DisputeStatement
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.processor import OpenCheckout, OperationKind
from staffbooking_core.domain.privacy import (
    ERASED_NAME,
    ERASED_URL,
    erase_checkout_command,
    erase_payee,
)

Condition: TypeAlias = ColumnElement[bool]

_USER_ID, _FOLDED_EMAIL = bindparam("user_id", type_=BigInt), bindparam("folded", type_=Text())
_IS_PARTY = or_(bookings.c.customer_id == _USER_ID, bookings.c.companion_id == _USER_ID)
_SELECT_BOOKINGS_OF_PARTY = select(*BOOKING_COLUMNS).where(_IS_PARTY).order_by(bookings.c.id)
LOCK_CONVERSATIONS_OF = Statement(
    select(conversations.c.id)
    .where(
        conversations.c.id.in_(
            select(conversation_members.c.conversation_id).where(
                conversation_members.c.user_id == _USER_ID
            )
        )
    )
    .order_by(conversations.c.id)
    .with_for_update(key_share=True)
)
LOCK_BOOKINGS_OF = Statement(_SELECT_BOOKINGS_OF_PARTY.with_for_update(key_share=True))

_IS_REVIEW_OF_OWN_BOOKING = reviews.c.booking_id.in_(select(bookings.c.id).where(_IS_PARTY))
_IS_REVIEWER = (reviews.c.reviewer_id == _USER_ID,)
_IS_REVIEWED = (reviews.c.reviewee_id == _USER_ID, _IS_REVIEW_OF_OWN_BOOKING)
LIST_REVIEWEES = Statement(
    select(reviews.c.reviewee_id).distinct().where(*_IS_REVIEWER).order_by(reviews.c.reviewee_id)
)
_IS_SENDER = (
    messages.c.sender_id == _USER_ID,
    messages.c.conversation_id.in_(
        select(conversation_members.c.conversation_id).where(
            conversation_members.c.user_id == _USER_ID
        )
    ),
)
_IS_AUTHOR = dispute_statements.c.author_id == _USER_ID
_IS_INQUIRY_BY_EMAIL = inquiries.c.email_folded == _FOLDED_EMAIL
LIST_INQUIRIES_BY_EMAIL = Statement(
    select(*INQUIRY_COLUMNS).where(_IS_INQUIRY_BY_EMAIL).order_by(inquiries.c.id)
)
_AFTER_ID = bindparam("after_id", type_=BigInt)


def _rows_of_person_after(
    columns: Sequence[Column[Any]], ownership_conditions: Sequence[Condition], size: int
) -> Statement:
    """The person's first `size` rows above an id. Rows are filtered before they are sorted, since
    the planner might otherwise scan the whole table in id order."""
    row_id = columns[0].table.c.id
    id_selects = [select(row_id).where(way, row_id > _AFTER_ID) for way in ownership_conditions]
    found = union(*id_selects).cte("found").prefix_with("MATERIALIZED")
    next_ids = select(found.c.id).order_by(found.c.id).limit(size).subquery("next_ones")
    rows = select(*columns).join_from(next_ids, columns[0].table, row_id == next_ids.c.id)
    return Statement(rows.order_by(row_id))


@cache
def bookings_of_person_after(size: int) -> Statement:
    ownership_conditions = (
        bookings.c.customer_id == _USER_ID,
        bookings.c.companion_id == _USER_ID,
        bookings.c.booked_by == _USER_ID,
    )
    return _rows_of_person_after(BOOKING_COLUMNS, ownership_conditions, size)


@cache
def reviews_by_person_after(size: int) -> Statement:
    return _rows_of_person_after(REVIEW_COLUMNS, [and_(*_IS_REVIEWER)], size)


@cache
def statements_by_person_after(size: int) -> Statement:
    return _rows_of_person_after(STATEMENT_COLUMNS, [_IS_AUTHOR], size)


@cache
def messages_by_person_after(size: int) -> Statement:
    return _rows_of_person_after(MESSAGE_COLUMNS, [and_(*_IS_SENDER)], size)


def _erase_booking_side(
    party: Party, is_of_user: ColumnElement[bool], **values: ColumnElement[str] | Null
) -> Update:
    """Erase the texts of one side of a booking, together with the name."""
    changed = {
        "version": bookings.c.version + 1,
        "revision": bookings.c.revision + 1,
        "timeline": json_items_cleared(bookings.c.timeline, "reason", "actor", party),
        "cancel_reason": case(
            (bookings.c.cancelled_by == party, null()), else_=bookings.c.cancel_reason
        ),
        "dispute_reason": case(
            (bookings.c.disputed_by == party, null()), else_=bookings.c.dispute_reason
        ),
    }
    return update(bookings).where(is_of_user).values(**values, **changed)


def _erased_text(text_column: ColumnElement[str | None]) -> ColumnElement[str | None]:
    return case((text_column.is_not(None), _ERASED_NAME))


_ERASED_NAME = literal(ERASED_NAME, Text())


_OWN_ENDPOINTS = select(endpoints.c.id).where(endpoints.c.owner_id == _USER_ID)
# Ordered, so that PostgreSQL reads the index, although one admin may have made all entries.
_OWN_ACTS = select(audit.c.id).where(audit.c.actor_id == _USER_ID).order_by(audit.c.id)
LIST_AUDIT_IDS_OF = Statement(
    union(
        select(_OWN_ACTS.subquery("acts").c.id),
        *(
            select(audit.c.id).where(
                audit.c.subject.in_(subjects),
                audit.c.subject_id.in_(select(cast(subject_id, Text)).where(is_theirs)),
            )
            for subjects, subject_id, is_theirs in (
                ((AuditSubject.PERSON, AuditSubject.COMPANION), users.c.id, users.c.id == _USER_ID),
                ((AuditSubject.API_KEY,), api_keys.c.id, api_keys.c.owner_id == _USER_ID),
                (
                    (AuditSubject.PORTFOLIO_ITEM,),
                    portfolio_items.c.id,
                    portfolio_items.c.companion_id == _USER_ID,
                ),
                ((AuditSubject.REVIEW,), reviews.c.id, _IS_REVIEW_OF_OWN_BOOKING),
                ((AuditSubject.WEBHOOK,), endpoints.c.id, endpoints.c.owner_id == _USER_ID),
                (
                    (AuditSubject.DELIVERY,),
                    deliveries.c.id,
                    deliveries.c.endpoint_id.in_(_OWN_ENDPOINTS),
                ),
                (BOOKING_SUBJECTS, bookings.c.code, _IS_PARTY),
            )
        ),
    )
)
"""The audit entries by and about a person. Each part begins with the person's own rows and finds
entries by an index: an OR of the parts would read the whole audit, and so would an update of a
union, which PostgreSQL expects to be large."""
ERASE_AUDIT = Statement(
    update(audit).where(in_array(audit.c.id, "ids")).values(reason=null(), origin=null())
)
_DELETED_TABLES: tuple[tuple[Table, ColumnElement[bool]], ...] = (
    (sessions, sessions.c.user_id == _USER_ID),
    (login_addresses, login_addresses.c.user_id == _USER_ID),
    (
        saved_people,
        or_(saved_people.c.customer_id == _USER_ID, saved_people.c.companion_id == _USER_ID),
    ),
    (
        api_key_calls,
        api_key_calls.c.key_id.in_(select(api_keys.c.id).where(api_keys.c.owner_id == _USER_ID)),
    ),
    (api_keys, api_keys.c.owner_id == _USER_ID),
    (portfolio_items, portfolio_items.c.companion_id == _USER_ID),
    (calendar_feeds, calendar_feeds.c.companion_id == _USER_ID),
    (calendar_subscriptions, calendar_subscriptions.c.companion_id == _USER_ID),
    (mutes, mutes.c.user_id == _USER_ID),
    (last_seen, last_seen.c.user_id == _USER_ID),
)
ERASE_PERSON = tuple(
    Statement(part)
    for part in (
        _erase_booking_side(
            Party.CUSTOMER,
            bookings.c.customer_id == _USER_ID,
            customer_name=_ERASED_NAME,
            location=_ERASED_NAME,
            event_ref=null(),
        ),
        _erase_booking_side(
            Party.STAFF, bookings.c.companion_id == _USER_ID, companion_name=_ERASED_NAME
        ),
        update(reviews)
        .where(*_IS_REVIEWER)
        .values(reviewer_name=_ERASED_NAME, comment=_erased_text(reviews.c.comment)),
        update(reviews).where(*_IS_REVIEWED).values(response=_erased_text(reviews.c.response)),
        update(conversations)
        .where(conversations.c.customer_id == _USER_ID)
        .values(event_ref=null()),
        update(messages)
        .where(*_IS_SENDER)
        .values(sender_name=_ERASED_NAME, content=_ERASED_NAME, client_id=null()),
        update(endpoints)
        .where(endpoints.c.owner_id == _USER_ID)
        .values(url=ERASED_URL, description=null()),
        update(dispute_statements).where(_IS_AUTHOR).values(text=_ERASED_NAME, files="[]"),
        *(delete(table).where(is_theirs) for table, is_theirs in _DELETED_TABLES),
    )
)
ERASE_AUDIT_OF_INQUIRIES = Statement(
    update(audit)
    .where(
        audit.c.subject == AuditSubject.INQUIRY,
        audit.c.subject_id.in_(select(cast(inquiries.c.id, Text)).where(_IS_INQUIRY_BY_EMAIL)),
    )
    .values(reason=null(), origin=null())
)
ERASE_EMAIL = (
    Statement(delete(inquiries).where(_IS_INQUIRY_BY_EMAIL)),
    Statement(
        update(skipped_rows)
        .values(email=null(), email_folded=null())
        .where(skipped_rows.c.email_folded == _FOLDED_EMAIL)
    ),
)

CHECKOUTS_OF = Statement(
    select(payment_operations.c.id, payment_operations.c.command).where(
        payment_operations.c.kind == OperationKind.OPEN_CHECKOUT,
        ~is_unfinished,
        payment_operations.c.booking_id.in_(select(bookings.c.id).where(_IS_PARTY)),
    )
)
_CHECKOUT_ROWS = batch_rows("given", id=BigInt, command=Text())
SAVE_CHECKOUTS = BatchStatement(
    update(payment_operations)
    .values(command=_CHECKOUT_ROWS.c.command, last_error=null())
    .where(payment_operations.c.id == _CHECKOUT_ROWS.c.id)
)
LOCK_PAYEES_OF = Statement(
    select(*PAYEE_COLUMNS).where(payees.c.companion_id == _USER_ID).with_for_update()
)


@frozen
class PersonalDataReader:
    """Reads the personal data of one person, for export."""

    connection: Connection

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        rows = await self._read_page(bookings_of_person_after, user_id, after_id, limit)
        return [to_booking(row) for row in rows]

    async def reviews_written_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        rows = await self._read_page(reviews_by_person_after, user_id, after_id, limit)
        return [to_review(row) for row in rows]

    async def reviewee_ids_of(self, user_id: int) -> Sequence[int]:
        return [
            number for (number,) in await self.connection.fetch_all(LIST_REVIEWEES, user_id=user_id)
        ]

    async def messages_sent_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        rows = await self._read_page(messages_by_person_after, user_id, after_id, limit)
        return [to_message(row) for row in rows]

    async def dispute_statements_by(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[DisputeStatement]:
        rows = await self._read_page(statements_by_person_after, user_id, after_id, limit)
        return [to_statement(row) for row in rows]

    async def inquiries_from(self, email: str) -> Sequence[Inquiry]:
        rows = await self.connection.fetch_all(
            LIST_INQUIRIES_BY_EMAIL, folded=normalize_email(email)
        )
        return [to_inquiry(row) for row in rows]

    async def _read_page(
        self,
        statement_for_size: Callable[[int], Statement],
        user_id: int,
        after_id: int,
        limit: int,
    ) -> Sequence[Row]:
        params = {"user_id": user_id, "after_id": after_id}
        rows = await self.connection.fetch_all(statement_for_size(page_size(limit)), **params)
        return rows[:limit]


@frozen
class PersonalDataWriter(PersonalDataReader):
    """Locks and erases the personal data of one person."""

    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(LOCK_BOOKINGS_OF, user_id=user_id)
        return [to_booking(row) for row in rows]

    async def erase(self, user: User, email: str | None) -> None:
        # Texts are written under this lock: those written before are erased too, and later ones are
        # refused, since their author is erased.
        await self.connection.fetch_all(LOCK_CONVERSATIONS_OF, user_id=user.id)
        await self._erase_checkouts(user.id)
        entries = await self.connection.fetch_all(LIST_AUDIT_IDS_OF, user_id=user.id)
        await self.connection.execute(ERASE_AUDIT, ids=[number for (number,) in entries])
        for statement in ERASE_PERSON:
            await self.connection.execute(statement, user_id=user.id)
        payees_writer = PayeesWriter(self.connection)
        for row in await self.connection.fetch_all(LOCK_PAYEES_OF, user_id=user.id):
            await payees_writer.save_payee(erase_payee(to_payee(row)))
        if email is not None:
            for statement in (ERASE_AUDIT_OF_INQUIRIES, *ERASE_EMAIL):
                await self.connection.execute(statement, folded=normalize_email(email))

    async def _erase_checkouts(self, user_id: int) -> None:
        rows = await self.connection.fetch_all(CHECKOUTS_OF, user_id=user_id)
        erased_rows = [
            {
                "id": number,
                "command": codec.dump(erase_checkout_command(codec.load(text, OpenCheckout))),
            }
            for number, text in rows
        ]
        await SAVE_CHECKOUTS.execute(self.connection, erased_rows)
