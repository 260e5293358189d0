"""`staffbooking db` and `doctor`, and how faults end as one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.settings import Settings
from staffbooking_core.errors import Unavailable
from tests.cli.deployment import Deployment

LACKING = "the database has no schema yet: run `staffbooking db upgrade`"


def test_the_schema_is_made(deployment: Deployment) -> None:
    """After an upgrade the check passes."""
    deployment.lacking = LACKING
    assert deployment.refusal("db", "check") == f"staffbooking: {LACKING}"
    assert deployment.json("db", "upgrade") == {"schema": "current"}
    assert deployment.json("db", "check") == {"schema": "current"}
    assert deployment.table("db", "check") == "The schema is this version's.\n"


def test_without_a_schema_the_way_out_is_named(deployment: Deployment) -> None:
    """A command on a database that is not ready says what to run."""
    deployment.lacking = LACKING
    assert deployment.refusal("users", "list") == f"staffbooking: {LACKING}"
    assert deployment.refusal("serve", "--port", "0") == f"staffbooking: {LACKING}"


def test_a_wrong_setting_is_one_line(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the setting."""
    monkeypatch.setenv("STAFFBOOKING_PLATFORM_FEE", "15%")
    for command in (("users", "list"), ("serve",), ("worker",), ("db", "upgrade")):
        line = deployment.refusal(*command)
        assert line == "staffbooking: STAFFBOOKING_PLATFORM_FEE must be a fraction such as 0.15"


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def fail(_: Settings) -> str | None:
        raise error

    monkeypatch.setattr(wiring, "check_schema", fail)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Unavailable("no such\nhost"), "the database is out of reach: no such host"),
        (OSError(13, "Permission denied", "x.db"), "x.db: Permission denied"),
        (ExceptionGroup("", [Unavailable("down")]), "the database is out of reach: down"),
        (
            KeyError("surprise"),
            "unexpected KeyError: 'surprise' (STAFFBOOKING_DEBUG=1 shows where)",
        ),
    ],
)
def test_a_fault_is_one_line(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    """Expected or not, a fault never shows a trace."""
    fail_with(monkeypatch, error)
    assert deployment.refusal("users", "list") == f"staffbooking: {line}"


def test_a_trace_is_shown_where_it_is_asked_for(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With STAFFBOOKING_DEBUG=1 what was not expected is raised as it is."""
    monkeypatch.setenv("STAFFBOOKING_DEBUG", "1")
    fail_with(monkeypatch, KeyError("surprise"))
    assert isinstance(deployment.staffbooking("users", "list").exception, KeyError)


def test_an_argument_that_is_no_text_is_refused(deployment: Deployment) -> None:
    """Bytes that no encoding explains end as one line."""
    assert deployment.refusal("users", "show", "a\udcff@example.com")


def checks(deployment: Deployment) -> dict[str, bool]:
    result = deployment.json("doctor")
    return {check["name"]: check["ok"] for check in result["checks"]}


def test_a_healthy_deployment_passes(deployment: Deployment) -> None:
    """Every check is made, and each has something to say."""
    names = ("settings", "secret", "schema", "database", "processor", "clock", "work")
    assert checks(deployment) == dict.fromkeys(names, True)
    table = deployment.table("doctor")
    assert "the default, known to everybody" in table
    assert "0 s ahead of the real time" in table


def test_the_secret_is_not_shown(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of one's own is set, and no more is said."""
    monkeypatch.setenv("STAFFBOOKING_SECRET_KEY", "tell nobody about me")
    table = deployment.table("doctor")
    assert "is set" in table
    assert "nobody" not in table


def test_what_is_wrong_is_named(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first check that fails says why, and the exit code is 1."""
    deployment.lacking = LACKING
    result = deployment.staffbooking("doctor")
    assert (result.exit_code, LACKING in result.stdout) == (1, True)
    assert result.stderr == "staffbooking: not in order: schema\n"
    monkeypatch.setenv("STAFFBOOKING_PAYMENTS", "cash")
    result = deployment.staffbooking("doctor", "--json")
    assert (result.exit_code, "STAFFBOOKING_PAYMENTS must be" in result.stdout) == (1, True)


def test_a_taken_port_is_one_line(deployment: Deployment, tmp_path: Path) -> None:
    """Server and demo say that somebody listens there already."""
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for command in (("serve",), ("demo", "--dir", tmp_path / "demo")):
            line = deployment.refusal(*command, "--port", port)
            assert line.startswith(
                f"staffbooking: port {port} of 127.0.0.1: Address already in use"
            )


def test_the_interface_is_printed(deployment: Deployment) -> None:
    """The document has the paths of the interface, those of the sandbox where there is one."""
    document = deployment.json("openapi")
    assert document["openapi"].startswith("3.1")
    assert {"/api/v1/companions", "/sandbox/clock"} <= set(document["paths"])
    assert deployment.table("openapi").startswith("{")
