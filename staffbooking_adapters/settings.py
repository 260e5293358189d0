"""Reads the settings from the environment (CONTRACT 9).

Every setting is named `STAFFBOOKING_<NAME>`. An invalid value or an unknown name prevents the
start with one line that names the setting and what it must be.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from attrs import field, frozen

from staffbooking_adapters.settings_database import (
    database_place,
    default_files_folder,
    parse_database_url,
)
from staffbooking_adapters.settings_exposure import (
    DEFAULT_SECRET,
    STRONG_SECRET_LENGTH,
    is_exposed,
    is_loopback,
    is_public_url,
    is_weak_secret,
    parse_secrets,
)
from staffbooking_adapters.settings_logs import LogFormat, parse_log_format, parse_log_level
from staffbooking_adapters.settings_mail import (
    SmtpServer,
    default_mail_host,
    parse_mailbox,
    parse_smtp_url,
)
from staffbooking_core.domain.shared.durations import parse_duration
from staffbooking_core.domain.shared.money import (
    PARTS_PER_MILLION,
    THREE_DECIMAL_CURRENCIES,
    Currency,
)
from staffbooking_core.domain.shared.rate_limits import parse_rate_limits
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.policy import Policy

T = TypeVar("T")

_ENVIRONMENT_PREFIX = "STAFFBOOKING_"
SETTING_NAMES = frozenset(
    """
    ALLOWED_ORIGINS BASE_URL BLOCKED_TERMS CONNECTIONS_PER_ADDRESS CONTACT_EMAIL COUNTRY CURRENCY
    DATABASE_URL DEBUG ENVIRONMENT FAKE_PAYEES FILES_DIR INSURANCE_RATE LATE_CANCEL_PAYOUT LIMITS
    LOG_FORMAT LOG_LEVEL MAIL_FROM PAYMENTS PAYMENT_WINDOW PAYOUT_DELAY PLATFORM_FEE REDIS_URL
    SANDBOX SECRET_KEY SMTP_URL STRIPE_API_BASE STRIPE_SECRET_KEY STRIPE_WEBHOOK_SECRET
    TRUSTED_PROXIES WEBHOOK_ALLOW_INSECURE
    """.split()
)
"""All settings, without their prefix. DEBUG is the command line's."""
_KUBERNETES_NAME = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\w+)", re.ASCII)
"""Names that Kubernetes sets for a service whose name begins with `staffbooking`."""

STRIPE_UNSUPPORTED_CURRENCIES = frozenset("huf isk twd ugx".split()) | THREE_DECIMAL_CURRENCIES
"""Currencies without exact payouts: Stripe does not use their smallest unit."""

_URL_USER = r"((?![@/?#])[!-~])*@"
_REDIS_ADDRESS = rf"({_URL_USER})?([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{{1,5}})?(/[0-9]*)?"
_REDIS_TLS_OPTION = (
    r"(ssl_(ca_certs|certfile|keyfile)=[^&#\s]+|ssl_cert_reqs=(none|optional|required))"
)
_REDIS_URL_PATTERN = re.compile(
    rf"redis://{_REDIS_ADDRESS}"
    rf"|rediss://{_REDIS_ADDRESS}(\?{_REDIS_TLS_OPTION}(&{_REDIS_TLS_OPTION})*)?"
    rf"|unix://({_URL_USER})?/[^?#\s]+",
    re.ASCII,
)
_ORIGIN_PATTERN = re.compile(
    r"https?://([\w.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]{1,5}))?", re.ASCII
)
"""An origin as browsers send it."""

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


class SettingsError(StaffbookingError):
    """A setting is invalid; the message is one line that names it."""

    code = "settings"

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        super().__init__(f"{_ENVIRONMENT_PREFIX}{name} {message}")


@frozen
class FakeProcessorSettings:
    """Settings of the fake processor: no money moves."""

    manual_payees: bool = False
    """Whether staff members complete their payout accounts on a page, as with a real processor."""


@frozen
class StripeSettings:
    """Settings of payments through Stripe."""

    secret_key: str = field(repr=False)
    webhook_secrets: tuple[str, ...] = field(repr=False)
    """One secret for each endpoint that Stripe posts to; two during a rotation."""
    environment: str = "main"
    """The deployment's name among those that share the Stripe account; part of every idempotency
    key and of the metadata of every object."""
    api_base: str | None = None
    """The URL of the tests' stub; None for Stripe itself."""

    @property
    def is_live(self) -> bool:
        """Whether the key moves real money."""
        return self.secret_key[2:].startswith("_live_")


