"""`serve` and `worker` as processes: they say where they are, and stop when they are told."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from staffbooking_cli.running import SHUTDOWN_GRACE_SECONDS
from staffbooking_core.policy import Policy
from tests.cli.processes import (
    ROOT,
    make_environment,
    read_until,
    run_in_background,
    run_to_end,
    stop_process,
)


@pytest.fixture
def env(migrated_file: Path, tmp_path: Path) -> dict[str, str]:
    """A database of its own, with the schema."""
    file = shutil.copy(migrated_file, tmp_path)
    return make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{file}")


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_server_answers_and_stops(env: dict[str, str], told: int) -> None:
    """It listens on the port that it names, and a signal ends it in order."""
    with run_in_background("serve", "--port", "0", env=env) as server:
        said = read_until(server.stderr, "Listening on")
        port = re.search(r"port ([0-9]+)", said)
        assert port is not None
        with urlopen(f"http://127.0.0.1:{port[1]}/readyz") as answer:
            assert answer.status == 200
        assert stop_process(server, told) == 0


def status(url: str) -> int:
    try:
        with urlopen(url) as answer:
            found: int = answer.status
            return found
    except HTTPError as error:
        return error.code


def test_the_server_may_come_before_the_schema(tmp_path: Path) -> None:
    """It is alive and not ready, names the way out, and is ready once the schema is there."""
    env = make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{tmp_path / 'new.db'}")
    with run_in_background("serve", "--port", "0", env=env) as server:
        said = read_until(server.stderr, "db upgrade")
        port = re.search(r"Answering 503 on 127.0.0.1 port ([0-9]+)", said)
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}"
        assert [status(f"{url}{path}") for path in ("/healthz", "/readyz")] == [200, 503]
        assert run_to_end("db", "upgrade", env=env).returncode == 0
        read_until(server.stderr, "Listening on")
        assert status(f"{url}/readyz") == 200
        assert stop_process(server, signal.SIGTERM) == 0


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_worker_stops(env: dict[str, str], told: int) -> None:
    """A signal ends it in order."""
    with run_in_background("worker", env=env) as worker:
        read_until(worker.stderr, "worker runs")
        assert stop_process(worker, told) == 0


def test_what_may_be_in_flight_ends_before_the_worker_must() -> None:
    """No call to the outside lasts so long that a process which stops has to cut it off."""
    policy = Policy()
    longest = max(policy.mail_timeout, policy.processor_timeout, policy.webhook_attempt_timeout)
    assert longest.total_seconds() < SHUTDOWN_GRACE_SECONDS


def test_without_a_database_there_is_one_line(tmp_path: Path) -> None:
    """A database that was never made is named with the way out; no file is left behind."""
    database = tmp_path / "none.db"
    ended = run_to_end(
        "users", "list", env=make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{database}")
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert "staffbooking db upgrade" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_out_of_reach_is_one_line() -> None:
    """Where nobody listens there is one line, and no trace."""
    nowhere = "postgresql+asyncpg://nobody@127.0.0.1:9/none"
    for command in (("users", "list"), ("db", "upgrade"), ("db", "check"), ("worker",)):
        ended = run_to_end(*command, env=make_environment(DATABASE_URL=nowhere))
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.count("\n") == 1, ended.stderr
        assert "unexpected" not in ended.stderr


def test_a_closed_pipe_is_no_fault(env: dict[str, str]) -> None:
    """Who reads only the beginning of a list gets no trace."""
    with run_in_background("openapi", env=env) as printing:
        assert printing.stdout is not None
        printing.stdout.close()
        assert printing.stderr is not None
        assert printing.stderr.read() == ""


def test_closed_streams_are_no_fault(env: dict[str, str]) -> None:
    """Who closes standard input and output gets the work done, and no file in their place."""
    command = [sys.executable, "-m", "staffbooking_cli.main", "users", "list"]
    closing = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    ended = subprocess.run(closing, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
