"""docs/adapters.md: its adapters work, and the contracts that it names are there."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from staffbooking_core import Email, UndeliverableEmail
from staffbooking_core.ports import NotificationKind

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
NOTIFIER, FILES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def make_email(to: str) -> Email:
    return Email(
        notice_id=1,
        kind=next(iter(NotificationKind)),
        user_id=1,
        to=to,
        name="Ada",
        subject="A request",
        text="Grace asks for you.",
    )


async def test_the_notifier_posts() -> None:
    """The notifier posts mails and alerts, and gives up an address that is none."""
    posted: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    names: dict[str, Any] = {}
    exec(compile(NOTIFIER, "docs/adapters.md", "exec", dont_inherit=True), names)
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        notifier = names["HttpNotifier"](f"http://127.0.0.1:{server.server_port}/")
        await notifier.alert_operators(7, "A payout failed")
        await notifier.send_email(make_email("ada@example.com"))
        with pytest.raises(UndeliverableEmail):
            await notifier.send_email(make_email("nobody"))
        server.shutdown()
    assert posted == [
        {"booking": 7, "alert": "A payout failed"},
        {"to": "ada@example.com", "subject": "A request", "text": "Grace asks for you."},
    ]


def test_the_storage_keeps_its_contract(tmp_path: Path) -> None:
    """The storage of the page passes its contract, run as its reader would run it."""
    (tmp_path / "test_files.py").write_text(FILES)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", ".", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


def test_each_contract_of_the_table_is_there() -> None:
    """The table names the contracts of the kit that exist."""
    listed = re.findall(r"^\| `\w+` \| `(\w+)\.(\w+)` \|", PAGE, re.MULTILINE)
    assert listed
    for module, contract in listed:
        kit = importlib.import_module(f"staffbooking_adapters.testing.{module}")
        assert contract in kit.__all__
