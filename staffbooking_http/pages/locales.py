"""Languages and formats of the pages: dates, times, money and plurals by the visitor's locale.

The language is the visitor's choice, else it follows from `Accept-Language`. Texts are written in
English, and templates ask for them through gettext. Another language is a member of `Language`, a
catalogue in `catalogues/`, and its lines in `LANGUAGES` and `_FORMATS_BY_LANGUAGE`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from attrs import field, frozen
from babel import Locale, dates, numbers
from babel.messages import mofile, pofile

from staffbooking_core.domain.accounts.users import Language
from staffbooking_core.domain.shared.money import Currency

LANGUAGES: Mapping[str, str] = {
    Language.ENGLISH: "English",
    Language.GERMAN: "Deutsch",
    Language.PORTUGUESE: "Português",
}
"""The name of each language in itself."""

_CATALOGUES = Path(__file__).parent / "catalogues"
_FORMATS_BY_LANGUAGE = {
    "en": "en_GB",
    "en-us": "en_US",
    "en-gb": "en_GB",
    "de": "de_DE",
    "de-at": "de_AT",
    "de-ch": "de_CH",
    "pt": "pt_PT",
    "pt-br": "pt_BR",
}
"""The formats of each language tag, in lower case, in which pages are shown."""

_DEFAULT_LANGUAGE = "en"
_MAX_HEADER_LENGTH = 500
_CACHED_FORMATS = 4096


@frozen
class PageLocale:
    """The language and the formats of one visitor's pages."""

    language: str
    """The language tag of the texts, as the `lang` attribute has it."""
    formats: Locale
    translations: NullTranslations = field(factory=NullTranslations, repr=False)
    timezone: str | None = None
    """The visitor's time zone, in which moments of no event are shown; None: UTC."""

    def format_money(self, amount: Decimal | float | str, currency: str) -> str:
        """An amount with its currency's sign and decimals, such as `€172.20`."""
        return _format_money(str(amount), currency.upper(), self.formats)

    def format_day(self, day: date | str) -> str:
        """A date with its weekday, such as `Fri, 18 Dec 2026`."""
        return _format_date(_to_date(day), "yMMMEd", self.formats)

    def format_short_day(self, day: date | str) -> str:
        """A date with its weekday and without its year, such as `Fri 18 Dec`."""
        return _format_date(_to_date(day), "MMMEd", self.formats)

    def format_date(self, day: date | str) -> str:
        """A date such as `18 Dec 2026`."""
        return _format_date(_to_date(day), "yMMMd", self.formats)

    def format_month(self, day: date | str) -> str:
        """A month such as `December 2026`."""
        return _format_date(_to_date(day), "yMMMM", self.formats)

    def format_short_month(self, day: date | str) -> str:
        """A month such as `Dec`."""
        return _format_date(_to_date(day), "MMM", self.formats)

    def format_local_day(self, instant: datetime | str, timezone: str) -> str:
        """The date of an instant in a time zone, such as `18 Dec 2026`."""
        return self.format_date(to_instant(instant).astimezone(ZoneInfo(timezone)).date())

    def format_weekday(self, day: date | str, short: bool = False) -> str:
        """A weekday such as `Friday`; short: `Fr`."""
        # The abbreviation of three letters is a whole word in Portuguese.
        return _format_weekday(_to_date(day), "EEEEEE" if short else "EEEE", self.formats)

    def format_clock(self, clock_time: time | str) -> str:
        """A time of day such as `18:00`; `24:00`, the end of a day, is midnight."""
        if clock_time == "24:00":
            clock_time = "00:00"
        parsed = time.fromisoformat(clock_time) if isinstance(clock_time, str) else clock_time
        return _format_clock(parsed, self.formats)

    def format_moment(self, instant: datetime | str, timezone: str | None = None) -> str:
        """An instant in a time zone, which is named by its city: `18 Dec 2026, 18:00 (Lisbon)`.
        The visitor's time zone without one."""
        timezone = timezone or self.timezone
        local = to_instant(instant).astimezone(UTC if timezone is None else ZoneInfo(timezone))
        day = _format_date(local.date(), "yMMMd", self.formats)
        clock = _format_clock(local.time(), self.formats)
        return f"{day}, {clock} ({zone_city(timezone)})"

    def format_local_clock(self, instant: datetime | str, timezone: str) -> str:
        """The time of day of an instant in a time zone."""
        return _format_clock(
            to_instant(instant).astimezone(ZoneInfo(timezone)).time(), self.formats
        )

    def format_number(self, number: Decimal | float | str) -> str:
        """A number with the locale's separators."""
        return _format_number(str(number), self.formats)


