"""Tests of the formats of the visitor's language."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from staffbooking_core.domain.shared.money import CURRENCY_CODES, Currency
from staffbooking_http.pages.locales import find_locale

MONDAY = date(2026, 12, 7)
TAGS = ["en", "en-US", "de", "de-AT", "de-CH", "pt", "pt-BR"]


@pytest.mark.parametrize("tag", TAGS)
def test_short_weekdays_fit_the_columns_of_a_calendar(tag: str) -> None:
    """A short weekday has at most four characters, so that the columns of a phone take it."""
    locale = find_locale(tag)
    short = [locale.format_weekday(MONDAY + timedelta(day), True) for day in range(7)]
    assert max(map(len, short)) <= 4
    assert len(set(short)) == 7


@pytest.mark.parametrize("tag", TAGS)
def test_amounts_have_the_decimals_in_which_they_are_charged(tag: str) -> None:
    """An amount is shown with as many decimals as its currency has in the service."""
    locale = find_locale(tag)
    digits = {
        code: re.sub(r"\D", "", locale.format_money(Currency(code).to_decimal(1_234_567), code))
        for code in CURRENCY_CODES
    }
    assert {code: each for code, each in digits.items() if each != "1234567"} == {}
