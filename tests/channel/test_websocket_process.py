"""`serve` as a process, with open connections."""

from __future__ import annotations

import re
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
    run_to_end,
    stop_process,
)
from tests.support.channel_deployment import RECEIVE_TIMEOUT_SECONDS

PASSWORD = "correct horse"


def sign_up(address: str, email: str) -> str:
    """The cookie of somebody new."""
    person = {"email": email, "password": PASSWORD, "role": "customer"}
    names = {"first_name": "Ada", "last_name": "Okoro"}
    assert httpx.post(f"{address}/auth/register", json=person | names).status_code == 201
    login = httpx.post(f"{address}/auth/login", json={"email": email, "password": PASSWORD})
    return f"connect.sid={login.cookies['connect.sid']}"


def opened(stack: ExitStack, address: str, cookie: str) -> ClientConnection:
    """A connection that has been greeted."""
    url = address.replace("http:", "ws:") + "/ws"
    headers = [("cookie", cookie), ("origin", address)]
    made = stack.enter_context(connect(url, additional_headers=headers, proxy=None))
    assert '"ready"' in str(made.recv(RECEIVE_TIMEOUT_SECONDS))
    return made


def close_code(connection: ClientConnection) -> int | None:
    """The code that it ends with."""
    with pytest.raises(ConnectionClosed) as ended:
        connection.recv(RECEIVE_TIMEOUT_SECONDS)
    return None if ended.value.rcvd is None else ended.value.rcvd.code


def test_a_signal_ends_what_an_operator_left(tmp_path: Path) -> None:
    """Disabled on the command line somebody is cut off, and nobody else; SIGTERM tells the rest
    to come again, and the process ends in order."""
    env = make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{tmp_path}/test.db")
    assert run_to_end("db", "upgrade", env=env).returncode == 0
    with run_in_background("serve", "--port", "0", env=env) as process, ExitStack() as stack:
        said = read_until(process.stderr, "links lead to")
        [address] = re.findall(r"lead to (\S+)", said)
        ada, sam = [sign_up(address, f"{name}@example.com") for name in ("ada", "sam")]
        of_ada = [opened(stack, address, ada) for _ in range(2)]
        of_sam = [opened(stack, address, sam) for _ in range(10)]
        assert run_to_end("users", "disable", "ada@example.com", env=env).returncode == 0
        assert [close_code(each) for each in of_ada] == [1008] * 2
        assert stop_process(process, signal.SIGTERM) == 0
        assert [close_code(each) for each in of_sam] == [1012] * 10
