"""Settings: what the environment may say, and how a wrong value stops the start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.settings import SettingsError, is_public, load_settings

SECRET = "a-secret-of-the-deployment"


def load(**values: str):
    return load_settings({f"STAFFBOOKING_{name}": value for name, value in values.items()})


def test_the_defaults_are_the_published_ones() -> None:
    """With an empty environment every figure is the contract's default."""
    settings = load()

    assert settings.database_url == "sqlite+aiosqlite:///staffbooking.db"
    assert settings.policy.sandbox
    assert settings.policy.platform_fee == 150_000
    assert settings.policy.insurance_rate == 50_000
    assert settings.policy.payout_delay == timedelta(hours=24)
    assert settings.policy.payment_window is None
    assert settings.policy.late_cancel_payout
    assert settings.policy.currency.code == "usd"
    assert settings.policy.limits.general.limit == 1000


def test_values_are_read() -> None:
    """What the environment says goes into the settings and the policy."""
    settings = load(
        CURRENCY="JPY",
        PLATFORM_FEE="0.125",
        PAYOUT_DELAY="90m",
        PAYMENT_WINDOW="30m",
        LATE_CANCEL_PAYOUT="0",
        LIMITS="general=5/1m",
        SECRET_KEY=f"{SECRET},{SECRET}-old",
        TRUSTED_PROXIES="10.0.0.0/8, 192.168.1.1",
        ALLOWED_ORIGINS="https://app.example",
        SANDBOX="0",
    )

    assert settings.policy.currency.decimals == 0
    assert settings.policy.platform_fee == 125_000
    assert settings.policy.payout_delay == timedelta(minutes=90)
    assert settings.policy.payment_window == timedelta(minutes=30)
    assert not settings.policy.late_cancel_payout
    assert settings.policy.limits.general.limit == 5
    assert settings.secret_keys == (SECRET, f"{SECRET}-old")
    assert len(settings.trusted_proxies) == 2
    assert settings.allowed_origins == ("https://app.example",)
    assert not settings.policy.sandbox


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://localhost/x"),
        ("DATABASE_URL", "postgresql://u@h/db"),
        ("DATABASE_URL", "sqlite+aiosqlite:///"),
        ("BASE_URL", "ftp://example.test"),
        ("BASE_URL", "https://example.test/path"),
        ("BASE_URL", "https://me:pw@example.test"),
        ("BASE_URL", "nonsense"),
        ("SECRET_KEY", "short"),
        ("SECRET_KEY", ""),
        ("SECRET_KEY", f"{SECRET},"),
        ("PAYMENTS", "paypal"),
        ("SANDBOX", "yes"),
        ("CURRENCY", "dollars"),
        ("PLATFORM_FEE", "15%"),
        ("PLATFORM_FEE", "1.5"),
        ("PLATFORM_FEE", "-0.1"),
        ("PLATFORM_FEE", "nan"),
        ("PLATFORM_FEE", "0.0000001"),
        ("INSURANCE_RATE", "much"),
        ("LATE_CANCEL_PAYOUT", "maybe"),
        ("PAYOUT_DELAY", "48h"),
        ("PAYOUT_DELAY", "2 days"),
        ("PAYMENT_WINDOW", "0s"),
        ("LIMITS", "general=lots"),
        ("LIMITS", "speed=1/1h"),
        ("TRUSTED_PROXIES", "everybody"),
        ("ALLOWED_ORIGINS", "app.example"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(name: str, value: str) -> None:
    """A wrong setting is refused by its full name, in one line."""
    with pytest.raises(SettingsError, match=f"^STAFFBOOKING_{name} ") as caught:
        load(**{name: value})

    assert "\n" not in str(caught.value)


def test_a_secret_never_stands_in_a_message() -> None:
    """A refused secret is not repeated to whoever reads the log."""
    with pytest.raises(SettingsError) as caught:
        load(SECRET_KEY="hush-hush")

    assert "hush" not in str(caught.value)


def test_pretended_payments_on_a_public_address_must_be_meant() -> None:
    """The fake processor on a public base URL needs an express STAFFBOOKING_SANDBOX=1."""
    with pytest.raises(SettingsError, match="SANDBOX"):
        load(BASE_URL="https://book.acme.com", SECRET_KEY=SECRET)

    assert load(BASE_URL="https://book.acme.com", SECRET_KEY=SECRET, SANDBOX="1").policy.sandbox


def test_a_default_secret_never_passes_on_a_public_address() -> None:
    """Even an express sandbox needs a secret of its own on a public base URL."""
    with pytest.raises(SettingsError, match="SECRET_KEY"):
        load(BASE_URL="https://book.acme.com", SANDBOX="1")


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("http://127.0.0.1:8000", False),
        ("http://localhost", False),
        ("http://[::1]:8000", False),
        ("http://192.168.1.4", False),
        ("http://booking", False),
        ("http://booking.test", False),
        ("http://booking.internal:8000", False),
        ("https://booking.com", True),
        ("http://8.8.8.8", True),
    ],
)
def test_public_addresses_are_told_from_private_ones(url: str, public: bool) -> None:
    """Loopback, private networks and reserved names are not public; the rest is."""
    assert is_public(url) is public


def test_secrets_never_stand_in_a_representation() -> None:
    """Neither the secret keys nor the database's password show where settings are printed."""
    settings = load(SECRET_KEY=SECRET, DATABASE_URL="postgresql+asyncpg://u:hush@h/db")

    assert SECRET not in repr(settings)
    assert "hush" not in repr(settings)
