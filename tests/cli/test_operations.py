"""`staffbooking db` and `doctor`, and errors as one line."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.settings import Settings
from staffbooking_adapters.system import SystemClock
from staffbooking_adapters.testing.builders import HOUR, MINUTE, SECOND
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    place_events,
)
from staffbooking_cli.commands import doctor
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.payments.processor import OutcomeUnknown, ProcessorMisconfigured
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.ports import CheckupFinding
from staffbooking_core.usecases.bookings import actions, disabling
from tests.cli.deployment import CliDeployment, add_completed_booking, add_paid_booking

LACKING = "the database has no schema yet: run `staffbooking db upgrade`"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the pickup timeout to zero: nothing runs concurrently with a test."""
    monkeypatch.setattr(doctor, "PICKUP_TIMEOUT_SECONDS", 0)


def test_the_schema_is_made(deployment: CliDeployment) -> None:
    """The schema check passes after an upgrade."""
    deployment.missing_schema = LACKING
    assert deployment.run_refused("db", "check") == f"staffbooking: {LACKING}"
    assert deployment.run_json("db", "upgrade") == {"schema": "current"}
    assert deployment.run_json("db", "check") == {"schema": "current"}
    assert deployment.run_table("db", "check") == "The schema is this version's.\n"


def test_without_a_schema_the_command_to_run_is_named(deployment: CliDeployment) -> None:
    """A command on a database without a schema names the command to run."""
    deployment.missing_schema = LACKING
    assert deployment.run_refused("users", "list") == f"staffbooking: {LACKING}"
    assert deployment.run_refused("worker") == f"staffbooking: {LACKING}"


