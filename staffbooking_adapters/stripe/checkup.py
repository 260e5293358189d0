"""Checks the Stripe account's settings; each finding says what to change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen
from stripe import AuthenticationError, StripeClient, StripeError

from staffbooking_adapters.stripe.documents import get_path, list_all
from staffbooking_adapters.stripe.errors import to_processor_error
from staffbooking_adapters.stripe.events import EVENT_TYPES, THIN_EVENT_TYPES
from staffbooking_core.ports.processor import CheckupFinding

_WEBHOOK_PATH: Final = "/processor/stripe/webhook"


@frozen
class ExpectedSetup:
    """The settings that the deployment relies on. `secret_count` is its number of webhook
    secrets."""

    is_live: bool
    api_version: str
    base_url: str
    currency: str
    secret_count: int

    @property
    def webhook_url(self) -> str:
        return f"{self.base_url.rstrip('/')}{_WEBHOOK_PATH}"


_Check: TypeAlias = Callable[[StripeClient, ExpectedSetup], Awaitable[Sequence[CheckupFinding]]]


async def check_setup(
    client: StripeClient, expected: ExpectedSetup
) -> AsyncIterator[CheckupFinding]:
    """Yield each finding. Settings that the key can't read are a failed finding; an invalid key
    ends the check."""
    checks: dict[str, _Check] = {
        "key": _check_account,
        "payouts": _check_payout_schedule,
        "webhooks": _check_webhooks,
        "payee webhooks": _check_payee_webhooks,
    }
    for name, check in checks.items():
        try:
            findings = await check(client, expected)
        except AuthenticationError:
            yield CheckupFinding(
                name, False, "Stripe does not know the secret key: set another one"
            )
            return
        except StripeError as error:
            yield CheckupFinding(name, False, f"can't be read: {to_processor_error(error)}")
            continue
        for finding in findings:
            yield finding


async def _check_account(client: StripeClient, expected: ExpectedSetup) -> Sequence[CheckupFinding]:
    account = (await client.v1.accounts.retrieve_current_async()).to_dict()
    can_transfer = get_path(account, "capabilities", "transfers") == "active"
    currency = account["default_currency"]
    return (
        CheckupFinding(
            "key", True, f"{'real money' if expected.is_live else 'test mode'}, {account['id']}"
        ),
        CheckupFinding(
            "charges",
            bool(account["charges_enabled"]),
            "the account can charge cards"
            if account["charges_enabled"]
            else "the account can't charge cards: complete its activation in the Dashboard",
        ),
        CheckupFinding(
            "payees",
            can_transfer,
            "the account can pay out to connected accounts"
            if can_transfer
            else "the account can't pay out to connected accounts: set up Connect in the Dashboard",
        ),
        CheckupFinding(
            "currency",
            currency == expected.currency,
            f"the account holds {currency}"
            if currency == expected.currency
            else f"the account holds {currency}, bookings are paid in {expected.currency}: "
            f"each payment would be converted, so add a bank account in {expected.currency}",
        ),
    )


async def _check_payout_schedule(
    client: StripeClient, expected: ExpectedSetup
) -> Sequence[CheckupFinding]:
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    interval = get_path(settings, "payments", "payouts", "schedule", "interval")
    if interval == "manual":
        return (CheckupFinding("payouts", True, "payouts to the platform's bank are manual"),)
    return (
        CheckupFinding(
            "payouts",
            False,
            f"payouts to the platform's bank are {interval or 'automatic'}: they would sweep what "
            "is held for bookings to the bank; make them manual in the Dashboard",
        ),
    )


async def _check_webhooks(
    client: StripeClient, expected: ExpectedSetup
) -> Sequence[CheckupFinding]:
    listed = await list_all(await client.v1.webhook_endpoints.list_async({"limit": 100}))
    ours = [each.to_dict() for each in listed if each.url == expected.webhook_url]
    problems = [_find_endpoint_problem(each, expected) for each in ours]
    if None in problems:
        return (CheckupFinding("webhooks", True, f"{expected.webhook_url} receives every payment"),)
    detail = (
        problems[0] if problems else f"no endpoint {expected.webhook_url}: add one in the Dashboard"
    )
    return (CheckupFinding("webhooks", False, f"{detail}; until then changes are polled"),)


def _find_endpoint_problem(endpoint: dict[str, Any], expected: ExpectedSetup) -> str | None:
    missing = _missing_types(endpoint["enabled_events"], EVENT_TYPES)
    if endpoint["status"] != "enabled":
        return f"the endpoint {expected.webhook_url} is disabled: enable it"
    if missing:
        return f"the endpoint {expected.webhook_url} must listen to {', '.join(missing)} too"
    if endpoint["api_version"] != expected.api_version:
        return (
            f"the endpoint {expected.webhook_url} must be created again "
            f"with API version {expected.api_version}"
        )
    return None


async def _check_payee_webhooks(
    client: StripeClient, expected: ExpectedSetup
) -> Sequence[CheckupFinding]:
    listed = await client.v2.core.event_destinations.list_async(
        {"limit": 100, "include": ["webhook_endpoint.url"]}
    )
    is_subscribed = any(
        get_path(each, "webhook_endpoint", "url") == expected.webhook_url
        and each["event_payload"] == "thin"
        and each["status"] == "enabled"
        and not _missing_types(each["enabled_events"], THIN_EVENT_TYPES)
        for each in [each.to_dict() async for each in listed.auto_paging_iter()]
    )
    if not is_subscribed:
        detail = (
            f"no destination {expected.webhook_url} for thin events of connected accounts: "
            f"add one in the Dashboard that listens to {' and '.join(THIN_EVENT_TYPES)}"
        )
    elif expected.secret_count < 2:
        detail = "each of the two endpoints signs with a secret of its own: configure both"
    else:
        return (
            CheckupFinding("payee webhooks", True, f"{expected.webhook_url} receives every payee"),
        )
    return (CheckupFinding("payee webhooks", False, detail),)


def _missing_types(enabled: Sequence[str], needed: Sequence[str]) -> list[str]:
    return [] if "*" in enabled else [each for each in needed if each not in enabled]
