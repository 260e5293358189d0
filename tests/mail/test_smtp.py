"""Sending mail through a real local server, which may misbehave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import anyio.abc
import pytest
import trustme
from aiosmtpd.smtp import SMTP

from staffbooking_adapters.notify import smtp
from staffbooking_adapters.notify.mails import Mailbox
from staffbooking_adapters.notify.smtp import EmailNotSent, SmtpNotifier
from staffbooking_adapters.settings_mail import SmtpServer, SmtpTls
from staffbooking_adapters.testing.builders_notifications import make_email
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import UndeliverableEmail
from tests.support.smtp_server import (
    FakeSmtpServer,
    abort_after_data,
    abort_connection,
    never_reply,
    reply_with,
    run_smtp_server,
)
from tests.support.tls import client_tls_context, server_tls_context

pytestmark = pytest.mark.anyio

AUTHORITY = trustme.CA()
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)


@asynccontextmanager
async def notifier(
    server: FakeSmtpServer,
    tls: SmtpTls = SmtpTls.NEVER,
    *,
    host: str = "127.0.0.1",
    deadline: float = 5.0,
    login: tuple[str, str] | None = None,
) -> AsyncIterator[SmtpNotifier]:
    """A notifier that sends through a server."""
    username, password = login or (None, None)
    made = SmtpNotifier(
        SmtpServer(host, server.port, tls, username, password),
        Mailbox("Staff booking", "no-reply@book.example"),
        "https://book.example",
        timeout_seconds=deadline,
        tls=client_tls_context(AUTHORITY),
        now=lambda: NOW,
    )
    try:
        yield made
    finally:
        await made.close()


async def test_a_mail_has_the_expected_headers() -> None:
    """The mail has the headers of automatic mail, the sender and the recipient."""
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(make_email(subject="Booking accepted"))
    [mail] = server.mails
    assert server.envelopes == [("no-reply@book.example", ["ada@example.com"])]
    assert str(mail["From"]) == "Staff booking <no-reply@book.example>"
    assert str(mail["To"]) == "Ada Okoro <ada@example.com>"
    assert str(mail["Subject"]) == "Booking accepted"
    assert mail["Date"].datetime == NOW
    assert str(mail["Auto-Submitted"]) == "auto-generated"
    assert "List-Unsubscribe" not in mail
    assert "Reply-To" not in mail


async def test_mails_share_a_connection() -> None:
    """Mails reuse one connection."""
    async with run_smtp_server() as server, notifier(server) as client:
        for number in range(3):
            await client.send_email(make_email(notice_id=number))
    assert (len(server.mails), len(server.connections)) == (3, 1)


async def test_a_closed_connection_is_reopened() -> None:
    """A connection closed by the server is reopened without losing a mail."""
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(make_email())
        abort_connection(server.connections[0])
        await client.send_email(make_email(notice_id=8))
    assert (len(server.mails), len(server.connections)) == (2, 2)


async def test_a_silently_dropped_connection_is_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A silently dropped connection is reopened without losing a mail."""
    monkeypatch.setattr(smtp, "KEEPALIVE_TIMEOUT_SECONDS", 0.05)
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(make_email())
        server.silent_connections = server.connections[:]
        await client.send_email(make_email(notice_id=8))
    assert (len(server.mails), len(server.connections)) == (2, 2)


async def test_the_same_notification_has_the_same_message_id() -> None:
    """The Message-ID is the same for a repeated notification, and differs by id and text."""
    async with run_smtp_server() as server, notifier(server) as client:
        for number in (7, 7, 8):
            await client.send_email(make_email(notice_id=number, url=f"https://book.example/{NOW}"))
        await client.send_email(make_email(notice_id=8, text="Something else."))
    ids = [str(mail["Message-ID"]) for mail in server.mails]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert all(each.endswith("@book.example>") for each in ids)


@pytest.mark.parametrize("tls", [SmtpTls.STARTTLS, SmtpTls.IMPLICIT])
async def test_mails_are_sent_over_tls(tls: SmtpTls) -> None:
    """TLS is used from the start or by STARTTLS, before signing in."""
    context = server_tls_context(AUTHORITY, "localhost")
    tls_options = {"starttls" if tls is SmtpTls.STARTTLS else "implicit_tls": context}
    login = ("books", "hush: it's secret")
    async with (
        run_smtp_server(**tls_options, requires_login=True) as server,  # type: ignore[arg-type]
        notifier(server, tls, host="localhost", login=login) as client,
    ):
        await client.send_email(make_email())
    assert server.is_encrypted == [True]
    assert server.credentials == [login]


