"""Lists past events, to recover webhooks that were lost.

The cursor is the time of the newest event seen, in Unix seconds of Stripe's clock. A call reads
windows from shortly before the cursor to the newest event:

1. A window starts at 10 minutes and doubles after each one that fits into a page.
2. A longer window that does not fit into a page is read again at half its length.
3. The call stops after MAX_EVENTS_PER_CALL events or MAX_REQUESTS_PER_CALL requests; its cursor is
   where the next call continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stripe import Event, V1Services

from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import list_all
from staffbooking_adapters.stripe.events import ACCOUNT_UPDATED_TYPE, EVENT_TYPES, processor_events
from staffbooking_core.domain.payments.processor import ProcessorEvent

_OVERLAP_SECONDS: Final = 10 * 60
"""Seconds before the cursor that are read again: events may appear out of order."""

_INITIAL_LOOKBACK_SECONDS: Final = 24 * 60 * 60
_EVENT_RETENTION_SECONDS: Final = 30 * 24 * 60 * 60
"""Seconds for which Stripe keeps events."""

_MIN_WINDOW_SECONDS: Final = 10 * 60
"""Seconds of the shortest window that is requested."""

PAGE_SIZE: Final = 100
MAX_EVENTS_PER_CALL: Final = 1000
MAX_REQUESTS_PER_CALL: Final = 15
"""A call stops after this many events or requests: after a long outage one call can't read them
all in its timeout, and a call that runs out of time moves no cursor."""

_LISTED_TYPES: Final = [*EVENT_TYPES, ACCOUNT_UPDATED_TYPE]


async def list_events(
    api: V1Services, tags: DeploymentTags, cursor: str | None
) -> tuple[Sequence[ProcessorEvent], str]:
    """The events since the cursor, oldest first, and the new cursor. Raises the SDK's errors."""
    newest = (await api.events.list_async({"types": _LISTED_TYPES, "limit": 1})).data
    if not newest:
        return (), cursor or "0"
    end, window = newest[0].created, _MIN_WINDOW_SECONDS
    start = (
        end - _INITIAL_LOOKBACK_SECONDS
        if cursor is None
        else max(int(cursor) - _OVERLAP_SECONDS, end - _EVENT_RETENTION_SECONDS)
    )
    found: list[Event] = []
    requests = 1
    # The limits do not hold before the cursor, so each call advances the cursor.
    while start <= end and (
        start <= int(cursor or 0)
        or (len(found) < MAX_EVENTS_PER_CALL and requests < MAX_REQUESTS_PER_CALL)
    ):
        page = await api.events.list_async(
            {
                "types": _LISTED_TYPES,
                "created": {"gte": start, "lt": start + window},
                "limit": PAGE_SIZE,
            }
        )
        requests += 1
        if page.has_more and window > _MIN_WINDOW_SECONDS:
            window //= 2
            continue
        listed = await list_all(page)
        requests += len(listed) // PAGE_SIZE
        found += reversed(listed)
        start += window
        window *= 2
    translated = tuple(event for each in found for event in processor_events(each.to_dict(), tags))
    return translated, str(min(start, end))
