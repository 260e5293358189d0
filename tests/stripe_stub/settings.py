"""The settings of the platform's account in the Dashboard."""

from __future__ import annotations

from attrs import field, frozen

from tests.stripe_stub.version import VERSION


@frozen
class AccountSettings:
    """Settings of the platform's account; the defaults are correct.

    `endpoints` are the URLs of webhook endpoints for the account's own events, `destinations`
    those of event destinations for thin events.
    """

    payout_interval: str | None = "manual"
    minimum_balance: dict[str, int] = field(factory=dict)
    debit_negative_balances: bool = True
    endpoints: tuple[str, ...] = ("https://bookings.example.com/webhooks/stripe",)
    endpoint_events: tuple[str, ...] = ("*",)
    endpoint_status: str = "enabled"
    endpoint_version: str | None = VERSION
    destinations: tuple[str, ...] = ("https://bookings.example.com/webhooks/stripe",)
    destination_events: tuple[str, ...] = (
        "v2.core.account[configuration.recipient].capability_status_updated",
        "v2.core.account[requirements].updated",
    )
    destination_status: str = "enabled"
    capabilities: dict[str, str] = field(
        factory=lambda: {"card_payments": "active", "transfers": "active"}
    )
    charges_enabled: bool = True
    payouts_enabled: bool = True
    details_submitted: bool = True
    country: str = "US"
    default_currency: str = "usd"
