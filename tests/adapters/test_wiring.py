"""The composition root: which adapters the settings lead to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.settings import Settings, load_settings
from staffbooking_adapters.stripe.processor import StripeProcessor
from staffbooking_adapters.system import SandboxClock, SystemClock
from staffbooking_core.domain.payees import OpenPayee
from staffbooking_core.domain.payments import OpKey, OpKind
from tests.stripe_stub import open_stub

pytestmark = pytest.mark.anyio

STRIPE = {
    "PAYMENTS": "stripe",
    "SECRET_KEY": "a-secret-of-the-deployment",
    "STRIPE_SECRET_KEY": "sk_test_51Abc",
    "STRIPE_WEBHOOK_SECRET": "whsec_one",
}


@pytest.fixture
async def database_url(tmp_path: Path) -> str:
    """Of a database with the schema."""
    url = f"sqlite+aiosqlite:///{tmp_path}/test.db"
    await wiring.upgrade_schema(settings(url))
    return url


def settings(url: str, **values: str) -> Settings:
    given = {"DATABASE_URL": url, **values}
    return load_settings({f"STAFFBOOKING_{name}": value for name, value in given.items()})


async def test_by_default_payments_are_pretended(database_url: str) -> None:
    """The pretended processor is its own test bench, on a clock that can be moved."""
    async with wiring.open_ports(settings(database_url)) as ports:
        assert isinstance(ports.payments, FakeProcessor)
        assert isinstance(ports.sandbox, FakeProcessor)
        assert isinstance(ports.clock, SandboxClock)


@pytest.mark.parametrize(("given", "ready"), [("auto", True), ("manual", False)])
async def test_pretended_payees_are_ready_or_not(
    database_url: str, given: str, ready: bool
) -> None:
    """With FAKE_PAYEES=manual a new payee has a page to complete first."""
    command = OpenPayee(7, "mia@example.com", "Mia Lindqvist", "US", "usd")
    async with wiring.open_ports(settings(database_url, FAKE_PAYEES=given)) as ports:
        opened = await ports.payments.open_payee(command, OpKey(0, 7, OpKind.OPEN_PAYEE, 1), 5)

    assert opened.ready is ready


async def test_stripe_has_no_sandbox(database_url: str) -> None:
    """Real payments are made by the machine's own clock, which nobody moves."""
    async with wiring.open_ports(settings(database_url, **STRIPE)) as ports:
        assert isinstance(ports.payments, StripeProcessor)
        assert ports.sandbox is None
        assert type(ports.clock) is SystemClock


async def test_stripe_is_given_what_the_settings_say(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys, name, addresses and currency reach the processor, and it is closed at the end."""
    made: list[Any] = []

    class Recording(StripeProcessor):
        def __init__(self, *positional: Any, **named: Any) -> None:
            super().__init__(*positional, **named)
            made.append((positional, named))

        async def close(self) -> None:
            await super().close()
            made.append("closed")

    monkeypatch.setattr("staffbooking_adapters.stripe.processor.StripeProcessor", Recording)
    stub = {"STRIPE_API_BASE": "http://127.0.0.1:4242", "ENVIRONMENT": "eu", "CURRENCY": "EUR"}
    async with wiring.open_ports(settings(database_url, **STRIPE, **stub)):
        [(positional, named)] = made

    assert positional == ("sk_test_51Abc", ("whsec_one",), "eu")
    assert named == {
        "base_url": "http://127.0.0.1:8000",
        "currency": "eur",
        "base_addresses": {"api": "http://127.0.0.1:4242"},
    }
    assert made[1:] == ["closed"]


async def test_the_stub_is_reached_by_its_address(database_url: str) -> None:
    """With STRIPE_API_BASE the whole composition talks to the stub of the tests."""
    async with open_stub(lambda: datetime.now(UTC)) as stub:
        stubbed = {"STRIPE_SECRET_KEY": stub.api_key, "STRIPE_API_BASE": stub.url}
        async with wiring.open_ports(settings(database_url, **{**STRIPE, **stubbed})) as ports:
            key, *_ = await ports.payments.checkup(10)

    assert (key.name, key.ok) == ("key", True)
