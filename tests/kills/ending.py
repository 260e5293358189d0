"""The end of a run: all due times pass, all work is done, and the history is checked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import anyio

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.payments import ledger_check, statement
from staffbooking_worker.main import drain
from tests.kills.checker import History, find_faults
from tests.kills.processes import service_environ

END_TIMEOUT_SECONDS = 60.0
"""Seconds in which all due work is done, after the leases of killed workers have ended."""
CLOCK_JUMPS = (timedelta(days=85), timedelta(days=4), timedelta(days=3))
"""Jumps after which events are over, then completions and payouts are due."""


async def finish_work(
    database_url: str, read_history: Callable[[], Awaitable[History]]
) -> tuple[History, list[str]]:
    """Do all remaining work in this process; returns the history and its faults. The service's
    processes must have ended."""
    settings = load_settings(service_environ(database_url, "http://127.0.0.1"))
    async with open_ports(settings) as ports:
        for jump in CLOCK_JUMPS:
            await sandbox.advance_clock(ports, jump)
            await drain(ports)
        history = await read_history()
        faults = find_faults(history)
        with anyio.move_on_after(END_TIMEOUT_SECONDS):
            while faults:  # Some disappear with a lease, or with the last try of a delivery.
                await anyio.sleep(1)
                await drain(ports)
                history = await read_history()
                faults = find_faults(history)
        return history, [*faults, *[fault async for fault in _ledger_faults(ports)]]


async def _ledger_faults(ports: Ports) -> AsyncIterator[str]:
    """Compares the ledger with its invariants and with the processor's statement."""
    async for found in ledger_check.check_ledger(ports):
        if not isinstance(found, int):
            yield f"ledger of {found.booking_code}: {found.text}"
    async for difference in statement.reconcile_statement(ports):
        if not isinstance(difference, statement.ReconciliationProgress):
            yield f"statement of {difference.booking_code}: {difference.text}"
