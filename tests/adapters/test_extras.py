"""A missing extra is one line that names it, wherever it is first needed."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TypeAlias

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from staffbooking_adapters.extras import EXTRAS, MissingExtra, check_extra, has_extra

ROOT = Path(__file__).parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = DECLARED["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()

SQLITE = "sqlite+aiosqlite:///never.db"
SETTINGS = f"""
import anyio
from staffbooking_adapters import open_ports
from staffbooking_adapters.settings import load_settings
async def work(**given):
    given = {{"DATABASE_URL": "{SQLITE}", **given}}
    settings = load_settings({{f"STAFFBOOKING_{{name}}": each for name, each in given.items()}})
    async with open_ports(settings) as ports:
        await ports.webhook_sender.send("https://example.com", {{}}, b"", 1)
async def opened(**given):
    try:
        await work(**given)
    except ImportError as error:
        print(error)
"""


def names_of(extra: str) -> set[str]:
    """The distributions that an extra names, without the platform's own loop."""
    declared: set[str] = {canonicalize_name(Requirement(text).name) for text in OPTIONAL[extra]}
    return declared - {"staffbooking", "uvloop"}


BASE = """
import gc, json, os, pkgutil, sys
import anyio, cattrs, msgspec, staffbooking_adapters.wiring, staffbooking_core
for module in pkgutil.walk_packages(staffbooking_core.__path__, "staffbooking_core."):
    __import__(module.name)
for name in sys.argv[1:]:
    __import__(name)
gc.freeze()
for line in sys.stdin:
    missing, code = json.loads(line)
    if os.fork() == 0:
        sys.stdout.reconfigure(line_buffering=True)
        assert not sys.modules.keys() & {*missing}
        sys.modules |= dict.fromkeys(missing)
        exec(code, {"__name__": "__main__"})
        sys.exit()
    os.wait()
    print(flush=True)
    print("it has ended", flush=True)
"""
"""Loads what is always installed and the modules that it is told, and runs each code in a copy of
this process: they take most of the time of a process that only finds an extra missing."""
DATABASE = "staffbooking_adapters.sql.store"

RunWithout: TypeAlias = Callable[[str, str], str]


