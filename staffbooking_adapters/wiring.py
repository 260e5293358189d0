"""The composition root: from settings to ports. The only place that names adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from staffbooking_adapters.settings import Settings
from staffbooking_adapters.system import (
    Argon2Hasher,
    HmacVault,
    SandboxClock,
    SystemClock,
    SystemIds,
)
from staffbooking_core.ports import Ports


@asynccontextmanager
async def open_ports(settings: Settings) -> AsyncIterator[Ports]:
    """Open everything that a process needs, and close it again at the end.

    The schema must be there: `upgrade_schema` makes it.
    """
    from staffbooking_adapters.fake.processor import FakeProcessor
    from staffbooking_adapters.notify.log import LogNotifier
    from staffbooking_adapters.sql.fakebook import SqlFakeBook
    from staffbooking_adapters.sql.store import open_store

    async with AsyncExitStack() as stack:
        store = await open_store(settings.database_url, settings.policy)
        stack.push_async_callback(store.close)
        clock = SandboxClock(store) if settings.policy.sandbox else SystemClock()
        vault = HmacVault(settings.secret_keys)
        processor = FakeProcessor(
            SqlFakeBook(store.database),
            clock,
            base_url=settings.policy.base_url,
            secret=vault.sign("fake-processor", b"events"),
        )
        yield Ports(
            store=store,
            admission=store.admission,
            payments=processor,
            clock=clock,
            ids=SystemIds(),
            hasher=Argon2Hasher(),
            vault=vault,
            notifier=LogNotifier(),
            policy=settings.policy,
            sandbox=processor,
        )


async def upgrade_schema(settings: Settings) -> None:
    """Bring the database's schema to this version; nothing happens where it is there."""
    from staffbooking_adapters.sql.schema import upgrade

    await upgrade(settings.database_url)


async def check_schema(settings: Settings) -> str | None:
    """What the schema lacks, in one line; None where it is this version's."""
    from staffbooking_adapters.sql.schema import check

    return await check(settings.database_url)
