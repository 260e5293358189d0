"""A command's way to the service: settings, a database that is ready, the ports."""

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


def read_settings(**defaults: str) -> Settings:
    """The deployment's settings, with defaults of the command's own by their full names.
    Raises SettingsError for one that is wrong."""
    from staffbooking_adapters.settings import load_settings

    return load_settings({**defaults, **os.environ})


@asynccontextmanager
async def ready_ports(wanted: Settings, *, is_long_running: bool = False) -> AsyncIterator[Ports]:
    """The ports, on a database that has this version's schema; for a process that `stays` with
    all that it may ever need."""
    from staffbooking_adapters import wiring

    if problem := await wiring.find_schema_problem(wanted):
        raise CommandRefused(problem)
    async with wiring.open_ports(wanted, is_long_running=is_long_running) as ports:
        yield ports


async def find_schema_problem(wanted: Settings) -> str | None:
    """What keeps a process from its work, in one line; None where the database is there and has
    this version's schema."""
    from staffbooking_adapters import wiring
    from staffbooking_core.errors import StoreUnavailable

    try:
        return await wiring.find_schema_problem(wanted)
    except StoreUnavailable as error:
        return error_line(error)


def run_command(work: Callable[[Ports], Awaitable[T]]) -> T:
    """Do a command's work on the ports of this deployment."""
    import anyio

    wanted = read_settings()

    async def session() -> T:
        async with ready_ports(wanted) as ports:
            return await work(ports)

    return anyio.run(session)
