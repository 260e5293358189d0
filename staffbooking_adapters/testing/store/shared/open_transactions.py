"""Transactions that are committed later than their unit of work ends."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    NOW,
    add_booking,
    make_booking_write,
    make_event,
    make_stored_response,
    next_revision,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import Hint


class _Stop(BaseException):
    """The process ends."""


def saving(row):
    async def work(tx):
        await tx.idempotency.save_response(row)
        return row.key

    return work


async def find(store, row):
    return await read_store(
        store, lambda view: view.idempotency.stored_response(row.scope, row.key, NOW)
    )


class OpenTransactionsContract(StoreContract):
    """Transactions that are committed later than their unit of work ends."""

    async def test_it_commits_at_the_end_of_the_context(self, store):
        """What the unit of work and the context write is committed together, and invisible
        before."""
        first, second = make_stored_response(), make_stored_response()
        async with store.open_transaction(saving(first)) as opened:
            assert opened.result == first.key
            assert await find(store, first) is None
            await opened.transaction.idempotency.save_response(second)
        assert [await find(store, row) for row in (first, second)] == [first, second]

    async def test_its_view_sees_what_it_wrote(self, store):
        """The view of an open transaction reads what the transaction has written."""
        row = make_stored_response()
        async with store.open_transaction(saving(row)) as opened:
            read = opened.view.idempotency
            assert await read.stored_response(row.scope, row.key, NOW) == row

    @pytest.mark.parametrize("end", [ValueError, _Stop])
    async def test_an_error_in_the_context_undoes_all(self, store, end):
        """An error in the context undoes what the unit of work wrote."""
        row = make_stored_response()
        with pytest.raises(end):
            async with store.open_transaction(saving(row)):
                raise end
        assert await find(store, row) is None
        await store.run_transaction(saving(row))

    async def test_a_cancellation_undoes_all(self, store):
        """A cancelled context undoes what the unit of work wrote, and the store can be used."""
        row, reached = make_stored_response(), asyncio.Event()

        async def wait():
            async with store.open_transaction(saving(row)):
                reached.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await reached.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await find(store, row) is None
        await store.run_transaction(saving(row))

    async def test_an_error_of_the_work_is_raised(self, store):
        """An error of the unit of work is raised on entry, and nothing is written."""
        row = make_stored_response()
        await store.run_transaction(saving(row))
        with pytest.raises(ConstraintViolated):
            async with store.open_transaction(saving(evolve(row, body=b"second"))):
                pytest.fail("the context was entered")
        assert await find(store, row) == row

    async def test_a_conflict_repeats_the_work(self, store):
        """A unit of work that raises Conflict runs again, without what it wrote before."""
        row, attempts = make_stored_response(), []

        async def work(tx):
            attempts.append(1)
            await tx.idempotency.save_response(row)
            if len(attempts) < 3:
                raise Conflict
            return len(attempts)

        async with store.open_transaction(work) as opened:
            assert opened.result == 3
        assert await find(store, row) == row

    async def test_hints_are_given_after_the_commit(self, store):
        """The hint of an event is given after the end of the context, and not after an error."""
        booking = await add_booking(store)
        event = make_event(booking, sequence=2)
        write = make_booking_write(next_revision(booking), event=event)
        seen = store.hints.count(Hint.EVENTS)
        with pytest.raises(ValueError, match="end"):
            async with store.open_transaction(lambda tx: tx.bookings.save_booking(write)):
                raise ValueError("end")
        assert store.hints.count(Hint.EVENTS) == seen
        async with store.open_transaction(lambda tx: tx.bookings.save_booking(write)):
            assert store.hints.count(Hint.EVENTS) == seen
        await store.hints.wait(Hint.EVENTS, seen, 5)
        assert store.hints.count(Hint.EVENTS) > seen
