"""Fixtures: scenarios in memory for bookings and for payout accounts."""

from __future__ import annotations

import pytest

from staffbooking_core.usecases import idempotency
from tests.support.memory_deployment import BookingScenario, make_booking_scenario
from tests.support.payee_scenario import PayeeScenario, make_payee_scenario


@pytest.fixture
async def scene() -> BookingScenario:
    return await make_booking_scenario()


@pytest.fixture
async def desk() -> PayeeScenario:
    return await make_payee_scenario()


@pytest.fixture
def blind(monkeypatch):
    """Makes the second lookup of a stored response find none, as if a concurrent call stored it
    later."""
    real, looks = idempotency.find_response, []

    async def find(ports, keep):
        looks.append(keep)
        return None if len(looks) == 2 else await real(ports, keep)

    monkeypatch.setattr(idempotency, "find_response", find)
