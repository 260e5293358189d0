"""No event is lost although half of the endpoints misbehave and workers are killed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trustme

from staffbooking_adapters.testing.receivers import (
    Behaviour,
    ReceiverConnection,
    ReceiverServer,
    closed_port,
    drip_body,
    drip_head,
    endless_body,
    gzip_bomb,
    hang_in_head,
    never_respond,
    reset_after_request,
    respond_redirect,
    respond_status,
    respond_with,
)
from tests.support.postgres import PostgresServer
from tests.support.tls import server_tls_context
from tests.webhooks.soak import SoakReceiver, WebhookSoakPlan, assert_delivered, run_soak

pytestmark = pytest.mark.anyio

SHORT = WebhookSoakPlan(
    events=100,
    kills=2,
    duration_seconds=6.0,
    attempt_timeout_seconds=0.5,
    lease_seconds=4.0,
    timeout_seconds=55.0,
)
LONG = WebhookSoakPlan(
    events=10_000,
    kills=20,
    duration_seconds=300.0,
    attempt_timeout_seconds=10.0,
    lease_seconds=15.0,
    timeout_seconds=3600.0,
)


def alternating(*kinds: Behaviour) -> Behaviour:
    """Uses another behaviour for each connection."""
    calls = 0

    async def behave(connection: ReceiverConnection) -> None:
        nonlocal calls
        calls += 1
        await kinds[calls % len(kinds)](connection)

    return behave


async def listen(
    stack: AsyncExitStack,
    is_reliable: bool,
    behaviour: Behaviour,
    authority: trustme.CA | None = None,
) -> SoakReceiver:
    """Runs a receiver until the stack is closed, over TLS if an authority is given."""
    tls = None if authority is None else server_tls_context(authority, "127.0.0.1")
    receiver = await stack.enter_async_context(ReceiverServer(behaviour, tls))
    return SoakReceiver(receiver.url, receiver.requests, is_reliable)


@asynccontextmanager
async def short_targets(folder: Path) -> AsyncIterator[tuple[list[SoakReceiver], Path]]:
    """Eight endpoints, four of them healthy, and the certificate that the workers trust."""
    authority, stranger = trustme.CA(), trustme.CA()
    async with AsyncExitStack() as stack:
        targets = [
            await listen(stack, True, respond_with()),
            await listen(stack, True, respond_with(), authority),
            await listen(stack, True, respond_with(times=1)),
            await listen(stack, True, respond_status(201, b"thanks")),
            await listen(stack, False, hang_in_head),
            await listen(stack, False, reset_after_request),
            await listen(stack, False, respond_redirect(307, "http://127.0.0.1/")),
            await listen(stack, False, respond_with(), stranger),
        ]
        yield targets, _write_root_certificates(folder, authority)


@asynccontextmanager
async def long_targets(folder: Path) -> AsyncIterator[tuple[list[SoakReceiver], Path]]:
    """Ten endpoints, five of them healthy; the others misbehave in every way."""
    authority, stranger = trustme.CA(), trustme.CA()
    async with AsyncExitStack() as stack:
        refusing = await stack.enter_async_context(closed_port())
        bodies = alternating(drip_body, endless_body, gzip_bomb)
        heads = alternating(
            never_respond,
            drip_head,
            reset_after_request,
            respond_redirect(302, "http://127.0.0.1/"),
            respond_status(500),
        )
        targets = [
            *[await listen(stack, True, respond_with()) for _ in range(3)],
            await listen(stack, True, respond_with(), authority),
            await listen(stack, True, respond_with(times=1)),
            SoakReceiver(refusing, [], False),
            await listen(stack, False, hang_in_head),
            await listen(stack, False, heads),
            await listen(stack, False, bodies),
            await listen(stack, False, respond_with(), stranger),
        ]
        yield targets, _write_root_certificates(folder, authority)


def _write_root_certificates(folder: Path, authority: trustme.CA) -> Path:
    roots = folder / "roots.pem"
    authority.cert_pem.write_to_path(roots)
    return roots


async def test_nothing_is_lost_in_a_short_soak(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """On both databases 100 events reach four healthy endpoints of eight although two workers are
    killed, and every delivery has a final status."""
    urls = {
        "sqlite": f"sqlite+aiosqlite:///{tmp_path}/soak.db",
        "postgresql": await postgres_server.create_database(),
    }

    async def run_on(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        async with short_targets(folder) as (targets, roots):
            results = await run_soak(urls[name], SHORT, targets, roots, folder)
            assert_delivered(results, SHORT)

    async with anyio.create_task_group() as both:
        for name in urls:
            both.start_soon(run_on, name)


@pytest.mark.soak
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_nothing_is_lost_in_a_long_soak(
    tmp_path: Path, postgres_server: PostgresServer, database: str
) -> None:
    """10,000 events reach five healthy endpoints of ten although twenty workers are killed, and
    every delivery has a final status."""
    url = f"sqlite+aiosqlite:///{tmp_path}/soak.db"
    if database == "postgresql":
        url = await postgres_server.create_database()
    async with long_targets(tmp_path) as (targets, roots):
        results = await run_soak(url, LONG, targets, roots, tmp_path)
        figures = assert_delivered(results, LONG)
    print(figures)
    # A repeat follows a response that a killed or timed-out worker did not see. A busy machine has
    # more of them, so the short soak does not check their number.
    assert figures["repeats"] < figures["pairs"] / 100
