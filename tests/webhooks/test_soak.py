"""Nothing is lost: events to endpoints of which half misbehave, while workers are killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trustme

from tests.support.postgres import PostgresServer
from tests.support.receivers import (
    Behaviour,
    Connection,
    Receiver,
    answering,
    closed_port,
    drips_body,
    drips_head,
    endless_body,
    gzip_bomb,
    hangs_at_head,
    redirect,
    resets_after_request,
    silent,
    status,
    tls_of,
)
from tests.webhooks.soak import Plan, Target, judge, soak

pytestmark = pytest.mark.anyio

SHORT = Plan(events=300, kills=3, over=6.0, attempt=0.5, lease=4.0, patience=55.0)
LONG = Plan(events=10_000, kills=20, over=300.0, attempt=10.0, lease=15.0, patience=3600.0)


def in_turn(*kinds: Behaviour) -> Behaviour:
    """Another kind with each connection."""
    calls = 0

    async def behave(connection: Connection) -> None:
        nonlocal calls
        calls += 1
        await kinds[calls % len(kinds)](connection)

    return behave


@asynccontextmanager
async def short_targets(folder: Path) -> AsyncIterator[tuple[list[Target], Path]]:
    """Eight endpoints, four of them sound; and the certificate that the workers trust."""
    authority, stranger = trustme.CA(), trustme.CA()
    async with AsyncExitStack() as stack:

        async def listen(sound: bool, behaviour: Behaviour, by: trustme.CA | None = None) -> Target:
            tls = None if by is None else tls_of(by, "127.0.0.1")
            receiver = await stack.enter_async_context(Receiver(behaviour, tls))
            return Target(receiver.url, receiver.requests, sound)

        targets = [
            await listen(True, answering()),
            await listen(True, answering(), authority),
            await listen(True, answering(times=1)),
            await listen(True, status(201, b"thanks")),
            await listen(False, hangs_at_head),
            await listen(False, resets_after_request),
            await listen(False, redirect(307, "http://127.0.0.1/")),
            await listen(False, answering(), stranger),
        ]
        yield targets, _roots(folder, authority)


@asynccontextmanager
async def long_targets(folder: Path) -> AsyncIterator[tuple[list[Target], Path]]:
    """Ten endpoints, five of them sound; the others misbehave in every way."""
    authority, stranger = trustme.CA(), trustme.CA()
    async with AsyncExitStack() as stack:
        refusing = await stack.enter_async_context(closed_port())

        async def listen(sound: bool, behaviour: Behaviour, by: trustme.CA | None = None) -> Target:
            tls = None if by is None else tls_of(by, "127.0.0.1")
            receiver = await stack.enter_async_context(Receiver(behaviour, tls))
            return Target(receiver.url, receiver.requests, sound)

        bodies = in_turn(drips_body, endless_body, gzip_bomb)
        heads = in_turn(
            silent,
            drips_head,
            resets_after_request,
            redirect(302, "http://127.0.0.1/"),
            status(500),
        )
        targets = [
            *[await listen(True, answering()) for _ in range(3)],
            await listen(True, answering(), authority),
            await listen(True, answering(times=1)),
            Target(refusing, [], False),
            await listen(False, hangs_at_head),
            await listen(False, heads),
            await listen(False, bodies),
            await listen(False, answering(), stranger),
        ]
        yield targets, _roots(folder, authority)


def _roots(folder: Path, authority: trustme.CA) -> Path:
    roots = folder / "roots.pem"
    authority.cert_pem.write_to_path(roots)
    return roots


async def test_nothing_is_lost_in_a_short_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """300 events reach four sound endpoints of eight though three workers are killed, and no
    pair of event and endpoint is left undecided, on both databases."""
    urls = {
        "sqlite": f"sqlite+aiosqlite:///{tmp_path}/soak.db",
        "postgresql": await postgres_server.create_database(),
    }

    async def on(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        async with short_targets(folder) as (targets, roots):
            results = await soak(urls[name], SHORT, targets, roots, folder)
            judge(results, SHORT)

    async with anyio.create_task_group() as both:
        for name in urls:
            both.start_soon(on, name)


@pytest.mark.soak
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_nothing_is_lost_in_a_long_soak(
    tmp_path: Path, postgres_server: PostgresServer, database: str
) -> None:
    """10,000 events reach five sound endpoints of ten though twenty workers are killed, and no
    pair of event and endpoint is left undecided."""
    url = f"sqlite+aiosqlite:///{tmp_path}/soak.db"
    if database == "postgresql":
        url = await postgres_server.create_database()
    async with long_targets(tmp_path) as (targets, roots):
        results = await soak(url, LONG, targets, roots, tmp_path)
        figures = judge(results, LONG)
    print(figures)
    # Each is of an answer that a killed worker, or one that waited too long, never saw: on a
    # busy machine there are more, so the short soak doesn't count them.
    assert figures["repeats"] < figures["pairs"] / 100
