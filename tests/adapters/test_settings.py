"""Settings: valid values, and errors for invalid ones."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from staffbooking_adapters.settings import (
    SETTING_NAMES,
    FakeProcessorSettings,
    SettingsError,
    load_settings,
)
from staffbooking_adapters.settings_exposure import is_public_url, is_weak_secret

SECRET = "5e9c1f0b7a3d48c6912e4fb05d7a6c38"
STRIPE = {
    "PAYMENTS": "stripe",
    "SECRET_KEY": SECRET,
    "STRIPE_SECRET_KEY": "sk_test_51Abc",
    "STRIPE_WEBHOOK_SECRET": "whsec_one",
}


def load(listening_address: str | None = None, **values: str):
    environ = {f"STAFFBOOKING_{name}": value for name, value in values.items()}
    return load_settings(environ, listening_address=listening_address)


def test_the_defaults_are_those_of_the_contract() -> None:
    """With an empty environment every value is the contract's default."""
    settings = load()

    assert settings.database_url == "sqlite+aiosqlite:///staffbooking.db"
    assert settings.policy.sandbox
    assert settings.policy.platform_fee_ppm == 150_000
    assert settings.policy.insurance_rate_ppm == 50_000
    assert settings.policy.payout_delay == timedelta(hours=24)
    assert settings.policy.payment_window is None
    assert settings.policy.late_cancel_payout
    assert settings.policy.currency.code == "usd"
    assert settings.policy.country == "US"
    assert settings.processor == FakeProcessorSettings(manual_payees=False)
    assert settings.policy.limits.general.limit == 1000
    assert not settings.policy.webhook_allow_insecure
    assert settings.blocked_terms == ()


def test_values_are_read() -> None:
    """Values of the environment are in the settings and the policy."""
    settings = load(
        CURRENCY="JPY",
        COUNTRY="jp",
        PLATFORM_FEE="0.125",
        PAYOUT_DELAY="90m",
        PAYMENT_WINDOW="30m",
        LATE_CANCEL_PAYOUT="0",
        LIMITS="general=5/1m",
        SECRET_KEY=f"{SECRET},{SECRET}-old",
        TRUSTED_PROXIES="10.0.0.0/8, 192.168.1.1",
        ALLOWED_ORIGINS="https://app.example",
        BLOCKED_TERMS="bad word, schlimm ,плохо",
        SANDBOX="0",
        FAKE_PAYEES="manual",
    )

    assert settings.policy.currency.decimals == 0
    assert settings.policy.country == "JP"
    assert settings.policy.platform_fee_ppm == 125_000
    assert settings.policy.payout_delay == timedelta(minutes=90)
    assert settings.policy.payment_window == timedelta(minutes=30)
    assert not settings.policy.late_cancel_payout
    assert settings.policy.limits.general.limit == 5
    assert settings.secret_keys == (SECRET, f"{SECRET}-old")
    assert len(settings.trusted_proxies) == 2
    assert settings.allowed_origins == ("https://app.example",)
    assert settings.blocked_terms == ("bad word", "schlimm", "плохо")
    assert not settings.policy.sandbox
    assert settings.processor == FakeProcessorSettings(manual_payees=True)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://example.test/staff/Booking/", "https://example.test/staff/Booking"),
        ("HTTPS://Example.Test:443/", "https://example.test"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://example.test:443", "http://example.test:443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_a_base_url_is_as_browsers_write_it(given: str, kept: str) -> None:
    """Scheme and host are in lower case, a default port is left out; a path is kept without its
    trailing slash."""
    assert load(BASE_URL=given).policy.base_url == kept


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://localhost/x"),
        ("DATABASE_URL", "postgresql://u@h/db"),
        ("DATABASE_URL", "sqlite+aiosqlite:///"),
        ("BASE_URL", "ftp://example.test"),
        ("BASE_URL", "https://example.test/a//b"),
        ("BASE_URL", "https://example.test/a b"),
        ("BASE_URL", "https://example.test/a#b"),
        ("BASE_URL", "https://me:pw@example.test"),
        ("BASE_URL", "nonsense"),
        ("BASE_URL", "https://münchen.example"),
        ("BASE_URL", "https://example.test:99999"),
        ("SECRET_KEY", "short"),
        ("SECRET_KEY", ""),
        ("SECRET_KEY", f"{SECRET},"),
        ("PAYMENTS", "paypal"),
        ("SANDBOX", "yes"),
        ("CURRENCY", "dollars"),
        ("CURRENCY", "udd"),
        ("CURRENCY", "xau"),
        ("COUNTRY", "USA"),
        ("COUNTRY", "U1"),
        ("COUNTRY", "XX"),
        ("COUNTRY", "EU"),
        ("FAKE_PAYEES", "none"),
        ("PLATFORM_FEE", "15%"),
        ("PLATFORM_FEE", "1.5"),
        ("PLATFORM_FEE", "-0.1"),
        ("PLATFORM_FEE", "nan"),
        ("PLATFORM_FEE", "0.0000001"),
        ("PLATFORM_FEE", "1e999999"),
        ("INSURANCE_RATE", "much"),
        ("LATE_CANCEL_PAYOUT", "maybe"),
        ("PAYOUT_DELAY", "48h"),
        ("PAYOUT_DELAY", "2 days"),
        ("PAYMENT_WINDOW", "0s"),
        ("LIMITS", "general=lots"),
        ("LIMITS", "speed=1/1h"),
        ("TRUSTED_PROXIES", "everybody"),
        ("ALLOWED_ORIGINS", "app.example"),
        ("ALLOWED_ORIGINS", "https://exa mple.com"),
        ("ALLOWED_ORIGINS", "https://user@app.example"),
        ("ALLOWED_ORIGINS", "https://app.example:65536"),
        ("ALLOWED_ORIGINS", "https://app.example:http"),
        ("ALLOWED_ORIGINS", "https://app.example?page"),
        ("DEBUG", "maybe"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "http://localhost"),
        ("REDIS_URL", "redis://"),
        ("REDIS_URL", "redis://cache:0"),
        ("REDIS_URL", "redis://cache:70000"),
        ("REDIS_URL", "redis://cache/first"),
        ("REDIS_URL", "redis://cache?ssl_ca_certs=/etc/ca.pem"),
        ("REDIS_URL", "rediss://cache?ssl_cert_reqs=never"),
        ("REDIS_URL", "rediss://cache?timeout=5"),
        ("REDIS_URL", "unix://redis.sock"),
        ("WEBHOOK_ALLOW_INSECURE", "yes"),
    ],
)
def test_an_invalid_value_is_one_line_with_its_name(name: str, value: str) -> None:
    """An invalid setting gives one line with its full name."""
    with pytest.raises(SettingsError, match=f"^STAFFBOOKING_{name} ") as caught:
        load(**{name: value})

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://cache",
        "redis://[::1]:6379/0",
        "rediss://app:p%40ss@cache.example:6380?ssl_cert_reqs=none&ssl_ca_certs=/etc/ca.pem",
        "unix:///run/redis.sock",
        "unix://:p%40ss@/run/redis.sock",
    ],
)
def test_a_redis_url_is_kept_unchanged(url: str) -> None:
    """A Redis URL over TCP, TLS or a socket is accepted; the default is none."""
    assert load(REDIS_URL=url).redis_url == url
    assert load().redis_url is None


