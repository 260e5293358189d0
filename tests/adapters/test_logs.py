"""Structured logs: formats, limits of lines, and sampling of floods."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from staffbooking_adapters.logs import (
    MAX_LINE_BYTES,
    SECURITY_LOGGER_NAME,
    FloodSampler,
    configure_logging,
    render_access_line,
)
from staffbooking_adapters.settings_logs import LogFormat
from staffbooking_core.request_id import CURRENT_REQUEST_ID

log = logging.getLogger("staffbooking.test")
FORMATS = list(LogFormat)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restores the root logger after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def written(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_the_fields_of_its_record(stream: io.StringIO) -> None:
    """A JSON line has the time, level, logger, message and extra fields of a record."""
    configure_logging(LogFormat.JSON, stream=stream)
    log.warning("hello %s", "world", extra={"booking_id": 7})
    [line] = written(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "staffbooking.test",
        "event": "hello world",
        "booking_id": 7,
    }


def test_a_text_line_has_the_fields_of_its_record(stream: io.StringIO) -> None:
    """A text line has the level, message, logger and extra fields of a record."""
    configure_logging(LogFormat.TEXT, stream=stream)
    log.warning("hello", extra={"booking_id": 7})
    line = stream.getvalue()
    assert "[warning  ] hello [staffbooking.test] booking_id=7" in line


def test_a_record_has_the_request_id_of_its_context(stream: io.StringIO) -> None:
    """Records within a request have its id; records outside of requests have none."""
    configure_logging(LogFormat.JSON, stream=stream)
    outer = CURRENT_REQUEST_ID.set("r-1")
    log.warning("inside")
    CURRENT_REQUEST_ID.reset(outer)
    log.warning("outside")
    assert [line.get("request_id") for line in written(stream)] == ["r-1", None]


@pytest.mark.parametrize("log_format", FORMATS)
def test_input_cannot_forge_a_line(stream: io.StringIO, log_format: LogFormat) -> None:
    """Line breaks and control characters of messages and fields are escaped."""
    configure_logging(log_format, stream=stream)
    forged = "x\n2026-01-01 [error] paid\r\x1b[31m\u2028\udcff"
    log.warning("got %s", forged, extra={"path": forged})
    [line] = stream.getvalue().splitlines()
    assert "\x1b" not in line


@pytest.mark.parametrize("log_format", FORMATS)
def test_no_line_is_over_the_limit(stream: io.StringIO, log_format: LogFormat) -> None:
    """Long messages, fields, objects and tracebacks give lines of at most 4 KiB."""
    configure_logging(log_format, stream=stream)
    log.warning("x" * 100_000)
    log.warning("y", extra={f"field{n}": "\N{EURO SIGN}" * 2_000 for n in range(40)})
    log.warning("z", extra={"object": ["\N{EURO SIGN}" * 10_000]})
    try:
        raise ValueError("w" * 100_000)
    except ValueError:
        log.exception("failed")
    assert max(len(line.encode()) for line in stream.getvalue().splitlines()) < MAX_LINE_BYTES
    if log_format is LogFormat.JSON:
        assert [str(line["event"])[0] for line in written(stream)] == ["x", "y", "z", "f"]


def test_a_traceback_keeps_its_end(stream: io.StringIO) -> None:
    """A JSON line of an exception has the end of the traceback, with the error."""
    configure_logging(LogFormat.JSON, stream=stream)
    try:
        raise ValueError("the cause")
    except ValueError:
        log.exception("failed")
    [line] = written(stream)
    assert str(line["exception"]).endswith("ValueError: the cause")


def test_records_below_the_level_are_dropped(stream: io.StringIO) -> None:
    """Records below the configured level are not written."""
    configure_logging(LogFormat.TEXT, logging.ERROR, stream)
    log.warning("hidden")
    log.error("shown")
    assert "shown" in stream.getvalue()
    assert "hidden" not in stream.getvalue()


@pytest.mark.parametrize(
    ("library", "level"), [("httpx", logging.INFO), ("aiosqlite", logging.DEBUG)]
)
def test_libraries_that_log_every_call_are_quiet(
    stream: io.StringIO, library: str, level: int
) -> None:
    """Libraries that log every call are limited to WARNING."""
    configure_logging(LogFormat.TEXT, level, stream)
    logging.getLogger(library).log(level, "a call")
    assert stream.getvalue() == ""


def test_a_flood_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most `limit` records of a message pass in a window; the first of the next window has the
    number of dropped ones. Other messages and other loggers' records pass."""
    now = [100.0]
    monkeypatch.setattr("staffbooking_adapters.logs.time.monotonic", lambda: now[0])
    sampler = FloodSampler("sampled", limit=2, seconds=10)

    def record(message: str, logger_name: str = "sampled") -> logging.LogRecord:
        return logging.LogRecord(logger_name, logging.WARNING, "", 0, message, None, None)

    assert [sampler.filter(record("flood")) for _ in range(5)] == [True, True, False, False, False]
    assert sampler.filter(record("other"))
    assert sampler.filter(record("flood", "another logger"))
    now[0] += 10
    later = record("flood")
    assert sampler.filter(later)
    assert vars(later)["dropped"] == 3


def test_a_flood_of_security_records_is_sampled(stream: io.StringIO) -> None:
    """At most twenty security records of a message are written in a window."""
    configure_logging(LogFormat.JSON, stream=stream)
    for _ in range(30):
        logging.getLogger(SECURITY_LOGGER_NAME).warning("credentials_refused")
    assert len(written(stream)) == 20


def test_no_sampling_stays_without_the_configured_handler(
    stream: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    """Another handler gets every security record, of a flood too."""
    configure_logging(LogFormat.JSON, stream=stream)
    logging.getLogger().addHandler(caplog.handler)
    for _ in range(30):
        logging.getLogger(SECURITY_LOGGER_NAME).warning("credentials_refused")
    assert len(caplog.records) == 30


@pytest.mark.parametrize("log_format", FORMATS)
def test_an_access_line_has_the_form_of_other_lines(
    stream: io.StringIO, log_format: LogFormat
) -> None:
    """An access line has the same head as a line of structlog, then its fields."""
    at = datetime(2027, 3, 1, 12, 0, 0, 5, UTC)
    line = render_access_line(log_format, at, {"status": 200, "user_id": None})
    if log_format is LogFormat.JSON:
        fields = json.loads(line)
        assert fields == {
            "timestamp": "2027-03-01T12:00:00.000005Z",
            "level": "info",
            "logger": "staffbooking.access",
            "event": "request",
            "status": 200,
            "user_id": None,
        }
    else:
        head = "2027-03-01T12:00:00.000005Z [info     ] request [staffbooking.access]"
        assert line == f"{head} status=200"


def test_what_structlog_would_import_for_nothing_is_left_out() -> None:
    """The log is configured without rich and greenlet, which can be imported later."""
    code = (
        "import sys; from staffbooking_adapters.logs import configure_logging\n"
        "configure_logging(); print({'rich', 'greenlet'} & sys.modules.keys())\n"
        "import greenlet, rich.console"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
