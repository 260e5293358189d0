"""The writes of API key usage while the database is slow."""

from __future__ import annotations

import asyncio
from typing import Any

from staffbooking_adapters.sql.accounts.api_key_usage import (
    ADD_KEY_CALLS,
    WRITE_INTERVAL_SECONDS,
    ApiKeyUsageRecorder,
)
from staffbooking_adapters.testing.builders import NOW
from tests.support.virtual_loop import VirtualTimeLoop


class SlowDatabase:
    """Takes longer for each statement than the time between two writes."""

    def __init__(self) -> None:
        self.is_busy = False
        self.written_calls = 0

    async def execute(self, statement: object, **arguments: Any) -> None:
        assert not self.is_busy
        self.is_busy = True
        await asyncio.sleep(3 * WRITE_INTERVAL_SECONDS)
        self.is_busy = False
        if statement is ADD_KEY_CALLS:
            self.written_calls += sum(arguments["counts"])


def test_one_write_runs_at_a_time() -> None:
    """Calls recorded during a slow write are written after it, and no call is written twice."""
    database: Any = SlowDatabase()

    async def record_all_the_time() -> None:
        recorder = ApiKeyUsageRecorder(database)
        for _ in range(10):
            recorder.record(1, NOW)
            await asyncio.sleep(WRITE_INTERVAL_SECONDS)
        await recorder.close()
        assert recorder.unwritten.calls == {}

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(record_all_the_time())
    assert database.written_calls == 10
