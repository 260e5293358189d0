"""Tests of the formats of the visitor's language."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from staffbooking_http.pages.locales import find_locale

MONDAY = date(2026, 12, 7)


@pytest.mark.parametrize("tag", ["en", "en-US", "de", "de-AT", "de-CH", "pt", "pt-BR"])
def test_short_weekdays_fit_the_columns_of_a_calendar(tag: str) -> None:
    """A short weekday has at most four characters, so that the columns of a phone take it."""
    locale = find_locale(tag)
    short = [locale.format_weekday(MONDAY + timedelta(day), True) for day in range(7)]
    assert max(map(len, short)) <= 4
    assert len(set(short)) == 7
