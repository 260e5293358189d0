"""From the outbox to the mail server: delivery despite crashes and errors."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve

from staffbooking_adapters import wiring
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.system import SystemIds
from staffbooking_adapters.testing.builders import NOW, POLICY, SECOND, add_user
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_adapters.testing.store import StoreOpener
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.errors import NotificationsGivenUp
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.notifications import notifications
from tests.support.memory_deployment import memory_ports
from tests.support.smtp_server import FakeSmtpServer, abort_after_data, reply_with, run_smtp_server

pytestmark = pytest.mark.anyio

MANY = 24


def settings(url: str, server: FakeSmtpServer | None = None) -> Settings:
    given = {"STAFFBOOKING_DATABASE_URL": url}
    if server is not None:
        given["STAFFBOOKING_SMTP_URL"] = f"smtp://127.0.0.1:{server.port}"
    return load_settings(given)


@asynccontextmanager
async def workers(
    store: object, server: FakeSmtpServer, number: int = 1
) -> AsyncIterator[list[Ports]]:
    """Worker processes on one store, each with its own notifier."""
    clock = VirtualClock(NOW)
    made = [
        wiring._LazyNotifier(settings("sqlite+aiosqlite:///unused.db", server))
        for _ in range(number)
    ]
    try:
        yield [
            memory_ports(store=store, notifier=notifier, clock=clock, ids=SystemIds())
            for notifier in made
        ]
    finally:
        for notifier in made:
            await notifier.close()


def pass_time(ports: Ports, by: object) -> None:
    ports.clock.advance(by)  # type: ignore[attr-defined]


async def add(store: object, *subjects: str) -> None:
    """Creates the user Ada with these notifications due."""
    user = await add_user(store, email="ada@example.com")  # type: ignore[arg-type]
    for subject in subjects:
        await add_notification(store, make_notification(user.id, subject=subject))  # type: ignore[arg-type]


def subjects(server: FakeSmtpServer) -> list[str]:
    return [str(mail["Subject"]) for mail in server.mails]


async def test_each_mail_is_sent_once(each_store: object) -> None:
    """On each store mails are sent once over one connection, and the outbox is empty afterwards."""
    await add(each_store, "one", "two")
    async with run_smtp_server() as server, workers(each_store, server) as [ports]:
        assert await notifications.send_notifications(ports) == 2
        pass_time(ports, POLICY.notification_retry_delays[-1])
        assert await notifications.send_notifications(ports) == 0
    assert subjects(server) == ["one", "two"]
    assert len(server.connections) == 1


async def test_workers_share_the_mails(each_store: object) -> None:
    """With several workers each mail is sent once."""
    names = [f"No. {n:02}" for n in range(MANY)]
    await add(each_store, *names)
    async with run_smtp_server() as server, workers(each_store, server, 3) as three:
        sent_counts = await asyncio.gather(
            *(notifications.send_notifications(each, MANY) for each in three)
        )
        assert sum(sent_counts) == MANY
    assert sorted(subjects(server)) == names


async def test_a_mail_sent_again_has_the_same_message_id(each_store: object) -> None:
    """A mail that was sent by a worker killed before recording it is sent again with the same
    Message-ID."""
    await add(each_store, "one")
    async with run_smtp_server() as server, workers(each_store, server, 2) as [first, second]:

        class Killed(BaseException):
            """Simulates that the process was killed."""

        class Dying:
            async def alert_operators(self, booking_id: int, text: str) -> None: ...
            async def send_email(self, letter: object) -> None:
                await first.notifier.send_email(letter)  # type: ignore[arg-type]
                raise Killed

        with pytest.raises(Killed):
            await notifications.send_notifications(evolve(first, notifier=Dying()))
        assert await notifications.send_notifications(second) == 0
        pass_time(second, POLICY.mail_timeout + POLICY.lease_duration)
        assert await notifications.send_notifications(second) == 1
        assert await notifications.send_notifications(second) == 0
    assert [str(mail["Message-ID"]) for mail in server.mails] == [
        str(server.mails[0]["Message-ID"])
    ] * 2


async def test_a_temporarily_refused_mail_is_retried(each_store: object) -> None:
    """A mail that was refused temporarily or cut off is retried after its delay, without delaying
    others."""
    await add(each_store, "one", "two", "three")
    async with run_smtp_server() as server, workers(each_store, server) as [ports]:
        server.data_actions = [reply_with("451 later"), abort_after_data]
        assert await notifications.send_notifications(ports) == 3
        assert subjects(server) == ["three"]
        pass_time(ports, POLICY.notification_retry_delays[0] - SECOND)
        assert await notifications.send_notifications(ports) == 0
        pass_time(ports, SECOND)
        assert await notifications.send_notifications(ports) == 2
    assert sorted(subjects(server)) == ["one", "three", "two"]


async def test_an_undeliverable_mail_is_given_up(each_store: object) -> None:
    """An undeliverable mail is given up and reported at once; others are sent."""
    await add(each_store, "one")
    sam = await add_user(each_store, email="sam@example.com")  # type: ignore[arg-type]
    await add_notification(each_store, make_notification(sam.id, subject="two"))  # type: ignore[arg-type]
    async with run_smtp_server() as server, workers(each_store, server) as [ports]:
        server.replies_by_recipient = {"ada@example.com": "550 no such user"}
        with pytest.raises(NotificationsGivenUp) as raised:
            await notifications.send_notifications(ports)
        assert [*map(str, raised.value.faults)] == ["the server refused the recipient (550)"]
        server.replies_by_recipient = {}
        pass_time(ports, POLICY.notification_retry_delays[-1])
        assert await notifications.send_notifications(ports) == 0
    assert subjects(server) == ["two"]


async def test_a_notification_of_another_version_does_not_block_others(each_store: object) -> None:
    """A notification that this version can't read waits, and the others are sent."""
    await add(each_store)
    bad = make_notification(kind="of_tomorrow", subject="bad")
    await add_notification(each_store, bad, NOW - SECOND)  # type: ignore[arg-type]
    await add_notification(each_store, make_notification(subject="good"))  # type: ignore[arg-type]
    async with run_smtp_server() as server, workers(each_store, server) as [ports]:
        assert await notifications.send_notifications(ports) == 2
        assert subjects(server) == ["good"]
        assert await notifications.send_notifications(ports) == 0
        pass_time(ports, POLICY.notification_retry_delays[0])
        assert await notifications.send_notifications(ports) == 1


