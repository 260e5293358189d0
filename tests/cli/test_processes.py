"""`serve` and `worker` as processes: they say where they are, and stop when they are told."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.processes import environment, finished, read_until, running, stopped


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A database of its own, with the schema."""
    made = environment(DATABASE_URL=f"sqlite+aiosqlite:///{tmp_path}/test.db")
    assert finished("db", "upgrade", env=made).returncode == 0
    return made


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_server_answers_and_stops(env: dict[str, str], told: int) -> None:
    """It listens on the port that it names, and a signal ends it in order."""
    with running("serve", "--port", "0", env=env) as server:
        said = read_until(server.stderr, "Listening on")
        port = re.search(r"port ([0-9]+)", said)
        assert port is not None
        with urlopen(f"http://127.0.0.1:{port[1]}/readyz") as answer:
            assert answer.status == 200
        assert stopped(server, told) == 0


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_worker_stops(env: dict[str, str], told: int) -> None:
    """A signal ends it in order."""
    with running("worker", env=env) as worker:
        read_until(worker.stderr, "worker runs")
        assert stopped(worker, told) == 0


def test_without_a_database_there_is_one_line(tmp_path: Path) -> None:
    """A database that was never made is named with the way out; no file is left behind."""
    database = tmp_path / "none.db"
    ended = finished(
        "users", "list", env=environment(DATABASE_URL=f"sqlite+aiosqlite:///{database}")
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert "staffbooking db upgrade" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_database_out_of_reach_is_one_line() -> None:
    """Where nobody listens there is one line, and no trace."""
    nowhere = "postgresql+asyncpg://nobody@127.0.0.1:9/none"
    for command in (("users", "list"), ("db", "upgrade"), ("db", "check"), ("worker",)):
        ended = finished(*command, env=environment(DATABASE_URL=nowhere))
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.count("\n") == 1, ended.stderr
        assert "unexpected" not in ended.stderr


def test_a_closed_pipe_is_no_fault(env: dict[str, str]) -> None:
    """Who reads only the beginning of a list gets no trace."""
    with running("openapi", env=env) as printing:
        assert printing.stdout is not None
        printing.stdout.close()
        assert printing.stderr is not None
        assert printing.stderr.read() == ""
