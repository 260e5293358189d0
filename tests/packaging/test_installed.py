"""The wheel, installed with one extra at a time: what the extra is for works, and no more is
there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

from staffbooking_adapters.extras import EXTRAS, MissingExtra
from tests.support.distributions import ROOT, Distributions, Environment, install_wheel

pytestmark = pytest.mark.installed

Install: TypeAlias = Callable[[Sequence[str]], Environment]

PAGE = (ROOT / "docs/embedding.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[ONE_BOOKING] = [code for code in PROGRAMS if "async def one_booking(" in code]
[ONE_STORED_BOOKING] = [code for code in PROGRAMS if "async def one_stored_booking(" in code]
OUTCOME = "completed, payout paid: 17000"
BASE_PACKAGES = {
    "anyio",
    "attrs",
    "cattrs",
    "idna",
    "msgspec",
    "sniffio",
    "staffbooking",
    "typing_extensions",
    "tzdata",
}
SERVE_PAGE = """
import anyio, httpx
from staffbooking_adapters import memory_ports
from staffbooking_http import create_app

async def work():
    app = create_app(memory_ports())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        for path in ("/healthz", "/", "/socket.io/?EIO=4&transport=polling"):
            answer = await client.get(path, headers={"accept": "text/html"})
            print(answer.status_code, end=" ")

anyio.run(work)
"""
USES = {
    "postgres": (
        "from staffbooking_adapters.sql import store\n"
        "from staffbooking_adapters.sql.engine import postgres\n"
        "from staffbooking_adapters.sql.messaging import pubsub; print('ready')",
        "ready",
    ),
    "stripe": (
        "from staffbooking_adapters.stripe.processor import StripeProcessor\n"
        "StripeProcessor('sk_test_1', ('whsec_1',), 'main', base_url='https://a.example',"
        " currency='usd'); print('ready')",
        "ready",
    ),
    "redis": (
        "from staffbooking_adapters.chat.redis import RedisPubSubTransport\n"
        "print(type(RedisPubSubTransport('redis://127.0.0.1:1', 'c').get_client()).__name__)",
        "Redis",
    ),
    "images": (
        "import anyio, io; from PIL import Image; from staffbooking_adapters import memory_ports\n"
        "upload = io.BytesIO(); Image.new('RGB', (300, 300)).save(upload, 'png')\n"
        "made = anyio.run(memory_ports().image_processor.process, upload.getvalue())\n"
        "print(type(made).__name__)",
        "ProcessedImage",
    ),
    "calendar": (
        "import anyio; from staffbooking_adapters import memory_ports\n"
        "print(anyio.run(memory_ports().calendars.format_feed, 'Mia', []).split()[0].decode())",
        "BEGIN:VCALENDAR",
    ),
    "mail": (
        "from staffbooking_adapters.notify import mails, smtp; print('ready')",
        "ready",
    ),
    "worker": (
        "import anyio; from staffbooking_adapters.webhook.sender import HttpSender\n"
        "async def work():\n"
        "    sender = HttpSender(insecure=True)\n"
        "    print(await sender.send('http://127.0.0.1:9', {}, b'{}', 5))\n"
        "    await sender.close()\n"
        "anyio.run(work)",
        "connection_failed",
    ),
    "client": (
        "import sys; from staffbooking_http.client import AsyncClient, Client\n"
        "print(Client('https://staff.example', 'key') is not None)",
        "True",
    ),
    "http": (SERVE_PAGE, "200 200 404"),
}


@pytest.fixture(scope="module")
def install(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes an environment with the wheel and the given extras."""
    return lambda extras: install_wheel(built.wheel, extras, tmp_path_factory.mktemp("env") / "e")


@pytest.fixture(scope="module")
def base(install: Install) -> Environment:
    """An environment with the wheel and no extra."""
    return install([])


def test_the_base_runs_a_booking(base: Environment) -> None:
    """Without extras `one_booking` of docs/embedding.md runs, and few packages are there."""
    assert base.run_python(ONE_BOOKING).strip() == OUTCOME
    assert base.list_packages() <= BASE_PACKAGES


def test_the_base_has_a_command_of_one_line(base: Environment) -> None:
    """Without the extra `cli` the command prints the line that names it, and fails."""
    ended = base.run("staffbooking", "--version")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"staffbooking: {MissingExtra('cli')}\n"


def test_sqlite_brings_a_database(install: Install, tmp_path: Path) -> None:
    """With `sqlite` alone `one_stored_booking` of docs/embedding.md runs on a file."""
    url = f"sqlite+aiosqlite:///{tmp_path}/embedded.db"
    call = f"print(asyncio.run(one_stored_booking({url!r}, 'k' * 32)))"
    code = ONE_BOOKING.partition("if __name__")[0] + ONE_STORED_BOOKING + call

    assert install(["sqlite"]).run_python(code).strip() == OUTCOME


def test_cli_brings_the_command(install: Install) -> None:
    """With `cli` alone the command says its version, and names the database's extra."""
    environment = install(["cli"])

    assert environment.run("staffbooking", "--version").stdout.startswith("staffbooking ")
    ended = environment.run("staffbooking", "users", "list")
    assert ended.stderr == f"staffbooking: {MissingExtra('sqlite')}\n"


@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_it_is_for(install: Install, extra: str) -> None:
    """With one extra alone, its part of the adapters or of the interface works."""
    code, printed = USES[extra]

    assert install([extra]).run_python(code).strip() == printed


def test_socketio_joins_http(install: Install) -> None:
    """With `http` and `socketio` the channel has Socket.IO too, which asks who is there."""
    assert install(["http", "socketio"]).run_python(SERVE_PAGE).strip() == "200 200 401"


def test_all_brings_every_extra(install: Install) -> None:
    """With `all` every extra but `testing` is there, and neither Faker nor pytest."""
    environment = install(["all"])
    code = (
        "from staffbooking_adapters.extras import EXTRAS, has_extra\n"
        "print(*(name for name in EXTRAS if not has_extra(name)))"
    )

    assert environment.run_python(code).strip() == "testing"
    assert not environment.list_packages() & {"faker", "polyfactory", "pytest"}
    assert environment.run("staffbooking", "doctor", "--help").returncode == 0


def test_each_extra_is_tried() -> None:
    """The tests of this module install every extra but `testing`, which the kit's tests use."""
    assert EXTRAS.keys() == USES.keys() | {"sqlite", "cli", "socketio", "testing"}
