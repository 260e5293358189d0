"""What the subscribers' pages show: keys, and webhooks that fail, made through the API."""

from __future__ import annotations

from typing import Any

import httpx

from tests.e2e.deployment import json_body
from tests.journeys.marketplace import Marketplace

_EVENTS = ["booking.created", "booking.cancelled", "payment.completed", "payout.paid"]


def add_dashboard(market: Marketplace) -> None:
    """Give the enterprise account two keys, and two webhooks: one that fails, and one to which
    nothing was sent."""
    client = market.client("enterprise")
    for name in ("website", "nightly import"):
        given: dict[str, Any] = {"name": name, "permissions": ["read", "book"]}
        made = json_body(client.post("/api/keys", json=given), 201)
        market.names.setdefault("api_key", str(made["api_key"]["id"]))
        bearer = {"authorization": f"Bearer {made['key']}"}
        json_body(httpx.get(f"{market.url}/api/v1/companions", headers=bearer))
    for url, is_ordered in ((f"{market.url}/nowhere", True), ("https://example.com/hooks", False)):
        given = {"url": url, "events": _EVENTS, "description": "CRM", "ordered": is_ordered}
        made = json_body(client.post("/api/webhooks", json=given), 201)
        market.names.setdefault("endpoint", str(made["webhook"]["id"]))
    sent = json_body(client.post(f"/api/webhooks/{market.names['endpoint']}/test"))
    market.names["delivery"] = str(sent["delivery"]["id"])
