"""The id of the request that is being handled, for the log (CONTRACT 10).

A runner sets it. Stores keep it with the operations, events and notifications that the request
causes, and the work on them is done under it. It is no input of any decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

CURRENT_REQUEST_ID: ContextVar[str | None] = ContextVar("staffbooking_request_id", default=None)
"""The `X-Request-Id` of the response, or of the request that caused the work; else None."""


@contextmanager
def caused_by_request(request_id: str | None) -> Iterator[None]:
    """Do work under the id of the request that caused it, unless it is done in a request."""
    outer = CURRENT_REQUEST_ID.get()
    token = CURRENT_REQUEST_ID.set(request_id if outer is None else outer)
    try:
        yield
    except Exception as fault:
        if outer is None and request_id is not None:  # The caller logs it without the id.
            fault.add_note(f"caused by request {request_id}")
        raise
    finally:
        CURRENT_REQUEST_ID.reset(token)
