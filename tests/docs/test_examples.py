"""docs/examples: each program runs as its README says."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.reserved_ports import port_number, reserve_port

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
EMBEDDING = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
MAX_LINES = 100
TIMEOUT_SECONDS = 30.0

EVENT = {
    "companion_id": 2,
    "start_time": "18:00",
    "duration_hours": 5,
    "service_type": "bartender",
    "location": "12 Savile Row",
}


def basic(email: str) -> str:
    return "Basic " + base64.b64encode(f"{email}:secret".encode()).decode()


QUICK_HASHES = """
import runpy, sys
from django.contrib.auth.hashers import PBKDF2PasswordHasher

PBKDF2PasswordHasher.iterations = 1_000
sys.path[0] = sys.argv[1].rpartition("/")[0]
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program of Django with quick hashes of passwords: by default each request takes half a
second of processor time, since it brings its password."""
STARTERS = {"django_app.py": ["-c", QUICK_HASHES]}

GRACE_AND_ADA = {
    "fastapi_app.py": ("Bearer grace", "Bearer ada"),
    "django_app.py": (basic("grace@example.com"), basic("ada@example.com")),
}


@contextmanager
def running(program: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of the examples in a folder; killed at the end."""
    with subprocess.Popen(
        [sys.executable, *STARTERS.get(program, []), str(FOLDER / program), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(program: str, folder: Path) -> Iterator[httpx.Client]:
    """A client of a web example that answers."""
    reservation = reserve_port()
    port = str(port_number(reservation))
    with (
        reservation,
        running(program, folder, port) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=TIMEOUT_SECONDS) as client,
    ):
        wait_for(lambda: answers(client), process)
        yield client


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code < 500
    except httpx.ConnectError:
        return False


def wait_for(condition: Any, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate()[1])
        time.sleep(0.1)


def test_the_script_is_that_of_the_page() -> None:
    """The script is the first program of docs/embedding.md, whose test runs it."""
    [block, *_] = re.findall(r"```python\n(.*?)```", EMBEDDING, re.DOTALL)
    assert (FOLDER / "script.py").read_text(encoding="utf-8") == block


def test_each_example_is_in_the_readme() -> None:
    """The README lists each program with its number of lines, below 100, and its command."""
    listed = re.findall(r"^\| \[[^]]+\]\((\w+\.py)\).*? \| (\d+) \| .*`(.*)` \|$", README, re.M)
    assert {name for name, _, _ in listed} == {path.name for path in FOLDER.glob("*.py")} - {
        "people.py",
        "bookings.py",
    }
    for name, lines, command in listed:
        assert len((FOLDER / name).read_text("utf-8").splitlines()) == int(lines) < MAX_LINES
        assert f"python {name}" in command


@pytest.mark.parametrize("program", GRACE_AND_ADA)
def test_a_web_example_has_the_whole_life_of_a_booking(program: str, tmp_path: Path) -> None:
    """A booking is requested, accepted, paid, completed and paid out; strangers and wrong input
    get the errors of the table."""
    grace, ada = ({"authorization": who} for who in GRACE_AND_ADA[program])
    with serving(program, tmp_path) as client:

        def status() -> tuple[str, str]:
            shown = client.get("/bookings/1", headers=grace).json()
            return shown["status"], shown["payout"]

        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 20 * 86_400))
        wanted = {**EVENT, "event_date": day}
        assert client.post("/bookings", json=wanted).status_code == 401
        wrong = client.post("/bookings", json={**wanted, "duration_hours": 99}, headers=grace)
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "duration_hours")
        assert client.post("/bookings", json=wanted, headers=grace).is_success
        assert client.get("/bookings/2", headers=grace).status_code == 404
        assert client.post("/bookings/1/accept", headers=grace).status_code == 403
        assert client.post("/bookings/1/accept", headers=ada).json()["status"] == "accepted"
        assert client.post("/bookings/1/pay", headers=grace).is_success
        wait_for(lambda: status() == ("paid", "none"))
        client.post("/clock/40", headers=grace)
        wait_for(lambda: status() == ("completed", "paid"))


def test_the_mounted_service_is_below_its_prefix(tmp_path: Path) -> None:
    """The service and its links are below /booking; the outer application has its own routes and
    plugins."""
    with serving("litestar_app.py", tmp_path) as client:
        home = client.get("/")
        assert (home.json(), home.headers["x-agency"]) == ({"bookings": "/booking/"}, "Ada & Grace")
        page = client.get("/booking/")
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
        assert links
        assert all(link.startswith("/booking/") for link in links)
        assert client.get("/booking/api/v1/companions").status_code == 401
        assert client.get("/openapi.json").status_code == 404
        assert client.get("/booking/openapi.json").json()["servers"][0]["url"].endswith("/booking")


def test_the_worker_stops_cleanly(tmp_path: Path) -> None:
    """On SIGTERM the service ends its own work and the worker's, without an error."""
    with running("worker.py", tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGTERM)
        printed, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert re.fullmatch(r"counted \d+ sheep\nstopped\n", printed)
    assert (process.returncode, errors) == (0, "")
