"""The names of services and places, which searches read, are those of listed companions."""

from __future__ import annotations

import pytest
from sqlalchemy import select, union_all

from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.companions import locations, services
from staffbooking_adapters.sql.store import SqlStore
from staffbooking_adapters.testing.builders import add_companion
from staffbooking_adapters.testing.store.companions.booked_days import change_companion
from staffbooking_core.domain.companions.companion import Approval
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio

NAMES = Statement(union_all(select(services.c.name_folded), select(locations.c.city_folded)))


@pytest.mark.parametrize("name", ["postgresql", "sqlite"])
async def test_services_are_stored_once_their_companion_is_listed(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Profiles of companions who are not listed add nothing to what searches read."""
    async with STORES[name](request) as store:
        assert isinstance(store, SqlStore)

        async def names() -> list[str]:
            return sorted(text for (text,) in await store.database.fetch_all(NAMES))

        hidden = await add_companion(
            store, approval=Approval.PENDING, service_types=("Gala",), location_city="Porto"
        )
        assert await names() == []
        await change_companion(store, hidden, approval=Approval.APPROVED)
        assert await names() == ["gala", "porto"]
