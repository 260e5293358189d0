"""The composition root: which adapters the settings select."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception_only
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisPubSubTransport
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.fake.sandbox import FakeSandbox
from staffbooking_adapters.files.local import WriteProblem
from staffbooking_adapters.memory.doubles import RecordingNotifier, VirtualClock
from staffbooking_adapters.settings import Settings, SettingsError, load_settings
from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport
from staffbooking_adapters.stripe.processor import StripeProcessor
from staffbooking_adapters.system import SandboxClock, SystemClock
from staffbooking_core.domain.messaging.conversations import ContentFindings
from staffbooking_core.domain.payments.payees import OpenPayee
from staffbooking_core.domain.payments.processor import OperationKey, OperationKind
from staffbooking_core.errors import FilesUnavailable, StoreUnavailable
from staffbooking_core.policy import Policy
from staffbooking_core.usecases import health
from tests.stripe_stub import open_stub

pytestmark = pytest.mark.anyio

STRIPE = {
    "PAYMENTS": "stripe",
    "SECRET_KEY": "a-secret-of-the-deployment",
    "STRIPE_SECRET_KEY": "sk_test_51Abc",
    "STRIPE_WEBHOOK_SECRET": "whsec_one",
}
POSTGRES = {"DATABASE_URL": "postgresql+asyncpg://app@127.0.0.1:1/nowhere"}
REDIS = {"REDIS_URL": "redis://127.0.0.1:1"}


@pytest.fixture
def database_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of a database with the schema."""
    shutil.copy(migrated_file, tmp_path / "test.db")
    return f"sqlite+aiosqlite:///{tmp_path}/test.db"


def settings(url: str, **values: str) -> Settings:
    given = {"DATABASE_URL": url, **values}
    return load_settings({f"STAFFBOOKING_{name}": value for name, value in given.items()})


async def test_by_default_the_processor_is_fake(database_url: str) -> None:
    """By default the fake processor is used, with a sandbox and a clock that can be advanced."""
    async with wiring.open_ports(settings(database_url)) as ports:
        assert isinstance(ports.payments, FakeProcessor)
        assert isinstance(ports.sandbox, FakeSandbox)
        assert isinstance(ports.clock, SandboxClock)


@pytest.mark.parametrize(("given", "ready"), [("auto", True), ("manual", False)])
async def test_fake_payees_are_ready_or_manual(database_url: str, given: str, ready: bool) -> None:
    """With FAKE_PAYEES=manual a new payee must complete a page first."""
    command = OpenPayee(7, "mia@example.com", "Mia Lindqvist", "US", "usd")
    async with wiring.open_ports(settings(database_url, FAKE_PAYEES=given)) as ports:
        opened = await ports.payments.open_payee(
            command, OperationKey(0, 7, OperationKind.OPEN_PAYEE, 1), 5
        )

    assert opened.ready is ready


async def test_stripe_has_no_sandbox(database_url: str) -> None:
    """With Stripe there is no sandbox, and business time is the system's."""
    async with wiring.open_ports(settings(database_url, **STRIPE)) as ports:
        assert isinstance(ports.payments, StripeProcessor)
        assert ports.sandbox is None
        assert type(ports.clock) is SystemClock


