"""Requests while PostgreSQL hangs: its processes are stopped, and its sockets stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import anyio
import httpx
import pytest
from attrs import evolve, frozen

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.testing.builders import (
    add_api_key,
    add_session,
    add_user,
    make_api_key_text,
)
from staffbooking_adapters.wiring import open_ports, upgrade_schema
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_http.app import create_app
from tests.http.deployment import error_body, json_body
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

PASSWORD = "a-long-enough-password"


@frozen
class HangingDeployment:
    """The application on a server whose processes may be stopped; a request has 0.3 s."""

    server: PostgresServer
    visitor: httpx.AsyncClient
    program: httpx.AsyncClient
    customer: httpx.AsyncClient


@pytest.fixture
async def hanging(hanging_postgres_server: PostgresServer) -> AsyncIterator[HangingDeployment]:
    url = await hanging_postgres_server.create_database()
    settings = load_settings({"STAFFBOOKING_DATABASE_URL": url})
    await upgrade_schema(settings)
    policy = evolve(settings.policy, request_database_time=timedelta(seconds=0.3))
    async with open_ports(evolve(settings, policy=policy)) as ports:
        hashed = await ports.hasher.hash(PASSWORD)
        user = await add_user(
            ports.store,
            email="ada@example.com",
            password_hash=hashed,
            subscription=Subscription.ENTERPRISE,
        )
        key, token = make_api_key_text(), ports.ids.token()
        now = ports.clock.wall()
        await add_api_key(ports.store, user.id, key, permissions=frozenset(Permission))
        await add_session(ports.store, user.id, token=token, created_at=now, seen_at=now)

        app = create_app(ports)

        def client(**headers: str) -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app, client=("203.0.113.9", 50_000))
            return httpx.AsyncClient(transport=transport, base_url=policy.base_url, headers=headers)

        yield HangingDeployment(
            hanging_postgres_server,
            client(),
            client(authorization=f"Bearer {key}"),
            client(cookie=f"connect.sid={token}"),
        )
    await hanging_postgres_server.drop_database(database_name(url))


async def test_requests_are_refused_until_the_database_goes_on(hanging: HangingDeployment) -> None:
    """While PostgreSQL hangs, searches, logins, lists and /readyz are 503 `unavailable` with
    Retry-After, however many there are; once it goes on they are served."""
    login = {"email": "ada@example.com", "password": PASSWORD}

    def calls() -> list[asyncio.Task[httpx.Response]]:
        return [
            asyncio.ensure_future(call)
            for call in (
                *(hanging.program.get("/api/v1/companions") for _ in range(15)),
                *(hanging.customer.get("/bookings") for _ in range(15)),
                hanging.visitor.post("/auth/login", json=login),
                hanging.visitor.get("/readyz"),
                hanging.visitor.get("/readyz"),
            )
        ]

    with hanging.server.hung():
        async with asyncio.timeout(20):
            for _ in range(2):
                for answer in await asyncio.gather(*calls()):
                    error_body(answer, 503, "unavailable")
                    assert answer.headers["retry-after"]
    async with asyncio.timeout(20):
        while any(answer.status_code == 503 for answer in await asyncio.gather(*calls())):
            pass
    for answer in await asyncio.gather(*calls()):
        json_body(answer)


async def test_unknown_paths_and_documents_do_not_wait(hanging: HangingDeployment) -> None:
    """While PostgreSQL hangs, unknown paths, /healthz and the documents are answered without a
    round trip, signed in or not."""
    with hanging.server.hung():
        for client in (hanging.visitor, hanging.customer, hanging.program):
            for path, status in (
                ("/nope", 404),
                ("/api/v1/nope", 404),
                ("/healthz", 200),
                ("/openapi.json", 200),
                ("/asyncapi.json", 200),
                ("/docs", 200),
            ):
                with anyio.fail_after(10):
                    assert (await client.get(path)).status_code == status
