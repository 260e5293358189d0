"""docs/client.md: its lines work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import from_thread

from staffbooking_http.client import Client, Retries, errors
from tests.http.client.samples import SAMPLES, sample_call
from tests.http.conftest import world as world
from tests.http.deployment import BASE_URL, HttpDeployment

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/client.md").read_text(encoding="utf-8")
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
CURL = re.compile(r'^curl (?:-X (\w+) )?"\$BASE(/[^"?]+)[^"]*"((?:.*\\\n)*.*)', re.MULTILINE)


class Bridge(httpx.BaseTransport):
    """Carries the requests of a thread to the application in the loop."""

    def __init__(self, world: HttpDeployment) -> None:
        self._world = world

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return from_thread.run(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        async with self._world.client() as client:
            sent = await client.send(
                client.build_request(
                    request.method, request.url, headers=request.headers, content=request.content
                )
            )
        return httpx.Response(sent.status_code, headers=sent.headers, content=sent.content)


async def test_the_code_of_the_page_runs(world: HttpDeployment, tmp_path: Path) -> None:
    """The Python lines of the page run one after the other against the application."""
    names: dict[str, Any] = {
        "base_url": BASE_URL,
        "api_key": world.api_key,
        "cursor_path": tmp_path / "cursor",
        "keep": print,
    }
    made = CODE.replace("client = Client(base_url, api_key)", "client = make_client()")
    assert made != CODE
    http = httpx.Client(transport=Bridge(world))
    names["make_client"] = lambda: Client(BASE_URL, world.api_key, http=http)
    await anyio.to_thread.run_sync(exec, made, names)
    assert (names["booking"]["status"], names["quote"]["total_amount"]) == ("pending", 400)


def test_every_call_has_a_curl_line() -> None:
    """The curl lines of the page are the calls of the client."""
    shown = {
        (method or ("POST" if " -d " in rest else "GET"), path)
        for method, path, rest in CURL.findall(PAGE)
    }
    calls = {name: sample_call(name) for name in SAMPLES if name != "redeliver"}
    assert {(method, re.sub(r"/(\d+|BK\w+)(?=/|$)", "/:", path)) for method, path in shown} == {
        (call.method, re.sub(r"{\w+}", ":", call.path)) for call in calls.values()
    }


def test_every_call_is_shown_in_python() -> None:
    """The page shows each method of the client."""
    assert {name for name in SAMPLES if f"client.{name}(" not in PAGE} == set()


def test_the_figures_and_errors_are_those_of_the_client() -> None:
    """The page states the default repetitions, and its errors exist."""
    retries = Retries()
    doubled = [retries.base_seconds * 2**number for number in range(retries.attempts - 1)]
    text = " ".join(PAGE.split())
    assert f"{retries.attempts} attempts, with random waits up to" in text
    assert "up to {:g}, {:g} and {:g} seconds".format(*doubled) in text
    assert f"longer than {retries.max_seconds} seconds" in text
    table = PAGE.partition("| `errors.…` |")[2].partition("\n\n")[0]
    for name in re.findall(r"`([A-Z]\w+)`", table):
        assert issubclass(getattr(errors, name), errors.ApiError)
