"""The notifier that writes to the log: for a start, and beside any other."""

from __future__ import annotations

import logging

from staffbooking_core.ports import Letter

alerts = logging.getLogger("staffbooking.alerts")
notices = logging.getLogger("staffbooking.notices")


class LogNotifier:
    """Alerts become warnings of the logger `staffbooking.alerts`, letters lines of
    `staffbooking.notices`: without their text and links, which are for one person's eyes."""

    async def alert(self, booking_id: int, text: str) -> None:
        alerts.warning("booking %d: %s", booking_id, text)

    async def tell(self, letter: Letter) -> None:
        whom = "operators" if letter.user_id is None else f"user {letter.user_id}"
        notices.info("%s: %s: notice %d", whom, letter.kind, letter.notice_id)
