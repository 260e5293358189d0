"""Formats an exception as one line for the operator."""

from __future__ import annotations

import os

_DEBUG_SETTING = "STAFFBOOKING_DEBUG"


class CommandRefused(Exception):
    """The command can't be carried out; the message is the line that is printed."""


def error_line(error: BaseException) -> str | None:
    """One line for an error.

    None if the command framework handles the error itself (usage, a closed pipe) or if
    `STAFFBOOKING_DEBUG=1` requests the full traceback.
    """
    error = innermost(error)
    if type(error).__module__.startswith(("typer", "click")) or isinstance(error, BrokenPipeError):
        return None
    line = _known_error_line(error)
    if line is None:
        if os.environ.get(_DEBUG_SETTING) == "1":
            return None
        line = f"unexpected {type(error).__name__}: {error} ({_DEBUG_SETTING}=1 shows a traceback)"
    return " ".join(line.split())


def innermost(error: BaseException) -> BaseException:
    """The single error inside nested exception groups (task groups wrap even one error)."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _known_error_line(error: BaseException) -> str | None:
    from staffbooking_adapters.extras import MissingExtra
    from staffbooking_core.errors import (
        ClockWrong,
        FilesUnavailable,
        StaffbookingError,
        StoreUnavailable,
    )

    match error:
        case CommandRefused() | MissingExtra():
            return str(error)
        case ClockWrong():
            return f"nothing was changed: {error.reason}"
        case FilesUnavailable():
            return f"files can't be stored: {error.reason or error.message}"
        case StoreUnavailable():
            return f"the database is unavailable: {error.reason or error.message}"
        case StaffbookingError():
            return error.message
        case OSError() if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        case OSError():
            return error.strerror or str(error)
        case UnicodeEncodeError():
            return "an argument is not UTF-8 text"
    return None
