"""Encoding of mails, for any names and texts."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTPUTF8
from typing import Any

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.notify import mails
from staffbooking_adapters.notify.mails import Mailbox, encode_address, encode_email
from staffbooking_adapters.testing.builders_notifications import make_email
from staffbooking_core.ports import UndeliverableEmail

SENDER = Mailbox("Staff booking", "no-reply@book.example")
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"),
    *("MIME-Version", "Content-Type"),
}


UNSUBSCRIBE = "https://book.example/notifications/unsubscribe/1234567.new_message." + "aB-_" * 11


def raw(**given: Any) -> bytes:
    """The mail as it is sent to a server."""
    return encode_email(
        make_email(**given), SENDER, "https://book.example", datetime(2027, 3, 1, tzinfo=UTC)
    ).content


def header_names(content: bytes) -> list[str]:
    """The header names as a server reads them, up to the first empty line."""
    lines = content.split(b"\r\n\r\n")[0].split(b"\r\n")
    assert not any(set(line) & set(b"\r\n") for line in lines)
    return [line.partition(b":")[0].decode() for line in lines if line[:1].strip()]


def made(**given: Any) -> EmailMessage:
    return message_from_bytes(raw(**given), policy=SMTPUTF8)


def parts(**given: Any) -> tuple[str, str]:
    """The plain text and the HTML part."""
    plain, html = made(**given).iter_parts()
    assert (plain.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
    return plain.get_content(), html.get_content()


def test_both_parts_have_the_same_text() -> None:
    """The plain text and the HTML part both have the name, the text and the link."""
    plain, html = parts(text="It is done.", url="https://book.example/x")
    for words in ("Hello Ada Okoro,", "It is done.", "See more", "https://book.example/x"):
        assert words in plain
        assert words in html


def test_a_mail_without_a_recipient_name_has_no_greeting() -> None:
    """A mail without a recipient name has no greeting; replies go to the inquirer."""
    plain, html = parts(name="")
    assert "Hello" not in plain + html
    assert str(made(name="", reply_to="sam@example.com")["Reply-To"]) == "sam@example.com"


def test_an_optional_mail_has_an_unsubscribe_link() -> None:
    """An optional mail has an unsubscribe link in both parts; others have none."""
    for part in parts(unsubscribe_url="https://book.example/end"):
        assert "https://book.example/end" in part
    for part in parts():
        assert "o more mails" not in part


def test_markup_is_escaped() -> None:
    """Names and texts are escaped in HTML and unchanged in plain text."""
    bad = '<script src="https://evil.example">"\'&</script>'
    plain, html = parts(name=bad, text=bad, subject=bad, url=f"https://x/?{bad}")
    assert "<script" not in html
    assert "&lt;script" in html
    assert bad in plain


def test_the_html_loads_no_resources() -> None:
    """The HTML loads no image, style sheet or script."""
    _, html = parts(url="https://book.example/x", unsubscribe_url="https://book.example/end")
    assert not any(word in html for word in ("<img", "<link", "<script", "url(", "@import"))


@pytest.mark.parametrize("sign", ["\r\n", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
@pytest.mark.parametrize("field", ["name", "subject"])
def test_line_breaks_inject_no_header(field: str, sign: str) -> None:
    """No line break character in a value can inject a header."""
    mail = made(**{field: f"Ada{sign}Bcc: eve@example.com{sign}{sign}Hello"})
    assert set(mail.keys()) == HEADERS
    assert [address.addr_spec for address in mail["To"].addresses] == ["ada@example.com"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (
            "name",
            "=?utf-8?q?Ann=0D=0A=0D=0AYour_account_is_locked,_see_http://evil.example?= Okoro",
        ),
        ("name", "=?utf-8?b?QQ0KQmNjOiBldmlsQHguY29t?="),
        ("name", "==??utf-8?q?a=0ABcc:_evil@x.com?="),
        ("subject", "=?utf-8?q?a=0D=0ABcc:_evil@x.com?="),
        ("subject", "=\r\n?utf-8?q?a=0D=0A=0D=0AHello?="),
        ("reply_to", "=?utf-8?q?a=0D=0AX-Evil=3A_b?=@x.com"),
    ],
)
def test_encoded_words_are_not_decoded(field: str, value: str) -> None:
    """Text in the form of an RFC 2047 encoded word is not decoded and ends no line."""
    content = raw(**{field: value})
    assert sorted(header_names(content)) == sorted(HEADERS)


@pytest.mark.parametrize("signs", ["<eve@x.com>(", "eve@x.com<eve@x.com>\\"])
def test_a_long_name_adds_no_mailbox(signs: str) -> None:
    """Folding a long name neither adds nor breaks a mailbox."""
    [mailbox] = made(name=f"{signs}{'Ada' * 7} {signs * 3}{'Ada' * 7}")["To"].addresses
    assert mailbox.addr_spec == "ada@example.com"


def test_a_mail_with_unexpected_headers_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail whose encoded bytes contain other headers than those set is refused, or encoded safely
    by newer Pythons."""
    monkeypatch.setattr(mails, "to_single_line", lambda text: text)
    for bad in ("a=0D=0ABcc:_evil@x.com", "a=0D=0A=0D=0AHello", "a=0ABcc:_evil@x.com"):
        try:
            content = raw(subject=f"=?utf-8?q?{bad}?=")
        except UndeliverableEmail:
            continue
        assert sorted(header_names(content)) == sorted(HEADERS)


