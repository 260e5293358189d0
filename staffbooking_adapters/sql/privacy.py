"""All that is kept about one person, to be handed out or erased."""

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
    delete,
    literal,
    null,
    or_,
    select,
    union_all,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings.reader import BOOKING, to_booking
from staffbooking_adapters.sql.companions.reviews import REVIEW, to_review
from staffbooking_adapters.sql.engine.composite import Batch
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import given_rows
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.messaging.conversations import MESSAGE, to_message
from staffbooking_adapters.sql.notifications.store import INQUIRY, to_inquiry
from staffbooking_adapters.sql.payments.payees import PAYEE, PayeesWriter, to_payee
from staffbooking_adapters.sql.schema.accounts import (
    calendar_feeds,
    inquiries,
    mutes,
    portfolio_items,
    skipped_rows,
)
from staffbooking_adapters.sql.schema.bookings import api_keys, bookings, reviews, sessions
from staffbooking_adapters.sql.schema.messaging import conversations, last_seen, members, messages
from staffbooking_adapters.sql.schema.payments import is_unfinished, payees, payment_operations
from staffbooking_core.domain.accounts.users import User, fold_email
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.domain.notifications.inquiries import Inquiry
from staffbooking_core.domain.payments.processor import OpenCheckout, OpKind
from staffbooking_core.domain.privacy import NAME, closed, unnamed

Condition: TypeAlias = ColumnElement[bool]

_USER, _EMAIL = bindparam("user_id", type_=BigInt), bindparam("folded", type_=Text())
_IS_PARTY = or_(bookings.c.customer_id == _USER, bookings.c.companion_id == _USER)
_MINE = select(*BOOKING).where(_IS_PARTY).order_by(bookings.c.id)
LOCK_CONVERSATIONS_OF = Statement(
    select(conversations.c.id)
    .where(
        conversations.c.id.in_(select(members.c.conversation_id).where(members.c.user_id == _USER))
    )
    .order_by(conversations.c.id)
    .with_for_update(key_share=True)
)
LOCK_BOOKINGS_OF = Statement(_MINE.with_for_update(key_share=True))

_IS_OF_MINE = reviews.c.booking_id.in_(select(bookings.c.id).where(_IS_PARTY))
_IS_REVIEWER = (reviews.c.reviewer_id == _USER, _IS_OF_MINE)
_IS_REVIEWED = (reviews.c.reviewee_id == _USER, _IS_OF_MINE)
REVIEWED_BY = Statement(
    select(reviews.c.reviewee_id).distinct().where(*_IS_REVIEWER).order_by(reviews.c.reviewee_id)
)
_IS_SENDER = (
    messages.c.sender_id == _USER,
    messages.c.conversation_id.in_(
        select(members.c.conversation_id).where(members.c.user_id == _USER)
    ),
)
_IS_ASKER = inquiries.c.email_folded == _EMAIL
INQUIRIES_BY = Statement(select(*INQUIRY).where(_IS_ASKER).order_by(inquiries.c.id))
_AFTER = bindparam("after_id", type_=BigInt)


def _page(columns: Sequence[Column[Any]], is_theirs: Sequence[Condition], size: int) -> Statement:
    """The first of somebody's rows above an id. They are found before they are put in order:
    who goes along the ids of everybody to have them in order reads the table through."""
    number = columns[0].table.c.id
    ways = [select(number).where(way, number > _AFTER) for way in is_theirs]
    found = union_all(*ways).cte("found").prefix_with("MATERIALIZED")
    next_ones = select(found.c.id).order_by(found.c.id).limit(size).subquery("next_ones")
    rows = select(*columns).join_from(next_ones, columns[0].table, number == next_ones.c.id)
    return Statement(rows.order_by(number))


@cache
def bookings_after(size: int) -> Statement:
    for_another = and_(
        bookings.c.booked_by == _USER,
        bookings.c.customer_id != _USER,
        bookings.c.companion_id != _USER,
    )
    ways = (bookings.c.customer_id == _USER, bookings.c.companion_id == _USER, for_another)
    return _page(BOOKING, ways, size)


@cache
def reviews_after(size: int) -> Statement:
    return _page(REVIEW, [and_(*_IS_REVIEWER)], size)


@cache
def messages_after(size: int) -> Statement:
    return _page(MESSAGE, [and_(*_IS_SENDER)], size)


def _forget_side(
    party: Party, is_theirs: ColumnElement[bool], **values: ColumnElement[str] | Null
) -> Update:
    """What a side of bookings said goes with its name."""
    said = {
        "cancel_reason": case(
            (bookings.c.cancelled_by == party, null()), else_=bookings.c.cancel_reason
        ),
        "dispute_reason": case(
            (bookings.c.disputed_by == party, null()), else_=bookings.c.dispute_reason
        ),
    }
    return update(bookings).where(is_theirs).values(**values, **said)


def _erased(words: ColumnElement[str | None]) -> ColumnElement[str | None]:
    return case((words.is_not(None), _NAME))


