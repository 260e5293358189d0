"""Tests of the pages' security policy and of the ASGI factory on other servers."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import httpx
import pytest

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import upgrade_schema
from staffbooking_http.main import create_app
from tests.http.deployment import HttpDeployment, json_body

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/", "/docs", "/bookings/1/return"])
async def test_pages_load_own_files_alone(world: HttpDeployment, path: str) -> None:
    """Pages load scripts, styles and images of this service only, and have no inline code."""
    answer = await world.client().get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|style=|url\(| on[a-z]+=|<script>", answer.text)
    page = re.sub(r'<link rel="canonical"[^>]*>', "", answer.text)
    loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', page)
    assert loaded
    for asset in loaded:
        file = await world.client().get(asset)
        assert (file.status_code, asset[:8]) == (200, "/static/")
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["/", "/docs", "/account", "/account/verify-email"])
async def test_pages_bear_the_csrf_token(world: HttpDeployment, path: str) -> None:
    """Pages of a signed-in user contain the session's CSRF token."""
    client = await world.signed_in_client(world.customer.id)
    page = ok_page(await client.get(path))
    assert f'<meta name="csrf-token" content="{client.headers["x-csrf-token"]}">' in page


def ok_page(answer: httpx.Response) -> str:
    assert answer.status_code == 200
    return answer.text


async def test_other_servers_can_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factory reads the environment and opens and closes the ports in the lifespan."""
    url = f"sqlite+aiosqlite:///{tmp_path}/main.db"
    monkeypatch.setenv("STAFFBOOKING_DATABASE_URL", url)
    await upgrade_schema(load_settings({"STAFFBOOKING_DATABASE_URL": url}))
    app = create_app()
    said: list[str] = []
    begin, end = anyio.Event(), anyio.Event()

    async def receive() -> dict[str, str]:
        if not said:
            return {"type": "lifespan.startup"}
        await end.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message) -> None:
        said.append(message["type"])
        begin.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)
        await begin.wait()
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            assert json_body(await client.get("/readyz")) == {"status": "ok"}
        end.set()
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
