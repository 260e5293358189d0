"""A deployment in memory with its people."""

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
    """The next look for a kept answer finds none: a twin is about to keep it."""
    real, looks = idempotency.find_response, []

    async def find(ports, keep):
        looks.append(keep)
        return None if len(looks) == 2 else await real(ports, keep)

    monkeypatch.setattr(idempotency, "find_response", find)