@contextmanager
def open_base(*loaded: str) -> Iterator[RunWithout]:
    with subprocess.Popen(
        [sys.executable, "-c", BASE, *loaded],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as base:

        def run(modules: str, code: str) -> str:
            assert base.stdin is not None
            assert base.stdout is not None
            base.stdin.write(json.dumps([modules.split(), code]) + "\n")
            base.stdin.flush()
            return "".join(iter(base.stdout.readline, "it has ended\n"))

        yield run
        base.kill()


@pytest.fixture(scope="module")
def run_without() -> Iterator[RunWithout]:
    """What a code prints in a process in which these modules can't be imported."""
    with open_base() as bare, open_base(DATABASE) as with_database:

        def run(modules: str, code: str) -> str:
            run_in_copy = bare if modules == "sqlalchemy" else with_database
            return run_in_copy(modules, code)

        yield run


def run_alone_without(modules: str, code: str) -> str:
    """The same in a process of its own, which has loaded nothing before."""
    blocked = f"import sys; sys.modules |= dict.fromkeys({modules.split()!r}); "
    ended = subprocess.run(
        [sys.executable, "-c", blocked + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout + ended.stderr


def line_of(extra: str) -> str:
    return f"{EXTRAS[extra].purpose}: pip install 'staffbooking[{extra}]'"


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_modules_of_an_extra_are_those_of_its_packages(extra: str) -> None:
    """The modules by which an extra is recognized come from the packages that it names, and each
    of its packages has one of them."""
    brought = {canonicalize_name(DISTRIBUTIONS[name][0]) for name in EXTRAS[extra].modules}
    included = names_of("worker") if extra == "http" else set()

    assert names_of(extra) <= brought <= names_of(extra) | included


def test_every_extra_is_described() -> None:
    """Each extra of pyproject.toml but `all` has its line, and `all` has each but `testing`."""
    [together] = OPTIONAL["all"]

    assert EXTRAS.keys() == OPTIONAL.keys() - {"all"}
    assert Requirement(together).extras == EXTRAS.keys() - {"testing"}


def test_an_extra_is_checked_without_an_import() -> None:
    """An installed extra is found, and checking it imports none of its modules."""
    check_extra("images")
    code = (
        "from staffbooking_adapters.extras import EXTRAS, has_extra\n"
        "assert all(map(has_extra, EXTRAS)), 'all are installed'\n"
        "print({m for e in EXTRAS.values() for m in e.modules} & sys.modules.keys())"
    )
    assert run_alone_without("", code).strip() == "set()"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is an ImportError of one line, with the command that installs the extra."""
    monkeypatch.setitem(sys.modules, "stripe", None)

    assert not has_extra("stripe")
    with pytest.raises(MissingExtra) as caught:
        check_extra("stripe")
    assert isinstance(caught.value, ImportError)
    assert str(caught.value) == "Stripe payments need: pip install 'staffbooking[stripe]'"


@pytest.mark.parametrize(
    ("extra", "missing", "given"),
    [
        ("sqlite", "aiosqlite", ""),
        ("sqlite", "sqlalchemy", ""),
        ("postgres", "asyncpg", "DATABASE_URL='postgresql+asyncpg://me@127.0.0.1:1/no'"),
        ("redis", "redis", "REDIS_URL='redis://127.0.0.1:1'"),
        ("mail", "aiosmtplib", "SMTP_URL='smtp://127.0.0.1:1', MAIL_FROM='me@example.com'"),
        (
            "stripe",
            "stripe",
            "PAYMENTS='stripe', SECRET_KEY='k' * 32, STRIPE_SECRET_KEY='sk_test_1',"
            " STRIPE_WEBHOOK_SECRET='whsec_1'",
        ),
        ("worker", "aiodns", ""),
    ],
)
def test_ports_name_what_their_settings_need(
    run_without: RunWithout, extra: str, missing: str, given: str, tmp_path: Path
) -> None:
    """Ports that are opened by settings raise the line of the extra that the settings need."""
    code = SETTINGS.replace("///never.db", f"///{tmp_path}/never.db")
    printed = run_without(missing, f"{code}\nanyio.run(lambda: opened({given}))")

    assert printed.strip() == line_of(extra)


@pytest.mark.parametrize("url", [SQLITE, "postgresql+asyncpg://me@127.0.0.1:1/no"])
@pytest.mark.parametrize("call", ["upgrade_schema", "find_schema_problem"])
def test_the_schema_needs_the_databases_extra(run_without: RunWithout, url: str, call: str) -> None:
    """The upgrade and the check of the schema raise the line of the database's extra."""
    code = (
        f"import anyio; from staffbooking_adapters.wiring import {call}\n"
        "from staffbooking_adapters.settings import load_settings\n"
        f"try: anyio.run({call}, load_settings({{'STAFFBOOKING_DATABASE_URL': {url!r}}}))\n"
        "except ImportError as error: print(error)"
    )
    extra = "sqlite" if url == SQLITE else "postgres"
    assert run_without("alembic", code).strip() == line_of(extra)


@pytest.mark.parametrize(
    ("extra", "missing", "code"),
    [
        ("http", "litestar", "from staffbooking_http import create_app"),
        ("http", "multipart", "from staffbooking_http.main import create_app; create_app()"),
        ("client", "httpx", "from staffbooking_http.client import Client"),
        ("testing", "pytest", "import staffbooking_adapters.testing"),
        ("stripe", "httpx", "import staffbooking_adapters.stripe.processor"),
        ("worker", "aiodns", "import staffbooking_adapters.webhook.sender"),
        (
            "images",
            "PIL",
            "import anyio; from staffbooking_adapters import memory_ports; "
            "anyio.run(memory_ports().image_processor.process, b'GIF89a')",
        ),
        (
            "calendar",
            "icalendar",
            "import anyio; from staffbooking_adapters import memory_ports; "
            "anyio.run(memory_ports().calendars.format_feed, 'Mia', [])",
        ),
    ],
)
def test_a_part_names_its_extra_on_first_use(
    run_without: RunWithout, extra: str, missing: str, code: str
) -> None:
    """A part whose package is missing raises the line of its extra when it is first used."""
    printed = run_without(missing, code)

    assert printed.strip().splitlines()[-1] == (
        f"staffbooking_adapters.extras.MissingExtra: {line_of(extra)}"
    )


@pytest.mark.parametrize(
    ("extra", "missing", "arguments"),
    [
        ("cli", "typer", ["--version"]),
        ("http", "uvicorn", ["serve"]),
        ("http", "litestar", ["openapi"]),
        ("images", "PIL", ["demo"]),
        ("sqlite", "aiosqlite", ["users", "list"]),
    ],
)
def test_the_command_line_prints_the_line_alone(
    run_without: RunWithout, extra: str, missing: str, arguments: list[str]
) -> None:
    """A command whose extra is missing prints its line, without a traceback."""
    command = f"import sys; sys.argv = ['staffbooking', *{arguments!r}]"
    code = f"{command}; from staffbooking_cli.main import main; main()"

    assert run_without(missing, code).strip() == f"staffbooking: {line_of(extra)}"


def test_without_socketio_the_channel_has_websockets(run_without: RunWithout) -> None:
    """The application without Socket.IO says so in its log, has no address for it, and opens."""
    code = (
        "import anyio, logging; logging.basicConfig(level=20, format='%(message)s')\n"
        "from litestar.testing import AsyncTestClient\n"
        "from staffbooking_adapters import memory_ports; from staffbooking_http import create_app\n"
        "async def work():\n"
        "    async with AsyncTestClient(create_app(memory_ports())) as client:\n"
        "        for path in ('/socket.io/?EIO=4&transport=polling', '/ws'):\n"
        "            print((await client.get(path)).status_code)\n"
        "anyio.run(work)"
    )
    printed = run_without("socketio", code).splitlines()

    assert line_of("socketio") in printed
    assert [line for line in printed if line.isdigit()] == ["404", "426"]


def test_the_base_needs_nothing_that_windows_lacks() -> None:
    """A booking in memory runs without the modules that only POSIX systems have."""
    page = (ROOT / "docs/embedding.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    posix = "fcntl grp pty pwd readline resource syslog termios tty uvloop"

    assert f"It prints `{run_alone_without(posix, chr(10) + program).strip()}`" in page
