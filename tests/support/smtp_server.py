"""A local SMTP server that accepts mails or fails as a test asks."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTPUTF8
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

ResponseAction = Callable[[SMTP], Awaitable[str]]
"""Acts in place of accepting a mail, and returns the server's reply."""


class FakeSmtpServer:
    """The handler of a test server. Records accepted mails; `replies_by_recipient` has replies by
    address, and `data_actions` one action for each of the next mails, in place of accepting."""

    def __init__(self) -> None:
        self.port = 0
        self.mails: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.credentials: list[tuple[str, str]] = []
        self.connections: list[SMTP] = []
        self.silent_connections: list[SMTP] = []
        """Connections that get no reply to RSET."""
        self.replies_by_recipient: dict[str, str] = {}
        self.data_actions: list[ResponseAction] = []
        self.is_encrypted: list[bool] = []
        """Whether each mail was received over TLS."""

    async def handle_RCPT(  # noqa: N802 - the name is aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.replies_by_recipient:
            return self.replies_by_recipient[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_RSET(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        return await never_reply(server) if server in self.silent_connections else "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.data_actions:
            return await self.data_actions.pop(0)(server)
        content = envelope.content
        assert isinstance(content, bytes)
        self.mails.append(message_from_bytes(content, policy=SMTPUTF8))
        self.envelopes.append((str(envelope.mail_from), list(envelope.rcpt_tos)))
        assert server.transport is not None
        self.is_encrypted.append(server.transport.get_extra_info("sslcontext") is not None)
        return "250 OK"

    def authenticate(self, _: SMTP, __: Session, ___: Envelope, how: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.credentials.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"hush: it's secret", handled=False)


def abort_connection(server: SMTP) -> None:
    """Abort a connection unless it has ended."""
    if isinstance(server.transport, asyncio.WriteTransport):
        server.transport.abort()


async def abort_after_data(server: SMTP) -> str:
    """Abort the connection after the complete mail was received, without a reply."""
    abort_connection(server)
    return "250 nobody hears it"


async def never_reply(_: SMTP) -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


def reply_with(text: str) -> ResponseAction:
    """An action that replies with this text."""

    async def act(_: SMTP) -> str:
        return text

    return act


@asynccontextmanager
async def run_smtp_server(
    *,
    starttls: ssl.SSLContext | None = None,
    implicit_tls: ssl.SSLContext | None = None,
    requires_login: bool = False,
    supports_smtputf8: bool = True,
) -> AsyncIterator[FakeSmtpServer]:
    """A server on a free port of loopback."""
    server = FakeSmtpServer()

    def connected() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # aiosmtpd warns of logins without TLS.
            made = SMTP(
                server,
                hostname="mail.test",
                enable_SMTPUTF8=supports_smtputf8,
                tls_context=starttls,
                require_starttls=starttls is not None,
                authenticator=server.authenticate if requires_login else None,
                auth_required=requires_login,
                auth_require_tls=starttls is not None,
            )
        server.connections.append(made)
        return made

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(connected, "127.0.0.1", 0, ssl=implicit_tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for each in server.connections:
            abort_connection(each)
        await asyncio.sleep(0)
