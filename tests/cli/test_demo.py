"""`staffbooking demo`: the printed commands work, and the data is kept."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from attrs import frozen

from staffbooking_cli.commands.demo import COMMAND_FILE, GUIDE_FILE, place_demo
from staffbooking_cli.sample.seed import KEY_FILE
from tests.cli.processes import (
    ROOT,
    STOP_TIMEOUT_SECONDS,
    make_environment,
    read_until,
    run_in_background,
    run_to_end,
    stop_process,
)
from tests.cli.test_stores import OnDatabase, deployment_on
from tests.support.required_tools import skip_or_fail

PAUSE_SECONDS = 3
PAUSE = f"sleep {PAUSE_SECONDS}; "
ALL_RUN = "these commands are done"
COUNT_DUE = """
SELECT (SELECT count(*) FROM payment_operations WHERE status IN ('pending', 'unknown'))
     + (SELECT count(*) FROM timers, sandbox_clock
        WHERE due_at <= CAST(strftime('%s') AS INTEGER) * 1000000 + offset_us)
"""


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with run_in_background("demo", "--port", "0", "--dir", folder, env=make_environment()) as demo:
        yield demo, read_until(demo.stdout, "The party is off") + read_until(demo.stdout, "sleep")


def pasted(text: str, folder: Path) -> str:
    """The output of a shell that runs the printed commands. A pause ends as soon as the worker has
    done what it is for."""
    printed = ""
    with subprocess.Popen(
        ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdin is not None
        for commands in text[text.index("# Paste this first") :].split(PAUSE):
            shell.stdin.write(f"{commands}\necho {ALL_RUN}\n")
            shell.stdin.flush()
            printed += read_until(shell.stdout, ALL_RUN)
            wait_for_worker(folder / "staffbooking.db")
        shell.stdin.close()
        assert shell.wait(STOP_TIMEOUT_SECONDS) == 0
    return printed


def wait_for_worker(database: Path) -> None:
    """Wait until no payment has to be sent and no booking changes by itself, as long as the printed
    pause at most."""
    end = time.monotonic() + PAUSE_SECONDS
    with closing(sqlite3.connect(database)) as reader:
        while time.monotonic() < end and reader.execute(COUNT_DUE).fetchone() != (0,):
            time.sleep(0.02)


def printed_field(text: str, name: str) -> str:
    """What is printed beside a name."""
    found = re.search(rf"^{name} +(.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


def checked(text: str, where: Path, name: str = "Ledger") -> str:
    """The output of the command that is printed beside a name, run from another folder."""
    command = printed_field(text, name)
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
    key = printed_field(text, "API key")
    assert re.fullmatch(r"ps_\w{65}", key)
    return key


@frozen
class Tried:
    """A demo that was run and stopped."""

    folder: Path
    text: str
    """The demo's output."""
    printed: str
    """The output of the printed commands."""
    code: int
    """The demo's exit code."""
    guide: Path
    """A copy of the file with the printed text, which each start writes anew."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    """A demo in a folder with a space in its name."""
    if shutil.which("curl") is None:
        skip_or_fail("curl", "demo", "there is no curl")
    folder = tmp_path_factory.mktemp("tried") / "my demo"
    with started(folder) as (demo, text):
        guide = Path(shutil.copy(printed_field(text, "This text"), folder.parent))
        printed = pasted(text, folder)
        return Tried(folder, text, printed, stop_process(demo, signal.SIGINT), guide)


def database_of(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> OnDatabase:
    """The demo's database, for commands in this process."""
    return deployment_on(f"sqlite+aiosqlite:///{tried.folder}/staffbooking.db", monkeypatch)


