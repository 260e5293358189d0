"""The look at the account's settings at Stripe: each that is wrong is found, with advice."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_adapters.stripe.events import EVENT_TYPES
from staffbooking_core.domain.payments.processor import Unknown
from staffbooking_core.ports.processor import CheckupFinding
from tests.money.processors import (
    BASE_URL,
    CALL_TIMEOUT_SECONDS,
    ProcessorBench,
    make_stripe_processor,
    stub_of,
)

pytestmark = pytest.mark.anyio

URL = f"{BASE_URL}/processor/stripe/webhook"


async def _found(bench: ProcessorBench, **given: Any) -> dict[str, CheckupFinding]:
    """What is found by a processor with these settings of ours."""
    processor = make_stripe_processor(stub_of(bench), **given)
    found = await processor.checkup(CALL_TIMEOUT_SECONDS)
    await processor.close()
    return {each.name: each for each in found}


async def test_a_good_account_is_good(stripe: ProcessorBench) -> None:
    """Key, charges, payees, currency, payouts and both kinds of events are looked at."""
    found = await _found(stripe)
    assert [*found] == [
        "key",
        "charges",
        "payees",
        "currency",
        "payouts",
        "webhooks",
        "payee webhooks",
    ]
    assert all(each.ok for each in found.values())
    assert found["key"].detail.startswith("test mode, acct_")


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"charges_enabled": False}, "charges", "complete its activation"),
    ({"capabilities": {}}, "payees", "set up Connect"),
    ({"capabilities": {"transfers": "inactive"}}, "payees", "set up Connect"),
    ({"default_currency": "eur"}, "currency", "the account holds eur, bookings are paid in usd"),
    ({"payout_interval": "daily"}, "payouts", "are daily: they would sweep what is held"),
    ({"payout_interval": None}, "payouts", "are automatic: they would sweep what is held"),
    ({"endpoints": ()}, "webhooks", f"no endpoint {URL}: add one"),
    ({"endpoints": (f"{URL}/",)}, "webhooks", f"no endpoint {URL}: add one"),
    ({"endpoint_status": "disabled"}, "webhooks", "is disabled: enable it"),
    ({"endpoint_events": EVENT_TYPES[1:]}, "webhooks", f"must listen to {EVENT_TYPES[0]} too"),
    ({"endpoint_version": None}, "webhooks", "must be created again with API version"),
    ({"endpoint_version": "2023-08-16"}, "webhooks", "must be created again with API version"),
    ({"destinations": ()}, "payee webhooks", f"no destination {URL} for thin events"),
    ({"destination_status": "disabled"}, "payee webhooks", "no destination"),
    ({"destination_events": ("v2.core.account.created",)}, "payee webhooks", "that listens to"),
]


@pytest.mark.parametrize(("settings", "name", "advice"), BAD)
async def test_a_bad_setting_is_found(
    stripe: ProcessorBench, settings: dict[str, Any], name: str, advice: str
) -> None:
    """One setting is wrong: it alone is found, and what to do."""
    stub_of(stripe).set_settings(**settings)
    wrong = [each for each in (await _found(stripe)).values() if not each.ok]
    assert [each.name for each in wrong] == [name]
    assert advice in wrong[0].detail


async def test_one_good_endpoint_is_enough(stripe: ProcessorBench) -> None:
    """Others may be there, of other deployments too."""
    stub_of(stripe).set_settings(endpoints=("https://other.example.com", URL))
    assert (await _found(stripe))["webhooks"].ok


async def test_exactly_what_is_needed_is_enough(stripe: ProcessorBench) -> None:
    """An endpoint need not listen to everything."""
    stub_of(stripe).set_settings(endpoint_events=EVENT_TYPES)
    assert (await _found(stripe))["webhooks"].ok


async def test_one_secret_is_too_few(stripe: ProcessorBench) -> None:
    """Two endpoints have two secrets; with one of them half of the events are refused."""
    found = await _found(stripe, webhook_secrets=("whsec_1",))
    assert [each.name for each in found.values() if not each.ok] == ["payee webhooks"]
    assert "configure both" in found["payee webhooks"].detail


async def test_a_wrong_key_is_found(stripe: ProcessorBench) -> None:
    """Where the key is wrong there is nothing else to find."""
    found = await _found(stripe, secret_key="sk_test_wrong")
    assert [*found] == ["key"]
    assert not found["key"].ok
    assert "set another one" in found["key"].detail


async def test_what_a_key_may_not_read_is_found(stripe: ProcessorBench) -> None:
    """A restricted key that lacks a permission leaves each check open, and says so."""
    found = await _found(stripe, secret_key=stub_of(stripe).restricted_key)
    assert not any(each.ok for each in found.values())
    assert all("does not have the required permissions" in each.detail for each in found.values())
    assert len(found) == 4


async def test_a_check_that_fails_hides_no_other(stripe: ProcessorBench) -> None:
    """One read that breaks is a finding, the others are made."""
    stub_of(stripe).inject_fault("look", "error_500")
    found = await _found(stripe)
    assert [name for name, each in found.items() if not each.ok] == ["key"]
    assert found["webhooks"].ok


async def test_no_time_is_no_checkup(stripe: ProcessorBench) -> None:
    """Without time there is no finding that could be trusted."""
    with pytest.raises(Unknown):
        await stripe.payments.checkup(0)
