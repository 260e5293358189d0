"""Tests of the values of a form that is to be sent again."""

from __future__ import annotations

import pytest

from staffbooking_http.pages.locales import find_locale
from staffbooking_http.pages.sent_values import format_sent_value


@pytest.mark.parametrize(
    ("field", "text", "shown"),
    [
        ("event_date", "2026-12-16", "Mi., 16. Dez. 2026"),
        ("start_time", "18:00", "18:00"),
        ("duration_hours", "4", "4 Stunden"),
        ("cancellation_insurance", "true", "Ja"),
    ],
)
def test_values_are_shown_in_the_language(field: str, text: str, shown: str) -> None:
    """Dates, times, hours and ticked boxes are shown as on other pages."""
    assert format_sent_value(find_locale("de"), text, field) == shown


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("event_date", "16th"),
        ("event_date", "2026-12-16 or 17"),
        ("start_time", "25:00"),
        ("duration_hours", "four"),
        ("duration_hours", "9" * 5000),
        ("location", "2026-12-16"),
    ],
)
def test_other_values_stay_as_they_were_typed(field: str, text: str) -> None:
    """What is not of its field's form is shown as it was typed, and so are words."""
    assert format_sent_value(find_locale("de"), text, field) == text