@pytest.mark.parametrize("password", ["hu@sh", "hu/sh", "hu#sh", "hu?sh", "hush℀"])
def test_an_unescaped_redis_password_is_not_repeated(password: str) -> None:
    """A Redis URL with unescaped characters is refused without repeating it."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_REDIS_URL ") as caught:
        load(REDIS_URL=f"redis://:{password}@cache")

    assert "sh" not in str(caught.value).removeprefix("STAFFBOOKING_REDIS_URL ")


@pytest.mark.parametrize("value", ["", " ", ",", " , ,"])
def test_empty_blocked_terms_are_ignored(value: str) -> None:
    """Empty blocked terms, which would block everything, are ignored."""
    assert load(BLOCKED_TERMS=value).blocked_terms == ()


@pytest.mark.parametrize("name", ["SECRET_KEY", "STRIPE_SECRET_KEY", "STRIPE_WEBHOOK_SECRET"])
def test_a_message_contains_no_secret(name: str) -> None:
    """An invalid secret is not repeated in the message."""
    with pytest.raises(SettingsError, match=f"^STAFFBOOKING_{name} ") as caught:
        load(**{**STRIPE, name: "hush-hush"})

    assert "hush" not in str(caught.value)


def test_fake_payments_on_a_public_url_need_an_explicit_sandbox() -> None:
    """The fake processor on a public base URL requires an explicit STAFFBOOKING_SANDBOX=1."""
    with pytest.raises(SettingsError, match="SANDBOX"):
        load(BASE_URL="https://book.acme.com", SECRET_KEY=SECRET)

    assert load(BASE_URL="https://book.acme.com", SECRET_KEY=SECRET, SANDBOX="1").policy.sandbox


def test_a_sandbox_on_a_public_url_needs_a_secret_key() -> None:
    """An explicit sandbox on a public base URL requires a secret key."""
    with pytest.raises(SettingsError, match="SECRET_KEY"):
        load(BASE_URL="https://book.acme.com", SANDBOX="1")


@pytest.mark.parametrize(
    "key",
    [
        "development-only-secret-key",
        "a" * 64,
        "5e9c1f0b7a3d48c6912e4fb05d7a6c3",
        "passwordpasswordpasswordpassword",
        "0123456789abcdefghijklmnopqrstuvwxyz",
        "zyxwvutsrqponmlkjihgfedcba9876543210",
        "abababababababababababababababababab",
        "1111111111111111111111111111111111112",
    ],
)
def test_a_guessable_secret_is_weak(key: str) -> None:
    """The default, short, repeated and sequential keys are weak."""
    assert is_weak_secret(key)


@pytest.mark.parametrize("digits", ["0123456789abcdef", "0123456789", "abcdefghijklmnopqrstuvwxyz"])
def test_a_random_secret_is_strong(digits: str) -> None:
    """Random keys of 32 characters are strong."""
    draw = Random(7)
    assert not any(is_weak_secret("".join(draw.choices(digits, k=32))) for _ in range(1000))


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.5", "2001:db8::1", "fe80::1%eth0"])
@pytest.mark.parametrize("key", ["development-only-secret-key", "a" * 16, "b" * 40])
def test_a_weak_secret_is_refused_beyond_loopback(address: str, key: str) -> None:
    """A server that strangers can reach does not start with a weak secret key."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_SECRET_KEY must be random"):
        load(address, SECRET_KEY=key, SANDBOX="0")


