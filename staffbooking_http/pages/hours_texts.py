"""Hours in words, by the visitor's locale."""

from collections.abc import Iterable
from datetime import time

from staffbooking_core.domain.companions.shifts import Shift
from staffbooking_http.pages.locales import PageLocale

_MIDNIGHT = 24 * 60


def format_shifts(locale: PageLocale, shifts: Iterable[Shift]) -> str:
    """Shifts such as `09:00–12:00, 22:00–02:00`; in words where they are all of a day or none."""
    texts = [_format_shift(locale, shift) for shift in shifts]
    return ", ".join(texts) or locale.translations.gettext("Closed")


def _format_shift(locale: PageLocale, shift: Shift) -> str:
    if (shift.start, shift.end) == (0, _MIDNIGHT):
        return locale.translations.gettext("All day")
    start, end = (
        locale.format_clock(time(*divmod(minutes % _MIDNIGHT, 60)))
        for minutes in (shift.start, shift.end)
    )
    return f"{start}\u2013{end}"