def test_the_printed_lines_work(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed commands take one booking to its payout and cancel another with a half refund;
    the ledger check passes afterwards."""
    assert '"error"' not in tried.printed
    assert '"payout_status":"paid"' in tried.printed
    assert '"payment_status":"partially_refunded"' in tried.printed
    assert tried.code == 0
    checked_books = database_of(tried, monkeypatch).run_table("ledger", "check")
    assert re.fullmatch(r"\d+ bookings checked, no faults\n", checked_books)


def test_a_second_start_keeps_all(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start keeps the API key and the bookings of the first."""
    with started(tried.folder) as (demo, again):
        assert key_of(again) == key_of(tried.text)
        assert stop_process(demo, signal.SIGTERM) == 0
    code = re.findall(r'"booking_code": ?"(BK\w{12})"', tried.printed)[0]
    assert code in database_of(tried, monkeypatch).run_table("bookings", "show", code)


@frozen
class Elsewhere:
    """A demo in the folder of another one, on a database of its own."""

    parent: Path
    database: Path
    text: str
    ledger_check: str


@pytest.fixture(scope="module")
def elsewhere(tried: Tried, tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    where = tmp_path_factory.mktemp("elsewhere")
    database = where / "it's mine.db"
    shutil.copy(tried.folder / "staffbooking.db", database)
    env = make_environment(DATABASE_URL=f"sqlite+aiosqlite:///{database}", CURRENCY="JPY")
    with run_in_background("demo", "--port", "0", "--dir", tried.folder, env=env) as demo:
        text = read_until(demo.stdout, "# Paste this first")
        found = Elsewhere(tried.folder, database, text, checked(text, where))
        assert stop_process(demo, signal.SIGTERM) == 0
    return found


def test_the_ledger_is_checked_where_the_data_is(elsewhere: Elsewhere) -> None:
    """The script has all settings of the demo, including a separate database URL."""
    assert re.fullmatch(r"\d+ bookings checked, no faults\n", elsewhere.ledger_check)


def test_demos_on_several_databases_keep_their_keys(tried: Tried, elsewhere: Elsewhere) -> None:
    """The demo on another database has its own key, and leaves the key of the first."""
    assert key_of(elsewhere.text) != key_of(tried.text)
    assert (elsewhere.parent / KEY_FILE).read_text().strip() == key_of(tried.text)


def test_the_welcome_names_the_database(tried: Tried, elsewhere: Elsewhere) -> None:
    """The output has the file of the demo's own database, or the one that was given."""
    assert printed_field(tried.text, "Database") == str(tried.folder / "staffbooking.db")
    assert printed_field(elsewhere.text, "Database") == str(elsewhere.database)


def test_the_command_line_works_on_the_data(tried: Tried, tmp_path: Path) -> None:
    """The printed command line shows the sample's accounts from any folder; only the owner can read
    its script."""
    assert "customer@demo.test" in checked(tried.text, tmp_path, "Command line")
    assert (tried.folder / COMMAND_FILE).stat().st_mode & 0o077 == 0


def test_the_printed_text_is_kept_in_a_file(tried: Tried) -> None:
    """The file that the output names has the same text, which only the owner can read."""
    assert printed_field(tried.text, "This text") == str(tried.folder / GUIDE_FILE)
    assert tried.text in tried.guide.read_text()
    assert tried.guide.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("given", "images"), [({}, "postgresql-[0-9a-f]{8}/images"), ({"FILES_DIR": "/srv"}, "/srv")]
)
def test_images_are_in_the_folder_of_a_demo_on_postgresql(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str], images: str
) -> None:
    """Images are in the folder of the demo on that database, unless another one is given."""
    for name, value in {"DATABASE_URL": "postgresql+asyncpg://u:hush@h/x", **given}.items():
        monkeypatch.setenv(f"STAFFBOOKING_{name}", value)
    folder, environ = place_demo(tmp_path, 8000)
    assert re.fullmatch(f"({tmp_path}/)?{images}", environ["STAFFBOOKING_FILES_DIR"])
    assert folder.parent == tmp_path


def test_the_welcome_says_where_to_look(tried: Tried) -> None:
    """The output has the address, the accounts and the pages for testers."""
    assert re.search(r"staffbooking runs at http://127\.0\.0\.1:\d+ ", tried.text)
    for words in ("customer@demo.test", "/sandbox/tour", "/sandbox/mails", "/docs"):
        assert words in tried.text


def test_the_first_line_comes_before_the_rest_is_loaded(tmp_path: Path) -> None:
    """Whoever starts the demo reads at once that it starts: the web framework is loaded later."""
    env = make_environment() | {"PYTHONPROFILEIMPORTTIME": "1"}
    with run_in_background("demo", "--port", "0", "--dir", tmp_path / "demo", env=env) as demo:
        before = read_until(demo.stderr, "Starting staffbooking...")
    assert "litestar" not in before
    assert "sqlalchemy" not in before


def test_a_port_that_is_taken_is_told_with_the_way_out(tmp_path: Path) -> None:
    """The refusal names the port and a command that works, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run_to_end("demo", "--port", port, "--dir", tmp_path / "demo", env=make_environment())
    assert ran.returncode == 1
    [line] = ran.stderr.splitlines()
    assert line.startswith(f"staffbooking: port {port} is in use.")
    assert re.search(r"make demo PORT=\d+$", line)


def test_make_takes_the_port() -> None:
    """`make demo PORT=8080` runs the demo on that port."""
    if shutil.which("make") is None:
        skip_or_fail("make", "demo", "there is no make")
    for given, wanted in (("PORT=8080", "demo --port 8080\n"), ("PORT=", "main demo \n")):
        command = ["make", "--dry-run", "demo", given]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert wanted in ran.stdout
