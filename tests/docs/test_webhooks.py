"""docs/webhooks.md: its names, figures, requests, code and example are those of the service."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typer.models import CommandInfo

from staffbooking_adapters.codec import decode, encode
from staffbooking_adapters.testing.builders import NOW, POLICY, make_booking
from staffbooking_cli.commands import doctor, secrets, webhooks
from staffbooking_core.domain.bookings.booking import TransitionResult
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    MAX_WEBHOOK_URL_LENGTH,
    DeliveryFailure,
    delivery_headers,
)
from staffbooking_core.ports import WebhookStats
from staffbooking_core.representations import events
from staffbooking_core.webhook_receiver import RefusalReason, WebhookReceiver
from staffbooking_http.api import metrics
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.support.required_tools import skip_or_fail

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/webhooks.md").read_text(encoding="utf-8")
VECTORS = json.loads((ROOT / "docs/webhooks-vectors.json").read_text(encoding="utf-8"))
SECRET, OTHER = VECTORS[2]["secrets"]


def body(event_id: str = "evt_1", sequence: int = 1) -> bytes:
    booking = make_booking(code="BK1")
    event = events.booking_event(
        event_id, None, TransitionResult(booking, EventName.BOOKING_CREATED), NOW, POLICY
    )
    return encode({**event.envelope, "sequence": sequence})


def signed(sent: bytes, secret: str = SECRET) -> dict[str, str]:
    """The headers of an attempt at the current time."""
    event_id, event = decode(sent)["id"], decode(sent)["event"]
    return delivery_headers([secret], event_id, event, 1, sent, datetime.now(UTC))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def rows(table: str) -> list[str]:
    """The names in the first cells of the table with this head."""
    lines = PAGE.partition(table)[2].partition("\n\n")[0].splitlines()[2:]
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


# Names and figures ------------------------------------------------------------------------


def test_all_names_are_explained():
    """The tables list exactly the events, the failures of attempts and the refusal reasons."""
    assert {*rows("| Event | When |")} == {*EventName}
    assert rows("| `error` | What happened | Look at |") == [*DeliveryFailure]
    assert rows("| `WebhookRefused.reason` | |") == [*RefusalReason]


def test_the_headers_are_those_that_are_sent():
    """The table lists exactly the delivery headers and `User-Agent`."""
    assert {*rows("| Header | |")} == {*signed(body()), "User-Agent"}


def test_the_figures_are_the_policys():
    """The page states the times and limits of the policy."""
    seconds = [wait.total_seconds() for wait in POLICY.webhook_retry_delays]
    assert "at once, then {:.0f}, {:.0f} and {:.0f} seconds after".format(*seconds) in PAGE
    assert f"2xx within {POLICY.webhook_attempt_timeout.seconds} seconds" in PAGE
    assert f"longer than {POLICY.webhook_slow_threshold.seconds} second, are served apart" in PAGE
    assert f"At most {POLICY.max_webhook_attempts_in_flight} deliveries" in PAGE
    assert f"**At {POLICY.webhook_disable_after} the endpoint is disabled**" in PAGE
    assert f"are `held`: for {POLICY.webhook_held_retention.days} days" in PAGE
    assert f"{POLICY.webhook_delivery_retention.days} days after it was last due" in PAGE
    assert f"at most {POLICY.max_webhooks} endpoints" in PAGE
    assert f"at most {MAX_WEBHOOK_URL_LENGTH} characters" in PAGE
    assert f"(or {POLICY.webhook_secret_overlap.total_seconds() / 3600:.0f} hours)" in PAGE
    rule = POLICY.limits.webhooks
    assert f"makes {rule.limit} of these requests per {rule.window.seconds // 60} minutes" in PAGE


def test_the_requests_are_all_there_are():
    """The page names exactly the routes of webhooks and the feed."""
    served = {(row.method, row.path) for family in ENDPOINTS_BY_TAG.values() for row in family}
    named = re.findall(r'(GET|POST|PATCH|DELETE) (?:"\$BASE)?(/api/[a-z0-9/-]+)', PAGE)
    named += [("POST", path) for path in re.findall(r'curl "\$BASE(/\S+)" .*\n +-d', PAGE)]
    named += [("POST", f"/api/webhooks/7{rest}") for rest in re.findall(r"(?<=…)/[a-z-]+", PAGE)]
    ids = {"/7": "/{id}", "/41": "/{delivery_id}"}
    assert {(method, re.sub(r"/\d+", lambda id_: ids[id_[0]], path)) for method, path in named} == {
        row for row in served if row[1].startswith(("/api/webhooks", "/api/events"))
    }


def test_the_commands_for_operators_are_all_there_are():
    """The page names exactly the commands of webhooks, doctor and secrets."""
    named = re.findall(r"^staffbooking ([a-z -]+[a-z])(?: [A-Z_]+)? +#", PAGE, re.MULTILINE)
    assert named == [
        *(f"webhooks {_name(each)}" for each in webhooks.app.registered_commands),
        doctor.doctor.__name__,
        *(f"secrets {_name(each)}" for each in secrets.app.registered_commands),
    ]


def _name(command: CommandInfo) -> str:
    assert command.callback is not None
    return command.name or command.callback.__name__


def test_the_figures_for_operators_are_those_of_metrics():
    """The table lists exactly the webhook metrics of `/metrics`, in order."""
    work = metrics.BacklogSnapshot([], WebhookStats(0, 0, 0, 0, 0, 0.0))
    scraped = re.findall(
        r"^(staffbooking_webhook\w+)",
        metrics.render_metrics([], metrics.ChannelMetrics(), metrics.LoadMetrics(), work).decode(),
        re.M,
    )
    assert rows("| At `/metrics` | |") == [*dict.fromkeys(scraped)]


def test_the_envelope_is_a_real_one():
    """The envelope of the page is that of the first vector, and has the fields of an event."""
    (shown,) = map(json.loads, blocks("json"))
    real = decode(body())
    assert shown == json.loads(VECTORS[0]["body"])
    assert [*shown] == [*real]
    assert [*shown["data"]["booking"]] == [*real["data"]["booking"]]


def test_the_test_event_of_the_vectors_is_a_real_one():
    """The test event of the vectors has the bytes that the service makes."""
    made = events.envelope_for_test_event(VECTORS[1]["id"], 7, NOW)
    assert encode(made).decode() == VECTORS[1]["body"]


# Code -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the code of the page defines, and the events it kept and replaced."""
    kept: list[dict[str, Any]] = []
    replaced: list[dict[str, Any]] = []
    names: dict[str, Any] = {"secret": SECRET, "keep": kept.append, "kept": kept}
    names |= {"replace_record": replaced.append, "replaced": replaced}
    for block in blocks("python"):
        exec(compile(block, "docs/webhooks.md", "exec"), names)
    return names


