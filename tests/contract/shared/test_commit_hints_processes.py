"""Hints of commits between the processes of one database."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_booking, make_booking, make_event
from staffbooking_core.ports import Hint
from tests.contract.stores import open_postgresql_store, open_sql_store, store_url

pytestmark = pytest.mark.anyio

TIMEOUT_SECONDS = 10.0


async def test_a_commit_gives_other_processes_a_hint(request):
    """On PostgreSQL an event committed by one store gives the other store a hint."""
    event = make_event(make_booking())
    async with (
        open_postgresql_store(request) as store,
        open_sql_store(store_url(request, "postgresql")) as other,
    ):
        await other.hints.wait(Hint.EVENTS, 0, TIMEOUT_SECONDS)
        before = other.hints.count(Hint.EVENTS)
        await add_booking(store, change={"event": event})
        await other.hints.wait(Hint.EVENTS, before, TIMEOUT_SECONDS)
        assert (before, other.hints.count(Hint.EVENTS)) == (1, 2)
