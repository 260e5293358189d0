"""The notifier that sends mail through an SMTP server."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

import certifi
from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPNotSupported,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
)

from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_adapters.notify.mails import EncodedEmail, Mailbox, encode_email
from staffbooking_adapters.settings_mail import SmtpServer, SmtpTls
from staffbooking_core.ports import Email, UndeliverableEmail

logger = logging.getLogger("staffbooking.notices")

_MIN_PERMANENT_CODE = 500
"""SMTP reply codes from here on are permanent failures."""
KEEPALIVE_TIMEOUT_SECONDS = 2.0
"""Seconds within which a reused connection must answer: a dead one would use up the mail's whole
timeout."""

QUIT_TIMEOUT_SECONDS = 1.0
CHECK_TIMEOUT_SECONDS = 3.0
"""Seconds of a check whether the server can be used."""


class EmailNotSent(Exception):
    """A mail was not sent, or its outcome is unknown; retry later."""


def _now() -> datetime:
    return datetime.now(UTC)


class SmtpNotifier:
    """Implements `Notifier`: mails use one connection that is reused; alerts are log warnings.

    Errors contain only the server's reply code, since its text may hold an address. A mail that
    the server did not confirm may have been sent; it is sent again with the same Message-ID.
    """

    def __init__(
        self,
        server: SmtpServer,
        sender: Mailbox,
        base_url: str,
        *,
        timeout_seconds: float,
        tls: ssl.SSLContext | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        """`timeout_seconds` is for a whole mail; `tls` verifies the server's certificate."""
        self._server, self._sender, self._base_url = server, sender, base_url
        self._timeout_seconds, self._now = timeout_seconds, now
        self._tls = tls or _trusted_context()
        self._lock = asyncio.Lock()
        self._client: SMTP | None = None
        self._log_notifier = LogNotifier()

    async def alert_operators(self, booking_id: int, text: str) -> None:
        await self._log_notifier.alert_operators(booking_id, text)

    async def send_email(self, email: Email) -> None:
        try:
            mail = encode_email(email, self._sender, self._base_url, self._now())
            async with asyncio.timeout(self._timeout_seconds), self._lock:
                await self._send(mail)
        except UndeliverableEmail:
            raise
        except (SMTPException, OSError, ValueError) as error:
            reason = _error_summary(error)
            logger.warning("notice %d was not sent: %s", email.notice_id, reason)
            raise EmailNotSent(reason) from None
        await self._log_notifier.send_email(email)

    async def find_problem(self) -> str | None:
        """Why no mail can be sent; None if the server takes the connection and the credentials in
        time. Closes the connection."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS), self._lock:
                await self._live_client()
        except (SMTPException, OSError, ValueError) as error:
            return f"cannot connect: {str(error) or 'no response'}"
        finally:
            await self.close()
        return None

    async def close(self) -> None:
        """Send QUIT and close the connection; waits at most QUIT_TIMEOUT_SECONDS."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            async with asyncio.timeout(QUIT_TIMEOUT_SECONDS):
                await client.quit()
        except (SMTPException, OSError):
            pass  # The server has gone.
        finally:
            client.close()

    async def _send(self, mail: EncodedEmail) -> None:
        client = await self._live_client()
        options = ["SMTPUTF8", "BODY=8BITMIME"] if mail.is_international else []
        try:
            await client.sendmail(mail.sender, [mail.recipient], mail.content, mail_options=options)
        except SMTPRecipientsRefused as refused:
            if any(_is_permanent(each) for each in refused.recipients):
                code = refused.recipients[0].code
                raise UndeliverableEmail(f"the server refused the recipient ({code})") from None
            raise
        except SMTPNotSupported:
            raise UndeliverableEmail("the server can't send to this address") from None
        except BaseException:
            self._drop_client()
            raise

    async def _live_client(self) -> SMTP:
        """The kept connection if the server still answers on it, otherwise a new one."""
        if self._client is not None:
            try:
                await self._client.rset(timeout=KEEPALIVE_TIMEOUT_SECONDS)
            except (SMTPException, OSError):
                self._drop_client()
            except BaseException:
                self._drop_client()
                raise
        if self._client is None:
            self._client = await self._connect()
        return self._client

    async def _connect(self) -> SMTP:
        server = self._server
        client = SMTP(
            hostname=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            local_hostname=self._sender.domain,
            timeout=None,  # `send_email` has a timeout for the whole mail.
            use_tls=server.tls is SmtpTls.IMPLICIT,
            start_tls=server.tls is SmtpTls.STARTTLS,
            tls_context=self._tls,
        )
        try:
            await client.connect()
        except BaseException:
            client.close()
            raise
        return client

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def _trusted_context() -> ssl.SSLContext:
    """A context that trusts the machine's certificate authorities and certifi's."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _is_permanent(refused: SMTPRecipientRefused) -> bool:
    return refused.code >= _MIN_PERMANENT_CODE


def _error_summary(error: Exception) -> str:
    """A short description of an error, without the server's text or personal data."""
    if isinstance(error, SMTPRecipientsRefused):
        return f"refused for now ({error.recipients[0].code})"
    if isinstance(error, SMTPResponseException):
        return f"{type(error).__name__} ({error.code})"
    return type(error).__name__
