"""Ledger postings: append-only; database triggers check that the legs sum to zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

from sqlalchemy import Text, insert, select, true

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.payments import ledger_legs, ledger_postings
from staffbooking_core.domain.payments.ledger import Account, Leg, Posting

_POSTING_ROWS = array_rows(
    "given",
    key=("keys", Text()),
    booking_id=("booking_ids", BigInt),
    at=("times", Instant),
)
_INSERT_POSTINGS = insert(ledger_postings).from_select(
    list(_POSTING_ROWS.c.keys()), select(*_POSTING_ROWS.c).where(true())
)
_LEG_ROWS = array_rows(
    "legs",
    posting_key=("leg_keys", Text()),
    n=("leg_numbers", BigInt),
    account=("accounts", Text()),
    amount=("amounts", BigInt),
)
_LEG_COLUMNS = list(_LEG_ROWS.c.keys())
_INSERTED_POSTINGS = _INSERT_POSTINGS.returning(ledger_postings.c.key).cte("posted")

# PostgreSQL writes both in one statement, and a repeated key violates the unique key of
# postings. SQLite needs the legs first: the insert of the posting checks them.
ADD_POSTINGS_WITH_LEGS = Statement(
    postgresql=insert(ledger_legs).from_select(
        _LEG_COLUMNS,
        select(*_LEG_ROWS.c).join_from(
            _LEG_ROWS, _INSERTED_POSTINGS, _INSERTED_POSTINGS.c.key == _LEG_ROWS.c.posting_key
        ),
    )
)
ADD_LEGS = Statement(
    sqlite=insert(ledger_legs).from_select(_LEG_COLUMNS, select(*_LEG_ROWS.c).where(true()))
)
ADD_POSTINGS = Statement(sqlite=_INSERT_POSTINGS)

POSTINGS_OF = Statement(
    select(
        *(ledger_postings.c.booking_id, ledger_postings.c.key, ledger_postings.c.at),
        *(ledger_legs.c.account, ledger_legs.c.amount),
    )
    .join_from(ledger_postings, ledger_legs, ledger_legs.c.posting_key == ledger_postings.c.key)
    .where(in_array(ledger_postings.c.booking_id, "booking_ids"))
    .order_by(ledger_postings.c.booking_id, ledger_postings.c.id, ledger_legs.c.n)
)


async def add_postings(connection: Connection, postings: Sequence[Posting]) -> None:
    """Append postings with their legs. Must run in a transaction."""
    legs = [
        (posting.key, n, leg.account, leg.amount)
        for posting in postings
        for n, leg in enumerate(posting.legs)
    ]
    leg_names = ("leg_keys", "leg_numbers", "accounts", "amounts")
    leg_rows = dict(zip(leg_names, map(list, zip(*legs, strict=True)), strict=True))
    rows = {
        "keys": [posting.key for posting in postings],
        "booking_ids": [posting.booking_id for posting in postings],
        "times": [posting.at for posting in postings],
    }
    if connection.dialect == "postgresql":
        await connection.execute(ADD_POSTINGS_WITH_LEGS, **rows, **leg_rows)
    else:
        await connection.execute(ADD_LEGS, **leg_rows)
        await connection.execute(ADD_POSTINGS, **rows)


async def list_postings_of(
    connection: Connection, booking_ids: Iterable[int]
) -> dict[int, tuple[Posting, ...]]:
    """The postings by booking id, each booking's in the order of insertion."""
    rows = await connection.fetch_all(POSTINGS_OF, booking_ids=list(booking_ids))
    found: dict[int, tuple[Posting, ...]] = {}
    for (booking_id, key, at), legs in groupby(rows, key=itemgetter(0, 1, 2)):
        posting = Posting(key, booking_id, at, tuple(Leg(Account(leg[3]), leg[4]) for leg in legs))
        found[booking_id] = (*found.get(booking_id, ()), posting)
    return found
