"""The notifier that writes to the log."""

from __future__ import annotations

import logging

import pytest

from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_adapters.testing.builders_notifications import make_email

pytestmark = pytest.mark.anyio


async def test_an_alert_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """An alert is one warning of its logger with the booking's id."""
    await LogNotifier().alert_operators(7, "a payout is late")

    assert caplog.record_tuples == [
        ("staffbooking.alerts", logging.WARNING, "booking 7: a payout is late")
    ]


@pytest.mark.parametrize(("user_id", "whom"), [(3, "user 3"), (None, "operators")])
async def test_a_mail_is_one_log_line(
    caplog: pytest.LogCaptureFixture, user_id: int | None, whom: str
) -> None:
    """A mail is one log line with recipient and kind, without its text and links."""
    caplog.set_level(logging.INFO, "staffbooking.notices")
    email = make_email(user_id=user_id, subject="hush", text="hush", url="https://x/?hush")

    await LogNotifier().send_email(email)

    assert caplog.record_tuples == [
        ("staffbooking.notices", logging.INFO, f"{whom}: webhook_disabled: notice 7")
    ]
