"""The path of a new staff member from registration to the response to a review, over HTTP."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import icalendar
import pytest
from PIL import Image

from tests.e2e.deployment import ADMIN_EMAIL, CUSTOMER_EMAIL, PASSWORD, ProcessDeployment, json_body

ADA = "ada@example.test"


def _photo() -> bytes:
    made = io.BytesIO()
    Image.new("RGB", (400, 300), "teal").save(made, "JPEG")
    return made.getvalue()


def _profile(photo: str) -> dict[str, Any]:
    return {
        "tagline": "Calm in every rush",
        "bio": "Ten years behind bars.",
        "profile_photo": photo,
        "hourly_rate": 40.5,
        "location_city": "Zürich",
        "location_country": "Switzerland",
        "service_types": ["Bartender"],
        "languages": ["German", "English"],
        "years_experience": 10,
    }


def _register(deployment: ProcessDeployment) -> tuple[httpx.Client, int]:
    person = {"email": ADA, "password": PASSWORD, "first_name": "Ada", "last_name": "Lovelace"}
    anybody = deployment.anybody.post("/auth/register", json={**person, "role": "staff"})
    assert anybody.status_code == 201, anybody.text
    return deployment.sign_in(ADA, PASSWORD), anybody.json()["user"]["id"]


def _offer(ada: httpx.Client, day: date) -> tuple[int, str]:
    """Create profile, hours and a portfolio item; returns the id of the item and the path of the
    photo."""
    upload = {"file": ("me.jpg", _photo(), "image/jpeg")}
    photo = json_body(ada.post("/staff/images", files=upload), 201)["image"]
    json_body(ada.put("/staff/profile", json=_profile(photo)))
    hours = [{"weekday": day.weekday(), "start": "09:00", "end": "18:00"}]
    json_body(ada.put("/staff/availability", json={"timezone": "Europe/Zurich", "weekly": hours}))
    work = {"title": "The spring ball", "image": photo, "description": "Two bars, 300 guests."}
    item = json_body(ada.post("/staff/portfolio", json=work), 201)["item"]
    assert item["status"] == "pending"
    return item["id"], photo


def _book(
    deployment: ProcessDeployment, grace: httpx.Client, ada: httpx.Client, wanted: Any
) -> Any:
    """Take a booking from the request to the payment."""
    booking = json_body(grace.post("/bookings", json=wanted), 201)["booking"]
    path = f"/bookings/{booking['id']}"
    json_body(ada.post(f"{path}/accept"))
    json_body(
        deployment.anybody.post(
            json_body(grace.post(f"{path}/checkout"))["checkout_url"], json={"outcome": "succeed"}
        )
    )

    def paid() -> bool | None:
        return json_body(grace.get(path))["booking"]["status"] == "paid" or None

    deployment.wait_for(paid, "the booking is paid")
    return booking


def _review(grace: httpx.Client, ada: httpx.Client, booking: Any) -> None:
    json_body(grace.post(f"/bookings/{booking['id']}/confirm"))
    given = {"rating": 5, "comment": "Calm!", "punctuality": 5}
    review = json_body(grace.post(f"/reviews/booking/{booking['id']}", json=given), 201)["review"]
    json_body(ada.post(f"/reviews/{review['id']}/respond", json={"response": "Thank you"}))


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_a_staff_member_registers_and_is_found_booked_reviewed(
    deployment: ProcessDeployment,
) -> None:
    """A staff member who registers and is approved over HTTP and the command line is found, booked
    and reviewed, and the calendar feed has the booking."""
    deployment.start_worker()
    deployment.start_server()
    ada, ada_id = _register(deployment)
    day = datetime.now(UTC).date() + timedelta(days=20)
    item_id, photo = _offer(ada, day)
    key = deployment.run_json(
        "keys", "create", ADMIN_EMAIL, "--name", "e2e", "--permission", "read"
    )["key"]
    api = deployment.client_with_key(key)
    search = {"location": "zür", "service": "bartender", "date": day.isoformat()}
    assert json_body(api.get("/api/v1/companions", params=search))["companions"] == []

    deployment.run_command("companions", "approve", str(ada_id))
    deployment.run_command("portfolio", "approve", str(item_id))
    (found,) = json_body(api.get("/api/v1/companions", params=search))["companions"]
    assert (found["id"], found["profile_photo"]) == (ada_id, photo)
    picture = deployment.anybody.get(f"/{photo}")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/jpeg")

    grace = deployment.sign_in(CUSTOMER_EMAIL, PASSWORD)
    wanted = {
        "companion_id": ada_id,
        "event_date": day.isoformat(),
        "start_time": "10:00",
        "duration_hours": 4,
        "service_type": "bartender",
        "location": "Bahnhofstrasse 1",
    }
    too_late = grace.post("/bookings", json={**wanted, "start_time": "17:00"})
    assert too_late.json()["code"] == "companion_unavailable"
    booking = _book(deployment, grace, ada, wanted)
    feed = json_body(ada.post("/staff/calendar-feed"), 201)["url"]
    (event,) = icalendar.Calendar.from_ical(deployment.anybody.get(feed).content).walk("VEVENT")
    assert event.decoded("DTSTART") == datetime.fromisoformat(booking["starts_at"])

    deployment.set_clock(datetime.fromisoformat(booking["ends_at"]) + timedelta(hours=1))
    _review(grace, ada, booking)
    detail = json_body(api.get(f"/api/v1/companions/{ada_id}"))["companion"]
    assert (detail["rating_avg"], detail["total_reviews"]) == (5, 1)
    assert [review["response"] for review in detail["reviews"]] == ["Thank you"]
    assert [shown["title"] for shown in detail["portfolio"]] == ["The spring ball"]
    assert deployment.run_json("ledger", "check")["faults"] == []
