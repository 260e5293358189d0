"""From what went wrong to the one line that an operator reads."""

from __future__ import annotations

import os

_DEBUG_SETTING = "STAFFBOOKING_DEBUG"


class CommandRefused(Exception):
    """The command line itself can't do what it was asked to; the text is the line."""


def error_line(error: BaseException) -> str | None:
    """One line for an error, or None where it is the command framework's own affair
    (usage, a closed pipe) or was asked to be shown in full (`STAFFBOOKING_DEBUG=1`)."""
    error = innermost(error)
    if type(error).__module__.startswith(("typer", "click")) or isinstance(error, BrokenPipeError):
        return None
    line = _known_error_line(error)
    if line is None:
        if os.environ.get(_DEBUG_SETTING) == "1":
            return None
        line = f"unexpected {type(error).__name__}: {error} ({_DEBUG_SETTING}=1 shows where)"
    return " ".join(line.split())


def innermost(error: BaseException) -> BaseException:
    """A group of tasks wraps even a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _known_error_line(error: BaseException) -> str | None:
    from staffbooking_core.errors import StaffbookingError, StoreUnavailable

    match error:
        case CommandRefused():
            return str(error)
        case StoreUnavailable():
            return f"the database is out of reach: {error.reason or error.message}"
        case StaffbookingError():
            return error.message
        case OSError() if error.filename is not None:
            return f"{error.filename}: {error.strerror}"
        case OSError():
            return error.strerror or str(error)
        case UnicodeEncodeError():
            return "an argument is not UTF-8 text"
    return None
