"""Encodes an e-mail as plain text and HTML, protected against header and HTML injection."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import datetime
from email.errors import MessageError
from email.headerregistry import Address, BaseHeader, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8, Policy
from email.utils import format_datetime
from pathlib import Path

import idna
from attrs import frozen
from jinja2 import Environment, FileSystemLoader

from staffbooking_core.ports import Email, UndeliverableEmail

_TEMPLATE_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


_QUOTED_CHARACTERS = str.maketrans(dict.fromkeys('()<>[]:;@\\,"', " "))
"""Characters of names that require quotes: folding a long name loses the quotes, and their content
would be parsed as addresses."""


class _UnfoldedHeader(UnstructuredHeader, BaseHeader):
    """A header with a URL on one line: folding would encode it, and few mail programs decode it."""

    def fold(self, *, policy: Policy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


_HEADER_REGISTRY = HeaderRegistry()
_HEADER_REGISTRY.map_to_type("list-unsubscribe", _UnfoldedHeader)


@frozen
class Mailbox:
    """The sender of mails."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


@frozen
class EncodedEmail:
    """A mail as it is sent to the SMTP server."""

    sender: str
    recipient: str
    content: bytes
    is_international: bool
    """Whether the server must support SMTPUTF8: the address's local part is not ASCII."""


def encode_email(email: Email, sender: Mailbox, base_url: str, now: datetime) -> EncodedEmail:
    """Encode an e-mail; repeated calls give the same Message-ID. Raises UndeliverableEmail for an
    invalid recipient address."""
    recipient = encode_address(email.to)
    is_international = not recipient.isascii()
    # 7bit content passes every server unchanged.
    policy = SMTPUTF8 if is_international else SMTP
    message = EmailMessage(policy.clone(cte_type="7bit", header_factory=_HEADER_REGISTRY))
    _set_address_header(message, "From", sender.name, sender.address)
    _set_address_header(message, "To", email.name, recipient)
    if email.reply_to is not None:
        with suppress(UndeliverableEmail):  # The text contains the address too.
            reply_address = encode_address(email.reply_to)
            if reply_address.isascii() or is_international:
                _set_address_header(message, "Reply-To", "", reply_address)
    message["Subject"] = to_single_line(email.subject)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = _message_id(email, sender.domain)
    message["Auto-Submitted"] = "auto-generated"
    if email.unsubscribe_url is not None:
        message["List-Unsubscribe"] = f"<{email.unsubscribe_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    context = {"email": email, "service": to_single_line(sender.name), "base_url": base_url}
    message.set_content(_plain_text(email, sender.name, base_url))
    message.add_alternative(
        _TEMPLATE_ENVIRONMENT.get_template("email.html").render(context), subtype="html"
    )
    return EncodedEmail(sender.address, recipient, _encode_checked(message), is_international)


def encode_address(address: str) -> str:
    """An address with its domain in ASCII, as servers require it. Raises UndeliverableEmail if it
    has no such form."""
    local, _, domain = address.rpartition("@")
    if "=?" in address or any(not char.isprintable() or char.isspace() for char in address):
        raise UndeliverableEmail("the address contains characters that mail does not allow")
    try:
        # Python's codec implements IDNA 2003, which maps straße.de to strasse.de, another domain.
        # For ASCII domains it only checks lengths.
        name = domain.encode("idna") if domain.isascii() else idna.encode(domain, uts46=True)
        return f"{local}@{name.decode()}"
    except UnicodeError:
        raise UndeliverableEmail("the address has an invalid domain") from None


def to_single_line(text: str) -> str:
    """A text that is safe in a header: without line breaks, which would start another header, and
    without encoded words (RFC 2047), which may contain them."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line.replace("=?", "= ?")


def _set_address_header(message: EmailMessage, header: str, name: str, address: str) -> None:
    """Set a header to one mailbox. Raises UndeliverableEmail for an invalid address."""
    local, _, domain = address.rpartition("@")
    try:
        message[header] = Address(to_single_line(name.translate(_QUOTED_CHARACTERS)), local, domain)
    except (ValueError, IndexError):
        raise UndeliverableEmail("the address is not allowed in a mail header") from None


def _encode_checked(message: EmailMessage) -> bytes:
    """The bytes of a mail. Raises UndeliverableEmail if the encoded headers are not exactly those
    that were set, so no value can inject a header."""
    try:
        content = message.as_bytes()
    except MessageError:
        raise UndeliverableEmail("a header of the mail can't be encoded") from None
    lines = content.partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = [line.partition(b":")[0].decode() for line in lines if line[:1] not in b" \t"]
    if names != message.keys() or any(b"\r" in line or b"\n" in line for line in lines):
        raise UndeliverableEmail("a header value would add another header")
    return content


def _message_id(email: Email, domain: str) -> str:
    """An id from the notification's id and content: ids start again in a new database."""
    content = "\n".join((email.to, email.subject, email.text))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return f"<notice-{email.notice_id}-{digest}@{domain.strip('[]')}>"


def _plain_text(email: Email, service: str, base_url: str) -> str:
    parts = [f"Hello {email.name},"] if email.name else []
    parts.append(email.text)
    if email.url is not None:
        parts.append(f"{email.action}:\n{email.url}")
    parts.append(f"-- \n{to_single_line(service)}, {base_url}")
    if email.unsubscribe_url is not None:
        parts.append(f"To get no more mails of this kind:\n{email.unsubscribe_url}")
    return "\n\n".join(parts) + "\n"
