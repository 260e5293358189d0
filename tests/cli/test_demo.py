"""`staffbooking demo`: what it prints works when it is pasted, and it keeps its data."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import frozen

from staffbooking_cli.commands.demo import LEDGER_CHECK_FILE
from tests.cli.processes import (
    make_environment,
    read_until,
    run_in_background,
    run_to_end,
    stop_process,
)
from tests.support.required_tools import skip_or_fail


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with run_in_background("demo", "--port", "0", "--dir", folder, env=make_environment()) as demo:
        yield demo, read_until(demo.stdout, "The party is off") + read_until(demo.stdout, "sleep")


def pasted(text: str) -> str:
    """What a shell prints for the printed lines."""
    ran = subprocess.run(
        ["bash"],
        input=text[text.index("# Paste this first") :],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def checked(text: str, where: Path) -> str:
    """What the printed line that checks the ledger says, called in a folder."""
    command = text[text.index("\nLedger ") :].split(maxsplit=1)[1].partition("\n")[0]
    ran = subprocess.run(
        command,
        shell=True,
        cwd=where,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def key_of(text: str) -> str:
    found = re.search(r"^API key +(ps_\w{65})$", text, re.MULTILINE)
    assert found is not None
    return found[1]


@frozen
class Tried:
    """A demo that somebody tried and stopped."""

    folder: Path
    text: str
    """What it said."""
    printed: str
    """What its lines printed when they were pasted."""
    code: int
    """With which it ended."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """In a folder with a blank in its name, as people's folders have."""
    if shutil.which("curl") is None:
        skip_or_fail("curl", "demo", "there is no curl")
    folder = tmp_path_factory.mktemp("tried") / "my demo"
    with started(folder) as (demo, text):
        return Tried(folder, text, pasted(text), stop_process(demo, signal.SIGINT))


def test_the_printed_lines_work(tried: Tried) -> None:
    """Pasted as they are, they take one booking to its payout and another through a
    cancellation with half of the money back; the ledger is clean after it."""
    assert '"error"' not in tried.printed
    assert '"payout_status":"paid"' in tried.printed
    assert '"payment_status":"partially_refunded"' in tried.printed
    assert tried.code == 0
    assert checked(tried.text, tried.folder) == "2 bookings checked, no faults\n"


def test_a_second_start_keeps_all(tried: Tried) -> None:
    """The key is the first start's, and a booking of then is there."""
    with started(tried.folder) as (demo, again):
        assert key_of(again) == key_of(tried.text)
        assert stop_process(demo, signal.SIGTERM) == 0
    code = re.findall(r"BK\w{12}", tried.printed)[0]
    env = make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{tried.folder}/staffbooking.db")
    assert code in run_to_end("bookings", "list", env=env).stdout


def test_the_ledger_is_checked_where_the_data_is(tmp_path: Path) -> None:
    """With all settings of the demo, the address of a database of one's own too; the script is
    for nobody else's eyes."""
    url = f"sqlite+aiosqlite:///{tmp_path}/it's mine.db"
    env, folder = make_environment(DATABASE_URL=url, CURRENCY="JPY"), tmp_path / "demo"
    with run_in_background("demo", "--port", "0", "--dir", folder, env=env) as demo:
        text = read_until(demo.stdout, "# Paste this first")
        assert checked(text, tmp_path) == "0 bookings checked, no faults\n"
        assert stop_process(demo, signal.SIGTERM) == 0
    assert (folder / LEDGER_CHECK_FILE).stat().st_mode & 0o077 == 0
