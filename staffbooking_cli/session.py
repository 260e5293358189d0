"""Opens the service for a command: settings, schema check, ports."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from staffbooking_cli import render
from staffbooking_cli.errors import CommandRefused, error_line, innermost

if TYPE_CHECKING:
    import anyio

    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports

T = TypeVar("T")

RETRY_DELAY_SECONDS = 1.0
"""Seconds between attempts to open a database that is out of reach."""


def read_settings(listening_address: str | None = None, **defaults: str) -> Settings:
    """The deployment's settings; `defaults` are the command's own, by full setting name. A server
    passes the IP address that it listens on.

    Raises SettingsError for an invalid setting.
    """
    from staffbooking_adapters.settings import load_settings

    return load_settings({**defaults, **os.environ}, listening_address=listening_address)


@asynccontextmanager
async def ready_ports(settings: Settings, *, is_long_running: bool = False) -> AsyncIterator[Ports]:
    """The ports, on a database with this version's schema; a long-running process preloads
    everything it may need. Raises CommandRefused if the schema differs."""
    from staffbooking_adapters import wiring

    if problem := await wiring.find_schema_problem(settings):
        raise CommandRefused(problem)
    async with wiring.open_ports(settings, is_long_running=is_long_running) as ports:
        yield ports


@asynccontextmanager
async def lasting_ports(settings: Settings, stop: anyio.Event) -> AsyncIterator[Ports | None]:
    """The ports of a worker, which waits while the database is out of reach or the disk of
    uploaded images fails; None if `stop` was set meanwhile. Raises CommandRefused if the schema
    differs."""
    import anyio

    from staffbooking_core.errors import StoreUnavailable

    async with AsyncExitStack() as stack:
        ports, last_problem = None, None
        while ports is None and not stop.is_set():
            try:
                ports = await stack.enter_async_context(ready_ports(settings, is_long_running=True))
            except Exception as error:
                if not isinstance(innermost(error), StoreUnavailable):
                    raise
                if (problem := error_line(error)) != last_problem:
                    render.print_note(f"Waiting: {problem}")
                last_problem = problem
                with anyio.move_on_after(RETRY_DELAY_SECONDS):
                    await stop.wait()
        yield ports


def run_command(work: Callable[[Ports], Awaitable[T]]) -> T:
    """Run a command's work with the deployment's ports and return its result."""
    import anyio

    settings = read_settings()

    async def session() -> T:
        async with ready_ports(settings) as ports:
            return await work(ports)

    return anyio.run(session)