def to_instant(instant: datetime | str) -> datetime:
    """An instant, from itself or from its published form."""
    return datetime.fromisoformat(instant) if isinstance(instant, str) else instant


def zone_city(timezone: str | None) -> str:
    """The city of a time zone's name, for people: `São Paulo` is named as the zone spells it."""
    if timezone is None:
        return "UTC"
    return timezone.rpartition("/")[2].replace("_", " ")


def find_locale(accept_language: str, chosen: str = "", timezone: str | None = None) -> PageLocale:
    """The locale of a visitor.

    `chosen` is the language that the visitor chose; without one (or with one that pages are not
    shown in) it is the first of the `Accept-Language` header that they are, else English. The
    formats of the chosen language are those that the header wants, such as `en-US`.
    """
    wanted = chosen if chosen in LANGUAGES else ""
    allowed = (wanted,) if wanted else LANGUAGES
    for tag in _preferred_tags(accept_language[:_MAX_HEADER_LENGTH].lower()):
        for known in (tag, tag.partition("-")[0]):
            language = known.partition("-")[0]
            if known in _FORMATS_BY_LANGUAGE and language in allowed:
                return _locale_of(known, timezone)
    return _locale_of(wanted or _DEFAULT_LANGUAGE, timezone)


def _preferred_tags(accept_language: str) -> Iterator[str]:
    """The language tags of a header, the most wanted first."""
    weighted: list[tuple[float, str]] = []
    for part in accept_language.split(","):
        tag, _, parameter = part.strip().partition(";")
        weight = parameter.strip().removeprefix("q=") if parameter else "1"
        try:
            weighted.append((float(weight), tag.strip()))
        except ValueError:
            continue
    weighted.sort(key=lambda pair: -pair[0])
    return (tag for weight, tag in weighted if weight > 0)


@lru_cache(_CACHED_FORMATS)
def _locale_of(tag: str, timezone: str | None) -> PageLocale:
    language = tag.partition("-")[0]
    formats = Locale.parse(_FORMATS_BY_LANGUAGE[tag])
    return PageLocale(language, formats, load_translations(language), timezone)


@cache
def load_translations(language: str) -> NullTranslations:
    """The texts of a language, compiled from its catalogue. English is the source and has none."""
    if language == _DEFAULT_LANGUAGE:
        return NullTranslations()
    with (_CATALOGUES / f"{language}.po").open("rb") as source:
        catalogue = pofile.read_po(source, locale=language)
    compiled = BytesIO()
    mofile.write_mo(compiled, catalogue)
    compiled.seek(0)
    return GNUTranslations(compiled)


def _to_date(day: date | str) -> date:
    return date.fromisoformat(day[:10]) if isinstance(day, str) else day


@lru_cache(_CACHED_FORMATS)
def _format_money(amount: str, currency: str, formats: Locale) -> str:
    # Of some currencies CLDR shows no decimals, in which they are charged all the same: the format
    # of the language has two.
    is_usual = numbers.get_currency_precision(currency) == Currency(currency.lower()).decimals
    return numbers.format_currency(
        Decimal(amount), currency, locale=formats, currency_digits=is_usual
    )


@lru_cache(_CACHED_FORMATS)
def _format_number(number: str, formats: Locale) -> str:
    return numbers.format_decimal(Decimal(number), locale=formats)


@lru_cache(_CACHED_FORMATS)
def _format_date(day: date, skeleton: str, formats: Locale) -> str:
    return dates.format_skeleton(skeleton, day, locale=formats)


@lru_cache(_CACHED_FORMATS)
def _format_weekday(day: date, pattern: str, formats: Locale) -> str:
    # Of the skeleton of a full weekday, Babel finds the short one.
    return dates.format_date(day, pattern, locale=formats)


@lru_cache(_CACHED_FORMATS)
def _format_clock(clock_time: time, formats: Locale) -> str:
    return dates.format_time(clock_time, "short", locale=formats)
