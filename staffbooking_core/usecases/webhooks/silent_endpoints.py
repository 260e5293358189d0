"""Webhook endpoints that give no sign of life, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from staffbooking_core.domain.webhooks.deliveries import EndpointSubscription
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks.delivery_log import DeliveryLog
from staffbooking_core.validation import validated

_MAX_DELIVERIES = 10


@frozen
class EndpointCase:
    """An endpoint with its owner and its newest deliveries."""

    endpoint: EndpointSubscription
    deliveries: Sequence[DeliveryLog]


@validated
async def list_silent_endpoints(
    ports: Ports, before_id: int | None, limit: int
) -> Sequence[EndpointSubscription]:
    """Up to `limit + 1` silent endpoints below `before_id`, the newest first, with their owners."""
    async with ports.store.read_view() as view:
        return await view.webhooks.silent_endpoints(before_id, limit + 1)


@validated
async def get_endpoint_case(ports: Ports, endpoint_id: int) -> EndpointCase:
    """An endpoint with its owner and its newest deliveries, the newest first. Raises NotFound."""
    async with ports.store.read_view() as view:
        endpoint = await view.webhooks.endpoint(endpoint_id)
        owner = None if endpoint is None else await view.accounts.user(endpoint.owner_id)
        if endpoint is None or endpoint.deleted_at is not None or owner is None:
            raise NotFound("Webhook")
        found = await view.webhooks.deliveries(endpoint_id, 1, _MAX_DELIVERIES)
    logs = [DeliveryLog(*each) for each in found[:_MAX_DELIVERIES]]
    return EndpointCase(EndpointSubscription(endpoint, owner), logs)