@frozen
class Settings:
    """All settings of a deployment."""

    database_url: str = field(repr=False)
    secret_keys: tuple[str, ...] = field(repr=False)
    """The first key signs and seals; all of them verify and open."""
    policy: Policy
    processor: FakeProcessorSettings | StripeSettings = FakeProcessorSettings()
    trusted_proxies: tuple[IpNetwork, ...] = ()
    connections_per_address: int = 200
    """Open connections of one address to one server process, unless it is a trusted proxy."""
    allowed_origins: tuple[str, ...] = ()
    redis_url: str | None = field(default=None, repr=False)
    """The Redis that carries broadcasts between processes; None to use the database."""
    blocked_terms: tuple[str, ...] = ()
    """Terms blocked in messages, in addition to the default list."""
    files_dir: Path | None = None
    """The folder of uploaded images, if it is given; `files_folder` has the default."""
    smtp: SmtpServer | None = None
    """The mail server; None to write notifications to the log only."""
    mail_from: tuple[str, str] = ("Staff booking", "staffbooking@localhost")
    """The sender's name and address."""
    log_format: LogFormat = LogFormat.TEXT
    log_level: int = logging.INFO

    @property
    def has_default_secret(self) -> bool:
        return DEFAULT_SECRET in self.secret_keys

    @property
    def database_place(self) -> str:
        """Where the database is, without user and password."""
        return database_place(self.database_url)

    @property
    def files_folder(self) -> Path:
        """The folder of uploaded images."""
        return self.files_dir or default_files_folder(self.database_url)


def load_settings(environ: Mapping[str, str], *, listening_address: str | None = None) -> Settings:
    """Read and validate all settings. Raises SettingsError for the first invalid one.

    `listening_address` is the IP address that a server listens on; without one the base URL alone
    decides whether strangers can reach the deployment (CONTRACT 10).
    """
    read = _EnvironmentReader(environ)
    read.check_names()
    read("DEBUG", _parse_flag, "0")  # used by the command line
    is_fake = read("PAYMENTS", _parse_payments, "fake") == "fake"
    base_url = read("BASE_URL", _parse_base_url, "http://127.0.0.1:8000")
    mail_from = read(
        "MAIL_FROM", parse_mailbox, f"Staff booking <staffbooking@{default_mail_host(base_url)}>"
    )
    smtp = read("SMTP_URL", parse_smtp_url, "")
    try:
        policy = Policy(
            currency=read("CURRENCY", lambda text: Currency(text.lower()), "usd"),
            country=read("COUNTRY", str.upper, "US"),
            base_url=base_url,
            contact_email=read("CONTACT_EMAIL", parse_mailbox, mail_from[1])[1],
            platform_fee_ppm=read("PLATFORM_FEE", _parse_rate, "0.15"),
            insurance_rate_ppm=read("INSURANCE_RATE", _parse_rate, "0.05"),
            late_cancel_payout=read("LATE_CANCEL_PAYOUT", _parse_flag, "1"),
            payout_delay=read("PAYOUT_DELAY", parse_duration, "24h"),
            payment_window=read("PAYMENT_WINDOW", _parse_payment_window, ""),
            limits=read("LIMITS", parse_rate_limits, ""),
            sandbox=read("SANDBOX", _parse_flag, "1" if is_fake else "0"),
            keeps_mails=smtp is None and not is_exposed(base_url, listening_address),
            webhook_allow_insecure=read("WEBHOOK_ALLOW_INSECURE", _parse_flag, "0"),
        )
    except ValueError as error:  # It names a field, and the setting of that field is named alike.
        name, _, fault = str(error).partition(" ")
        raise SettingsError(name.upper(), fault) from None
    settings = Settings(
        database_url=read(
            "DATABASE_URL", parse_database_url, "sqlite+aiosqlite:///staffbooking.db"
        ),
        secret_keys=read("SECRET_KEY", parse_secrets, DEFAULT_SECRET),
        policy=policy,
        processor=_load_fake_settings(read) if is_fake else _load_stripe_settings(read),
        trusted_proxies=read("TRUSTED_PROXIES", _parse_networks, ""),
        connections_per_address=read("CONNECTIONS_PER_ADDRESS", _parse_connection_count, "200"),
        allowed_origins=read("ALLOWED_ORIGINS", _parse_origins, ""),
        redis_url=read("REDIS_URL", _parse_redis_url, ""),
        blocked_terms=read("BLOCKED_TERMS", _parse_terms, ""),
        files_dir=read("FILES_DIR", lambda text: Path(text) if text else None, ""),
        smtp=smtp,
        mail_from=mail_from,
        log_format=read("LOG_FORMAT", parse_log_format, "text"),
        log_level=read("LOG_LEVEL", parse_log_level, "info"),
    )
    if policy.webhook_allow_insecure and not policy.sandbox:
        raise SettingsError("WEBHOOK_ALLOW_INSECURE", "requires a sandbox: SANDBOX is off")
    match settings.processor:
        case StripeSettings() as stripe:
            _check_stripe_settings(settings, stripe)
        case FakeProcessorSettings() if is_public_url(policy.base_url):
            _check_public_fake_settings(settings, is_explicit=read.has("SANDBOX"))
    _check_exposure(settings, listening_address, has_sandbox=read.has("SANDBOX"))
    return settings


