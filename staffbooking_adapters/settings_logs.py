"""Settings of the log: its format and its lowest level."""

from __future__ import annotations

import logging
from enum import StrEnum


class LogFormat(StrEnum):
    """The form of a log line: for a terminal, or one JSON object."""

    TEXT = "text"
    JSON = "json"


def parse_log_format(text: str) -> LogFormat:
    if text not in list(LogFormat):
        raise ValueError("must be text or json")
    return LogFormat(text)


def parse_log_level(text: str) -> int:
    """The number of a level of `logging`."""
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError("must be debug, info, warning or error")
    return logging.getLevelNamesMapping()[text.upper()]
