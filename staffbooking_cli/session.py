"""A command's way to the service: settings, a database that is ready, the ports."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from staffbooking_cli.errors import Refused, refusal

if TYPE_CHECKING:
    from staffbooking_adapters.settings import Settings
    from staffbooking_core.ports import Ports

T = TypeVar("T")


def settings(**defaults: str) -> Settings:
    """The deployment's settings, with defaults of the command's own by their full names.
    Raises SettingsError for one that is wrong."""
    from staffbooking_adapters.settings import load_settings

    return load_settings({**defaults, **os.environ})


@asynccontextmanager
async def ready_ports(wanted: Settings, *, stays: bool = False) -> AsyncIterator[Ports]:
    """The ports, on a database that has this version's schema; for a process that `stays` with
    all that it may ever need."""
    from staffbooking_adapters import wiring

    if what := await wiring.check_schema(wanted):
        raise Refused(what)
    async with wiring.open_ports(wanted, stays=stays) as ports:
        yield ports


async def lacking(wanted: Settings) -> str | None:
    """What keeps a process from its work, in one line; None where the database is there and has
    this version's schema."""
    from staffbooking_adapters import wiring
    from staffbooking_core.errors import Unavailable

    try:
        return await wiring.check_schema(wanted)
    except Unavailable as error:
        return refusal(error)


def run(work: Callable[[Ports], Awaitable[T]]) -> T:
    """Do a command's work on the ports of this deployment."""
    import anyio

    wanted = settings()

    async def session() -> T:
        async with ready_ports(wanted) as ports:
            return await work(ports)

    return anyio.run(session)