def test_one_weak_secret_of_several_is_refused() -> None:
    """Each of several secret keys must be strong, since all of them verify."""
    with pytest.raises(SettingsError, match="SECRET_KEY"):
        load("0.0.0.0", SECRET_KEY=f"{SECRET},{'a' * 32}", SANDBOX="0")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_loopback_needs_no_settings(address: str) -> None:
    """A server on loopback starts with the default secret key and an implied sandbox."""
    assert load(address).policy.sandbox


def test_a_weak_secret_is_refused_on_a_public_url() -> None:
    """On a public base URL a process that does not listen needs a strong secret key too."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_SECRET_KEY must be random"):
        load(BASE_URL="https://book.acme.com", SECRET_KEY="a" * 32, SANDBOX="1")


def test_the_sandbox_must_be_chosen_beyond_loopback() -> None:
    """With fake payments a server beyond loopback starts only with SANDBOX set to 1 or 0."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_SANDBOX must be 1 or 0"):
        load("0.0.0.0", SECRET_KEY=SECRET)
    assert load("0.0.0.0", SECRET_KEY=SECRET, SANDBOX="1").policy.sandbox
    assert not load("0.0.0.0", SECRET_KEY=SECRET, SANDBOX="0").policy.sandbox


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SECRT_KEY", "SECRET_KEY"),
        ("DATABSE_URL", "DATABASE_URL"),
        ("database_url", "DATABASE_URL"),
        ("PROXIES", "TRUSTED_PROXIES"),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(name: str, nearest: str) -> None:
    """An unknown name with the prefix stops the start, and the message has the nearest known
    one."""
    message = f"^STAFFBOOKING_{name} is not a setting: did you mean STAFFBOOKING_{nearest}\\?$"
    with pytest.raises(SettingsError, match=message):
        load(**{name: "x"})


@pytest.mark.parametrize(
    "name",
    [
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_8000_TCP",
        "PORT_8000_TCP_ADDR",
        "WEB_SERVICE_HOST",
        "WEB_PORT_443_TCP_PROTO",
    ],
)
def test_names_of_kubernetes_are_ignored(name: str) -> None:
    """Variables that Kubernetes sets for a service named `staffbooking` are ignored."""
    load(**{name: "tcp://10.0.0.1:8000"})


def test_every_setting_is_documented() -> None:
    """docs/running.md names every setting but that for tests."""
    page = (Path(__file__).parents[2] / "docs/running.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row.split("|")[1])}
    assert named == SETTING_NAMES - {"STRIPE_API_BASE"}


def test_insecure_webhooks_need_a_sandbox() -> None:
    """Webhooks over http and to loopback are allowed only in a sandbox."""
    assert load(WEBHOOK_ALLOW_INSECURE="1").policy.webhook_allow_insecure

    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_WEBHOOK_ALLOW_INSECURE "):
        load(WEBHOOK_ALLOW_INSECURE="1", SANDBOX="0")


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
def test_public_urls_are_distinguished_from_private_ones(url: str, public: bool) -> None:
    """Loopback, private networks and reserved names are not public; all others are."""
    assert is_public_url(url) is public


def test_a_representation_contains_no_secret() -> None:
    """The settings' representation contains no keys, secrets or passwords."""
    addresses = {
        "DATABASE_URL": "postgresql+asyncpg://u:hush@h/db",
        "REDIS_URL": "redis://:hush@h",
    }
    settings = load(**STRIPE, **addresses)

    for secret in (SECRET, "hush", "sk_test_51Abc", "whsec_one"):
        assert secret not in repr(settings)