def test_the_handler_keeps_an_event_once(page):
    """The handler answers 204 to an event and its repetition, keeps it once, and answers 400 to a
    forged one."""
    sent = body()
    answers = [page["handle"](signed(sent), sent) for _ in range(2)]
    assert answers == [(204, ""), (204, "")]
    assert page["handle"](signed(sent, OTHER), sent) == (400, "wrong_signature")
    assert [each["id"] for each in page["kept"]] == ["evt_1"]


def test_the_handler_loses_nothing(page):
    """An event whose keeping failed is kept when it is sent again."""
    sent = body()
    run_with_failing_keep(page, lambda: page["handle"](signed(sent), sent))
    assert page["handle"](signed(sent), sent) == (204, "")
    assert [each["id"] for each in page["kept"]] == ["evt_1"]


def run_with_failing_keep(page: dict[str, Any], work: Callable[[], object]) -> None:
    """Do work that fails because `keep` raises."""

    def fail(envelope: dict[str, Any]) -> None:
        raise OSError(envelope["id"])

    keep, page["keep"] = page["keep"], fail
    with pytest.raises(OSError, match="evt_"):
        work()
    page["keep"] = keep


def test_the_public_verifier_is_used_rightly(page):
    """`verified` of the page returns the envelope of a signed event."""
    assert page["verified"](signed(body()), body())["id"] == "evt_1"