async def test_stripe_gets_its_settings(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, environment, URLs and currency are passed to the processor, which is closed at the
    end."""
    made: list[Any] = []

    class Recording(StripeProcessor):
        def __init__(self, *positional: Any, **named: Any) -> None:
            super().__init__(*positional, **named)
            made.append((positional, named))

        async def close(self) -> None:
            await super().close()
            made.append("closed")

    monkeypatch.setattr("staffbooking_adapters.stripe.processor.StripeProcessor", Recording)
    stub = {"STRIPE_API_BASE": "http://127.0.0.1:4242", "ENVIRONMENT": "eu", "CURRENCY": "EUR"}
    async with wiring.open_ports(settings(database_url, **STRIPE, **stub)):
        [(positional, named)] = made

    assert positional == ("sk_test_51Abc", ("whsec_one",), "eu")
    assert named == {
        "base_url": "http://127.0.0.1:8000",
        "currency": "eur",
        "base_addresses": {"api": "http://127.0.0.1:4242"},
    }
    assert made[1:] == ["closed"]


async def test_the_stripe_api_base_is_used(database_url: str) -> None:
    """With STRIPE_API_BASE the composed processor calls the tests' stub."""
    async with open_stub(lambda: datetime.now(UTC)) as stub:
        stubbed = {"STRIPE_SECRET_KEY": stub.api_key, "STRIPE_API_BASE": stub.url}
        async with wiring.open_ports(settings(database_url, **{**STRIPE, **stubbed})) as ports:
            key, *_ = await ports.payments.checkup(10)

    assert (key.name, key.ok) == ("key", True)


async def test_the_sender_is_created_on_first_use(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The webhook sender is created on first use with the setting for insecure URLs, reused, and
    closed at the end."""
    made: list[Any] = []

    class Recording:
        def __init__(self, **named: Any) -> None:
            made.append(named)

        async def send(self, *given: Any) -> int:
            made.append(given)
            return 204

        async def resolves_to_unsafe(self, host: str) -> bool:
            return host == "metadata.internal"

        async def close(self) -> None:
            made.append("closed")

    monkeypatch.setattr("staffbooking_adapters.webhook.sender.HttpSender", Recording)
    async with wiring.open_ports(settings(database_url)):
        pass
    assert made == []

    async with wiring.open_ports(settings(database_url, WEBHOOK_ALLOW_INSECURE="1")) as ports:
        assert await ports.webhook_sender.send("http://127.0.0.1:9", {"a": "b"}, b"{}", 10) == 204
        assert await ports.webhook_sender.resolves_to_unsafe("metadata.internal")
        assert not await ports.webhook_sender.resolves_to_unsafe("crm.example")

    assert made == [{"insecure": True}, ("http://127.0.0.1:9", {"a": "b"}, b"{}", 10), "closed"]


@pytest.mark.parametrize(
    ("is_long_running", "late"),
    [
        (False, {"aiohttp", "aiodns", "cryptography", "redis", "PIL"}),
        (True, {"aiodns", "aiohttp", "asyncpg", "cryptography", "stripe", "yarl"}),
    ],
    ids=["command", "server or worker"],
)
async def test_unused_ports_load_no_library(
    database_url: str, is_long_running: bool, late: set[str]
) -> None:
    """Ports that are opened but not used load no library for webhooks, seals, images or
    broadcasts; those of a long-running process on SQLite load none for webhooks and calendars."""
    environ = {"STAFFBOOKING_DATABASE_URL": database_url}
    if not is_long_running:
        environ["STAFFBOOKING_REDIS_URL"] = "redis://127.0.0.1:1"
    code = f"""
import sys, anyio
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports

async def work():
    async with open_ports(load_settings({environ!r}), is_long_running={is_long_running}):
        sys.exit(" ".join({late!r} & sys.modules.keys()))

anyio.run(work)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stderr.strip() == ""


@pytest.mark.parametrize(
    ("given", "wire"),
    [
        ({}, None),
        (POSTGRES, PostgresPubSubTransport),
        (REDIS, RedisPubSubTransport),
        (POSTGRES | REDIS, RedisPubSubTransport),
    ],
    ids=["sqlite", "postgresql", "redis", "postgresql and redis"],
)
async def test_the_transport_of_broadcasts_follows_the_settings(
    database_url: str, given: dict[str, str], wire: type | None
) -> None:
    """Broadcasts use Redis if it is set, otherwise PostgreSQL; with SQLite they stay in the
    process."""
    async with wiring.open_ports(settings(database_url, **given), is_long_running=True) as ports:
        if wire is None:
            assert type(ports.pubsub) is LocalChat
        else:
            assert type(vars(ports.pubsub)["_transport"]) is wire


async def test_blocked_terms_are_the_deployments(database_url: str) -> None:
    """The content filter finds default terms, the deployment's terms and contact details."""
    given = settings(database_url, BLOCKED_TERMS="zeppelin")
    async with wiring.open_ports(given, is_long_running=True) as ports:
        assert (await ports.content_filter.scan("Come by zeppelin")).has_blocked_term
        assert (await ports.content_filter.scan("Write to ada@example.com")).has_contact
        assert await ports.content_filter.scan("See you at eight") == ContentFindings()


async def test_hints_and_seals_belong_to_the_deployment(database_url: str) -> None:
    """Hints are the store's, and a seal opens with later ports of the same settings."""
    async with wiring.open_ports(settings(database_url)) as ports:
        sealed = ports.vault.seal("webhook", b"hush", 7)
        assert ports.hints is ports.store.hints  # type: ignore[attr-defined]

    async with wiring.open_ports(settings(database_url)) as ports:
        assert ports.vault.open("webhook", sealed, 7) == b"hush"


# Files ----------------------------------------------------------------------------------


async def test_files_are_next_to_the_database(database_url: str, tmp_path: Path) -> None:
    """By default files are in a folder next to the database file, created with the first file."""
    async with wiring.open_ports(settings(database_url), is_long_running=True) as ports:
        assert not (tmp_path / "test.db-files").exists()
        await ports.files.put("a.jpg", b"some")
    assert (tmp_path / "test.db-files" / "a.jpg").read_bytes() == b"some"


async def test_files_are_in_the_configured_folder(database_url: str, tmp_path: Path) -> None:
    """FILES_DIR selects the files folder."""
    given = settings(database_url, FILES_DIR=f"{tmp_path}/elsewhere/images")
    async with wiring.open_ports(given) as ports:
        await ports.files.put("a.jpg", b"some")
    assert (tmp_path / "elsewhere/images/a.jpg").read_bytes() == b"some"


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("sqlite+aiosqlite:///rel/x.db", "rel/x.db-files"),
        ("sqlite+aiosqlite:////abs/x.db?timeout=5", "/abs/x.db-files"),
        (POSTGRES["DATABASE_URL"], "staffbooking-files"),
    ],
)
async def test_each_database_has_its_folder(url: str, folder: str) -> None:
    """The files folder is next to a SQLite file, and in the working directory for other
    databases."""
    assert settings(url).files_folder == Path(folder)