_NAME = literal(NAME, Text())
_OWNED: tuple[tuple[Table, ColumnElement[bool]], ...] = (
    (sessions, sessions.c.user_id == _USER),
    (api_keys, api_keys.c.owner_id == _USER),
    (portfolio_items, portfolio_items.c.companion_id == _USER),
    (calendar_feeds, calendar_feeds.c.companion_id == _USER),
    (mutes, mutes.c.user_id == _USER),
    (last_seen, last_seen.c.user_id == _USER),
)
FORGET = tuple(
    Statement(part)
    for part in (
        _forget_side(
            Party.CUSTOMER,
            bookings.c.customer_id == _USER,
            customer_name=_NAME,
            location=_NAME,
            event_ref=null(),
        ),
        _forget_side(Party.STAFF, bookings.c.companion_id == _USER, companion_name=_NAME),
        update(reviews)
        .where(*_IS_REVIEWER)
        .values(reviewer_name=_NAME, comment=_erased(reviews.c.comment)),
        update(reviews).where(*_IS_REVIEWED).values(response=_erased(reviews.c.response)),
        update(conversations).where(conversations.c.customer_id == _USER).values(event_ref=null()),
        update(messages).where(*_IS_SENDER).values(sender_name=_NAME, content=_NAME),
        *(delete(table).where(is_theirs) for table, is_theirs in _OWNED),
    )
)
FORGET_ADDRESS = (
    Statement(delete(inquiries).where(_IS_ASKER)),
    Statement(
        update(skipped_rows)
        .values(email=null(), email_folded=null())
        .where(skipped_rows.c.email_folded == _EMAIL)
    ),
)

CHECKOUTS_OF = Statement(
    select(payment_operations.c.id, payment_operations.c.command).where(
        payment_operations.c.kind == OpKind.OPEN_CHECKOUT,
        ~is_unfinished,
        payment_operations.c.booking_id.in_(select(bookings.c.id).where(_IS_PARTY)),
    )
)
_CHECKOUTS = given_rows("given", id=BigInt, command=Text())
SAVE_CHECKOUTS = Batch(
    update(payment_operations)
    .values(command=_CHECKOUTS.c.command)
    .where(payment_operations.c.id == _CHECKOUTS.c.id)
)
PAYEES_OF = Statement(select(*PAYEE).where(payees.c.companion_id == _USER).with_for_update())


@frozen
class PeopleReader:
    connection: Connection

    async def bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        rows = await self._page(bookings_after, user_id, after_id, limit)
        return [to_booking(row) for row in rows]

    async def reviews_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Review]:
        rows = await self._page(reviews_after, user_id, after_id, limit)
        return [to_review(row) for row in rows]

    async def reviewed_by(self, user_id: int) -> Sequence[int]:
        return [number for (number,) in await self.connection.all(REVIEWED_BY, user_id=user_id)]

    async def messages_by(self, user_id: int, after_id: int, limit: int) -> Sequence[Message]:
        rows = await self._page(messages_after, user_id, after_id, limit)
        return [to_message(row) for row in rows]

    async def inquiries_by(self, email: str) -> Sequence[Inquiry]:
        rows = await self.connection.all(INQUIRIES_BY, folded=fold_email(email))
        return [to_inquiry(row) for row in rows]

    async def _page(
        self, sized: Callable[[int], Statement], user_id: int, after_id: int, limit: int
    ) -> Sequence[Row]:
        given = {"user_id": user_id, "after_id": after_id}
        rows = await self.connection.all(sized(page_size(limit)), **given)
        return rows[:limit]


@frozen
class PeopleWriter(PeopleReader):
    async def lock_bookings_of(self, user_id: int) -> Sequence[Booking]:
        rows = await self.connection.all(LOCK_BOOKINGS_OF, user_id=user_id)
        return [to_booking(row) for row in rows]

    async def forget(self, user: User, email: str | None) -> None:
        # What is said is stored under this lock: before, and is forgotten too, or after, when
        # its writer is seen to be gone.
        await self.connection.all(LOCK_CONVERSATIONS_OF, user_id=user.id)
        await self._forget_checkouts(user.id)
        for statement in FORGET:
            await self.connection.run(statement, user_id=user.id)
        of_payees = PayeesWriter(self.connection)
        for row in await self.connection.all(PAYEES_OF, user_id=user.id):
            await of_payees.save_payee(closed(to_payee(row)))
        if email is not None:
            for statement in FORGET_ADDRESS:
                await self.connection.run(statement, folded=fold_email(email))

    async def _forget_checkouts(self, user_id: int) -> None:
        rows = await self.connection.all(CHECKOUTS_OF, user_id=user_id)
        forgotten = [
            {"id": number, "command": codec.dump(unnamed(codec.load(text, OpenCheckout)))}
            for number, text in rows
        ]
        await SAVE_CHECKOUTS.run(self.connection, forgotten)
