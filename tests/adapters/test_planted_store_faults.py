"""Each fault that is planted in the memory store is found by a shipped suite."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.memory.bookings.store import BookingsReader, BookingsWriter
from staffbooking_adapters.memory.companions.saved import SavedReader, SavedWriter
from staffbooking_adapters.memory.idempotency import IdempotencyReader, IdempotencyWriter
from staffbooking_adapters.memory.notifications.store import NotificationsWriter
from staffbooking_adapters.memory.payments.inbox import InboxWriter
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import DAY, POLICY
from staffbooking_adapters.testing.store.bookings.bookings import BookingsContract
from staffbooking_adapters.testing.store.bookings.requests import RequestsContract
from staffbooking_adapters.testing.store.companions.saved import SavedContract
from staffbooking_adapters.testing.store.notifications.notifications import NotificationsContract
from staffbooking_adapters.testing.store.payments.inbox import InboxContract
from staffbooking_adapters.testing.store.shared.idempotency import IdempotencyContract
from staffbooking_adapters.testing.store.shared.open_transactions import OpenTransactionsContract
from staffbooking_adapters.testing.store.shared.transactions import TransactionsContract
from staffbooking_core.errors import Conflict, ConstraintViolated
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def nothing(real):
    async def call(self, *given):
        return None

    return call


def reversed_rows(real):
    async def call(self, *given):
        return list(reversed(await real(self, *given)))

    return call


def no_rows(real):
    async def call(self, *given):
        return []

    return call


def always_true(real):
    async def call(self, *given):
        await real(self, *given)
        return True

    return call


def without(error):
    def plant(real):
        async def call(self, *given):
            try:
                await real(self, *given)
            except error:
                return

        return call

    return plant


def an_old_answer(real):
    async def call(self, scope, key, now):
        return await real(self, scope, key, now - 100 * DAY)

    return call


def no_cursor(real):
    async def call(self, user_id, after_id, limit):
        return await real(self, user_id, 0, limit)

    return call


def whole_seconds(real):
    async def call(self, customer_id, companion_id, at):
        await real(self, customer_id, companion_id, at.replace(microsecond=0))

    return call


def not_atomic(real):
    @asynccontextmanager
    async def call(self):
        async with self._write_lock:
            self._writing.state = self._committed.state
            yield

    return call


def no_hint(real):
    return lambda self, hint: None


LISTED = (SavedContract, "test_saved_people_are_listed_newest_first")
FAULTS: dict[str, tuple[Any, str, Any, Any, str]] = {
    "a lost row": (SavedWriter, "save_person", nothing, *LISTED),
    "a wrong order": (SavedReader, "saved_people", reversed_rows, *LISTED),
    "a truncated time": (SavedWriter, "save_person", whole_seconds, *LISTED),
    "a lost deletion": (
        SavedWriter,
        "unsave_person",
        nothing,
        SavedContract,
        "test_a_person_is_saved_once",
    ),
    "claims in the wrong order": (
        InboxWriter,
        "claim_events",
        reversed_rows,
        InboxContract,
        "test_the_oldest_event_is_claimed_first",
    ),
    "a duplicate that is new": (
        InboxWriter,
        "add_event",
        always_true,
        InboxContract,
        "test_an_event_is_stored_once",
    ),
    "a key that is claimed twice": (
        IdempotencyWriter,
        "claim_key",
        always_true,
        IdempotencyContract,
        "test_a_free_key_is_claimed_once",
    ),
    "an answer that never expires": (
        IdempotencyReader,
        "stored_response",
        an_old_answer,
        IdempotencyContract,
        "test_a_response_expires",
    ),
    "a credit that is used twice": (
        BookingsWriter,
        "use_rebooking_credit",
        always_true,
        RequestsContract,
        "test_a_credit_is_used_once",
    ),
    "lost events": (
        BookingsReader,
        "events_of",
        no_rows,
        RequestsContract,
        "test_events_are_in_order",
    ),
    "an ignored cursor": (
        BookingsReader,
        "open_bookings_of",
        no_cursor,
        BookingsContract,
        "test_open_bookings_come_in_pages",
    ),
    "no conflict": (
        BookingsWriter,
        "save_booking",
        without(Conflict),
        BookingsContract,
        "test_saving_an_unknown_booking_is_a_conflict",
    ),
    "no constraint": (
        BookingsWriter,
        "add_booking",
        without(ConstraintViolated),
        BookingsContract,
        "test_a_code_is_used_once",
    ),
    "a commit that is not atomic": (
        MemoryStore,
        "_begin",
        not_atomic,
        TransactionsContract,
        "test_a_failed_transaction_leaves_nothing",
    ),
    "a hint that is not given": (
        LocalHints,
        "give",
        no_hint,
        OpenTransactionsContract,
        "test_hints_are_given_after_the_commit",
    ),
    "a notice that comes again": (
        NotificationsWriter,
        "finish_notifications",
        nothing,
        NotificationsContract,
        "test_finished_notifications_are_deleted",
    ),
}


@pytest.mark.parametrize(("owner", "name", "plant", "suite", "test"), FAULTS.values(), ids=FAULTS)
async def test_a_planted_fault_is_found(monkeypatch, owner, name, plant, suite, test):
    """A test of a suite holds for the memory store, and fails when one of its methods is wrong."""
    run = getattr(suite(), test)
    await run(MemoryStore(POLICY))
    monkeypatch.setattr(owner, name, plant(getattr(owner, name)))
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError)):
        await run(MemoryStore(POLICY))
