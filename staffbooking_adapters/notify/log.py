"""The notifier that writes to the log: for a start, and beside any other."""

from __future__ import annotations

import logging

from staffbooking_core.ports import Notice

alerts = logging.getLogger("staffbooking.alerts")
notices = logging.getLogger("staffbooking.notices")


class LogNotifier:
    """Alerts become warnings of the logger `staffbooking.alerts`, notices lines of
    `staffbooking.notices`: without their text, which is for one person's eyes."""

    async def alert(self, booking_id: int, text: str) -> None:
        alerts.warning("booking %d: %s", booking_id, text)

    async def tell(self, notice: Notice) -> None:
        notices.info("user %d: %s: %s", notice.user_id, notice.kind, notice.subject)
