"""From a letter to the bytes of a mail: plain text and HTML, safe whatever names hold."""

from __future__ import annotations

import hashlib
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from pathlib import Path

from attrs import frozen
from jinja2 import Environment, FileSystemLoader

from staffbooking_core.ports import Letter, Undeliverable

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)


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
    policy = (SMTPUTF8 if is_international else SMTP).clone(cte_type="7bit")
    message = EmailMessage(policy)
    try:
        message["From"] = _mailbox(sender.name, sender.address)
        message["To"] = _mailbox(letter.name, recipient)
        if letter.reply_to is not None:
            message["Reply-To"] = _mailbox("", wire_address(letter.reply_to))
    except (ValueError, IndexError):
        raise Undeliverable("the address can't stand in a mail") from None
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
    return Mail(sender.address, recipient, message.as_bytes(), is_international)


def wire_address(address: str) -> str:
    """An address as servers take it: the domain in ASCII. Raises Undeliverable where it has
    no such form."""
    local, _, domain = address.rpartition("@")
    if any(not sign.isprintable() or sign.isspace() for sign in address):
        raise Undeliverable("the address can't stand in a mail")
    try:
        return f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        raise Undeliverable("the domain of the address can't exist") from None


def in_one_line(text: str) -> str:
    """A text without what may not stand in a header: line breaks begin the next one."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _mailbox(name: str, address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(in_one_line(name), local, domain)


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