def _load_fake_settings(read: _EnvironmentReader) -> FakeProcessorSettings:
    payees = read("FAKE_PAYEES", _parse_fake_payees, "auto")
    return FakeProcessorSettings(manual_payees=payees == "manual")


def _load_stripe_settings(read: _EnvironmentReader) -> StripeSettings:
    if read.has("FAKE_PAYEES"):
        raise SettingsError("FAKE_PAYEES", "requires fake payments: PAYMENTS is stripe")
    return StripeSettings(
        secret_key=read("STRIPE_SECRET_KEY", _parse_stripe_key, ""),
        webhook_secrets=read("STRIPE_WEBHOOK_SECRET", _parse_stripe_webhook_secrets, ""),
        environment=read("ENVIRONMENT", _parse_environment, "main"),
        api_base=read("STRIPE_API_BASE", _parse_stripe_api_base, ""),
    )


class _EnvironmentReader:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def check_names(self) -> None:
        """Raise SettingsError for a name with the prefix that is no setting."""
        for variable in sorted(self._environ):
            name = variable.removeprefix(_ENVIRONMENT_PREFIX)
            is_ours = name != variable and not _KUBERNETES_NAME.fullmatch(name)
            if is_ours and name not in SETTING_NAMES:
                [nearest] = get_close_matches(name.upper(), sorted(SETTING_NAMES), n=1, cutoff=0)
                raise SettingsError(
                    name, f"is not a setting: did you mean {_ENVIRONMENT_PREFIX}{nearest}?"
                )

    def __call__(self, name: str, parse: Callable[[str], T], default: str) -> T:
        text = self._environ.get(_ENVIRONMENT_PREFIX + name, default).strip()
        try:
            return parse(text)
        except ValueError as error:
            raise SettingsError(name, str(error)) from None

    def has(self, name: str) -> bool:
        """Whether the environment contains the setting."""
        return _ENVIRONMENT_PREFIX + name in self._environ


def _check_stripe_settings(settings: Settings, stripe: StripeSettings) -> None:
    """Check settings that Stripe excludes: the sandbox, the default secret, unsupported
    currencies; with a live key also an insecure base URL and a test API base."""
    if settings.policy.sandbox:
        raise SettingsError("SANDBOX", "requires fake payments: PAYMENTS is stripe")
    if settings.has_default_secret:
        raise SettingsError("SECRET_KEY", "must be set if PAYMENTS is stripe")
    if (currency := settings.policy.currency.code) in STRIPE_UNSUPPORTED_CURRENCIES:
        raise SettingsError("CURRENCY", f"can't be {currency} if PAYMENTS is stripe")
    if not stripe.is_live:
        return
    if not settings.policy.base_url.startswith("https:"):
        raise SettingsError("BASE_URL", "must be https with a live STRIPE_SECRET_KEY")
    if stripe.api_base is not None:
        raise SettingsError("STRIPE_API_BASE", "is not allowed with a live STRIPE_SECRET_KEY")


def _check_public_fake_settings(settings: Settings, *, is_explicit: bool) -> None:
    """Require an explicit sandbox for a fake processor on a public base URL."""
    if not (is_explicit and settings.policy.sandbox):
        raise SettingsError(
            "PAYMENTS", "is fake on a public base URL: confirm it with STAFFBOOKING_SANDBOX=1"
        )


