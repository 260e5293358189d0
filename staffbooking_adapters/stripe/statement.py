"""Stripe's balance transactions as movements, in the order of intents.

Stripe lists them by time, so they are sorted in a private database on disk that vanishes
with the connection: memory stays flat however long the list is. What bears no number of ours
(a refund by hand, a dispute) belongs to the intent of its payment or transfer, which is in
the list as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from anyio import sleep, to_thread
from stripe import V1Services

from staffbooking_adapters.stripe.errors import answering
from staffbooking_adapters.stripe.marks import Marks
from staffbooking_adapters.stripe.reading import dig, id_of, moment
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import Busy, Unknown
from staffbooking_core.domain.reconciliation.statement import Movement

T = TypeVar("T")

KINDS: Final = {
    "charge": MovementKind.PAYMENT,
    "refund": MovementKind.REFUND,
    "refund_failure": MovementKind.REFUND_FAILED,
    "transfer": MovementKind.PAYOUT,
    "transfer_reversal": MovementKind.REVERSAL,
    "dispute": MovementKind.CHARGEBACK,
    "dispute_reversal": MovementKind.REINSTATEMENT,
}
"""By Stripe's reporting category."""

PAGE_TIME: Final = 30.0
"""Seconds for each page."""

PAUSES: Final = (1.0, 5.0, 20.0)
"""Seconds before a page is asked for again: it is only read, and thousands of pages shall not
end with one that was busy."""

BATCH: Final = 1000

Line: TypeAlias = tuple[int | None, str | None, str, str, int, int]
"""Intent, what else tells the intent (a payment or a transfer), kind, ref, amount, time."""


async def movements(api: V1Services, marks: Marks) -> AsyncIterator[Movement]:
    """Raises the core's errors."""
    spool = await to_thread.run_sync(_Spool)
    try:
        page = await _patiently(
            partial(api.balance_transactions.list_async, {"limit": 100, "expand": ["data.source"]})
        )
        while page.data:
            lines = [line for each in page.data for line in _lines(each.to_dict(), marks)]
            await to_thread.run_sync(spool.keep, lines)
            page = await _patiently(page.next_page_async)
        while batch := await to_thread.run_sync(spool.take):
            for movement in batch:
                yield movement
    finally:
        spool.close()


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    for pause in PAUSES:
        try:
            with answering(PAGE_TIME):
                return await ask()
        except (Busy, Unknown):
            await sleep(pause)
    with answering(PAGE_TIME):
        return await ask()


def _lines(transaction: dict[str, Any], marks: Marks) -> Iterator[Line]:
    """What one balance transaction did, the last first: what Stripe kept, and the movement."""
    source = transaction["source"]
    kind = KINDS.get(transaction["reporting_category"], MovementKind.OTHER)
    ref = id_of(source) or transaction["id"]
    owner = ref if kind is MovementKind.PAYOUT else _payment_or_transfer(source)
    if kind is MovementKind.PAYMENT:
        ref = owner or ref
    at = transaction["created"]
    intent_id = _intent(source, marks)
    if transaction["fee"]:
        yield intent_id, owner, MovementKind.FEE, transaction["id"], -transaction["fee"], at
    yield intent_id, owner, kind, ref, transaction["amount"], at


def _intent(source: Any, marks: Marks) -> int | None:
    return marks.intent_of(dig(source, "metadata") or {}) or marks.intent_of_group(
        dig(source, "transfer_group")
    )


def _payment_or_transfer(source: Any) -> str | None:
    return id_of(dig(source, "payment_intent")) or id_of(dig(source, "transfer"))


class _Spool:
    """Lines in any order in, movements in the order of intents out."""

    def __init__(self) -> None:
        # Without a name SQLite keeps it in a file of its own, gone when it is closed.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE line (intent, owner, kind, ref, amount, at)")
        self._db.execute("CREATE TABLE known (owner PRIMARY KEY, intent) WITHOUT ROWID")
        self._sorted: sqlite3.Cursor | None = None

    def keep(self, lines: Sequence[Line]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?)", lines)
        self._db.executemany(
            "INSERT OR IGNORE INTO known VALUES (?, ?)",
            [(owner, intent) for intent, owner, *_ in lines if intent and owner],
        )
        self._db.execute("COMMIT")

    def take(self) -> Sequence[Movement]:
        """The next ones; none at the end."""
        if self._sorted is None:
            self._sorted = self._db.execute(
                "SELECT coalesce(line.intent, known.intent) AS whose, kind, ref, amount, at"
                " FROM line LEFT JOIN known USING (owner)"
                " ORDER BY whose IS NOT NULL, whose, at, line.rowid DESC"
            )
        return [_movement(row) for row in self._sorted.fetchmany(BATCH)]

    def close(self) -> None:
        self._db.close()


def _movement(row: tuple[int | None, str, str, int, int]) -> Movement:
    intent_id, kind, ref, amount, at = row
    # What is of no booking is no payment, refund or fee of ours either.
    known = MovementKind(kind) if intent_id is not None else MovementKind.OTHER
    return Movement(intent_id, known, ref, amount, moment(at))
