"""The Bruno collection, run by Bruno against a demo."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Service
from tests.docs.bruno_collection import FOLDER, LIFE
from tests.support.npm_packages import install_npm_packages
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.clients

TITLE = "Bruno collection"
SOURCES = Path(__file__).parent / "bruno"


def test_a_booking_lives_by_the_collection(
    service: Service, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """Bruno runs each request of the whole collection; those of the life of a booking find what
    they expect, and no request is answered by a failure of the service."""
    if shutil.which("node") is None:
        skip_or_fail("node", TITLE, "there is no node")
    tools = install_npm_packages(pytestconfig, SOURCES, TITLE)
    report = tmp_path / "report.json"
    command = [
        *(tools / "node_modules" / ".bin" / "bru", "run", "-r", "--env", "demo"),
        *("--env-var", f"base={service.url}", "--env-var", f"key={service.api_key}"),
        *("--reporter-json", report),
    ]
    ran = subprocess.run(
        [*map(str, command)], cwd=FOLDER, capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stdout[-3000:]
    [run] = json.loads(report.read_text(encoding="utf-8"))
    statuses = [each["response"]["status"] for each in run["results"]]
    assert len(statuses) > len(LIFE)
    assert [status for status in statuses if status not in range(200, 500)] == []