async def test_ports_from_settings_send_mail(migrated_file: Path, tmp_path: Path) -> None:
    """Ports from settings send the outbox through the configured server, with links to the base
    URL."""
    url = f"sqlite+aiosqlite:///{shutil.copy(migrated_file, tmp_path)}"
    async with run_smtp_server() as server, wiring.open_ports(settings(url, server)) as ports:
        user = await add_user(ports.store, email="ada@example.com")
        notification = make_notification(user.id, kind=NotificationKind.PAYOUT)
        await add_notification(ports.store, notification, ports.clock.wall())
        assert await notifications.send_notifications(ports) == 1
    [mail] = server.mails
    assert str(mail["From"]) == "Staff booking <staffbooking@localhost>"
    unsubscribing = str(mail["List-Unsubscribe"]).strip("<>")
    assert unsubscribing.startswith("http://127.0.0.1:8000/notifications/unsubscribe/")


def test_the_composition_root_loads_no_mail_library() -> None:
    """Importing the composition root loads neither aiosmtplib nor jinja2."""
    script = "import sys; import staffbooking_adapters.wiring; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"aiosmtplib", "jinja2", "email.message"} & {*loaded} <= {"email.message"}


@pytest.fixture
async def each_store(opener: StoreOpener, request: pytest.FixtureRequest) -> AsyncIterator[object]:
    async with opener(request) as store:
        yield store
