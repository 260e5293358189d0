"""What the path names comes before the input: 404 precedes 422 (CONTRACT 1)."""

from __future__ import annotations

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_booking
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_http.api.access import (
    ApiKeyAccess,
    ApiKeyOrSessionAccess,
    SessionAccess,
    UserCheck,
    require_admin,
    require_staff,
)
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment, error_body

pytestmark = pytest.mark.anyio

ROWS: list[Endpoint] = [
    row
    for family in (*ENDPOINTS_BY_TAG.values(), *SANDBOX_ENDPOINTS_BY_TAG.values())
    for row in family
    if "{" in row.path
]
UNKNOWN = {
    "id": "999999",
    "delivery_id": "999999",
    "code": "BK000000000000",
    "name": "unknown.png",
    "file": "unknown",
    "secret": "unknown",
    "provider": "unknown",
}
"""A well-formed value of each path parameter that names nothing."""
REPEATED = "?x=1&x=1"


async def client_of(world: HttpDeployment, row: Endpoint) -> httpx.AsyncClient:
    """A client that an endpoint admits."""
    match row.access:
        case ApiKeyAccess(permission) | ApiKeyOrSessionAccess(permission):
            return world.client_with_key(await world.add_api_key(world.subscriber, permission))
        case SessionAccess(check_user):
            ids: dict[UserCheck | None, int] = {
                require_staff: world.companion.id,
                require_admin: world.admin.id,
            }
            return await world.signed_in_client(ids.get(check_user, world.customer.id))
    return world.client()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.method} {row.path}" for row in ROWS])
async def test_an_unknown_target_precedes_a_repeated_query_key(
    world: HttpDeployment, row: Endpoint
) -> None:
    """An endpoint with path parameters is 404 for an unknown target, though a query key is given
    twice."""
    client = await client_of(world, row)
    answer = await client.request(row.method, row.path.format_map(UNKNOWN) + REPEATED)
    error_body(answer, 404, "not_found")


async def test_an_unknown_delivery_of_a_known_webhook_is_404(world: HttpDeployment) -> None:
    """An unknown delivery is 404 before a repeated query key is 422."""
    hook = await add_endpoint(world.store, world.subscriber, vault=world.ports.vault)
    path = f"/api/webhooks/{hook.id}/deliveries/999999/redeliver{REPEATED}"
    error_body(await world.client_with_key().post(path), 404, "not_found")


async def test_a_repeated_query_key_precedes_the_state_of_a_quoted_booking(
    world: HttpDeployment,
) -> None:
    """The quote of a booking that is over is 422 for a repeated query key before it is 400."""
    booking = await add_booking(
        world.store, world.companion, world.customer, status=BookingStatus.COMPLETED
    )
    client = await world.signed_in_client(world.customer.id)
    path = f"/bookings/{booking.id}/cancellation-quote"
    error_body(await client.get(path), 400, "booking_not_cancellable")
    error_body(await client.get(path + REPEATED), 422, "invalid_field")
