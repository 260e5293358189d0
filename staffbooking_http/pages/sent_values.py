"""What was typed into the fields of a form, as a page shows it to whoever is to send it again."""

from contextlib import suppress
from datetime import date

from staffbooking_http.pages.locales import PageLocale

_DATES = frozenset({"date", "event_date", "first", "last", "last_day"})
_TIMES = frozenset({"start_time"})
_TICKED = "true"


def format_sent_value(locale: PageLocale, text: str, field: str) -> str:
    """The value of a field in the visitor's language. Values are unchecked: one that is not of its
    field's form stays as it was typed."""
    translations = locale.translations
    with suppress(ValueError):
        if field in _DATES:
            return locale.format_day(date.fromisoformat(text))
        if field in _TIMES:
            return locale.format_clock(text)
        if field == "duration_hours":
            hours = int(text)
            return translations.ngettext("%(num)d hour", "%(num)d hours", hours) % {"num": hours}
    return translations.gettext("Yes") if text == _TICKED else text
