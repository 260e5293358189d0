"""The notifier that writes to the log; the SMTP notifier uses it too."""

from __future__ import annotations

import logging

from staffbooking_core.ports import Email

alert_logger = logging.getLogger("staffbooking.alerts")
notice_logger = logging.getLogger("staffbooking.notices")


class LogNotifier:
    """Implements `Notifier`: alerts are warnings of the logger `staffbooking.alerts`, mails are
    lines of `staffbooking.notices` without their text and links, which are private."""

    async def alert_operators(self, booking_id: int, text: str) -> None:
        alert_logger.warning("booking %d: %s", booking_id, text)

    async def send_email(self, email: Email) -> None:
        whom = "operators" if email.user_id is None else f"user {email.user_id}"
        notice_logger.info("%s: %s: notice %d", whom, email.kind, email.notice_id)
