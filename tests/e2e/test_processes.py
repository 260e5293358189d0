"""Bookings with real processes, through crashes of server and worker."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.e2e.deployment import (
    AGENCY_EMAIL,
    CUSTOMER_EMAIL,
    PASSWORD,
    ProcessDeployment,
    json_body,
)
from tests.e2e.staff_bookings import (
    booking_body,
    import_staff,
    make_paid_booking,
    wait_for_fields,
)
from tests.support.service_processes import start_command, start_copy


def test_a_booking_goes_from_search_to_payout_through_crashes(
    deployment: ProcessDeployment,
) -> None:
    """A booking is paid out once though server and worker are killed between its steps."""
    import_staff(deployment)
    key = deployment.run_json(
        *("keys", "create", AGENCY_EMAIL, "--name", "e2e"),
        *("--permission", "read", "--permission", "book"),
    )["key"]
    deployment.start = start_command  # The first ones load modules in the order that users get.
    deployment.start_server()
    deployment.start_worker()
    deployment.start = start_copy
    api = deployment.client_with_key(key)
    found = json_body(
        api.get("/api/v1/companions", params={"location": "ZÜR", "service": "bartender"})
    )
    assert [row["first_name"] for row in found["companions"]] == ["Ada 1", "Ada 2"]
    companion_id = found["companions"][0]["id"]
    made = json_body(api.post("/api/v1/bookings", json=booking_body(companion_id, 20)), 201)[
        "booking"
    ]
    assert (made["status"], made["total_amount"]) == ("pending", 162.0)

    deployment.kill_process("server")
    deployment.start_server()
    staff = deployment.sign_in("staff1@example.test", PASSWORD)
    customer = deployment.sign_in(CUSTOMER_EMAIL, PASSWORD)
    path = f"/bookings/{made['id']}"
    assert json_body(staff.post(f"{path}/accept"))["booking"]["status"] == "accepted"
    deployment.kill_process("worker")
    page = json_body(customer.post(f"{path}/checkout"))["checkout_url"]
    assert "Pay" in deployment.anybody.get(page).text
    json_body(deployment.anybody.post(page, json={"outcome": "succeed"}))
    wait_for_fields(deployment, customer, made["id"], status="paid")
    deployment.kill_process("server")
    deployment.start_worker()
    deployment.start_server()

    starts = datetime.fromisoformat(made["starts_at"])
    deployment.set_clock(starts - timedelta(hours=1))
    json_body(staff.post(f"{path}/check-in"))
    deployment.set_clock(starts + timedelta(hours=5))
    assert json_body(customer.post(f"{path}/confirm"))["booking"]["status"] == "completed"
    deployment.kill_process("worker")
    deployment.set_clock(starts + timedelta(hours=30))
    deployment.start_worker()
    booking = wait_for_fields(deployment, staff, made["id"], payout_status="paid")

    assert booking["payout_amount"] == pytest.approx(137.7)
    assert [entry["to"] for entry in booking["timeline"]] == [
        "pending",
        "accepted",
        "paid",
        "completed",
    ]
    assert [deployment.stop_process(name) for name in ("server", "worker")] == [0, 0]
    assert deployment.run_json("ledger", "check")["faults"] == []


@pytest.mark.parametrize("deployment", ["postgresql"], indirect=True)
def test_a_cancellation_refunds_half_and_the_rest_is_paid_out(
    deployment: ProcessDeployment,
) -> None:
    """A cancellation 36 hours before the start refunds half, and the worker, killed and restarted,
    pays out the rest once."""
    import_staff(deployment)
    deployment.start_server()
    customer = deployment.sign_in(CUSTOMER_EMAIL, PASSWORD)
    staff = deployment.sign_in("staff2@example.test", PASSWORD)
    made = make_paid_booking(deployment, customer, staff, days=9)
    path = f"/bookings/{made['id']}"
    starts = datetime.fromisoformat(made["starts_at"])
    deployment.set_clock(starts - timedelta(hours=36))

    quote = json_body(customer.get(f"{path}/cancellation-quote"))
    assert (quote["refund_percent"], quote["refund_amount"]) == (50, 81.0)
    booking = json_body(customer.post(f"{path}/cancel", json={"quote": quote["quote"]}))["booking"]
    assert (booking["status"], booking["refunded_amount"]) == ("cancelled", 81.0)
    deployment.start_worker()
    deployment.kill_process("worker")
    deployment.run_command("sandbox", "clock", "advance", "25h")
    deployment.start_worker()
    booking = wait_for_fields(deployment, staff, made["id"], payout_status="paid")

    assert booking["payment_status"] == "partially_refunded"
    assert booking["payout_amount"] == pytest.approx(68.85)
    assert deployment.run_json("ledger", "check")["faults"] == []


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_a_wrong_setting_stops_the_start_with_one_line(deployment: ProcessDeployment) -> None:
    """An invalid setting ends the process with status 1 and one line that names it."""
    deployment.environ["STAFFBOOKING_PAYOUT_DELAY"] = "99h"
    deployment.start_process("server", "serve", "--port", str(deployment.port))
    code = deployment.processes.pop("server").wait(20)

    lines = deployment.read_log("server").strip().splitlines()
    assert (code, len(lines)) == (1, 1)
    assert "STAFFBOOKING_PAYOUT_DELAY" in lines[0]
