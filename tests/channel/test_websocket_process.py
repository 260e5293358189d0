"""The `serve` process with open connections."""

from __future__ import annotations

import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.cli.processes import (
    make_environment,
    read_until,
    run_in_background,
    stop_process,
)
from tests.cli.test_stores import deployment_on
from tests.support.channel_deployment import RECEIVE_TIMEOUT_SECONDS

PASSWORD = "correct horse"


def sign_up(address: str, email: str) -> str:
    """Register a user and return the cookie of a new session."""
    person = {"email": email, "password": PASSWORD, "role": "customer"}
    names = {"first_name": "Ada", "last_name": "Okoro"}
    # Without TLS, whose certificates take longer to load than a request.
    with httpx.Client(base_url=address, verify=False) as client:
        assert client.post("/auth/register", json=person | names).status_code == 201
        login = client.post("/auth/login", json={"email": email, "password": PASSWORD})
        return f"connect.sid={login.cookies['connect.sid']}"


def open_connection(stack: ExitStack, address: str, cookie: str) -> ClientConnection:
    """Open a connection and wait for `ready`."""
    url = address.replace("http:", "ws:") + "/ws"
    headers = [("cookie", cookie), ("origin", address)]
    made = stack.enter_context(connect(url, additional_headers=headers, proxy=None))
    assert '"ready"' in str(made.recv(RECEIVE_TIMEOUT_SECONDS))
    return made


def close_code(connection: ClientConnection) -> int | None:
    """Wait for the end of a connection and return its close code."""
    with pytest.raises(ConnectionClosed) as ended:
        connection.recv(RECEIVE_TIMEOUT_SECONDS)
    return None if ended.value.rcvd is None else ended.value.rcvd.code


def test_disabling_and_sigterm_close_connections(
    migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`users disable` closes the connections of one user with 1008, and SIGTERM closes the others
    with 1012 before the process exits with 0."""
    url = f"sqlite+aiosqlite:///{shutil.copy(migrated_file, tmp_path)}"
    env = make_environment(DATABASE_URL=url)
    with run_in_background("serve", "--port", "0", env=env) as process, ExitStack() as stack:
        output = read_until(process.stderr, "links lead to")
        [address] = re.findall(r"lead to (\S+)", output)
        ada, sam = [sign_up(address, f"{name}@example.com") for name in ("ada", "sam")]
        of_ada = [open_connection(stack, address, ada) for _ in range(2)]
        of_sam = [open_connection(stack, address, sam) for _ in range(10)]
        deployment_on(url, monkeypatch).run_table("users", "disable", "ada@example.com")
        assert [close_code(each) for each in of_ada] == [1008] * 2
        assert stop_process(process, signal.SIGTERM) == 0
        assert [close_code(each) for each in of_sam] == [1012] * 10
