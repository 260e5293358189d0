"""Our notifiers keep the contract of notifiers; the one that writes to the log sends no mail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email.message import EmailMessage

import pytest
from attrs import frozen

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_adapters.notify.mails import Mailbox
from staffbooking_adapters.notify.smtp import SmtpNotifier
from staffbooking_adapters.settings_mail import SmtpServer, SmtpTls
from staffbooking_adapters.testing.notifier import NotifierBench, NotifierContract, ReceivedMail
from tests.support.smtp_server import FakeSmtpServer, never_reply, reply_with, run_smtp_server


@frozen
class _MailServer:
    """A real server's mails; alerts are warnings in the log."""

    server: FakeSmtpServer
    caplog: pytest.LogCaptureFixture

    async def mails(self) -> Sequence[ReceivedMail]:
        return [
            ReceivedMail(to[0], str(mail["Subject"]), _plain_text_of(mail))
            for mail, (_, to) in zip(self.server.mails, self.server.envelopes, strict=True)
        ]

    async def alerts(self) -> Sequence[str]:
        return [
            record.getMessage()
            for record in self.caplog.records
            if record.name == "staffbooking.alerts"
        ]

    async def refuse(self, address: str) -> None:
        self.server.replies_by_recipient[address] = "550 nobody"

    async def fail_next(self) -> None:
        self.server.data_actions.append(reply_with("451 later"))

    async def hang_next(self) -> None:
        self.server.data_actions.append(never_reply)


def _plain_text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


@frozen
class RecordedMails:
    """What the double recorded."""

    notifier: RecordingNotifier

    async def mails(self) -> Sequence[ReceivedMail]:
        return [
            ReceivedMail(email.to, email.subject, f"{email.text}\n{email.url}")
            for email in self.notifier.emails
        ]

    async def alerts(self) -> Sequence[str]:
        return [f"{booking_id}: {text}" for booking_id, text in self.notifier.alerts]

    async def refuse(self, address: str) -> None:
        self.notifier.refused_addresses.add(address)

    async def fail_next(self) -> None:
        self.notifier.errors.append(ConnectionError())

    async def hang_next(self) -> None:
        self.notifier.errors.append(TimeoutError())


class TestSmtpNotifier(NotifierContract):
    @asynccontextmanager
    async def open_bench(self, request: pytest.FixtureRequest) -> AsyncIterator[NotifierBench]:
        async with run_smtp_server() as server:
            notifier = SmtpNotifier(
                SmtpServer("127.0.0.1", server.port, SmtpTls.NEVER),
                Mailbox("Staff booking", "no-reply@book.example"),
                "https://book.example",
                timeout_seconds=0.5,
            )
            try:
                world = _MailServer(server, request.getfixturevalue("caplog"))
                yield NotifierBench(notifier, world)
            finally:
                await notifier.close()


class TestRecordingNotifier(NotifierContract):
    @asynccontextmanager
    async def open_bench(self, _: pytest.FixtureRequest) -> AsyncIterator[NotifierBench]:
        notifier = RecordingNotifier()
        yield NotifierBench(notifier, RecordedMails(notifier))


class TestAlertsOfTheLogNotifier:
    """The notifier that writes to the log sends no mail, but alerts as any other."""

    pytestmark = pytest.mark.anyio
    bench = NotifierContract.bench
    test_an_alert_reaches_the_operators = NotifierContract.test_an_alert_reaches_the_operators

    @asynccontextmanager
    async def open_bench(self, request: pytest.FixtureRequest) -> AsyncIterator[NotifierBench]:
        world = _MailServer(FakeSmtpServer(), request.getfixturevalue("caplog"))
        yield NotifierBench(LogNotifier(), world)
