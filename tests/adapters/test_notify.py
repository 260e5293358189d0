"""What people are told by the log."""

from __future__ import annotations

import logging

import pytest

from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_core.ports import Notice

pytestmark = pytest.mark.anyio


async def test_an_alert_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """An alert is one line of its logger, with the booking."""
    await LogNotifier().alert(7, "a payout is late")

    assert caplog.record_tuples == [
        ("staffbooking.alerts", logging.WARNING, "booking 7: a payout is late")
    ]


async def test_a_notice_is_a_line_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """Who was told of what is logged; the text, which may hold a private address, is not."""
    caplog.set_level(logging.INFO, "staffbooking.notices")
    text = "https://crm.example/hooks?token=hush was disabled"

    await LogNotifier().tell(Notice(7, "webhook_disabled", "A webhook was disabled", text))

    assert caplog.record_tuples == [
        ("staffbooking.notices", logging.INFO, "user 7: webhook_disabled: A webhook was disabled")
    ]
