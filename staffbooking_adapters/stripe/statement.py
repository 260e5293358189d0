"""Lists Stripe's balance transactions as movements, ordered by intent.

1. Stripe lists transactions by time; each becomes one or two lines in a temporary SQLite database
   on disk, so memory use does not grow with the list.
2. A line without an intent id (a refund by hand, a dispute) gets the intent of its payment or
   transfer, which is in the list too.
3. The lines are returned sorted by intent and time; those without an intent come first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from anyio import sleep, to_thread
from stripe import V1Services

from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import from_timestamp, get_id, get_path
from staffbooking_adapters.stripe.errors import translate_errors
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import OutcomeUnknown, ProcessorBusy
from staffbooking_core.domain.reconciliation.statement import Movement

T = TypeVar("T")

_MOVEMENT_KINDS: Final = {
    "charge": MovementKind.PAYMENT,
    "refund": MovementKind.REFUND,
    "refund_failure": MovementKind.REFUND_FAILED,
    "transfer": MovementKind.PAYOUT,
    "transfer_reversal": MovementKind.REVERSAL,
    "dispute": MovementKind.CHARGEBACK,
    "dispute_reversal": MovementKind.REINSTATEMENT,
}
"""Kinds of movements by Stripe's reporting category."""

_PAGE_TIMEOUT_SECONDS: Final = 30.0
"""Timeout of each page."""

RETRY_DELAYS_SECONDS: Final = (1.0, 5.0, 20.0)
"""Seconds before each retry of a page: reading thousands of pages must not fail because of a
temporary error of one."""

BATCH_SIZE: Final = 1000

StatementLine: TypeAlias = tuple[int | None, str | None, str, str, int, int]
"""Intent id, the payment or transfer that identifies the intent, kind, ref, amount, time."""


async def list_movements(api: V1Services, tags: DeploymentTags) -> AsyncIterator[Movement]:
    """All movements of the balance, ordered by intent. Raises the core's errors."""
    sorter = await to_thread.run_sync(_MovementSorter)
    try:
        page = await _with_retries(
            partial(api.balance_transactions.list_async, {"limit": 100, "expand": ["data.source"]})
        )
        while page.data:
            lines = [line for each in page.data for line in _statement_lines(each.to_dict(), tags)]
            await to_thread.run_sync(sorter.add, lines)
            page = await _with_retries(page.next_page_async)
        while batch := await to_thread.run_sync(sorter.next_batch):
            for movement in batch:
                yield movement
    finally:
        sorter.close()


async def _with_retries(fetch: Callable[[], Awaitable[T]]) -> T:
    for delay in RETRY_DELAYS_SECONDS:
        try:
            with translate_errors(_PAGE_TIMEOUT_SECONDS):
                return await fetch()
        except (ProcessorBusy, OutcomeUnknown):
            await sleep(delay)
    with translate_errors(_PAGE_TIMEOUT_SECONDS):
        return await fetch()


def _statement_lines(transaction: dict[str, Any], tags: DeploymentTags) -> Iterator[StatementLine]:
    """The lines of one balance transaction, last first: Stripe's fee, then the movement."""
    source = transaction["source"]
    kind = _MOVEMENT_KINDS.get(transaction["reporting_category"], MovementKind.OTHER)
    ref = get_id(source) or transaction["id"]
    owner = ref if kind is MovementKind.PAYOUT else _payment_or_transfer(source)
    if kind is MovementKind.PAYMENT:
        ref = owner or ref
    at = transaction["created"]
    intent_id = _find_intent_id(source, tags)
    if transaction["fee"]:
        yield intent_id, owner, MovementKind.FEE, transaction["id"], -transaction["fee"], at
    yield intent_id, owner, kind, ref, transaction["amount"], at


def _find_intent_id(source: Any, tags: DeploymentTags) -> int | None:
    return tags.find_intent_id(get_path(source, "metadata") or {}) or tags.find_intent_id_by_group(
        get_path(source, "transfer_group")
    )


def _payment_or_transfer(source: Any) -> str | None:
    return get_id(get_path(source, "payment_intent")) or get_id(get_path(source, "transfer"))


class _MovementSorter:
    """Sorts lines by intent in a temporary database."""

    def __init__(self) -> None:
        # A nameless SQLite database is a temporary file that is deleted on close.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE line (intent, owner, kind, ref, amount, at)")
        self._db.execute("CREATE TABLE known (owner PRIMARY KEY, intent) WITHOUT ROWID")
        self._cursor: sqlite3.Cursor | None = None

    def add(self, lines: Sequence[StatementLine]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?)", lines)
        self._db.executemany(
            "INSERT OR IGNORE INTO known VALUES (?, ?)",
            [(owner, intent) for intent, owner, *_ in lines if intent and owner],
        )
        self._db.execute("COMMIT")

    def next_batch(self) -> Sequence[Movement]:
        """The next movements; empty at the end."""
        if self._cursor is None:
            self._cursor = self._db.execute(
                "SELECT coalesce(line.intent, known.intent) AS whose, kind, ref, amount, at"
                " FROM line LEFT JOIN known USING (owner)"
                " ORDER BY whose IS NOT NULL, whose, at, line.rowid DESC"
            )
        return [_to_movement(row) for row in self._cursor.fetchmany(BATCH_SIZE)]

    def close(self) -> None:
        self._db.close()


def _to_movement(row: tuple[int | None, str, str, int, int]) -> Movement:
    intent_id, kind, ref, amount, at = row
    # Movements without an intent are not payments, refunds or fees of bookings.
    movement_kind = MovementKind(kind) if intent_id is not None else MovementKind.OTHER
    return Movement(intent_id, movement_kind, ref, amount, from_timestamp(at))
