"""Mail settings: servers, TLS and addresses."""

from __future__ import annotations

import pytest

from staffbooking_adapters.settings import SettingsError, load_settings
from staffbooking_adapters.settings_mail import SmtpServer, SmtpTls


def load(**values: str):
    return load_settings({f"STAFFBOOKING_{name}": value for name, value in values.items()})


def test_without_a_server_no_mail_is_sent() -> None:
    """Without an SMTP URL, or with an empty one, there is no mail server."""
    assert load().smtp is None
    assert load(SMTP_URL="").smtp is None


def test_mails_are_kept_where_nobody_else_can_read_them() -> None:
    """Mails are kept to be read if no mail server is set and no stranger reaches the service."""
    assert load().policy.keeps_mails
    assert load(SMTP_URL="").policy.keeps_mails
    assert not load(SMTP_URL="smtp://mail.example").policy.keeps_mails
    public = {"BASE_URL": "https://booking.example.com", "SANDBOX": "1"}
    secret = "8f3a9c71d05e42b6a7c3f19e5d80b264e9a17c35"
    assert not load(**public, SECRET_KEY=secret).policy.keeps_mails
    environ = {"STAFFBOOKING_SANDBOX": "1", "STAFFBOOKING_SECRET_KEY": secret}
    for address, is_kept in (("127.0.0.1", True), ("::1", True), ("0.0.0.0", False)):
        settings = load_settings(environ, listening_address=address)
        assert settings.policy.keeps_mails is is_kept


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example", SmtpServer("mail.example", 587, SmtpTls.STARTTLS)),
        (
            "smtp://books:p%40ss%3A%2F@mail.example:25",
            SmtpServer("mail.example", 25, SmtpTls.STARTTLS, "books", "p@ss:/"),
        ),
        ("smtps://mail.example", SmtpServer("mail.example", 465, SmtpTls.IMPLICIT)),
        (
            "smtps://books@mail.example:2465/",
            SmtpServer("mail.example", 2465, SmtpTls.IMPLICIT, "books"),
        ),
        ("smtp://localhost:1025", SmtpServer("localhost", 1025, SmtpTls.NEVER)),
        ("smtp://127.0.0.1", SmtpServer("127.0.0.1", 587, SmtpTls.NEVER)),
        ("smtp://[::1]:25", SmtpServer("::1", 25, SmtpTls.NEVER)),
        ("smtp://10.0.0.7?starttls=never", SmtpServer("10.0.0.7", 587, SmtpTls.NEVER)),
        ("smtp://localhost?starttls=always", SmtpServer("localhost", 587, SmtpTls.STARTTLS)),
    ],
)
def test_a_server_is_read(url: str, server: SmtpServer) -> None:
    """TLS is required unless the server is local or it is disabled; ports have defaults."""
    assert load(SMTP_URL=url).smtp == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.example",
        "http://mail.example",
        "smtp://",
        "smtp://:25",
        "smtp://mail.example:0",
        "smtp://mail.example:99999",
        "smtp://mail.example/inbox",
        "smtp://mail.example?tls=no",
        "smtp://hush pass@mail.example",
        "smtp://us er:hush@mail.example",
        "smtps://mail.example?starttls=never",
        "smtps://mail.example?starttls=always",
    ],
)
def test_an_invalid_server_is_an_error(url: str) -> None:
    """An invalid SMTP URL gives one line with the setting's name, without its value."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_SMTP_URL must be smtp://") as raised:
        load(SMTP_URL=url)
    assert "hush" not in str(raised.value)


def test_a_representation_contains_no_password() -> None:
    """The representation of settings and server contains no password."""
    settings = load(SMTP_URL="smtp://books:hush@mail.example")
    assert settings.smtp is not None
    assert settings.smtp.password == "hush"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://book.example", "staffbooking@book.example"),
        ("http://127.0.0.1:8000", "staffbooking@localhost"),
        ("http://[::1]:8000", "staffbooking@localhost"),
    ],
)
def test_default_addresses_are_the_services(base_url: str, address: str) -> None:
    """The sender's default address is the service's, and contact messages go to it."""
    settings = load(BASE_URL=base_url, SECRET_KEY="5e9c1f0b7a3d48c6912e4fb05d7a6c38")
    assert settings.mail_from == ("Staff booking", address)
    assert settings.policy.contact_email == address


def test_addresses_are_read() -> None:
    """Addresses may have a name; contact messages may go to another address."""
    settings = load(MAIL_FROM="Bookings <b@acme.example>", CONTACT_EMAIL="help@acme.example")
    assert settings.mail_from == ("Bookings", "b@acme.example")
    assert settings.policy.contact_email == "help@acme.example"
    assert load(MAIL_FROM="b@acme.example").policy.contact_email == "b@acme.example"


@pytest.mark.parametrize("name", ["MAIL_FROM", "CONTACT_EMAIL"])
@pytest.mark.parametrize("text", ["nobody", "<>", "a@", "@b", "a@b\r\nBcc: c@d", "j\xfc@b.example"])
def test_an_invalid_address_is_an_error(name: str, text: str) -> None:
    """An invalid address gives one line with the setting's name."""
    with pytest.raises(SettingsError, match=f"^STAFFBOOKING_{name} must be an address such as"):
        load(**{name: text})