@pytest.mark.parametrize("tls", [SmtpTls.STARTTLS, SmtpTls.IMPLICIT])
async def test_a_server_needs_a_valid_certificate(tls: SmtpTls) -> None:
    """Nothing is sent to a server with a wrong certificate or without TLS."""
    context = server_tls_context(AUTHORITY, "elsewhere.example")
    tls_options = {"starttls" if tls is SmtpTls.STARTTLS else "implicit_tls": context}
    async with (
        run_smtp_server(**tls_options) as other,  # type: ignore[arg-type]
        notifier(other, tls, host="localhost") as client,
    ):
        with pytest.raises(EmailNotSent):
            await client.send_email(make_email())
    async with run_smtp_server() as server, notifier(server, tls, host="localhost") as client:
        with pytest.raises(EmailNotSent):
            await client.send_email(make_email())
    assert server.mails == other.mails == []


async def test_a_wrong_password_is_not_in_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong password raises EmailNotSent, and neither error nor log contains it."""
    login = ("books", "wrong-hush")
    async with (
        run_smtp_server(requires_login=True) as server,
        notifier(server, login=login) as client,
    ):
        with pytest.raises(EmailNotSent, match=r"SMTPAuthenticationError \(535\)") as raised:
            await client.send_email(make_email())
    assert "hush" not in caplog.text + repr(raised.value)


async def test_a_refused_recipient_is_undeliverable() -> None:
    """A recipient refused with 5xx is undeliverable, with 4xx not sent; neither error contains the
    address, and the next mail is sent."""
    async with run_smtp_server() as server, notifier(server) as client:
        server.replies_by_recipient = {
            "gone@example.com": "550 gone@example.com is nobody",
            "full@example.com": "452 full@example.com has no room",
        }
        with pytest.raises(UndeliverableEmail, match=r"refused the recipient \(550\)$"):
            await client.send_email(make_email(to="gone@example.com"))
        with pytest.raises(EmailNotSent, match=r"refused for now \(452\)$"):
            await client.send_email(make_email(to="full@example.com"))
        await client.send_email(make_email())
    assert len(server.mails) == 1
    assert len(server.connections) == 1


@pytest.mark.parametrize("said", ["451 later", "554 no"])
async def test_a_mail_that_is_refused_is_tried_again(said: str) -> None:
    """A mail whose content is refused raises EmailNotSent, and the next one is sent."""
    async with run_smtp_server() as server, notifier(server) as client:
        server.data_actions = [reply_with(said)]
        with pytest.raises(EmailNotSent, match=rf"SMTPDataError \({said[:3]}\)"):
            await client.send_email(make_email())
        await client.send_email(make_email())
    assert len(server.mails) == 1


async def test_a_mail_cut_off_by_the_server_is_not_sent() -> None:
    """A mail cut off by the server raises EmailNotSent, and the next one uses a new connection."""
    async with run_smtp_server() as server, notifier(server) as client:
        server.data_actions = [abort_after_data]
        with pytest.raises(EmailNotSent, match="SMTPServerDisconnected"):
            await client.send_email(make_email())
        await client.send_email(make_email())
    assert (len(server.mails), len(server.connections)) == (1, 2)


async def test_a_mail_times_out(caplog: pytest.LogCaptureFixture) -> None:
    """A mail ends at its timeout, and the next one uses a new connection."""
    async with run_smtp_server() as server, notifier(server, deadline=0.2) as client:
        server.data_actions = [never_reply]
        with pytest.raises(EmailNotSent, match="TimeoutError"):
            await client.send_email(make_email())
        await client.send_email(make_email(notice_id=8))
    assert (len(server.mails), len(server.connections)) == (1, 2)
    assert "notice 7 was not sent: " in caplog.text


async def test_an_unreachable_server_is_a_temporary_error() -> None:
    """An unreachable server raises EmailNotSent."""
    async with run_smtp_server() as server:
        pass
    async with notifier(server) as client:
        with pytest.raises(EmailNotSent, match="SMTPConnectError"):
            await client.send_email(make_email())


async def test_a_server_that_takes_mail_has_no_problem() -> None:
    """The check signs in, sends nothing, and closes the connection."""
    login = ("books", "hush: it's secret")
    async with (
        run_smtp_server(requires_login=True) as server,
        notifier(server, login=login) as client,
    ):
        assert await client.find_problem() is None
    assert (server.mails, server.credentials) == ([], [login])


async def test_a_wrong_password_is_a_problem() -> None:
    """The check of a server that refuses the credentials says so without the password."""
    async with (
        run_smtp_server(requires_login=True) as server,
        notifier(server, login=("books", "wrong-hush")) as client,
    ):
        problem = await client.find_problem()
    assert problem is not None
    assert problem.startswith("cannot connect: ")
    assert ("535" in problem, "hush" in problem) == (True, False)


async def test_a_server_without_an_answer_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a server that does not answer ends at its time limit."""
    monkeypatch.setattr(smtp, "CHECK_TIMEOUT_SECONDS", 0.05)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as silent:
        server = FakeSmtpServer()
        server.port = silent.extra(anyio.abc.SocketAttribute.local_port)
        async with notifier(server) as client:
            assert await client.find_problem() == "cannot connect: no response"


