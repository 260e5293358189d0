"""Which weekdays are common, as read a short time ago: it selects the smaller search statement.

It decides between two statements with the same result. If a weekday has become rare since, the
smaller one looks at more rows, for _MAX_AGE_SECONDS at most.
"""

from __future__ import annotations

from time import monotonic

from attrs import define, field

from staffbooking_adapters.sql.companions.search import common_weekday_check
from staffbooking_adapters.sql.engine.connection import Connection

_MAX_AGE_SECONDS = 60.0
_MAX_ENTRIES = 1_000
"""Beyond it all are forgotten: the services are texts of clients."""


@define
class CommonWeekdays:
    """What one process knows of weekdays."""

    _known: dict[tuple[str | None, int, int], tuple[bool, float]] = field(factory=dict)
    """Whether a weekday is common, and when that was read (monotonic), by folded service, weekday
    and page size."""

    async def is_common(
        self, connection: Connection, service: str | None, weekday_bit: int, size: int
    ) -> bool:
        """Whether a page of this size is full after few of the best companions of a service, or of
        any, who work on a weekday."""
        key, now = (service, weekday_bit, size), monotonic()
        known = self._known.get(key)
        if known is not None and 0 <= now - known[1] < _MAX_AGE_SECONDS:
            return known[0]
        params = {} if service is None else {"service": service}
        is_common: bool = bool(
            await connection.fetch_value(
                common_weekday_check(service is not None, size), weekday_bit=weekday_bit, **params
            )
        )
        if len(self._known) >= _MAX_ENTRIES:
            self._known.clear()
        self._known[key] = (is_common, now)
        return is_common