def test_a_wrong_setting_is_one_line(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid setting gives one line with its name."""
    monkeypatch.setenv("STAFFBOOKING_PLATFORM_FEE", "15%")
    for command in (("users", "list"), ("serve",), ("worker",), ("db", "upgrade")):
        line = deployment.run_refused(*command)
        assert line == "staffbooking: STAFFBOOKING_PLATFORM_FEE must be a fraction such as 0.15"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "STAFFBOOKING_SECRET_KEY must be random keys of at least 32 characters"),
        ({"SECRET_KEY": "aaaaaaaaaaaaaaaa"}, "STAFFBOOKING_SECRET_KEY must be random keys"),
        ({"SECRET_KEY": "5e9c1f0b7a3d48c6912e4fb05d7a6c38"}, "STAFFBOOKING_SANDBOX must be 1 or 0"),
    ],
)
def test_a_server_beyond_loopback_needs_a_secret_and_a_sandbox(
    deployment: CliDeployment,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    line: str,
) -> None:
    """`serve` on all addresses does not start with the published secret, a weak one, or an
    implied sandbox."""
    for name, value in settings.items():
        monkeypatch.setenv(f"STAFFBOOKING_{name}", value)
    refusal = deployment.run_refused("serve", "--host", "0.0.0.0", "--port", "0")
    assert refusal.startswith(f"staffbooking: {line}")


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def fail(_: Settings) -> str | None:
        raise error

    monkeypatch.setattr(wiring, "find_schema_problem", fail)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (StoreUnavailable("no such\nhost"), "the database is unavailable: no such host"),
        (OSError(13, "Permission denied", "x.db"), "x.db: Permission denied"),
        (ExceptionGroup("", [StoreUnavailable("down")]), "the database is unavailable: down"),
        (
            KeyError("surprise"),
            "unexpected KeyError: 'surprise' (STAFFBOOKING_DEBUG=1 shows a traceback)",
        ),
    ],
)
def test_a_fault_is_one_line(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    """An error, expected or not, prints one line and no traceback."""
    fail_with(monkeypatch, error)
    assert deployment.run_refused("users", "list") == f"staffbooking: {line}"


def test_a_trace_is_shown_where_it_is_asked_for(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With STAFFBOOKING_DEBUG=1 an unexpected error is raised unchanged."""
    monkeypatch.setenv("STAFFBOOKING_DEBUG", "1")
    fail_with(monkeypatch, KeyError("surprise"))
    assert isinstance(deployment.run_command("users", "list").exception, KeyError)


def test_an_argument_that_is_no_text_is_refused(deployment: CliDeployment) -> None:
    """Arguments that are not valid text give one error line."""
    assert deployment.run_refused("users", "show", "a\udcff@example.com")


def checks(deployment: CliDeployment) -> dict[str, bool]:
    result = deployment.run_json("doctor")
    return {check["name"]: check["ok"] for check in result["checks"]}


def test_a_healthy_deployment_passes(deployment: CliDeployment) -> None:
    """Every check runs and has a detail."""
    names = ("settings", "secret", "schema", "database", "processor", "clock")
    found = checks(deployment)
    assert found == dict.fromkeys(found, True)
    assert {*names, "processor: payees", "events", "payouts", "refunds", "webhooks", "work"} <= {
        *found
    }
    table = deployment.run_table("doctor")
    assert "the default, known to everybody" in table
    assert "0 s ahead of the real time" in table


def test_the_secret_is_not_shown(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check says that a secret is set and does not show it."""
    monkeypatch.setenv("STAFFBOOKING_SECRET_KEY", "tell nobody about me")
    table = deployment.run_table("doctor")
    assert "is set" in table
    assert "nobody" not in table


def test_a_folder_that_cannot_be_written_is_named(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A files folder that is not writable fails the check."""
    assert checks(deployment)["files"]
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("STAFFBOOKING_FILES_DIR", f"{tmp_path}/file/images")
    wrong = f"nothing can be written to {tmp_path / 'file'}: Not a directory"
    assert check(deployment, "files") == (False, wrong)


def test_servers_out_of_reach_fail_their_checks(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis and the mail server are checked where they are set, and the other checks still run."""
    assert {"redis", "mail"} & set(checks(deployment)) == set()
    monkeypatch.setenv("STAFFBOOKING_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("STAFFBOOKING_SMTP_URL", "smtp://127.0.0.1:1")
    for name in ("redis", "mail"):
        ok, detail = check(deployment, name)
        assert (ok, detail.startswith("cannot connect: ")) == (False, True)
    assert check(deployment, "work")[0]


def test_what_is_wrong_is_named(deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failing check gives its reason, and the exit code is 1."""
    deployment.missing_schema = LACKING
    result = deployment.run_command("doctor")
    assert (result.exit_code, LACKING in result.stdout) == (1, True)
    assert result.stderr == "staffbooking: not in order: schema\n"
    monkeypatch.setenv("STAFFBOOKING_PAYMENTS", "cash")
    result = deployment.run_command("doctor", "--json")
    assert (result.exit_code, "STAFFBOOKING_PAYMENTS must be" in result.stdout) == (1, True)


def check(deployment: CliDeployment, name: str) -> tuple[bool, str]:
    """The result of one check."""
    result = deployment.run_command("doctor", "--json")
    [found] = [one for one in json.loads(result.stdout)["checks"] if one["name"] == name]
    assert (result.exit_code == 0) <= found["ok"]
    return found["ok"], found["detail"]


@pytest.mark.parametrize(
    "error", [ProcessorMisconfigured("the key is not valid"), OutcomeUnknown("no answer in time")]
)
def test_a_processor_that_does_not_work_is_one_line(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A wrong key or an unreachable processor fails its check, and the other checks still run."""

    async def fail(_: FakeProcessor, within: float) -> Sequence[CheckupFinding]:
        raise error

    monkeypatch.setattr(FakeProcessor, "checkup", fail)
    assert check(deployment, "processor") == (False, str(error))
    assert check(deployment, "work")[0]


def test_the_processors_findings_are_checks(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each finding of the processor is a check with one line, and a bad one fails."""

    async def find(_: FakeProcessor, within: float) -> Sequence[CheckupFinding]:
        return CheckupFinding("key", True, "test mode"), CheckupFinding(
            "payouts", False, "are daily,\nwrongly"
        )

    monkeypatch.setattr(FakeProcessor, "checkup", find)
    assert check(deployment, "processor: key") == (True, "test mode")
    assert check(deployment, "processor: payouts") == (False, "are daily, wrongly")
    result = deployment.run_command("doctor")
    assert result.stderr == "staffbooking: not in order: processor: payouts\n"


@pytest.mark.parametrize(
    ("ago", "ok", "text"),
    [(2 * MINUTE, True, "caught up with 2 min ago"), (3 * HOUR, False, "does a worker run?")],
)
def test_unpolled_processor_events_fail_the_check(
    deployment: CliDeployment, ago: timedelta, ok: bool, text: str
) -> None:
    """The check fails if no worker has polled the processor's events for long."""
    assert check(deployment, "events") == (True, "not caught up with yet: a worker does it")

    async def caught_up(ports):
        at = ports.clock.wall() - ago
        await ports.store.run_transaction(lambda tx: tx.cursors.save_cursor("fake", "7", at))

    deployment.run_on_ports(caught_up)
    found, detail = check(deployment, "events")
    assert (found, text in detail) == (ok, True)


@pytest.mark.parametrize(("late", "ok"), [(9 * MINUTE, True), (11 * MINUTE, False)])
def test_late_mails_fail_the_check(deployment: CliDeployment, late: timedelta, ok: bool) -> None:
    """The check of due work has mails to send, and fails if they are late."""

    async def add_late_mail(ports):
        await add_notification(ports.store, make_notification(), ports.clock.wall() - late)

    deployment.run_on_ports(add_late_mail)
    found, detail = check(deployment, "work")
    assert detail.startswith(f"due: 1 notification (the oldest {late // MINUTE} min late)")
    assert (found, "does a worker run?" not in detail) == (ok, ok)


def test_a_jump_of_the_sandboxs_clock_fails_no_check(deployment: CliDeployment) -> None:
    """Timers that a tester's jump of the clock made late pass the check of due work."""
    deployment.run_on_ports(add_paid_booking)
    deployment.run_json("sandbox", "clock", "advance", "700h")
    found, detail = check(deployment, "work")
    assert "1 timer" in detail
    assert found


@pytest.mark.parametrize(
    ("ahead", "ok", "text"),
    [
        ("41h", True, "1 to be made, 0 frozen"),
        ("43h", False, "1 to be made, 0 frozen; 1 near their deadline, 0 past it"),
        ("49h", False, "1 to be made, 0 frozen; 0 near their deadline, 1 past it"),
    ],
)
def test_payouts_near_their_deadline_fail_the_check(
    deployment: CliDeployment, ahead: str, ok: bool, text: str
) -> None:
    """Payouts still open six hours before their deadline fail the check."""
    deployment.run_on_ports(add_completed_booking)
    deployment.run_json("sandbox", "clock", "advance", ahead)
    found, detail = check(deployment, "payouts")
    assert (found, detail.startswith(text)) == (ok, True)


def test_payouts_on_hold_pass_the_check(deployment: CliDeployment) -> None:
    """Payouts on hold do not fail the check."""
    code = deployment.run_on_ports(add_completed_booking).booking.code
    deployment.run_json("payouts", "hold", code)
    deployment.run_json("sandbox", "clock", "advance", "72h")
    assert check(deployment, "payouts") == (True, "0 to be made, 1 frozen")


def test_payouts_of_disabled_accounts_are_named(deployment: CliDeployment) -> None:
    """The detail names the payouts that are held since their payee is disabled."""

    async def disabled(ports):
        party = await add_completed_booking(ports)
        async with ports.store.read_view() as view:
            staff = await view.accounts.user(party.companion_id)
        await disabling.disable_user(ports, staff.email)
        return party.booking.code

    code = deployment.run_on_ports(disabled)
    detail = f"0 to be made, 1 frozen, of disabled accounts: {code} (staffbooking payouts release)"
    assert check(deployment, "payouts") == (True, detail)


def test_failed_refunds_fail_the_check(deployment: CliDeployment) -> None:
    """Failed refunds fail the check, and the detail names the command that lists them."""
    assert check(deployment, "refunds") == (True, "none failed")

    async def refused(ports):
        party = await add_paid_booking(ports)
        await ports.sandbox.add_fault("refund", "refuse", 1)
        customer = Actor(party.customer.id, Role.CUSTOMER)
        await actions.cancel(ports, customer, party.booking.id, CancelBooking())

    deployment.run_on_ports(refused)
    deployment.run_json("worker", "--drain")
    assert check(deployment, "refunds") == (False, "1 failed: staffbooking refunds list")


@pytest.mark.parametrize(
    ("late", "ok", "text"),
    [(50 * SECOND, True, "1 deliveries pending, 0 held"), (HOUR, False, "60 min late")],
)
def test_overdue_deliveries_fail_the_check(
    deployment: CliDeployment, late: timedelta, ok: bool, text: str
) -> None:
    """Deliveries overdue by more than a minute fail the check."""

    async def overdue(ports):
        endpoint = await add_endpoint(ports.store)
        await add_delivery(ports.store, endpoint, next_at=ports.clock.wall() - late)
        await place_events(ports.store)

    deployment.run_on_ports(overdue)
    found, detail = check(deployment, "webhooks")
    assert (found, text in detail) == (ok, True)


def test_a_stuck_event_fails_the_check(deployment: CliDeployment) -> None:
    """An event that stays the next unpublished one fails the check."""
    deployment.run_on_ports(lambda ports: add_event(ports.store))
    found, detail = check(deployment, "webhooks")
    assert (found, "1 events not taken up: does a worker run?" in detail) == (False, True)
    deployment.run_json("worker", "--drain")
    assert check(deployment, "webhooks")[0]


def test_changing_events_pass_the_check(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changing unpublished events, as on a busy service, do not fail the check."""
    deployment.run_on_ports(lambda ports: add_event(ports.store))

    async def meanwhile(_: SystemClock, seconds: float) -> None:
        await place_events(deployment.ports.store)
        await add_event(deployment.ports.store)

    monkeypatch.setattr(SystemClock, "sleep", meanwhile)
    assert check(deployment, "webhooks")[0]


def test_disabled_endpoints_are_counted(deployment: CliDeployment) -> None:
    """Disabled endpoints are counted without failing the check; paused ones are not counted."""

    async def add(ports):
        for disabled_at in (None, ports.clock.wall(), ports.clock.wall()):
            await add_endpoint(ports.store, active=False, disabled_at=disabled_at)

    deployment.run_on_ports(add)
    found, detail = check(deployment, "webhooks")
    assert (found, detail.startswith("3 endpoints, 2 disabled;")) == (True, True)


def test_due_work_is_shown_by_kind(deployment: CliDeployment) -> None:
    """The check shows the count of due work by kind and the age of the oldest."""
    assert check(deployment, "work") == (True, "due: nothing")
    deployment.run_on_ports(add_completed_booking)
    deployment.run_json("sandbox", "clock", "advance", "26h")
    detail = check(deployment, "work")[1]
    assert "1 timer (the oldest 2 h late)" in detail


@pytest.mark.parametrize("library", ["httpx", "stripe", "alembic"])
def test_the_log_is_the_services_own(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    """Libraries that log every call are limited to warnings."""
    monkeypatch.setattr(logging.getLogger(library), "level", logging.NOTSET)
    deployment.run_json("worker", "--drain")
    assert logging.getLogger(library).level == logging.WARNING


def test_a_taken_port_is_one_line(deployment: CliDeployment, tmp_path: Path) -> None:
    """Server and demo give one error line if the port is in use."""
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        demo = ("demo", "--dir", tmp_path / "demo")
        for command, reason in (
            (("serve",), f"port {port} of 127.0.0.1: Address already in use"),
            (demo, f"port {port} is in use. Stop what listens there"),
        ):
            line = deployment.run_refused(*command, "--port", port)
            assert line.startswith(f"staffbooking: {reason}")


def test_the_interface_is_printed(deployment: CliDeployment) -> None:
    """The document contains the API's paths, with the sandbox's if it is on."""
    document = deployment.run_json("openapi")
    assert document["openapi"].startswith("3.1")
    assert {"/api/v1/companions", "/sandbox/clock"} <= set(document["paths"])
    assert deployment.run_table("openapi").startswith("{")
