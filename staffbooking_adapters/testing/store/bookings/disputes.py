"""Contract of the stores: statements and files of disputes, their list, and credits taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    make_rebooking_credit,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.disputes import (
    DisputeFile,
    DisputeFileKind,
    DisputeStatement,
    NewDisputeStatement,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party

FINE = NOW + timedelta(microseconds=123_456)


def make_statement(booking, **given: Any) -> NewDisputeStatement:
    defaults: dict[str, Any] = {
        "booking_id": booking.id,
        "dispute_number": 1,
        "author_id": booking.customer_id,
        "party": Party.CUSTOMER,
        "text": "Nobody came.\n\N{GRINNING FACE}",
        "files": (),
        "at": NOW,
    }
    return NewDisputeStatement(**{**defaults, **given})


def make_file(booking, file_id: str = "a", **given: Any) -> DisputeFile:
    defaults: dict[str, Any] = {
        "id": file_id,
        "booking_id": booking.id,
        "owner_id": booking.customer_id,
        "kind": DisputeFileKind.PDF,
        "size": 9,
        "created_at": NOW,
    }
    return DisputeFile(**{**defaults, **given})


async def add(store, *rows: NewDisputeStatement | DisputeFile) -> None:
    async def unit(tx):
        for row in rows:
            if isinstance(row, DisputeFile):
                await tx.disputes.add_file(row)
            else:
                await tx.disputes.add_statement(row)

    await store.run_transaction(unit)


async def statements(store, booking, number: int = 1) -> list[DisputeStatement]:
    return list(
        await read_store(store, lambda view: view.disputes.statements_of(booking.id, number))
    )


async def files_of(store, booking) -> list[DisputeFile]:
    return list(await read_store(store, lambda view: view.disputes.files_of(booking.id)))


class DisputesContract(StoreContract):
    """Statements and files of disputes, their list, and credits taken back."""

    @pytest.fixture
    async def booking(self, store):
        return await add_booking(store, status=BookingStatus.DISPUTED)

    # Statements -------------------------------------------------------------------------------
    async def test_a_statement_is_stored_as_added(self, store, booking):
        """A statement is stored with every field, the time to the microsecond."""
        made = make_statement(booking, party=Party.STAFF, files=("a", 'b"'), at=FINE)
        await add(store, made)
        [found] = await statements(store, booking)
        assert found == DisputeStatement(
            *(made.booking_id, 1, made.author_id, Party.STAFF, made.text, ("a", 'b"'), FINE),
            id=found.id,
        )

    async def test_statements_are_those_of_one_dispute(self, store, booking):
        """Statements are listed in the order of their addition, for one dispute of one booking."""
        other = await add_booking(store, starts_at=NOW + 9 * DAY)
        await add(
            store,
            make_statement(booking, text="one"),
            make_statement(other, text="other"),
            make_statement(booking, text="two", at=NOW - HOUR),
            make_statement(booking, text="again", dispute_number=2),
        )
        assert [each.text for each in await statements(store, booking)] == ["one", "two"]
        assert [each.text for each in await statements(store, booking, 2)] == ["again"]
        assert await statements(store, booking, 3) == []

    async def test_speakers_are_those_of_one_dispute_of_each_booking(self, store, booking):
        """The parties of the statements are listed by booking in the order of their addition, for
        the given dispute of each; a booking without a statement is left out."""
        other, silent = [await add_booking(store, starts_at=NOW + days * DAY) for days in (9, 12)]
        await add(
            store,
            make_statement(booking, party=Party.STAFF),
            make_statement(other, party=Party.STAFF, dispute_number=2),
            make_statement(other, at=NOW - HOUR, dispute_number=2),
            make_statement(booking, party=Party.STAFF, dispute_number=2),
            make_statement(booking, at=NOW - HOUR),
            make_statement(silent),
        )

        async def speakers(numbers: dict[int, int]) -> dict[int, list[Party]]:
            found = await read_store(store, lambda view: view.disputes.speakers_of(numbers))
            return {booking_id: list(parties) for booking_id, parties in found.items()}

        assert await speakers({booking.id: 1, other.id: 2, silent.id: 2}) == {
            booking.id: [Party.STAFF, Party.CUSTOMER],
            other.id: [Party.STAFF, Party.CUSTOMER],
        }
        assert await speakers({booking.id: 2}) == {booking.id: [Party.STAFF]}
        assert await speakers({}) == {}

    async def test_statements_are_found_by_their_author(self, store, booking):
        """The statements of a user are pages by id above the given one, up to the limit."""
        other = make_statement(booking, author_id=booking.companion_id)
        await add(store, *(make_statement(booking, text=text) for text in "abc"), other)
        found = await statements(store, booking)

        async def page(after_id: int, limit: int) -> list[str]:
            async with store.read_view() as view:
                data = view.personal_data
                rows = await data.dispute_statements_by(booking.customer_id, after_id, limit)
            return [row.text for row in rows]

        assert await page(0, 2) == ["a", "b"]
        assert await page(found[0].id, 9) == ["b", "c"]

    # Files ------------------------------------------------------------------------------------
    async def test_a_file_is_stored_as_added(self, store, booking):
        """A file is stored with every field, and listed for its booking and its owner."""
        file = make_file(booking, "Abc_-9", kind=DisputeFileKind.WEBP, size=2**40, created_at=FINE)
        await add(store, file)
        assert await files_of(store, booking) == [file]
        async with store.read_view() as view:
            assert list(await view.disputes.files_by(booking.customer_id)) == [file]
            assert list(await view.disputes.files_by(booking.companion_id)) == []

    async def test_files_are_listed_by_their_age(self, store, booking):
        """Files are listed the oldest first, then by id, for one booking."""
        other = await add_booking(store, starts_at=NOW + 9 * DAY)
        await add(
            store,
            make_file(booking, "c", created_at=NOW + HOUR),
            make_file(booking, "b", owner_id=booking.companion_id),
            make_file(booking, "a"),
            make_file(other, "d"),
        )
        assert [file.id for file in await files_of(store, booking)] == ["a", "b", "c"]

    async def test_deleted_files_are_orphaned(self, store, booking):
        """Deleting the files of a user leaves their contents to be removed, and no others."""
        mine, theirs = make_file(booking), make_file(booking, "b", owner_id=booking.companion_id)
        await add(store, mine, theirs)
        for _ in range(2):
            await store.run_transaction(lambda tx: tx.disputes.delete_files_by(mine.owner_id))
        assert await files_of(store, booking) == [theirs]
        async with store.read_view() as view:
            assert list(await view.portfolio.orphaned_files("", 9)) == [mine.storage_name]

    # The list ---------------------------------------------------------------------------------
    async def test_disputes_are_listed_by_their_deadline(self, store):
        """Disputed bookings are listed in pages, the earliest deadline first, then by id."""
        companion = await add_companion(store)

        async def make(day: int, hours: int, status: BookingStatus) -> int:
            starts_at, respond_by = NOW + day * DAY, NOW + hours * HOUR
            given: dict[str, Any] = {
                "starts_at": starts_at,
                "status": status,
                "dispute_respond_by": respond_by,
            }
            return (await add_booking(store, companion, **given)).id

        await make(9, 0, BookingStatus.COMPLETED)
        hours = enumerate((3, 1, 2, 1))
        made = [await make(day, each, BookingStatus.DISPUTED) for day, each in hours]

        async def page(number: int, limit: int) -> list[int]:
            async with store.read_view() as view:
                return [each.id for each in await view.bookings.disputed_bookings(number, limit)]

        in_order = [made[1], made[3], made[2], made[0]]
        assert await page(1, 9) == in_order
        assert await page(1, 2) == in_order[:3]
        assert await page(2, 2) == in_order[2:]
        assert await page(3, 2) == []

    # Credits ----------------------------------------------------------------------------------
    async def test_an_unused_credit_is_taken_back(self, store):
        """An unused credit is deleted, a used one stays."""
        bookings = [await add_booking(store, starts_at=NOW + day * DAY) for day in (2, 4)]
        for booking in bookings:
            credit = make_rebooking_credit(booking)
            await save_booking(store, next_revision(booking), rebooking_credit=credit)

        async def unit(tx):
            await tx.bookings.use_rebooking_credit(credit, bookings[0].id)
            return [await tx.bookings.take_back_rebooking_credit(each.id) for each in bookings]

        assert await store.run_transaction(unit) == [True, False]
        async with store.read_view() as view:
            assert await view.bookings.rebooking_credit(bookings[0].id) is None
            assert await view.bookings.rebooking_credit(bookings[1].id) is not None
