"""Processes whose machine has a wrong clock, beside others with a right one, on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.deployment import CUSTOMER_EMAIL, PASSWORD, ProcessDeployment, json_body
from tests.e2e.staff_bookings import import_staff, make_paid_booking
from tests.support.fake_time import FakeTime, make_fake_time
from tests.support.service_processes import start_command


@pytest.fixture
def on_postgresql(postgresql_copy: str, tmp_path: Path) -> Iterator[ProcessDeployment]:
    deployment = ProcessDeployment(tmp_path, postgresql_copy)
    deployment.start = start_command  # The library of the wrong clock is loaded with the program.
    yield deployment
    deployment.close()


@pytest.fixture
def fake_time(tmp_path: Path) -> FakeTime:
    return make_fake_time(tmp_path, "+9d")


def test_a_worker_nine_days_ahead_changes_nothing(
    on_postgresql: ProcessDeployment, fake_time: FakeTime
) -> None:
    """A booking of the day after tomorrow that is paid stays so, sessions live on, and the worker
    says why; `doctor` shows it. With the clock set right the same worker works."""
    import_staff(on_postgresql)
    on_postgresql.start_server()
    customer = on_postgresql.sign_in(CUSTOMER_EMAIL, PASSWORD)
    staff = on_postgresql.sign_in("staff1@example.test", PASSWORD)
    booking = make_paid_booking(on_postgresql, customer, staff, days=3)

    refusal = on_postgresql.run_process("worker", "--drain", code=1, environ=fake_time.environ)
    assert "nothing was changed: this machine's clock is 777" in refusal
    shown = json_body(customer.get(f"/bookings/{booking['id']}"))["booking"]
    assert shown["status"] == "paid"
    doctor = on_postgresql.run_process("doctor", "--json", code=1, environ=fake_time.environ)
    found = {check["name"]: check for check in json.loads(doctor)["checks"]}
    assert not found["clock"]["ok"]
    assert "ahead of the database's" in found["clock"]["detail"]

    fake_time.set_offset("+2")
    drained = on_postgresql.run_process("worker", "--drain", "--json", environ=fake_time.environ)
    assert json.loads(drained)["done"] >= 0


def test_a_clock_that_jumps_while_a_server_runs(
    on_postgresql: ProcessDeployment, fake_time: FakeTime
) -> None:
    """A running server notices a jump in both directions, answers what would change something with
    503, and goes on by itself once the clock is right."""
    fake_time.set_offset("+0")
    on_postgresql.environ |= fake_time.environ
    on_postgresql.start_server()
    login = {"email": CUSTOMER_EMAIL, "password": PASSWORD}
    for offset, words in (("+9d", "ahead of"), ("-1h", "behind")):
        fake_time.set_offset(offset)
        answer = on_postgresql.anybody.get("/readyz")
        assert answer.status_code == 503
        assert f"{words} the database's" in answer.json()["error"]
        refused = on_postgresql.anybody.post("/auth/login", json=login)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    fake_time.set_offset("+0")
    assert on_postgresql.anybody.get("/readyz").status_code == 200
    on_postgresql.sign_in(CUSTOMER_EMAIL, PASSWORD)