def _check_exposure(
    settings: Settings, listening_address: str | None, *, has_sandbox: bool
) -> None:
    """Require strong secret keys, and with the fake processor an explicit choice of the sandbox,
    where strangers can reach the deployment."""
    listens_beyond_loopback = listening_address is not None and not is_loopback(listening_address)
    is_open = is_exposed(settings.policy.base_url, listening_address)
    if is_open and any(map(is_weak_secret, settings.secret_keys)):
        where = "beyond loopback" if listens_beyond_loopback else "on a public base URL"
        raise SettingsError(
            "SECRET_KEY",
            f"must be random keys of at least {STRONG_SECRET_LENGTH} characters {where}: "
            "`openssl rand -hex 32` makes one",
        )
    is_fake = isinstance(settings.processor, FakeProcessorSettings)
    if listens_beyond_loopback and is_fake and not has_sandbox:
        raise SettingsError(
            "SANDBOX",
            "must be 1 or 0 beyond loopback with fake payments: 1 lets everybody move the clock",
        )


# Parsers: each raises ValueError with the text that follows the setting's name -----------


def _parse_base_url(text: str) -> str:
    """The address as browsers write it in `Origin`: in lower case, without a default port."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("must have a valid host, and a port from 0 to 65535") from None
    scheme, host = parts.scheme, parts.hostname
    if scheme not in _DEFAULT_PORTS or not host or parts.query or parts.fragment:
        raise ValueError("must be an address such as https://booking.example")
    if parts.username is not None or not _BASE_PATH.fullmatch(parts.path):
        raise ValueError("must be a scheme and a host, and may have a path such as /booking")
    if not _BASE_HOST.fullmatch(host):
        raise ValueError("must have a host in ASCII, such as xn--mnchen-3ya.example")
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    return f"{scheme}://{shown_host}{shown_port}{parts.path.rstrip('/')}"


_DEFAULT_PORTS = {"http": 80, "https": 443}
_BASE_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_BASE_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


def _parse_rate(text: str) -> int:
    try:
        ppm = Decimal(text) * PARTS_PER_MILLION
    except ArithmeticError:  # no number, or one without bounds
        raise ValueError("must be a fraction such as 0.15") from None
    if not ppm.is_finite() or not 0 <= ppm <= PARTS_PER_MILLION or ppm != int(ppm):
        raise ValueError("must be a fraction from 0 to 1 with at most 6 decimals")
    return int(ppm)


def _parse_flag(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("must be 1 or 0")
    return text == "1"


def _parse_payment_window(text: str) -> timedelta | None:
    return parse_duration(text) if text else None


def _parse_payments(text: str) -> str:
    if text not in ("fake", "stripe"):
        raise ValueError("must be fake or stripe")
    return text


def _parse_fake_payees(text: str) -> str:
    if text not in ("auto", "manual"):
        raise ValueError("must be auto or manual")
    return text


def _parse_stripe_key(text: str) -> str:
    if not re.fullmatch(r"(sk|rk)_(test|live)_\w+", text, re.ASCII):
        raise ValueError("must be Stripe's secret key, sk_..., or a restricted one, rk_...")
    return text


def _parse_stripe_webhook_secrets(text: str) -> tuple[str, ...]:
    secrets = tuple(part.strip() for part in text.split(","))
    if not all(re.fullmatch(r"whsec_[!-~]+", secret) for secret in secrets):
        raise ValueError("must be the endpoints' secrets, whsec_..., separated by commas")
    return secrets


def _parse_environment(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,32}", text):
        raise ValueError("must be 1 to 32 lower-case letters, digits and hyphens")
    return text


def _parse_stripe_api_base(text: str) -> str | None:
    if text and not re.fullmatch(r"http://(127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}", text):
        raise ValueError("must be an http address of this machine: it is only for tests")
    return text or None


def _parse_networks(text: str) -> tuple[IpNetwork, ...]:
    parts = filter(None, map(str.strip, text.split(",")))
    try:
        return tuple(ipaddress.ip_network(part) for part in parts)
    except ValueError:
        raise ValueError("must be networks such as 10.0.0.0/8, separated by commas") from None


def _parse_connection_count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise ValueError("must be a whole number from 1 to 999999")
    return int(text)


def _parse_origins(text: str) -> tuple[str, ...]:
    origins = tuple(filter(None, (part.strip().rstrip("/") for part in text.lower().split(","))))
    for origin in origins:
        found = _ORIGIN_PATTERN.fullmatch(origin)
        if found is None or not 1 <= int(found["port"] or 1) <= 65_535:
            raise ValueError("must be origins such as https://app.example, separated by commas")
    return origins


def _parse_redis_url(text: str) -> str | None:
    if text and not (_REDIS_URL_PATTERN.fullmatch(text) and urlsplit(text).port != 0):
        raise ValueError(
            "must be redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH, "
            "with %XX for special characters in a password"
        )
    return text or None


def _parse_terms(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))
