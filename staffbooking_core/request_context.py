"""The id of the request that is being handled, for the log (CONTRACT 10).

A runner sets it. It is no input of any decision.
"""

from __future__ import annotations

from contextvars import ContextVar

CURRENT_REQUEST_ID: ContextVar[str | None] = ContextVar("staffbooking_request_id", default=None)
"""The `X-Request-Id` of the response; None outside of requests."""
