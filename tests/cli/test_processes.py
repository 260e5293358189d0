"""`serve` and `worker` as processes: start, signals and errors."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anyio
import pytest

from staffbooking_adapters import wiring
from staffbooking_adapters.files.local import WriteProblem
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import upgrade_schema
from staffbooking_cli import render
from staffbooking_cli.commands import serve
from staffbooking_cli.running import SHUTDOWN_GRACE_SECONDS
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_http.server.listening import open_listening_socket
from tests.cli.processes import (
    ROOT,
    make_environment,
    read_until,
    run_in_background,
    run_to_end,
    stop_process,
)
from tests.kills.proxy import Proxy
from tests.support.migrated_databases import MigratedDatabase
from tests.support.postgres import open_raw_connection, proxied_url


def test_the_server_answers_and_stops(env: dict[str, str]) -> None:
    """The server listens on the port that it prints, and SIGINT stops it gracefully."""
    with run_in_background("serve", "--port", "0", env=env) as server:
        said = read_until(server.stderr, "Listening on")
        port = re.search(r"port ([0-9]+)", said)
        assert port is not None
        with urlopen(f"http://127.0.0.1:{port[1]}/readyz") as answer:
            assert answer.status == 200
        assert stop_process(server, signal.SIGINT) == 0


def status(request: str | Request) -> int:
    try:
        with urlopen(request) as answer:
            found: int = answer.status
            return found
    except HTTPError as error:
        return error.code


def test_the_server_may_come_before_the_schema(tmp_path: Path) -> None:
    """Without a schema the server is alive but not ready, names the command to run, and becomes
    ready with the schema; SIGTERM stops it gracefully."""
    env = make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{tmp_path / 'new.db'}")
    with run_in_background("serve", "--port", "0", env=env) as server:
        said = read_until(server.stderr, "db upgrade")
        port = re.search(r"Answering 503 on 127.0.0.1 port ([0-9]+)", said)
        assert port is not None
        url = f"http://127.0.0.1:{port[1]}"
        assert [status(f"{url}{path}") for path in ("/healthz", "/readyz")] == [200, 503]
        asyncio.run(upgrade_schema(load_settings(env)))
        read_until(server.stderr, "Listening on")
        assert status(f"{url}/readyz") == 200
        assert stop_process(server, signal.SIGTERM) == 0


def test_a_started_server_names_a_broken_constraint(env: dict[str, str]) -> None:
    """A server whose process loaded its modules by itself answers 422 for a taken address."""
    body = (
        b'{"email": "ada@example.com", "password": "correct horse", "first_name": "Ada",'
        b' "last_name": "Okoro", "role": "customer"}'
    )
    with run_in_background("serve", "--port", "0", env=env) as server:
        port = re.search(r"port ([0-9]+)", read_until(server.stderr, "Listening on"))
        assert port is not None
        headers = {"Content-Type": "application/json"}
        register = Request(f"http://127.0.0.1:{port[1]}/auth/register", body, headers)
        assert [status(register), status(register)] == [201, 422]


@pytest.mark.anyio
async def test_a_server_answers_while_the_disk_of_images_fails(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While images can't be stored the server is alive but not ready and names the folder once;
    then it opens its ports."""
    problem = WriteProblem("nothing can be written to images: Read-only file system", True)
    found: list[WriteProblem] = [problem]
    monkeypatch.setattr(wiring, "find_files_problem", lambda _: found[0] if found else None)
    opened: list[Ports | None] = []

    async def open_ports() -> None:
        stop = anyio.Event()
        opened.append(await serve._open_ports(load_settings(env), listening, stop, stack))

    async with AsyncExitStack() as stack:
        listening = stack.enter_context(open_listening_socket("127.0.0.1", 0))
        port = listening.getsockname()[1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_ports)
            for path, expected in (("/healthz", 200), ("/readyz", 503)):
                url = f"http://127.0.0.1:{port}{path}"
                assert await asyncio.to_thread(status, url) == expected
            found.clear()
        assert opened[0] is not None
    said = (
        f"Answering 503 on 127.0.0.1 port {port} for now: files can't be stored: {problem.text}\n"
    )
    assert capsys.readouterr().err == said


def test_a_note_that_cannot_be_written_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note on a full disk ends no server or worker."""
    with io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        render.print_note("The worker runs; Ctrl-C stops it.")
        with pytest.raises(OSError, match="No space left"):
            full.write("so this test shows something")


def test_the_worker_stops(env: dict[str, str]) -> None:
    """SIGINT stops the worker gracefully."""
    with run_in_background("worker", env=env) as worker:
        read_until(worker.stderr, "worker runs")
        assert stop_process(worker, signal.SIGINT) == 0


@pytest.mark.anyio
async def test_a_worker_waits_for_its_database(migrated_database: MigratedDatabase) -> None:
    """A worker that starts while the database is out of reach says so once, and works when it is
    back; SIGTERM stops it gracefully."""
    async with Proxy(partial(open_raw_connection, migrated_database.url)) as proxy:
        proxy.is_refusing = True
        url = proxied_url(migrated_database.url, proxy.port)
        with run_in_background("worker", env=make_environment(DATABASE_URL=url)) as worker:
            said = await asyncio.to_thread(
                read_until, worker.stderr, "Waiting: the database is unavailable"
            )
            assert said.count("\n") == 1
            proxy.is_refusing = False
            await asyncio.to_thread(read_until, worker.stderr, "worker runs")
            assert await asyncio.to_thread(stop_process, worker, signal.SIGTERM) == 0


def test_a_signal_ends_the_wait_for_a_database() -> None:
    """A worker that waits for its database stops gracefully."""
    nowhere = make_environment(DATABASE_URL="postgresql+asyncpg://nobody@127.0.0.1:9/none")
    with run_in_background("worker", env=nowhere) as worker:
        read_until(worker.stderr, "Waiting: the database is unavailable")
        assert stop_process(worker, signal.SIGTERM) == 0


def test_call_timeouts_are_shorter_than_the_grace_period() -> None:
    """Every outgoing call's timeout is shorter than the shutdown grace period."""
    policy = Policy()
    longest = max(policy.mail_timeout, policy.processor_timeout, policy.webhook_attempt_timeout)
    assert longest.total_seconds() < SHUTDOWN_GRACE_SECONDS


def test_without_a_database_there_is_one_line(tmp_path: Path) -> None:
    """A missing database gives one line with the command to run; no file is created."""
    database = tmp_path / "none.db"
    ended = run_to_end(
        "users", "list", env=make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{database}")
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1
    assert "staffbooking db upgrade" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_fault(env: dict[str, str]) -> None:
    """A reader that closes the pipe early causes no traceback."""
    with run_in_background("openapi", env=env) as printing:
        assert printing.stdout is not None
        printing.stdout.close()
        assert printing.stderr is not None
        assert printing.stderr.read() == ""


def test_closed_streams_are_no_fault(env: dict[str, str]) -> None:
    """With standard input and output closed the command works, and no other file takes their
    descriptors."""
    command = [sys.executable, "-m", "staffbooking_cli.main", "users", "list"]
    closing = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    ended = subprocess.run(closing, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


INTERRUPTED_LOADING = """
import signal, sys
from staffbooking_cli.main import main

class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""


def test_an_interrupt_while_a_command_is_loaded_is_no_fault() -> None:
    """SIGINT ends a command whose modules are still being loaded with code 130 and no traceback."""
    command = [sys.executable, "-c", INTERRUPTED_LOADING]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
