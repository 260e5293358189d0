"""The page on payments names what the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffbooking_adapters.settings import STRIPE_UNSUPPORTED_CURRENCIES
from staffbooking_adapters.stripe.events import EVENT_TYPES, THIN_EVENT_TYPES
from staffbooking_adapters.stripe.processor import API_VERSION
from staffbooking_core.domain.payments.ledger import Account

PAGE = (Path(__file__).parents[2] / "docs/payments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*EVENT_TYPES, *THIN_EVENT_TYPES, API_VERSION])
def test_the_endpoints_are_told_in_full(name: str) -> None:
    """Who sets Stripe up by the page leaves out no event, and takes the right version."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("account", Account)
def test_the_accounts_are_explained(account: Account) -> None:
    """Whoever reads a booking's ledger finds each of its accounts on the page."""
    assert f"`{account}`" in PAGE.partition("| Account |")[2]


def test_the_refused_currencies_are_named() -> None:
    """The page names the currencies that stop the start, and no others."""
    named = PAGE.partition("| one for all bookings; not `")[2].partition("`")[0]
    assert {*named.split()} == STRIPE_UNSUPPORTED_CURRENCIES
