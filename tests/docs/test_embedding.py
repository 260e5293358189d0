"""docs/embedding.md: its code runs as described, and its table of errors is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import evolve
from litestar.testing import AsyncTestClient

from staffbooking_adapters import memory_ports
from staffbooking_adapters.testing.builders import DAY
from staffbooking_core import Ports, errors
from staffbooking_core.errors import InvalidInput, StaffbookingError
from staffbooking_core.representations.errors import STATUS_BY_ERROR
from staffbooking_core.usecases.payments.ledger_check import check_ledger
from tests.support.memory_deployment import make_booking_scenario

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/embedding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SECRET_KEY = "a secret key of the embedding tests"
WORKER_TIMEOUT_SECONDS = 20


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the page's code defines."""
    names: dict[str, Any] = {"__name__": __name__}
    for block in BLOCKS:
        exec(compile(block, "docs/embedding.md", "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite+aiosqlite:///{tmp_path}/embedded.db"


async def faults_of(ports: Ports) -> list[object]:
    return [found async for found in check_ledger(ports) if not isinstance(found, int)]


def test_the_first_block_is_a_script() -> None:
    """The first block alone is a script, which prints the outcome that the page states."""
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKS[0]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert f"It prints `{ended.stdout.strip()}`" in PAGE


async def test_the_booking_leaves_no_fault(page: dict[str, Any]) -> None:
    """After `one_booking` the ledger in memory has no fault."""
    ports = memory_ports()

    await page["one_booking"](ports)

    assert await faults_of(ports) == []


async def test_the_booking_is_stored(page: dict[str, Any], database_url: str) -> None:
    """`one_booking` has the same outcome on a new database."""
    outcome = await page["one_stored_booking"](database_url, SECRET_KEY)

    assert f"It prints `{outcome}`" in PAGE


async def test_the_worker_runs_beside_the_ports(page: dict[str, Any], database_url: str) -> None:
    """The worker of the page records a payment that the processor alone knows, and stops with the
    context."""
    with anyio.fail_after(WORKER_TIMEOUT_SECONDS):
        async with page["ports_with_worker"](database_url, SECRET_KEY) as ports:
            scene = await make_booking_scenario(ports=ports)
            booking = await scene.accepted(event_date=(await scene.now()).date() + 9 * DAY)
            await scene.simulate_checkout(booking)
            while (await scene.booking(booking)).status != "paid":
                await checkpoint()


async def test_the_application_is_served_alone(page: dict[str, Any]) -> None:
    """The standalone application serves a path of the service and the added route."""
    async with AsyncTestClient(page["standalone"](memory_ports())) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/about")).text == "We book staff."


async def test_the_application_is_mounted(page: dict[str, Any]) -> None:
    """The mounted application serves its paths and links only below the prefix."""
    ports = memory_ports()
    ports = evolve(ports, policy=evolve(ports.policy, base_url="https://example.com/booking"))
    async with AsyncTestClient(page["mounted"](ports)) as client:
        assert (await client.get("/booking/healthz")).json() == {"status": "ok"}
        assert 'href="/booking/account/sign-in"' in (await client.get("/booking/")).text
        assert (await client.get("/healthz")).status_code == 404


def test_the_errors_are_those_of_the_code() -> None:
    """The table has every error of the core with the status that the service gives it."""
    listed = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \|$", PAGE, re.MULTILINE)
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)} | {*STATUS_BY_ERROR}
    raised = {
        kind
        for kind in kinds - {StaffbookingError, InvalidInput}
        if issubclass(kind, StaffbookingError)
    }
    assert sorted(listed) == sorted((kind.__name__, str(status_of(kind))) for kind in raised)


def status_of(kind: type) -> int:
    return next((STATUS_BY_ERROR[one] for one in kind.__mro__ if one in STATUS_BY_ERROR), 500)
