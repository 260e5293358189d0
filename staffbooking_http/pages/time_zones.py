"""The choice of a time zone: likely ones first, then one zone for each clock of a country, grouped
by region, with offsets and the names of cities; UTC last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from attrs import frozen
from babel import Locale, dates
from babel.core import get_global

from staffbooking_core.domain.companions.availability import is_timezone
from staffbooking_http.pages.locales import LANGUAGES, PageLocale, zone_city

_REGION_LABELS = {
    "Europe": "Europe",
    "America": "Americas",
    "Africa": "Africa",
    "Asia": "Asia",
    "Australia": "Australia",
    "Pacific": "Pacific",
    "Atlantic": "Atlantic",
    "Indian": "Indian Ocean",
}
"""Labels of the groups, in their order, as message ids, by the first part of a zone's name."""
_UTC = "UTC"
_MAX_CITIES = 3
_MAX_LIKELY = 4
_MINUS = "\u2212"


@frozen
class ZoneOption:
    """A time zone to choose: its IANA name, and its label."""

    name: str
    label: str


@frozen
class ZoneGroup:
    label: str
    options: Sequence[ZoneOption]


def zone_groups(
    locale: PageLocale, today: date, chosen: str, country: str = "", city: str = ""
) -> list[ZoneGroup]:
    """The groups of a choice in which `chosen` is among the options. `country` and `city`, as a
    profile has them, make zones likely; so does the territory of the locale."""
    translate = locale.translations.gettext
    likely = _likely_zones(locale, chosen, country, city)
    regions = _regions(locale.formats, today)
    groups = [ZoneGroup(translate("Likely yours"), _to_options(likely, locale.formats, today))]
    groups += [ZoneGroup(translate(label), options) for label, options in regions]
    groups.append(ZoneGroup(translate("Without a place"), [ZoneOption(_UTC, _UTC)]))
    return [group for group in groups if group.options]


def _to_options(names: Iterable[str], formats: Locale, today: date) -> list[ZoneOption]:
    return [ZoneOption(name, _label([name], formats, today)) for name in names]


def _likely_zones(locale: PageLocale, chosen: str, country: str, city: str) -> list[str]:
    """The chosen zone, that of the city, and those of the country or else of the locale's."""
    territory = _territories().get(country.strip().casefold()) or locale.formats.territory or ""
    of_territory = [names[0] for names in _zones_by_clock() if _territory(names[0]) == territory]
    of_city = [
        name
        for names in _zones_by_clock()
        for name in names
        if zone_city(name).casefold() == city.strip().casefold()
    ]
    of_territory.sort(key=lambda name: name not in _MAIN_ZONES)
    names = dict.fromkeys((chosen, *of_city, *of_territory[:_MAX_LIKELY]))
    return [name for name in names if name != _UTC and is_timezone(name)]


@lru_cache(32)
def _regions(formats: Locale, today: date) -> Sequence[tuple[str, Sequence[ZoneOption]]]:
    """The label and the options of each region, from west to east."""
    found: dict[str, list[tuple[timedelta, str, ZoneOption]]] = {}
    for names in _zones_by_clock():
        option = ZoneOption(names[0], _label(names, formats, today))
        row = (_offset(names[0], today), option.label, option)
        found.setdefault(names[0].partition("/")[0], []).append(row)
    return [
        (label, [option for _, _, option in sorted(found[region], key=lambda row: row[:2])])
        for region, label in _REGION_LABELS.items()
        if region in found
    ]


@lru_cache(1)
def _zones_by_clock() -> Sequence[Sequence[str]]:
    """The names of zones in one country that have the same offsets; the best known one is first."""
    known = set(get_global("windows_zone_mapping").values())
    groups: dict[object, list[str]] = {}
    for name in get_global("zone_territories"):
        if name.partition("/")[0] in _REGION_LABELS and is_timezone(name):
            offsets = tuple(_offset(name, date(2026, month, 15)) for month in (1, 4, 7, 10))
            groups.setdefault((_territory(name), offsets), []).append(name)

    def rank(name: str) -> tuple[bool, bool, int, str]:
        return name not in _MAIN_ZONES, name not in known, name.count("/"), name

    return [sorted(names, key=rank) for names in groups.values()]


_MAIN_ZONES = frozenset(
    {
        *("Europe/Lisbon", "Europe/Madrid", "Europe/Moscow", "America/Sao_Paulo"),
        *("America/Toronto", "America/Winnipeg", "America/Edmonton", "America/Vancouver"),
        *("America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"),
        *("Asia/Novosibirsk", "Asia/Vladivostok", "Asia/Shanghai"),
    }
)
"""Zones that name their group, or are likely in their country, though another one of it is as well
known."""


@lru_cache(1)
def _territories() -> Mapping[str, str]:
    """The code of each territory by its names, in lower case, and by the code itself."""
    found = {}
    for language in LANGUAGES:
        for code, name in Locale(language).territories.items():
            if len(code) == 2 and code.isalpha():
                found[name.casefold()] = found[code.casefold()] = code
    return found


def _territory(name: str) -> str:
    code: str = get_global("zone_territories").get(name, "")
    return code


def _offset(name: str, day: date) -> timedelta:
    return datetime.combine(day, time(12), ZoneInfo(name)).utcoffset() or timedelta()


def _label(names: Sequence[str], formats: Locale, today: date) -> str:
    """The label of zones: some of their cities and the offset, such as `Lisbon (UTC+1)`."""
    cities = dict.fromkeys(_city(name, formats) for name in names[:_MAX_CITIES])
    return f"{', '.join(cities)} ({format_offset(_offset(names[0], today))})"


@lru_cache(2048)
def _city(name: str, formats: Locale) -> str:
    if "/" not in name:
        return name
    return dates.get_timezone_location(ZoneInfo(name), locale=formats, return_city=True)


def format_offset(offset: timedelta) -> str:
    """An offset such as `UTC+5:30`."""
    minutes = abs(offset) // timedelta(minutes=1)
    if not minutes:
        return _UTC
    sign = _MINUS if offset < timedelta() else "+"
    rest = f":{minutes % 60:02d}" if minutes % 60 else ""
    return f"{_UTC}{sign}{minutes // 60}{rest}"
