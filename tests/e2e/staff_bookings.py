"""Staff members of a deployment of processes, and bookings of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.e2e.deployment import CUSTOMER_EMAIL, PASSWORD, ProcessDeployment, json_body

STAFF = [
    {
        "email": f"staff{number}@example.test",
        "password": PASSWORD,
        "first_name": f"Ada {number}",
        "last_name": "Byron",
        "hourly_rate": 40.5,
        "location_city": "Zürich",
        "location_country": "Switzerland",
        "timezone": "Europe/Zurich",
        "service_types": ["Bartender"],
        "approved": True,
    }
    for number in (1, 2)
]


def import_staff(deployment: ProcessDeployment) -> None:
    rows = deployment.folder / "staff.jsonl"
    rows.write_text("\n".join(json.dumps(row) for row in STAFF))
    assert deployment.run_json("companions", "import", str(rows))["imported"] == len(STAFF)


def booking_body(companion_id: int, days: int) -> dict[str, Any]:
    day = datetime.now(UTC).date() + timedelta(days=days)
    return {
        "companion_id": companion_id,
        "event_date": day.isoformat(),
        "start_time": "10:00",
        "duration_hours": 4,
        "service_type": "bartender",
        "location": "Bahnhofstrasse 1",
        "customer_email": CUSTOMER_EMAIL,
    }


def wait_for_fields(
    deployment: ProcessDeployment, client: httpx.Client, booking_id: int, **fields: str
) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        booking: dict[str, Any] = json_body(client.get(f"/bookings/{booking_id}"))["booking"]
        return booking if fields.items() <= booking.items() else None

    return deployment.wait_for(look, f"booking {booking_id} becomes {fields}")


def make_paid_booking(
    deployment: ProcessDeployment, customer: httpx.Client, staff: httpx.Client, days: int
) -> dict[str, Any]:
    """A booking of the signed-in staff member in so many days, as it was requested, once it is
    paid."""
    companion_id = json_body(staff.get("/auth/session"))["user"]["id"]
    wanted = booking_body(companion_id, days)
    del wanted["customer_email"]
    made: dict[str, Any] = json_body(customer.post("/bookings", json=wanted), 201)["booking"]
    path = f"/bookings/{made['id']}"
    json_body(staff.post(f"{path}/accept"))
    page = json_body(customer.post(f"{path}/checkout"))["checkout_url"]
    json_body(deployment.anybody.post(page, json={"outcome": "succeed"}))
    wait_for_fields(deployment, customer, made["id"], status="paid")
    return made
