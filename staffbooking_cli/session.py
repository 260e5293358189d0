"""Opens the service for a command: settings, schema check, ports."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from staffbooking_cli.errors import CommandRefused, error_line

if TYPE_CHECKING:
    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports

T = TypeVar("T")


def read_settings(listening_address: str | None = None, **defaults: str) -> Settings:
    """The deployment's settings; `defaults` are the command's own, by full setting name. A server
    passes the IP address that it listens on.

    Raises SettingsError for an invalid setting.
    """
    from staffbooking_adapters.settings import load_settings

    return load_settings({**defaults, **os.environ}, listening_address=listening_address)


@asynccontextmanager
async def ready_ports(wanted: Settings, *, is_long_running: bool = False) -> AsyncIterator[Ports]:
    """The ports, on a database with this version's schema; a long-running process preloads
    everything it may need. Raises CommandRefused if the schema differs."""
    from staffbooking_adapters import wiring

    if problem := await wiring.find_schema_problem(wanted):
        raise CommandRefused(problem)
    async with wiring.open_ports(wanted, is_long_running=is_long_running) as ports:
        yield ports


async def find_schema_problem(wanted: Settings) -> str | None:
    """Why the database can't be used, in one line; None if it is reachable and has this
    version's schema."""
    from staffbooking_adapters import wiring
    from staffbooking_core.errors import StoreUnavailable

    try:
        return await wiring.find_schema_problem(wanted)
    except StoreUnavailable as error:
        return error_line(error)


def run_command(work: Callable[[Ports], Awaitable[T]]) -> T:
    """Run a command's work with the deployment's ports and return its result."""
    import anyio

    wanted = read_settings()

    async def session() -> T:
        async with ready_ports(wanted) as ports:
            return await work(ports)

    return anyio.run(session)
