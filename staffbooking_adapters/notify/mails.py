"""From a letter to the bytes of a mail: plain text and HTML, safe whatever names hold."""

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

from staffbooking_core.ports import Letter, Undeliverable

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


_UNQUOTED = str.maketrans(dict.fromkeys('()<>[]:;@\\,"', " "))
"""Signs of names that need quotes: those get lost where a long name is folded, and what was
between them is then taken for addresses."""


class _Whole(UnstructuredHeader, BaseHeader):
    """A header of a link, in one line: what can't be broken would be encoded, and few programs
    read it then."""

    def fold(self, *, policy: Policy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


HEADERS = HeaderRegistry()
HEADERS.map_to_type("list-unsubscribe", _Whole)


@frozen
class Mailbox:
    """Whom mails come from."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


@frozen
class Mail:
    """What is handed to a server."""

    sender: str
    recipient: str
    content: bytes
    is_international: bool
    """Whether the server must know SMTPUTF8: the address has more than ASCII before its @."""


def make_mail(letter: Letter, sender: Mailbox, base_url: str, now: datetime) -> Mail:
    """The mail of a letter: the same Message-ID each time. Raises Undeliverable for an address
    that no mail can be sent to."""
    recipient = wire_address(letter.to)
    is_international = not recipient.isascii()
    # 7bit: whatever servers are on the way, none has to change a line.
    policy = SMTPUTF8 if is_international else SMTP
    message = EmailMessage(policy.clone(cte_type="7bit", header_factory=HEADERS))
    _put(message, "From", sender.name, sender.address)
    _put(message, "To", letter.name, recipient)
    if letter.reply_to is not None:
        with suppress(Undeliverable):  # The text names the address too.
            answered = wire_address(letter.reply_to)
            if answered.isascii() or is_international:
                _put(message, "Reply-To", "", answered)
    message["Subject"] = in_one_line(letter.subject)
    message["Date"] = format_datetime(now)
    message["Message-ID"] = _message_id(letter, sender.domain)
    message["Auto-Submitted"] = "auto-generated"
    if letter.unsubscribe_url is not None:
        message["List-Unsubscribe"] = f"<{letter.unsubscribe_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    shown = {"letter": letter, "service": in_one_line(sender.name), "base_url": base_url}
    message.set_content(_plain(letter, sender.name, base_url))
    message.add_alternative(TEMPLATES.get_template("letter.html").render(shown), subtype="html")
    return Mail(sender.address, recipient, _checked(message), is_international)


def wire_address(address: str) -> str:
    """An address as servers take it: the domain in ASCII. Raises Undeliverable where it has
    no such form."""
    local, _, domain = address.rpartition("@")
    if "=?" in address or any(not sign.isprintable() or sign.isspace() for sign in address):
        raise Undeliverable("the address can't stand in a mail")
    try:
        # The standard library's codec has the rules of 2003, by which straße.de is strasse.de,
        # somebody else's. Of what is ASCII it looks at the lengths alone.
        name = domain.encode("idna") if domain.isascii() else idna.encode(domain, uts46=True)
        return f"{local}@{name.decode()}"
    except UnicodeError:
        raise Undeliverable("the domain of the address can't exist") from None


def in_one_line(text: str) -> str:
    """A text without what may not stand in a header: line breaks begin the next one, and
    encoded words (RFC 2047) may hold line breaks."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line.replace("=?", "= ?")


def _put(message: EmailMessage, header: str, name: str, address: str) -> None:
    """Set a header of one mailbox. Raises Undeliverable for one that can't stand there."""
    local, _, domain = address.rpartition("@")
    try:
        message[header] = Address(in_one_line(name.translate(_UNQUOTED)), local, domain)
    except (ValueError, IndexError):
        raise Undeliverable("the address can't stand in a mail") from None


def _checked(message: EmailMessage) -> bytes:
    """The bytes of a mail. Raises Undeliverable where their headers are not those that were
    set: whatever got into a value, it has not become a line of its own."""
    try:
        content = message.as_bytes()
    except MessageError:
        raise Undeliverable("a header of the mail can't be written") from None
    lines = content.partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = [line.partition(b":")[0].decode() for line in lines if line[:1] not in b" \t"]
    if names != message.keys() or any(b"\r" in line or b"\n" in line for line in lines):
        raise Undeliverable("the mail would have other headers than its own")
    return content


def _message_id(letter: Letter, domain: str) -> str:
    """By the notice, and by what it says: numbers of notices begin anew in a new database."""
    said = "\n".join((letter.to, letter.subject, letter.text))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return f"<notice-{letter.notice_id}-{digest}@{domain.strip('[]')}>"


def _plain(letter: Letter, service: str, base_url: str) -> str:
    parts = [f"Hello {letter.name},"] if letter.name else []
    parts.append(letter.text)
    if letter.url is not None:
        parts.append(f"{letter.action}:\n{letter.url}")
    parts.append(f"-- \n{in_one_line(service)}, {base_url}")
    if letter.unsubscribe_url is not None:
        parts.append(f"To get no more mails of this kind:\n{letter.unsubscribe_url}")
    return "\n\n".join(parts) + "\n"
