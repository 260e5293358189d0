"""Rows for `benchmarks.growth`: one of each kind that the service wrote, copied by the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from attrs import frozen

from staffbooking_adapters.sql.schema.metadata import metadata

FIRST_ID = 10_000_000_000
"""Copies get ids above this."""
BUSY = "n.i * 7919 % 1009 < 101"
"""A tenth of the rows, scattered, is of the busy people, whose rows grow with the table."""
RARE_ROW_COUNT = 100
"""At every size so many rows are in each rare state, or become due."""
MOST_WORK = 1_000_000
"""Tables of work have no more rows: done work is deleted by age, and one table more of each ten
million rows would fill the disk."""
RARE_STATES: tuple[Mapping[str, str], ...] = (
    {"status": "'pending'", "payout_status": "'none'"},
    {"status": "'accepted'", "payout_status": "'none'"},
    {"status": "'paid'", "payout_status": "'none'"},
    {"status": "'cancelled'", "payout_status": "'none'"},
    {"status": "'disputed'", "payout_status": "'frozen'"},
    {"payout_status": "'failed'"},
    {"payout_status": "'scheduled'"},
)
"""Columns of the bookings that are not completed and paid out."""


@frozen
class Originals:
    """Ids of the people and rows that are copied."""

    booking: int
    customer: int
    companion: int
    conversation: int
    endpoint: int
    now: datetime


@frozen
class RowCopier:
    """INSERT statements that copy rows to a size, in the SQL of one database."""

    is_sqlite: bool
    size: int

    @property
    def people(self) -> int:
        """The number of other customers, and of other companions, with 90 bookings each."""
        return self.size // 100

    def instant(self, at: datetime, step: timedelta = timedelta(0)) -> str:
        """An instant, later by `step` for each row."""
        if self.is_sqlite:
            start = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            return f"{start} + n.i * {step // timedelta(microseconds=1)}"
        seconds = step.total_seconds()
        return f"timestamptz '{at.isoformat()}' + n.i * interval '{seconds} seconds'"

    @property
    def work_size(self) -> int:
        return min(self.size, MOST_WORK)

    def rare(self, number: int, step: int = 1, size: int | None = None) -> str:
        """Whether a row is one of those in the rare state of this number."""
        return f"n.i % {(size or self.size) // RARE_ROW_COUNT} = {10 * number * step}"

    def copy(self, table: str, original: str, count: int, /, **changed: str) -> str:
        """Copy the first row that meets a condition `count` times, with some columns changed."""
        columns = [column.name for column in metadata.tables[table].columns]
        values = ", ".join(changed.get(name, f"o.{name}") for name in columns)
        return (
            f"INSERT INTO {table} ({', '.join(columns)}) WITH RECURSIVE n(i) AS (SELECT "
            f"CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT {values} "
            f"FROM n, (SELECT * FROM {table} WHERE {original} LIMIT 1) AS o"
        )

    def statements(self, made: Originals) -> Iterator[str]:
        yield from self._people(made)
        yield from self._bookings(made)
        yield from self._events(made)
        yield from self._messages(made)
        yield from self._work(made)

    def _people(self, made: Originals) -> Iterator[str]:
        for person, first in ((made.customer, FIRST_ID), (made.companion, 2 * FIRST_ID)):
            names = {"id": f"{first} + n.i", "email_folded": f"'{first}' || n.i"}
            yield self.copy("users", f"id = {person}", self.people, **names)
        copied = {"id": f"{2 * FIRST_ID} + n.i"}
        yield self.copy("companions", f"id = {made.companion}", self.people, **copied)

    def _of(self, busy: int, first: int) -> str:
        return f"CASE WHEN {BUSY} THEN {busy} ELSE {first} + 1 + n.i % {self.people} END"

    def _bookings(self, made: Originals) -> Iterator[str]:
        hour = timedelta(hours=1)
        start = made.now - self.size * hour
        states: dict[str, list[str]] = {}
        for number, state in enumerate(RARE_STATES, 1):
            for name, value in state.items():
                states.setdefault(name, []).append(f"WHEN {self.rare(number)} THEN {value}")
        changed = {
            name: f"CASE {' '.join(ways)} ELSE o.{name} END" for name, ways in states.items()
        }
        yield self.copy(
            "bookings",
            f"id = {made.booking}",
            self.size,
            id=f"{FIRST_ID} + n.i",
            code="'BM' || n.i",
            customer_id=self._of(made.customer, FIRST_ID),
            companion_id=self._of(made.companion, 2 * FIRST_ID),
            booked_by=f"CASE WHEN n.i % 2 = 0 THEN {made.customer} END",
            starts_at=self.instant(start, hour),
            ends_at=self.instant(start + 4 * hour, hour),
            payout_due_at=self.instant(start + 28 * hour, hour),
            dispute_respond_by=f"CASE WHEN {self.rare(5)} THEN {self.instant(made.now, hour)} END",
            **changed,
        )
        yield self.copy(
            "reviews",
            f"booking_id = {made.booking}",
            self.size,
            id=f"{FIRST_ID} + n.i",
            booking_id=f"{FIRST_ID} + n.i",
            reviewer_id=self._of(made.customer, FIRST_ID),
            reviewee_id=self._of(made.companion, 2 * FIRST_ID),
        )

    def _events(self, made: Originals) -> Iterator[str]:
        yield self.copy(
            "events",
            f"booking_id = {made.booking}",
            self.size,
            booking_id=f"{FIRST_ID} + n.i",
            id="'evt_copy' || n.i",
            name="CASE n.i % 10 WHEN 0 THEN 'booking.updated' ELSE o.name END",
            position=f"{FIRST_ID} + n.i",
        )
        for busy, first in ((made.customer, FIRST_ID), (made.companion, 2 * FIRST_ID)):
            yield self.copy(
                "event_readers",
                f"user_id = {busy}",
                self.size,
                user_id=self._of(busy, first),
                position=f"{FIRST_ID} + n.i",
            )
        later = self.instant(made.now + timedelta(days=3650), timedelta(seconds=1))
        recent = self.instant(made.now - timedelta(hours=2))
        for number, status in enumerate(("succeeded", "pending", "held"), 1):
            # Those of the third endpoint are held, since its owner paused it.
            endpoint = f"{made.endpoint + number - 1}"
            rare = f"CASE WHEN {self.rare(1)} THEN 'failed' WHEN {self.rare(2)} THEN 'cancelled'"
            yield self.copy(
                "webhook_deliveries",
                f"endpoint_id = {made.endpoint}",
                self.size if number == 1 else self.size // 2,
                id=f"{number * FIRST_ID} + n.i",
                endpoint_id=endpoint,
                event_id="'evt_copy' || n.i",
                event=f"CASE WHEN {self.rare(3)} THEN 'booking.completed' ELSE o.event END",
                status=f"{rare} ELSE 'succeeded' END" if number == 1 else f"'{status}'",
                tries="n.i % 2" if number == 2 else "o.tries",
                next_at=recent if number == 1 else later,
                held_at=recent if number == 3 else "NULL",
            )
        yield self.copy(
            "webhook_attempts",
            f"delivery_id > 0 AND delivery_id < {FIRST_ID}",
            self.size,
            delivery_id=f"{FIRST_ID} + n.i",
            at=self.instant(made.now - timedelta(hours=2)),
        )

    def _messages(self, made: Originals) -> Iterator[str]:
        """The busy customer has a conversation with each companion, and one with half of all
        messages; each other customer has one."""
        sides = ((f"{made.customer}", FIRST_ID), (f"{FIRST_ID} + n.i", 2 * FIRST_ID))
        for customer, first in sides:
            companion = f"{2 * FIRST_ID} + n.i"
            yield self.copy(
                "conversations",
                f"id = {made.conversation}",
                self.people,
                id=f"{first} + n.i",
                customer_id=customer,
                companion_id=companion,
                updated_at=self.instant(made.now - timedelta(days=30), timedelta(seconds=1)),
                last_id=f"{FIRST_ID} + {self.size} - {self.size} % {2 * self.people} + n.i",
            )
            for member in (customer, companion):
                yield self.copy(
                    "conversation_members",
                    f"conversation_id = {made.conversation}",
                    self.people,
                    conversation_id=f"{first} + n.i",
                    user_id=member,
                    read_id=f"{2 * FIRST_ID}",
                )
        others = f"{FIRST_ID} + 1 + n.i / 2 % {self.people}"
        yield self.copy(
            "messages",
            f"conversation_id = {made.conversation}",
            self.size,
            id=f"{FIRST_ID} + n.i",
            client_id="NULL",
            conversation_id=f"CASE n.i % 2 WHEN 0 THEN {made.conversation} ELSE {others} END",
        )
        last = f"{FIRST_ID} + {self.size}"
        yield f"UPDATE conversations SET last_id = {last} WHERE id = {made.conversation}"
        yield (
            f"UPDATE conversation_members SET read_id = {last} - 200 "
            f"WHERE conversation_id = {made.conversation}"
        )
        yield f"UPDATE counters SET value = {last} WHERE name = 'messages_told'"

    def _work(self, made: Originals) -> Iterator[str]:
        """Work that is due years from now, and what is kept of work that is done."""
        later = self.instant(made.now + timedelta(days=3650), timedelta(seconds=1))
        now = self.instant(made.now)
        numbered = {"id": f"{FIRST_ID} + n.i"}
        of_booking = {"booking_id": f"{FIRST_ID} + n.i"}
        yield self.copy("timers", "true", self.work_size, **of_booking, due_at=later)
        for number, (status, n) in enumerate((("pending", 8), ("done", 9)), 1):
            yield self.copy(
                "payment_operations",
                f"booking_id = {made.booking} AND kind = 'pay_out'",
                self.work_size,
                id=f"{number * FIRST_ID} + n.i",
                **of_booking,
                n=f"{n}",
                status=f"'{status}'",
                kind="CASE n.i % 2 WHEN 0 THEN 'refund' ELSE o.kind END",
                next_at=later,
            )
        yield self.copy(
            "processor_inbox",
            "true",
            self.work_size,
            **numbered,
            event_id="'copy' || n.i",
            intent_id=f"{FIRST_ID} + n.i",
            received_at=now,
            next_at=later,
            done="n.i % 2 = 0",
        )
        kept = {"lease_token": "NULL", "lease_until": "NULL"}
        yield self.copy("notices", "true", self.work_size, **numbered, due_at=later)
        yield self.copy("alerts", "true", self.work_size, **numbered, **kept, at=now, told="true")
        yield self.copy(
            "calendar_subscriptions", "true", self.work_size, **numbered, next_read_at=later
        )
        yield self.copy(
            "last_seen",
            "true",
            self.work_size,
            user_id=f"{3 * FIRST_ID} + n.i",
            at=later,
            is_unclaimed="n.i % 2 = 0",
        )
        yield self.copy(
            "sessions", "true", self.work_size, digest="'s' || n.i", seen_at=now, created_at=now
        )
        yield self.copy("answers", "true", self.work_size, key="'a' || n.i", expires_at=later)
        yield self.copy("audit", "true", self.work_size, **numbered)
        yield self.copy("inquiries", "true", self.work_size, **numbered, created_at=now)

    def due_statements(self, made: Originals) -> Iterator[str]:
        """Make a hundred of each due, and as many old enough to be deleted."""
        past = self.instant(made.now - timedelta(days=3650)).replace("n.i", "0")

        def is_chosen(number: str, size: int) -> str:
            return self.rare(5, size=size).replace("n.i", number)

        for table, column, number in (
            ("timers", "due_at", "booking_id"),
            ("payment_operations", "next_at", "booking_id"),
            ("processor_inbox", "next_at", "id + 1"),
            ("notices", "due_at", "id"),
            ("calendar_subscriptions", "next_read_at", "id"),
            ("last_seen", "at", "user_id"),
            ("webhook_deliveries", "next_at", "id"),
            ("webhook_deliveries", "held_at", "id"),
            ("sessions", "seen_at", "CAST(substr(digest, 6) AS BIGINT)"),
            ("answers", "expires_at", "CAST(substr(key, 6) AS BIGINT)"),
            ("inquiries", "created_at", "id"),
        ):
            copied = {"sessions": " AND digest LIKE 'copy%'", "answers": " AND key LIKE 'copy%'"}
            size = self.size if table == "webhook_deliveries" else self.work_size
            chosen = f"{is_chosen(number, size)}{copied.get(table, '')}"
            chosen += " AND held_at IS NOT NULL" if column == "held_at" else ""
            yield f"UPDATE {table} SET {column} = {past} WHERE {chosen}"
        yield f"UPDATE webhook_endpoints SET due_at = {past} WHERE id = {made.endpoint + 1}"
        yield f"UPDATE alerts SET told = false WHERE {is_chosen('id', self.work_size)}"
        yield f"UPDATE events SET position = NULL WHERE {is_chosen('position', self.size)}"
