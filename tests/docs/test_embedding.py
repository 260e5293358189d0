"""docs/embedding.md: its code runs as described."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from litestar.testing import AsyncTestClient

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/embedding.md").read_text(encoding="utf-8")


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the page's code defines."""
    names: dict[str, Any] = {"__name__": __name__}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/embedding.md", "exec", dont_inherit=True), names)
    return names


async def test_the_example_of_embedding_runs(page: dict[str, Any]) -> None:
    """`one_booking` of the page returns the outcome that the page states."""
    outcome = await page["one_booking"]()

    assert f"`one_booking()` gives `{outcome}`" in PAGE


async def test_the_application_is_served_alone(page: dict[str, Any]) -> None:
    """The standalone application serves a path of the service and the added route."""
    ports = page["make_ports"](datetime(2027, 3, 1, tzinfo=UTC))
    async with AsyncTestClient(page["standalone"](ports)) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/about")).text == "We book staff."


async def test_the_application_is_mounted(page: dict[str, Any]) -> None:
    """The mounted application serves its paths and links only below the prefix."""
    ports = page["make_ports"](datetime(2027, 3, 1, tzinfo=UTC))
    ports = evolve(ports, policy=evolve(ports.policy, base_url="https://example.com/booking"))
    async with AsyncTestClient(page["mounted"](ports)) as client:
        assert (await client.get("/booking/healthz")).json() == {"status": "ok"}
        assert 'href="/booking/account/sign-in"' in (await client.get("/booking/")).text
        assert (await client.get("/healthz")).status_code == 404
