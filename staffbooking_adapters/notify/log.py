"""The notifier that writes to the log: for a start, and beside any other."""

from __future__ import annotations

import logging

from staffbooking_core.ports import Email

alert_logger = logging.getLogger("staffbooking.alerts")
notice_logger = logging.getLogger("staffbooking.notices")


class LogNotifier:
    """Alerts become warnings of the logger `staffbooking.alerts`, letters lines of
    `staffbooking.notices`: without their text and links, which are for one person's eyes."""

    async def alert_operators(self, booking_id: int, text: str) -> None:
        alert_logger.warning("booking %d: %s", booking_id, text)

    async def send_email(self, email: Email) -> None:
        whom = "operators" if email.user_id is None else f"user {email.user_id}"
        notice_logger.info("%s: %s: notice %d", whom, email.kind, email.notice_id)
