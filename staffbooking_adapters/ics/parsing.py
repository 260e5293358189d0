"""Parses an iCalendar file into components, with only the properties that describe times.

Other properties are skipped unread. The icalendar library splits lines and parses values; its
component tree is not used, since it caches a file's time zones for the whole process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from icalendar.parser import Contentline, Contentlines, unescape_backslash
from icalendar.prop import vDDDTypes, vRecur, vUTCOffset


class UnreadableCalendar(ValueError):
    """The file can't be read; the message is shown to the sender."""


MAX_COMPONENTS = 10_000
_MAX_DEPTH = 4
"""Maximum nesting: a calendar, an event, its alarm, and one more."""
_MAX_LINE_LENGTH = 64 * 1024
"""Maximum characters of a parsed line."""

_PARSED_PROPERTIES = {
    "VEVENT": "UID SEQUENCE STATUS TRANSP DTSTART DTEND DURATION RRULE RDATE EXDATE RECURRENCE-ID",
    "VFREEBUSY": "FREEBUSY",
    "VTIMEZONE": "TZID",
    "STANDARD": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
    "DAYLIGHT": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
}
"""The parsed properties by component."""
_PARSED_PROPERTY_SETS = {
    kind: frozenset(names.split()) for kind, names in _PARSED_PROPERTIES.items()
}


@frozen
class Property:
    """One property of a component: its parameters and its unparsed value."""

    parameters: Mapping[str, Any]
    value: str

    def parameter(self, name: str) -> str:
        """The value of a parameter, empty if absent. Unquoted commas stay part of the value."""
        found = self.parameters.get(name, "")
        return found if isinstance(found, str) else ",".join(found)

    def values(self) -> Iterator[Any]:
        """The dates, times and durations of the value; a period is a pair of them."""
        for text in self.value.split(","):
            start, _, end = text.strip().partition("/")
            start_read = vDDDTypes.from_ical(start)
            yield (start_read, vDDDTypes.from_ical(end)) if end else start_read

    def rule(self) -> Mapping[str, Sequence[Any]]:
        """The parts of a recurrence rule."""
        parts: Mapping[str, Sequence[Any]] = vRecur.from_ical(self.value)
        return parts

    def offset(self) -> Any:
        """The value as an offset from UTC."""
        return vUTCOffset.from_ical(self.value)


@frozen(eq=False)
class Component:
    """One component, such as VEVENT, with its parsed properties and nested components."""

    kind: str
    properties: dict[str, list[Property]] = field(factory=dict)
    children: list[Component] = field(factory=list)

    def properties_named(self, name: str) -> Sequence[Property]:
        return self.properties.get(name, ())

    def first_property(self, name: str) -> Property | None:
        """The first property with this name, or None."""
        return next(iter(self.properties_named(name)), None)

    def text(self, name: str) -> str:
        found = self.first_property(name)
        return "" if found is None else unescape_backslash(found.value).strip()


def parse_calendars(content: bytes) -> Sequence[Component]:
    """The calendars of a file. Raises UnreadableCalendar or another ValueError if the file is not
    iCalendar or exceeds the limits."""
    root = Component("")
    stack, components = [root], 0
    for line in _unfolded_lines(content):
        name = line.partition(":")[0].partition(";")[0].strip().upper()
        if name == "BEGIN":
            components += 1
            if components > MAX_COMPONENTS or len(stack) > _MAX_DEPTH:
                raise UnreadableCalendar("has too many events, or is nested too deeply")
            stack.append(Component(_line_value(line)))
            stack[-2].children.append(stack[-1])
        elif len(stack) == 1 or (name == "END" and stack.pop().kind != _line_value(line)):
            raise UnreadableCalendar(_NOT_A_CALENDAR)
        elif name in _PARSED_PROPERTY_SETS.get(stack[-1].kind, ()):
            stack[-1].properties.setdefault(name, []).append(_parse_property(line))
    if len(stack) > 1 or {component.kind for component in root.children} != {"VCALENDAR"}:
        raise UnreadableCalendar(_NOT_A_CALENDAR)
    return root.children


_NOT_A_CALENDAR = "is not an iCalendar file"


def _unfolded_lines(content: bytes) -> Iterator[Contentline]:
    """The file's lines, unfolded, without blank ones."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableCalendar("is not in UTF-8") from None
    if "\x00" in text:
        raise UnreadableCalendar(_NOT_A_CALENDAR)
    return (line for line in Contentlines.from_ical(text) if line and not line.isspace())


def _line_value(line: Contentline) -> str:
    return line.partition(":")[2].strip().upper()


def _parse_property(line: Contentline) -> Property:
    if len(line) > _MAX_LINE_LENGTH:
        raise UnreadableCalendar("has a line that is too long")
    _, parameters, value = line.raw_parts()
    return Property(parameters, value)
