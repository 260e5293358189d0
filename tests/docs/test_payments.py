"""docs/payments.md: its names are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffbooking_adapters.settings import STRIPE_UNSUPPORTED_CURRENCIES
from staffbooking_adapters.stripe.events import EVENT_TYPES, THIN_EVENT_TYPES
from staffbooking_adapters.stripe.processor import API_VERSION
from staffbooking_core.domain.payments.ledger import Account

PAGE = (Path(__file__).parents[2] / "docs/payments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*EVENT_TYPES, *THIN_EVENT_TYPES, API_VERSION])
def test_event_types_and_version_are_named(name: str) -> None:
    """The page names every event type and the API version of Stripe."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("account", Account)
def test_the_accounts_are_explained(account: Account) -> None:
    """The table of accounts has every account of the ledger."""
    assert f"`{account}`" in PAGE.partition("| Account |")[2]


def test_the_refused_currencies_are_named() -> None:
    """The page names exactly the currencies that are not supported."""
    named = PAGE.partition("| one for all bookings; not `")[2].partition("`")[0]
    assert {*named.split()} == STRIPE_UNSUPPORTED_CURRENCIES
