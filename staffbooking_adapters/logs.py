"""Structured logs through structlog: one line a record, as JSON or for a terminal (CONTRACT 10).

All records take this way, those of libraries too. Each has the request id of its context. Values
are escaped and cut, so that no input can forge a line and no line is over MAX_LINE_BYTES.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from staffbooking_adapters import codec
from staffbooking_adapters.settings_logs import LogFormat
from staffbooking_core.request_id import CURRENT_REQUEST_ID

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

MAX_LINE_BYTES = 4096
_MAX_VALUE_CHARACTERS = 500
_MAX_TRACEBACK_CHARACTERS = 2_000

SECURITY_LOGGER_NAME = "staffbooking.security"
_VERBOSE_LIBRARIES = ("aiosqlite", "alembic", "httpx", "stripe")
"""Libraries that log every call at INFO, or, as aiosqlite, with personal data at DEBUG."""


def configure_logging(
    log_format: LogFormat = LogFormat.TEXT, level: int = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send all log records to `stream` (standard error by default) in this format; libraries that
    log every call are limited to WARNING. Replaces an earlier configuration."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(make_formatter(log_format, colors=stream.isatty()))
    handler.addFilter(FloodSampler(SECURITY_LOGGER_NAME))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for library in _VERBOSE_LIBRARIES:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))


def make_formatter(log_format: LogFormat, *, colors: bool = False) -> logging.Formatter:
    """The formatter of records in a format."""
    structlog = _import_structlog()
    shared: list[Processor] = [
        structlog.stdlib.ExtraAdder(),
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
        _escape_and_cut,
        structlog.processors.format_exc_info,
        _cut_traceback,
    ]
    renderer: Processor = (
        _render_json
        if log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    return formatter if log_format is LogFormat.JSON else _LineLimit(formatter)


def _import_structlog() -> ModuleType:
    """structlog without what it would import for functions that are not used here: rich for
    tracebacks in color, greenlet for contexts of greenlets."""
    hidden = {"greenlet", "rich"} - sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import structlog
    finally:
        for name in hidden:
            del sys.modules[name]
    return structlog


class _LineLimit(logging.Formatter):
    """Cuts each line of a record for a terminal; a traceback has several."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        lines = self._inner.format(record).split("\n")
        return "\n".join(cut_line(line) for line in lines)


def cut_line(line: str) -> str:
    """The line in at most MAX_LINE_BYTES, its end included."""
    encoded = line.encode("utf-8", "backslashreplace")
    return encoded[: MAX_LINE_BYTES - 1].decode("utf-8", "ignore")


class FloodSampler(logging.Filter):
    """Passes at most `limit` records of a message of one logger in `seconds`; the next one that
    passes has the number of those that were dropped, as `dropped`. Passes all of other loggers."""

    def __init__(self, logger_name: str, limit: int = 20, seconds: float = 10.0) -> None:
        super().__init__()
        self._logger_name = logger_name
        self._limit, self._seconds = limit, seconds
        self._windows: dict[str, tuple[float, int]] = {}
        """By message: the end of its window, and the records in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != self._logger_name:
            return True
        now, message = time.monotonic(), str(record.msg)
        ends_at, count = self._windows.get(message, (0.0, 0))
        if now >= ends_at:
            if count > self._limit:
                record.dropped = count - self._limit
            ends_at, count = now + self._seconds, 0
        self._windows[message] = (ends_at, count + 1)
        return count < self._limit


def _add_request_id(_: Any, __: str, fields: EventDict) -> EventDict:
    if (request_id := CURRENT_REQUEST_ID.get()) is not None:
        fields.setdefault("request_id", request_id)
    return fields


def escape_text(text: str) -> str:
    """The text in one line: control characters and lone surrogates are escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _escape_and_cut(_: Any, __: str, fields: EventDict) -> EventDict:
    for name, value in fields.items():
        if isinstance(value, str):
            fields[name] = escape_text(value[:_MAX_VALUE_CHARACTERS])
    return fields


def _cut_traceback(_: Any, __: str, fields: EventDict) -> EventDict:
    """Keep the end of a traceback: it has the error."""
    if isinstance(text := fields.get("exception"), str):
        fields["exception"] = text[-_MAX_TRACEBACK_CHARACTERS:]
    return fields


_SHORT_FIELDS = ("timestamp", "level", "logger", "event", "request_id")


def _render_json(_: Any, __: str, fields: MutableMapping[str, Any]) -> str:
    line = codec.encode(_to_json(fields))
    if len(line) >= MAX_LINE_BYTES:
        short = {name: fields[name] for name in _SHORT_FIELDS if name in fields}
        line = codec.encode(_to_json({**short, "truncated": True}))
    return line.decode()


def _to_json(fields: Mapping[str, Any]) -> dict[str, Any]:
    plain = (str, int, float, bool, type(None))
    return {
        name: value if isinstance(value, plain) else escape_text(str(value)[:_MAX_VALUE_CHARACTERS])
        for name, value in fields.items()
    }


# Access lines -------------------------------------------------------------------------------

ACCESS_LOGGER_NAME = "staffbooking.access"


_ACCESS_HEAD = f'"level":"info","logger":"{ACCESS_LOGGER_NAME}","event":"request"'


def render_access_line(log_format: LogFormat, at: datetime, fields: Mapping[str, Any]) -> str:
    """One line about a finished request, in the form of the other records. Records of the access
    logger are not formatted by structlog: that would take a tenth of a small request's time."""
    timestamp = f"{at.isoformat(timespec='microseconds')[:-6]}Z"
    if log_format is LogFormat.JSON:
        # Spliced, since the head needs no escaping.
        return f'{{"timestamp":"{timestamp}",{_ACCESS_HEAD},{codec.encode(fields).decode()[1:]}'
    shown = " ".join([f"{name}={value}" for name, value in fields.items() if value is not None])
    return f"{timestamp} [info     ] request [{ACCESS_LOGGER_NAME}] {shown}"
