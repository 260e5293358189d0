"""The notifier that writes to the log: for a start, and beside any other."""

from __future__ import annotations

import logging

logger = logging.getLogger("staffbooking.alerts")


class LogNotifier:
    """Alerts become warnings of the logger `staffbooking.alerts`."""

    async def alert(self, booking_id: int, text: str) -> None:
        logger.warning("booking %d: %s", booking_id, text)
