"""Typed arguments are sent as the service reads them, or refused."""

from __future__ import annotations

from datetime import UTC, time
from decimal import Decimal

import pytest

from tests.http.client.test_exchange import GALA, Service, answer, booked


@pytest.mark.parametrize(
    ("amount", "sent"),
    [("1E+2", "100"), ("100.00", "100.00"), ("0.5", "0.5"), ("1E-7", "0.0000001")],
)
def test_an_amount_is_sent_without_an_exponent(amount: str, sent: str) -> None:
    """A decimal is sent in digits alone, also a normalized one."""
    service = Service(answer(200, {"companions": [], "has_more": False}))
    assert list(service.client().search(max_price=Decimal(amount))) == []
    assert service.requests[0].url.params["max_price"] == sent


@pytest.mark.parametrize("start", [time(18, 30, 59), time(18, 30, 0, 1), time(18, 30, tzinfo=UTC)])
def test_a_time_that_would_be_changed_is_refused(start: time) -> None:
    """A time of day with seconds or a time zone, which the service does not take, is not sent."""
    service = Service(booked())
    with pytest.raises(ValueError, match="must be a time in whole minutes without a time zone"):
        service.client().book(**{**GALA, "start_time": start})
    assert service.requests == []