@pytest.fixture
def db(page: dict[str, Any]) -> Iterator[sqlite3.Connection]:
    """A database with the page's tables."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(page["TABLES"])
        yield db


def test_a_database_keeps_a_repeated_event_once(page, db):
    """With a database, an event whose keeping failed is kept once when repeated."""
    sent = body()
    run_with_failing_keep(page, lambda: page["handle_in"](db, signed(sent), sent))
    for _ in range(2):
        page["handle_in"](db, signed(sent), sent)
    assert [each["id"] for each in page["kept"]] == ["evt_1"]


def test_a_late_failure_is_rolled_back(page, db):
    """An event whose record could not be replaced is processed again at the next attempt."""
    replaced, sent = page["replaced"], body()
    page["replace_record"] = lambda envelope: 1 / 0
    with pytest.raises(ZeroDivisionError):
        page["handle_in"](db, signed(sent), sent)
    page["replace_record"] = replaced.append
    page["handle_in"](db, signed(sent), sent)
    assert [each["id"] for each in replaced] == ["evt_1"]


def test_a_database_agrees_with_the_receiver(page, db):
    """With a database, as with `WebhookReceiver`, each event is kept once and no stale one replaces
    a record."""
    steps = [("a", 2), ("b", 5), ("b", 5), ("c", 4), ("d", 6)]
    receiver, new, latest = WebhookReceiver([SECRET]), [], []
    for step in steps:
        sent = body(*step)
        page["handle_in"](db, signed(sent), sent)
        received = receiver.receive_unsigned(decode(sent))
        receiver.mark_processed(received)
        if not received.is_duplicate:
            new.append(step[0])
            latest += [] if received.is_stale else [step[0]]
    assert [each["id"] for each in page["kept"]] == new == ["a", "b", "c", "d"]
    assert [each["id"] for each in page["replaced"]] == latest == ["a", "b", "d"]


def test_a_test_event_is_processed_with_a_database(page, db):
    """A test event, which has no booking, is processed with a database."""
    sent = encode(events.envelope_for_test_event("evt_9", 7, NOW))
    page["handle_in"](db, signed(sent), sent)
    assert [each["id"] for each in page["replaced"]] == ["evt_9"]


def test_the_feed_is_read_to_its_end(page):
    """`catch_up` reads all pages from the last id, skips known events, and keeps failed ones at the
    next call."""
    fed = [decode(body(f"evt_{n}", n)) for n in range(1, 6)]
    asked = []

    def get(path: str, query: dict[str, Any]) -> dict[str, Any]:
        asked.append((path, query["after"]))
        start = int(query["after"].removeprefix("evt_"))
        return {"events": fed[start : start + 2], "has_more": start + 2 < len(fed)}

    receiver = WebhookReceiver([SECRET])
    receiver.mark_processed(receiver.receive_unsigned(fed[2]))
    run_with_failing_keep(page, lambda: page["catch_up"](get, receiver, "evt_1"))
    asked.clear()
    assert page["catch_up"](get, receiver, "evt_1") == "evt_5"
    assert asked == [("/api/events", "evt_1"), ("/api/events", "evt_3")]
    assert [each["id"] for each in page["kept"]] == ["evt_2", "evt_4", "evt_5"]


def test_the_feed_is_read_from_its_beginning(page):
    """`catch_up` without a last id asks without `after`, which an HTTP library would send empty."""
    asked = []

    def get(path: str, query: dict[str, Any]) -> dict[str, Any]:
        asked.append(query)
        return {"events": [decode(body())], "has_more": False}

    assert page["catch_up"](get, WebhookReceiver([SECRET]), None) == "evt_1"
    assert asked == [{"limit": 100}]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["about"])
def test_the_signatures_can_be_made_by_hand(vector, tmp_path):
    """The openssl commands of the page give the signatures of the vectors."""
    if shutil.which("openssl") is None:
        skip_or_fail("openssl", "openssl", "there is no openssl")
    (lines,) = blocks("bash")
    (tmp_path / "body.json").write_bytes(vector["body"].encode())
    names = {
        "SECRET": vector["secrets"][0],
        "ID": vector["id"],
        "TIMESTAMP": str(vector["timestamp"]),
    }
    ran = subprocess.run(
        ["sh", "-ec", lines], cwd=tmp_path, env=os.environ | names, capture_output=True, check=True
    )
    published, _, standard = ran.stdout.decode().split()
    assert published == vector["x-webhook-signature"]
    assert f"v1,{standard}" == vector["webhook-signature"].split()[0]


# The example ------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The receiver process with two secrets, and its port."""
    with subprocess.Popen(
        [sys.executable, ROOT / "docs/examples/receiver.py", "0"],
        cwd=tmp_path,
        env=os.environ | {"WEBHOOK_SECRET": f"{SECRET},{OTHER}", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline().rpartition(" ")[2])
        finally:
            process.kill()


def post(port: int, sent: bytes, named: dict[str, str]) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/hooks", sent, named)
    answer = connection.getresponse()
    connection.close()
    return answer.status, answer.reason


def test_the_example_runs(example):
    """The example accepts signed events, prints each once, and refuses a forged one."""
    process, port = example
    forged = signed(body("evt_9"), "whsec_" + "A" * 43 + "=")
    assert post(port, body(), signed(body())) == (204, "No Content")
    assert post(port, body(), signed(body(), OTHER)) == (204, "No Content")
    assert post(port, body("evt_9"), forged) == (400, "wrong_signature")
    assert post(port, body("evt_2"), signed(body("evt_2"))) == (204, "No Content")
    process.terminate()
    assert process.stdout.read() == "booking.created evt_1\nbooking.created evt_2\n"
