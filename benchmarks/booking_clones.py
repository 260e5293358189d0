"""Clones of one booking: copies of the rows that the service wrote for it.

The original has ids that appear nowhere else, so that its rows can be cloned by replacing the ids
in columns and texts, in any table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

FIRST_ORIGINAL_BOOKING_ID = 7_777_777_000
FIRST_ORIGINAL_OPERATION_ID = 8_888_888_000
"""The first ids of original bookings and of their operations."""
MAX_OPERATIONS_PER_BOOKING = 10
"""The most operations of one booking; operation ids of a clone begin at its id times this."""
CLONE_BATCH_SIZE = 5_000

ROW_QUERIES = {
    "bookings": "SELECT * FROM bookings WHERE id = $1",
    "timers": "SELECT * FROM timers WHERE booking_id = $1",
    "payment_operations": "SELECT * FROM payment_operations WHERE booking_id = $1 ORDER BY n",
    "ledger_legs": (
        "SELECT ledger_legs.* FROM ledger_legs JOIN ledger_postings ON key = posting_key "
        "WHERE booking_id = $1"
    ),
    "ledger_postings": (
        "SELECT key, booking_id, at FROM ledger_postings WHERE booking_id = $1 ORDER BY id"
    ),
    "fakepay_documents": (
        "SELECT * FROM fakepay_documents WHERE kind = 'intent' AND key = $1::bigint::text "
        "OR kind = 'line' AND key LIKE lpad($1::bigint::text, 19, '0') || '%'"
    ),
}
"""Rows of a booking for the ledger and the fake processor; legs precede their postings, after
which no leg can be added."""


@frozen
class OriginalBooking:
    """A booking with its rows, from which clones are made."""

    booking_id: int
    operation_ids: tuple[int, ...]
    code: str
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    companions: Sequence[int]
    """Ids of the companions among whom the clones are distributed."""

    def clones(self, table: str, first_id: int, count: int) -> Iterator[tuple[Any, ...]]:
        for booking_id in range(first_id, first_id + count):
            numbers = self._numbers(booking_id)
            texts = self._texts(booking_id, numbers)
            whose = {"companion_id": self.companions[booking_id % len(self.companions)]}
            for row in self.rows[table]:
                changed = {**row, **whose} if "companion_id" in row else row
                yield tuple(_renumbered(value, numbers, texts) for value in changed.values())

    def _numbers(self, booking_id: int) -> dict[int, int]:
        named = {
            old: booking_id * MAX_OPERATIONS_PER_BOOKING + n
            for n, old in enumerate(self.operation_ids)
        }
        return {self.booking_id: booking_id, **named}

    def _texts(self, booking_id: int, numbers: Mapping[int, int]) -> list[tuple[str, str]]:
        """Texts to replace; padded ids keep their width."""
        return [
            (self.code, f"BM{booking_id:012d}"),
            (f"{self.booking_id:019d}", f"{booking_id:019d}"),
            *((str(old), str(new)) for old, new in numbers.items()),
        ]


def _renumbered(value: Any, numbers: Mapping[int, int], texts: Sequence[tuple[str, str]]) -> Any:
    if isinstance(value, int):
        return numbers.get(value, value)
    if isinstance(value, str):
        for old, new in texts:
            value = value.replace(old, new)
    return value


async def set_sequences_apart(connection: Any) -> None:
    """Let new bookings and operations get ids that appear nowhere else."""
    await connection.execute(f"SELECT setval('booking_numbers', {FIRST_ORIGINAL_BOOKING_ID})")
    await connection.execute(
        "SELECT setval(pg_get_serial_sequence('payment_operations', 'id'), $1::bigint)",
        FIRST_ORIGINAL_OPERATION_ID,
    )


async def read_original(
    connection: Any, booking_id: int, companions: Sequence[int]
) -> OriginalBooking:
    rows = {
        table: [dict(row) for row in await connection.fetch(query, booking_id)]
        for table, query in ROW_QUERIES.items()
    }
    [booking] = rows["bookings"]
    operations = tuple(row["id"] for row in rows["payment_operations"])
    return OriginalBooking(booking_id, operations, booking["code"], rows, companions)


async def add_clones(connection: Any, original: OriginalBooking, first_id: int, count: int) -> None:
    """Add clones with ids from `first_id` on."""
    for start in range(first_id, first_id + count, CLONE_BATCH_SIZE):
        size = min(CLONE_BATCH_SIZE, first_id + count - start)
        async with connection.transaction():
            for table, rows in original.rows.items():
                if rows:
                    await connection.copy_records_to_table(
                        table,
                        records=list(original.clones(table, start, size)),
                        columns=list(rows[0]),
                    )


async def vacuum_and_analyze(connection: Any) -> None:
    """Update statistics and run a checkpoint, so that neither falls into a measurement."""
    await connection.execute("VACUUM (ANALYZE)")
    await connection.execute("CHECKPOINT")