def test_the_unsubscribe_header_is_not_folded() -> None:
    """The List-Unsubscribe header is not folded (RFC 8058); all others are (RFC 5322)."""
    content = raw(unsubscribe_url=UNSUBSCRIBE, name="J\xfcrgen M\xfcller " * 9)
    assert f"\r\nList-Unsubscribe: <{UNSUBSCRIBE}>\r\n".encode() in content
    assert b"\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n" in content
    lines = content.split(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line[:17] for line in lines if len(line) > 78] == [b"List-Unsubscribe:"]


@pytest.mark.parametrize("sign", ["\0", "\x1b", "\x7f", "\u200b", "\u202e", "\u2066"])
def test_invisible_characters_are_removed_from_headers(sign: str) -> None:
    """Control and bidi characters in headers are replaced by a space."""
    mail = made(subject=f"Booking{sign}accepted", name=f"Ada{sign}Okoro")
    assert str(mail["Subject"]) == "Booking accepted"
    assert str(mail["To"]) == "Ada Okoro <ada@example.com>"


@given(name=st.text(max_size=200), subject=st.text(max_size=300))
def test_any_name_and_subject_makes_a_mail(name: str, subject: str) -> None:
    """Any name and subject give our headers, one recipient, and ASCII lines."""
    name, subject = (each.encode("utf-8", "replace").decode() for each in (name, subject))
    mail = encode_email(
        make_email(name=name, subject=subject),
        SENDER,
        "https://book.example",
        datetime(2027, 3, 1, tzinfo=UTC),
    )
    assert mail.content.isascii()
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    read = message_from_bytes(mail.content, policy=SMTPUTF8)
    assert set(read.keys()) == HEADERS
    assert [address.addr_spec for address in read["To"].addresses] == ["ada@example.com"]


@pytest.mark.parametrize(
    "address",
    [
        "ada@example.com\r\nRCPT TO:<eve@example.com>",
        "ada@ex ample.com",
        f"ada@{'x' * 64}.example",
        "ada b@example.com",
        "=?utf-8?q?a=0D=0AX-Evil=3A_b?=@x.com",
    ],
)
def test_an_invalid_address_is_undeliverable(address: str) -> None:
    """Encoding a mail to an invalid address raises UndeliverableEmail."""
    with pytest.raises(UndeliverableEmail):
        made(to=address)


@pytest.mark.parametrize(
    "address",
    ["a@.example.com", "a@\u3002.com", f"a@{'x' * 64}.com", "=?a?=@x.com", "j\xfcrgen@example.com"],
)
def test_an_invalid_reply_address_is_left_out(address: str) -> None:
    """A mail with an invalid reply address is sent without Reply-To."""
    mail = made(name="", reply_to=address, text=f"Sam ({address}) asks")
    assert "Reply-To" not in mail
    assert f"Sam ({address}) asks" in next(mail.iter_parts()).get_content()


def test_a_domain_is_encoded_in_ascii() -> None:
    """An international domain is encoded in ASCII; an ASCII domain is unchanged."""
    assert encode_address("ada@B\xfccher.example") == "ada@xn--bcher-kva.example"
    assert encode_address("ada@M_x.a--b.example") == "ada@M_x.a--b.example"


@pytest.mark.parametrize(
    ("domain", "travels"),
    [
        ("stra\xdfe.example", "xn--strae-oqa.example"),
        ("\u03b2\u03cc\u03bb\u03bf\u03c2.example", "xn--nxasmm1c.example"),
    ],
)
def test_a_domain_is_encoded_by_idna_2008(domain: str, travels: str) -> None:
    """The domain is encoded by IDNA 2008, since IDNA 2003 would map it to another owner's."""
    assert encode_address(f"ada@{domain}") == f"ada@{travels}"


@pytest.mark.parametrize("domain", ["\u2603.example", "\u2100.example"])
def test_a_domain_that_cannot_be_registered_is_undeliverable(domain: str) -> None:
    """Encoding a domain that cannot be registered raises UndeliverableEmail."""
    with pytest.raises(UndeliverableEmail):
        encode_address(f"ada@{domain}")
