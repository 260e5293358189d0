"""The checkup of the account's settings at Stripe, with advice on each wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_adapters.stripe.events import EVENT_TYPES
from staffbooking_adapters.testing.processor.base import CALL_TIMEOUT_SECONDS, ProcessorBench
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.ports.processor import CheckupFinding
from tests.money.processors import BASE_URL, make_stripe_processor, stub_of

pytestmark = pytest.mark.anyio

URL = f"{BASE_URL}/processor/stripe/webhook"


async def _found(bench: ProcessorBench, **given: Any) -> dict[str, CheckupFinding]:
    """The findings by name of a processor created with the given options."""
    processor = make_stripe_processor(stub_of(bench), **given)
    found = await processor.checkup(CALL_TIMEOUT_SECONDS)
    await processor.close()
    return {each.name: each for each in found}


async def test_a_correct_account_is_in_order(stripe: ProcessorBench) -> None:
    """A correct account has seven findings, all in order, and the key's mode and account."""
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


WRONG_SETTINGS: list[tuple[dict[str, Any], str, str]] = [
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


@pytest.mark.parametrize(("settings", "name", "advice"), WRONG_SETTINGS)
async def test_a_bad_setting_is_found(
    stripe: ProcessorBench, settings: dict[str, Any], name: str, advice: str
) -> None:
    """A wrong setting is the only finding not in order, with advice."""
    stub_of(stripe).set_settings(**settings)
    wrong = [each for each in (await _found(stripe)).values() if not each.ok]
    assert [each.name for each in wrong] == [name]
    assert advice in wrong[0].detail


async def test_one_good_endpoint_is_enough(stripe: ProcessorBench) -> None:
    """The webhooks are in order if one of several endpoints is ours."""
    stub_of(stripe).set_settings(endpoints=("https://other.example.com", URL))
    assert (await _found(stripe))["webhooks"].ok


async def test_the_needed_event_types_are_enough(stripe: ProcessorBench) -> None:
    """The webhooks are in order if the endpoint listens to exactly `EVENT_TYPES`."""
    stub_of(stripe).set_settings(endpoint_events=EVENT_TYPES)
    assert (await _found(stripe))["webhooks"].ok


async def test_one_secret_is_not_enough(stripe: ProcessorBench) -> None:
    """With one webhook secret the checkup asks to configure both."""
    found = await _found(stripe, webhook_secrets=("whsec_1",))
    assert [each.name for each in found.values() if not each.ok] == ["payee webhooks"]
    assert "configure both" in found["payee webhooks"].detail


async def test_a_wrong_key_is_found(stripe: ProcessorBench) -> None:
    """A wrong key is the only finding, and the advice is to set another."""
    found = await _found(stripe, secret_key="sk_test_wrong")
    assert [*found] == ["key"]
    assert not found["key"].ok
    assert "set another one" in found["key"].detail


async def test_missing_permissions_are_found(stripe: ProcessorBench) -> None:
    """A key without permissions leaves four findings, each with Stripe's message."""
    found = await _found(stripe, secret_key=stub_of(stripe).restricted_key)
    assert not any(each.ok for each in found.values())
    assert all("does not have the required permissions" in each.detail for each in found.values())
    assert len(found) == 4


async def test_a_check_that_fails_hides_no_other(stripe: ProcessorBench) -> None:
    """A failed read is a finding, and the other checks are made."""
    stub_of(stripe).inject_fault("read", "error_500")
    found = await _found(stripe)
    assert [name for name, each in found.items() if not each.ok] == ["key"]
    assert found["webhooks"].ok


async def test_a_checkup_without_time_is_unknown(stripe: ProcessorBench) -> None:
    """A checkup without time raises `OutcomeUnknown`."""
    with pytest.raises(OutcomeUnknown):
        await stripe.payments.checkup(0)
