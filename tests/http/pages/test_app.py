"""Tests of the pages' security policy and of the ASGI factory on other servers."""

from __future__ import annotations

import base64
import hashlib
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
async def test_pages_load_nothing(world: HttpDeployment, path: str) -> None:
    """The policy allows only the page's own style, by its hash."""
    answer = await world.client().get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"<(script|link|img|iframe)|style=|url\(", answer.text)


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