async def test_an_unwritable_folder_stops_the_start(database_url: str, tmp_path: Path) -> None:
    """A long-running process reports the setting; other commands continue."""
    (tmp_path / "file").write_text("in the way")
    given = settings(database_url, FILES_DIR=f"{tmp_path}/file/images")
    with pytest.raises(SettingsError) as caught:
        async with wiring.open_ports(given, is_long_running=True):
            pass
    wrong = f"nothing can be written to {tmp_path / 'file'}: Not a directory"
    assert str(caught.value) == f"STAFFBOOKING_FILES_DIR can't be used: {wrong}"
    assert wiring.find_files_problem(given) == WriteProblem(wrong, is_disk_fault=False)
    async with wiring.open_ports(given) as ports:
        await health.check_readiness(ports)


async def test_a_read_only_disk_may_pass(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only disk raises FilesUnavailable in a long-running process, which then waits as it
    does for its database."""

    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", read_only)
    given = settings(database_url, FILES_DIR=f"{tmp_path}")
    with pytest.raises(FilesUnavailable) as caught:
        async with wiring.open_ports(given, is_long_running=True):
            pass
    reason = f"nothing can be written to {tmp_path}: Read-only file system"
    assert caught.value.reason == reason


async def test_given_adapters_replace_those_of_the_settings(database_url: str) -> None:
    """Given adapters are in the ports; the fake processor follows a given clock."""
    clock, notifier = VirtualClock(datetime(2030, 5, 1, tzinfo=UTC)), RecordingNotifier()
    async with wiring.open_ports(settings(database_url), clock=clock, notifier=notifier) as ports:
        assert (ports.clock, ports.notifier) == (clock, notifier)
        assert vars(ports.payments)["_clock"] is clock


async def test_given_payments_have_no_sandbox(database_url: str) -> None:
    """With payments of its own, a deployment has no sandbox and the real clock; a policy with a
    sandbox is refused."""
    mine = wiring.memory_ports().payments
    async with wiring.sql_ports(database_url, secret_keys=["k" * 32], payments=mine) as ports:
        assert (ports.payments, ports.sandbox, ports.policy.sandbox) == (mine, None, False)
        assert type(ports.clock) is SystemClock
    with pytest.raises(SettingsError, match="STAFFBOOKING_SANDBOX requires fake payments"):
        async with wiring.sql_ports(
            database_url, secret_keys=["k" * 32], policy=Policy(), payments=mine
        ):
            pass
    assert wiring.memory_ports(payments=mine).sandbox is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("store", "can't be replaced on a database: store"),
        ("admission", "can't be replaced on a database: admission"),
        ("hints", "can't be replaced on a database: hints"),
        ("notifer", "no ports that can be replaced: notifer"),
    ],
)
async def test_what_the_database_gives_is_not_replaced(name: str, reason: str) -> None:
    """The ports of the database can't be replaced, nor names that are no ports."""
    given: dict[str, Any] = {name: object()}
    with pytest.raises(TypeError, match=reason):
        async with wiring.open_ports(settings("sqlite+aiosqlite:///never.db"), **given):
            pass


@pytest.mark.parametrize(
    ("url", "keys", "message"),
    [
        ("sqlite:///file.db", ["k" * 32], "the URL must be sqlite"),
        ("postgresql://user@host/name", ["k" * 32], "the URL must be sqlite"),
        ("sqlite+aiosqlite:///file.db", "k" * 32, "a list"),
        ("sqlite+aiosqlite:///file.db", [], "one or more keys"),
        ("sqlite+aiosqlite:///file.db", [""], "one or more keys"),
    ],
)
async def test_sql_ports_check_their_arguments(url: str, keys: Any, message: str) -> None:
    """A URL of another kind and a missing key are refused before anything is opened."""
    with pytest.raises(ValueError, match=message):
        async with wiring.sql_ports(url, secret_keys=keys, migrate=True):
            pass


async def test_a_traceback_says_why_the_database_cannot_be_used(tmp_path: Path) -> None:
    """The last lines of a traceback have the message for visitors and the reason for embedders."""
    path = tmp_path / "missing" / "x.db"
    with pytest.raises(StoreUnavailable) as refused:
        async with wiring.sql_ports(f"sqlite+aiosqlite:///{path}", secret_keys=["k" * 32]):
            pass
    assert str(refused.value) == "The service is temporarily unavailable"
    assert f"cannot open {path}: unable to" in "".join(format_exception_only(refused.value))


async def test_memory_ports_have_the_clock_that_is_asked_for() -> None:
    """Ports in memory have the system's clock, or one that stands still at the given time, which is
    read in UTC."""
    now = datetime(2030, 5, 1, tzinfo=ZoneInfo("Europe/Lisbon"))

    assert isinstance(wiring.memory_ports().clock, SandboxClock)
    standing = wiring.memory_ports(now=now).clock.wall()
    assert (standing, standing.tzinfo) == (now, UTC)
    with pytest.raises(TypeError, match="notifer"):
        wiring.memory_ports(notifer=RecordingNotifier())  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "openings",
    ["from staffbooking_core import errors", "from staffbooking_adapters import __path__"],
)
def test_openings_are_imported_on_first_use(openings: str) -> None:
    """The packages import neither the use-cases nor an adapter until an opening is asked for."""
    heavy = {"staffbooking_core.usecases", "staffbooking_adapters.wiring", "sqlalchemy", "anyio"}
    code = f"import sys; {openings}; sys.exit(' '.join({heavy!r} & sys.modules.keys()))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stderr.strip() == ""
