"""A deployment in memory with its receivers, and an endpoint of it."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.webhooks.deliveries import WebhookEndpoint
from tests.support.webhook_deployment import WebhookScenario, make_webhook_scenario


@pytest.fixture
def post() -> WebhookScenario:
    return make_webhook_scenario()


@pytest.fixture
async def endpoint(post: WebhookScenario) -> WebhookEndpoint:
    return await post.add_endpoint()