async def test_a_cancelled_mail_closes_its_connection() -> None:
    """After a cancelled mail the next one uses a new connection."""
    async with run_smtp_server() as server, notifier(server) as client:
        begun = asyncio.Event()

        async def begin(connection: SMTP) -> str:
            begun.set()
            return await never_reply(connection)

        server.data_actions = [begin]
        sending = asyncio.create_task(client.send_email(make_email()))
        await begun.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await client.send_email(make_email())
    assert (len(server.mails), len(server.connections)) == (1, 2)


async def test_a_cancelled_close_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close that is cancelled before the server confirms QUIT closes the connection."""
    monkeypatch.setattr(
        FakeSmtpServer, "handle_QUIT", lambda _, smtp, *__: never_reply(smtp), raising=False
    )
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(make_email())
        connection = client._client
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.close()
    assert connection is not None
    assert not connection.is_connected


async def test_an_international_address_is_sent_to() -> None:
    """An international address is sent to if the server supports SMTPUTF8; its domain is in
    ASCII."""
    email = make_email(to="j\xfcrgen@b\xfccher.example", name="J\xfcrgen M\xfcller")
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(email)
        await client.send_email(make_email(to="ada@b\xfccher.example"))
    assert [to for _, to in server.envelopes] == [
        ["j\xfcrgen@xn--bcher-kva.example"],
        ["ada@xn--bcher-kva.example"],
    ]
    name = server.mails[0]["To"].addresses[0].display_name
    assert name.encode("utf-8", "surrogateescape").decode() == "J\xfcrgen M\xfcller"


async def test_an_international_address_needs_smtputf8() -> None:
    """An international address is undeliverable without SMTPUTF8."""
    async with run_smtp_server(supports_smtputf8=False) as server, notifier(server) as client:
        with pytest.raises(UndeliverableEmail, match="can't send to this address"):
            await client.send_email(make_email(to="j\xfcrgen@example.com"))
        await client.send_email(make_email(name="J\xfcrgen"))
    assert len(server.mails) == 1


async def test_an_optional_mail_has_the_one_click_headers() -> None:
    """An optional mail has the one-click unsubscribe headers (RFC 8058)."""
    url = "https://book.example/notifications/unsubscribe/1.payout.x"
    email = make_email(kind=NotificationKind.PAYOUT, unsubscribe_url=url)
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(email)
    [mail] = server.mails
    assert str(mail["List-Unsubscribe"]) == f"<{url}>"
    assert str(mail["List-Unsubscribe-Post"]) == "List-Unsubscribe=One-Click"


async def test_the_log_has_no_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log line has neither text nor link nor address."""
    caplog.set_level(logging.INFO, "staffbooking.notices")
    email = make_email(text="hush", url="https://x/hush", to="hush@example.com")
    async with run_smtp_server() as server, notifier(server) as client:
        await client.send_email(email)
    # The test's own mail server logs addresses.
    own = [each.getMessage() for each in caplog.records if each.name.startswith("staffbooking")]
    assert any(each.startswith("user 1: webhook_disabled: notice 7") for each in own)
    assert not any("hush" in each for each in own)


async def test_an_alert_is_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    """An alert is logged and not mailed."""
    async with run_smtp_server() as server, notifier(server) as client:
        await client.alert_operators(7, "a payout is late")
    assert "booking 7: a payout is late" in caplog.text
    assert server.connections == []
