"""Mail settings: the SMTP server and mail addresses.

Each parser raises ValueError with the text that follows the setting's name.
"""

from __future__ import annotations

import ipaddress
import re
from email.utils import parseaddr
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from attrs import field, frozen

_SMTP_ADDRESS = r"([!-~]+(:[!-~]*)?@)?([a-zA-Z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?/?"
_SMTP_URL_PATTERN = re.compile(
    rf"smtps://{_SMTP_ADDRESS}|smtp://{_SMTP_ADDRESS}(\?starttls=(always|never))?"
)


class SmtpTls(StrEnum):
    """How connections to a mail server use TLS."""

    IMPLICIT = "from_start"
    STARTTLS = "starttls"
    """Required: no mail is sent if the server does not offer it."""
    NEVER = "never"


@frozen
class SmtpServer:
    """The SMTP server that mails are sent through."""

    host: str
    port: int
    tls: SmtpTls
    username: str | None = None
    password: str | None = field(default=None, repr=False)


def parse_smtp_url(text: str) -> SmtpServer | None:
    """Parse an SMTP URL; None if the text is empty. TLS is required except for loopback hosts and
    `starttls=never`."""
    if not text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = 0
    if not _SMTP_URL_PATTERN.fullmatch(text) or port == 0 or not parts.hostname:
        raise ValueError(
            "must be smtp://USER:PASSWORD@HOST:587 or smtps://HOST:465, "
            "with %XX for special characters in a password"
        )
    if parts.scheme == "smtps":
        tls, default_port = SmtpTls.IMPLICIT, 465
    else:
        may_be_plain = _is_loopback(parts.hostname) and parts.query != "starttls=always"
        is_plain = may_be_plain or parts.query == "starttls=never"
        tls, default_port = SmtpTls.NEVER if is_plain else SmtpTls.STARTTLS, 587
    return SmtpServer(
        host=parts.hostname,
        port=port or default_port,
        tls=tls,
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_mailbox(text: str) -> tuple[str, str]:
    """Parse `Name <address>` or an address into name and address."""
    name, address = parseaddr(text)
    local, _, domain = address.rpartition("@")
    if not (text.isprintable() and address.isascii() and local and domain):
        raise ValueError("must be an address such as Bookings <bookings@service.example>")
    return name, address


def default_mail_host(base_url: str) -> str:
    """The default domain of the service's own addresses: the base URL's host, or localhost if the
    host is an IP address."""
    host = urlsplit(base_url).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    return "localhost"
