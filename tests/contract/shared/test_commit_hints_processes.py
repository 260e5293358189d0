"""Hints of a store's commits where it is more than one process."""

from __future__ import annotations

import pytest

from staffbooking_core.ports import Hint
from tests.contract.stores import open_postgresql_store, open_sql_store, store_url
from tests.support.builders import add_booking, make_booking, make_event

pytestmark = pytest.mark.anyio

PATIENCE = 10.0


async def test_a_commit_of_one_process_wakes_another(request):
    """On PostgreSQL: an event that one store has committed, the other hears of at once."""
    event = make_event(make_booking())
    async with (
        open_postgresql_store(request) as store,
        open_sql_store(store_url(request, "postgresql")) as other,
    ):
        await other.hints.wait(Hint.EVENTS, 0, PATIENCE)
        before = other.hints.count(Hint.EVENTS)
        await add_booking(store, change={"event": event})
        await other.hints.wait(Hint.EVENTS, before, PATIENCE)
        assert (before, other.hints.count(Hint.EVENTS)) == (1, 2)
