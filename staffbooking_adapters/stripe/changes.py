"""The events of a while, asked for: what heals webhooks that never came.

The cursor is the time of the newest event that was seen, by Stripe's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stripe import Event, V1Services

from staffbooking_adapters.stripe.events import ACCOUNT_UPDATED_TYPE, EVENT_TYPES, processor_events
from staffbooking_adapters.stripe.marks import DeploymentTags
from staffbooking_adapters.stripe.reading import list_all
from staffbooking_core.domain.payments.processor import ProcessorEvent

_OVERLAP_SECONDS: Final = 10 * 60
"""Seconds before the cursor that are read again: events do not appear in order."""

_INITIAL_LOOKBACK_SECONDS: Final = 24 * 60 * 60
_EVENT_RETENTION_SECONDS: Final = 30 * 24 * 60 * 60
"""Seconds that Stripe keeps events for."""

_MIN_WINDOW_SECONDS: Final = 10 * 60
"""Seconds that are asked for at once where much happened; else ever more, by doubling."""

PAGE_SIZE: Final = 100
MAX_EVENTS_PER_CALL: Final = 1000
"""After a long outage there is more than one call can read in its time: past so many events
it ends, and the cursor tells where the next one goes on."""

_LISTED_TYPES: Final = [*EVENT_TYPES, ACCOUNT_UPDATED_TYPE]


async def list_changes(
    api: V1Services, tags: DeploymentTags, cursor: str | None
) -> tuple[Sequence[ProcessorEvent], str]:
    """The oldest first. Raises the SDK's errors."""
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
    # What was seen before does not count: each call gets beyond its cursor.
    while start <= end and (len(found) < MAX_EVENTS_PER_CALL or start <= int(cursor or 0)):
        page = await api.events.list_async(
            {
                "types": _LISTED_TYPES,
                "created": {"gte": start, "lt": start + window},
                "limit": PAGE_SIZE,
            }
        )
        if page.has_more and window > _MIN_WINDOW_SECONDS:
            window = _MIN_WINDOW_SECONDS
            continue
        found += reversed(await list_all(page))
        start += window
        window *= 2
    translated = tuple(
        nudge for event in found for nudge in processor_events(event.to_dict(), tags)
    )
    return translated, str(min(start, end))
