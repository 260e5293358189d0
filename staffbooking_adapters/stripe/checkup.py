"""A look at the account's settings at Stripe: what is wrong there is told with what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen
from stripe import AuthenticationError, StripeClient, StripeError

from staffbooking_adapters.stripe.errors import judged
from staffbooking_adapters.stripe.events import THIN_TYPES, TYPES
from staffbooking_adapters.stripe.reading import dig, every
from staffbooking_core.ports.processor import Finding

PATH: Final = "/processor/stripe/webhook"


@frozen
class Wanted:
    """What the deployment relies on. `secrets` is how many webhook secrets it has."""

    live: bool
    version: str
    base_url: str
    currency: str
    secrets: int

    @property
    def url(self) -> str:
        return f"{self.base_url.rstrip('/')}{PATH}"


_Check: TypeAlias = Callable[[StripeClient, Wanted], Awaitable[Sequence[Finding]]]


async def examine(client: StripeClient, wanted: Wanted) -> AsyncIterator[Finding]:
    """Each finding as it is made. What the key may not read is a finding as well, and without
    a key that works there is nothing else to find."""
    checks: dict[str, _Check] = {
        "key": _account,
        "payouts": _payouts,
        "webhooks": _webhooks,
        "payee webhooks": _payee_webhooks,
    }
    for name, check in checks.items():
        try:
            findings = await check(client, wanted)
        except AuthenticationError:
            yield Finding(name, False, "Stripe does not know the secret key: set another one")
            return
        except StripeError as error:
            yield Finding(name, False, f"Stripe does not tell: {judged(error)}")
            continue
        for finding in findings:
            yield finding


async def _account(client: StripeClient, wanted: Wanted) -> Sequence[Finding]:
    account = (await client.v1.accounts.retrieve_current_async()).to_dict()
    transfers = dig(account, "capabilities", "transfers") == "active"
    currency = account["default_currency"]
    return (
        Finding("key", True, f"{'real money' if wanted.live else 'test mode'}, {account['id']}"),
        Finding(
            "charges",
            bool(account["charges_enabled"]),
            "the account can charge cards"
            if account["charges_enabled"]
            else "the account can't charge cards: complete its activation in the Dashboard",
        ),
        Finding(
            "payees",
            transfers,
            "the account can pay out to connected accounts"
            if transfers
            else "the account can't pay out to connected accounts: set up Connect in the Dashboard",
        ),
        Finding(
            "currency",
            currency == wanted.currency,
            f"the account holds {currency}"
            if currency == wanted.currency
            else f"the account holds {currency}, bookings are paid in {wanted.currency}: "
            f"each payment would be converted, so add a bank account in {wanted.currency}",
        ),
    )


async def _payouts(client: StripeClient, wanted: Wanted) -> Sequence[Finding]:
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    interval = dig(settings, "payments", "payouts", "schedule", "interval")
    if interval == "manual":
        return (Finding("payouts", True, "payouts to the platform's bank are manual"),)
    return (
        Finding(
            "payouts",
            False,
            f"payouts to the platform's bank are {interval or 'automatic'}: they would sweep what "
            "is held for bookings to the bank; make them manual in the Dashboard",
        ),
    )


async def _webhooks(client: StripeClient, wanted: Wanted) -> Sequence[Finding]:
    listed = await every(await client.v1.webhook_endpoints.list_async({"limit": 100}))
    ours = [each.to_dict() for each in listed if each.url == wanted.url]
    wrong = [_wrong_endpoint(each, wanted) for each in ours]
    if None in wrong:
        return (Finding("webhooks", True, f"{wanted.url} hears of every payment"),)
    detail = wrong[0] if wrong else f"no endpoint {wanted.url}: add one in the Dashboard"
    return (Finding("webhooks", False, f"{detail}; until then changes are asked for"),)


def _wrong_endpoint(endpoint: dict[str, Any], wanted: Wanted) -> str | None:
    missing = _missing(endpoint["enabled_events"], TYPES)
    if endpoint["status"] != "enabled":
        return f"the endpoint {wanted.url} is disabled: enable it"
    if missing:
        return f"the endpoint {wanted.url} must listen to {', '.join(missing)} too"
    if endpoint["api_version"] != wanted.version:
        return f"the endpoint {wanted.url} must be made anew with API version {wanted.version}"
    return None


async def _payee_webhooks(client: StripeClient, wanted: Wanted) -> Sequence[Finding]:
    listed = await client.v2.core.event_destinations.list_async(
        {"limit": 100, "include": ["webhook_endpoint.url"]}
    )
    heard = any(
        dig(each, "webhook_endpoint", "url") == wanted.url
        and each["event_payload"] == "thin"
        and each["status"] == "enabled"
        and not _missing(each["enabled_events"], THIN_TYPES)
        for each in [each.to_dict() async for each in listed.auto_paging_iter()]
    )
    if not heard:
        detail = (
            f"no destination {wanted.url} for thin events of connected accounts: add one in the "
            f"Dashboard that listens to {' and '.join(THIN_TYPES)}"
        )
    elif wanted.secrets < 2:
        detail = "each of the two endpoints signs with a secret of its own: configure both"
    else:
        return (Finding("payee webhooks", True, f"{wanted.url} hears of every payee"),)
    return (Finding("payee webhooks", False, detail),)


def _missing(enabled: Sequence[str], needed: Sequence[str]) -> list[str]:
    return [] if "*" in enabled else [each for each in needed if each not in enabled]
