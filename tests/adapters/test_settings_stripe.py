"""Settings of a deployment with Stripe."""

from __future__ import annotations

import pytest

from staffbooking_adapters.settings import SettingsError, StripeSettings, load_settings

SECRET = "5e9c1f0b7a3d48c6912e4fb05d7a6c38"
STRIPE = {
    "PAYMENTS": "stripe",
    "SECRET_KEY": SECRET,
    "STRIPE_SECRET_KEY": "sk_test_51Abc",
    "STRIPE_WEBHOOK_SECRET": "whsec_one",
}
LIVE = {**STRIPE, "STRIPE_SECRET_KEY": "rk_live_51Abc", "BASE_URL": "https://book.acme.com"}


def load(**values: str):
    return load_settings({f"STAFFBOOKING_{name}": value for name, value in values.items()})


def test_stripe_settings_are_read() -> None:
    """With PAYMENTS=stripe there is a key, one or more webhook secrets, an environment, and no
    sandbox."""
    secrets = {"STRIPE_WEBHOOK_SECRET": "whsec_one, whsec_two"}
    settings = load(**{**STRIPE, **secrets, "ENVIRONMENT": "eu-2"})

    assert settings.processor == StripeSettings("sk_test_51Abc", ("whsec_one", "whsec_two"), "eu-2")
    assert not settings.policy.sandbox
    assert not settings.processor.is_live
    assert load(**STRIPE, SANDBOX="0").processor == StripeSettings(
        "sk_test_51Abc", ("whsec_one",), "main"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_local_stripe_api_base_is_accepted(host: str) -> None:
    """An address of this machine may replace Stripe's API."""
    settings = load(**STRIPE, STRIPE_API_BASE=f"http://{host}:4242")

    assert settings.processor.api_base == f"http://{host}:4242"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STRIPE_SECRET_KEY", ""),
        ("STRIPE_SECRET_KEY", "pk_test_51Abc"),
        ("STRIPE_SECRET_KEY", "sk_"),
        ("STRIPE_SECRET_KEY", "sk_test_51 Abc"),
        ("STRIPE_WEBHOOK_SECRET", ""),
        ("STRIPE_WEBHOOK_SECRET", "whsec_"),
        ("STRIPE_WEBHOOK_SECRET", "whsec_one,"),
        ("STRIPE_WEBHOOK_SECRET", "whsec_one two"),
        ("STRIPE_WEBHOOK_SECRET", "secret"),
        ("ENVIRONMENT", ""),
        ("ENVIRONMENT", "Main"),
        ("ENVIRONMENT", "eu_2"),
        ("ENVIRONMENT", "e" * 33),
        ("STRIPE_API_BASE", "https://127.0.0.1:4242"),
        ("STRIPE_API_BASE", "http://127.0.0.1.example.com:4242"),
        ("STRIPE_API_BASE", "http://10.0.0.1:4242"),
        ("STRIPE_API_BASE", "http://user@127.0.0.1:4242"),
        ("STRIPE_API_BASE", "http://127.0.0.1:4242/path"),
        ("SANDBOX", "1"),
        ("FAKE_PAYEES", "auto"),
        ("WEBHOOK_ALLOW_INSECURE", "1"),
        ("SECRET_KEY", "development-only-secret-key"),
        *(("CURRENCY", code) for code in "isk ugx huf twd bhd jod kwd omr TND".split()),
    ],
)
def test_an_invalid_setting_with_stripe_is_one_line(name: str, value: str) -> None:
    """With PAYMENTS=stripe missing, malformed, fake-only, default and inexact settings are refused
    by name."""
    with pytest.raises(SettingsError, match=f"^STAFFBOOKING_{name} ") as caught:
        load(**{**STRIPE, name: value})

    assert "\n" not in str(caught.value)


def test_stripe_needs_a_secret_key() -> None:
    """Stripe requires a secret key on a private address too."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_SECRET_KEY "):
        load(**{name: value for name, value in STRIPE.items() if name != "SECRET_KEY"})


@pytest.mark.parametrize("code", ["usd", "eur", "jpy", "krw"])
def test_other_currencies_are_accepted_with_stripe(code: str) -> None:
    """Currencies with two or no decimals are accepted with Stripe."""
    assert load(**STRIPE, CURRENCY=code).policy.currency.code == code


@pytest.mark.parametrize("prefix", ["sk", "rk"])
def test_a_live_key_needs_an_https_url(prefix: str) -> None:
    """A live key requires an https base URL; a test key does not."""
    live = {**LIVE, "STRIPE_SECRET_KEY": f"{prefix}_live_51Abc"}
    assert load(**live).processor.is_live

    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_BASE_URL must be https"):
        load(**{**live, "BASE_URL": "http://book.acme.com"})


def test_a_live_key_is_refused_with_another_api_base() -> None:
    """A live key is refused with another API address than Stripe's."""
    with pytest.raises(SettingsError, match=r"^STAFFBOOKING_STRIPE_API_BASE "):
        load(**LIVE, STRIPE_API_BASE="http://127.0.0.1:4242")


def test_stripe_on_a_public_url_needs_no_sandbox() -> None:
    """A public base URL with Stripe needs no sandbox confirmation."""
    assert not load(**STRIPE, BASE_URL="https://book.acme.com").policy.sandbox
