"""`staffbooking demo`: what it prints works when it is pasted, and it keeps its data."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.processes import environment, finished, read_until, running, stopped
from tests.support.required import unavailable


@pytest.fixture(autouse=True)
def curl() -> None:
    if shutil.which("curl") is None:
        unavailable("curl", "demo", "there is no curl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a blank in its name, as people's folders have."""
    return tmp_path / "my demo"


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with running("demo", "--port", "0", "--dir", folder, env=environment()) as demo:
        yield demo, read_until(demo.stdout, "The party is off") + read_until(demo.stdout, "sleep")


def pasted(text: str, until: str = "nothing that is there") -> str:
    """What a shell prints for the printed lines, up to a block."""
    lines = text[text.index("# Paste this first") :].partition(f"# {until}")[0]
    ran = subprocess.run(
        ["bash"],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def key_of(text: str) -> str:
    found = re.search(r"^API key +(ps_\w{65})$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_printed_lines_work(folder: Path) -> None:
    """Pasted as they are, they take one booking to its payout and another through a
    cancellation with half of the money back; the ledger is clean after it."""
    with started(folder) as (demo, text):
        printed = pasted(text)
        assert '"error"' not in printed
        assert '"payout_status":"paid"' in printed
        assert '"payment_status":"partially_refunded"' in printed
        assert stopped(demo, signal.SIGINT) == 0
    env = environment(DATABASE_URL=f"sqlite+aiosqlite:///{folder}/staffbooking.db")
    assert finished("ledger", "check", env=env).stdout == "2 bookings checked, no faults\n"


def test_a_second_start_keeps_all(folder: Path) -> None:
    """The key is the first start's, and a booking of then is there."""
    with started(folder) as (demo, text):
        printed = pasted(text, until="The staff member signs in")
        code = re.findall(r"BK\w{12}", printed)[0]
        assert stopped(demo, signal.SIGTERM) == 0
    with started(folder) as (demo, again):
        assert key_of(again) == key_of(text)
        assert stopped(demo, signal.SIGTERM) == 0
    env = environment(DATABASE_URL=f"sqlite+aiosqlite:///{folder}/staffbooking.db")
    assert code in finished("bookings", "list", env=env).stdout
