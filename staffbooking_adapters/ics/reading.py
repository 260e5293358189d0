"""From the bytes of an iCalendar file to its components, as far as they tell of times.

Nothing else is parsed: what people write into their calendars is passed over, whatever it is.
icalendar splits the lines and reads the values; its own tree of components is not made, since
that remembers for the whole process what one file calls its time zones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from icalendar.parser import Contentline, Contentlines, unescape_backslash
from icalendar.prop import vDDDTypes, vRecur, vUTCOffset


class UnreadableCalendar(ValueError):
    """What is wrong with a file, in words for whoever sent it."""


MAX_COMPONENTS = 10_000
_MAX_DEPTH = 4
"""A calendar, an event, its alarm, and one more."""
_MAX_LINE_LENGTH = 64 * 1024
"""Characters of a line that is parsed."""

_PARSED_PROPERTIES = {
    "VEVENT": "UID SEQUENCE STATUS TRANSP DTSTART DTEND DURATION RRULE RDATE EXDATE RECURRENCE-ID",
    "VFREEBUSY": "FREEBUSY",
    "VTIMEZONE": "TZID",
    "STANDARD": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
    "DAYLIGHT": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
}
"""Which properties of which components are parsed."""
_PARSED_PROPERTY_SETS = {
    kind: frozenset(names.split()) for kind, names in _PARSED_PROPERTIES.items()
}


@frozen
class Property:
    parameters: Mapping[str, Any]
    value: str

    def parameter(self, name: str) -> str:
        """A parameter; empty without it. Commas that nobody quoted are taken as they stand."""
        found = self.parameters.get(name, "")
        return found if isinstance(found, str) else ",".join(found)

    def values(self) -> Iterator[Any]:
        """Its dates, times and lengths, and its periods as pairs of them."""
        for text in self.value.split(","):
            start, _, end = text.strip().partition("/")
            start_read = vDDDTypes.from_ical(start)
            yield (start_read, vDDDTypes.from_ical(end)) if end else start_read

    def rule(self) -> Mapping[str, Sequence[Any]]:
        """The parts of a rule of repetition."""
        parts: Mapping[str, Sequence[Any]] = vRecur.from_ical(self.value)
        return parts

    def offset(self) -> Any:
        """From UTC."""
        return vUTCOffset.from_ical(self.value)


@frozen(eq=False)
class Component:
    kind: str
    properties: dict[str, list[Property]] = field(factory=dict)
    children: list[Component] = field(factory=list)

    def properties_named(self, name: str) -> Sequence[Property]:
        return self.properties.get(name, ())

    def first_property(self, name: str) -> Property | None:
        """Where it comes twice, the first counts."""
        return next(iter(self.properties_named(name)), None)

    def text(self, name: str) -> str:
        found = self.first_property(name)
        return "" if found is None else unescape_backslash(found.value).strip()


def parse_calendars(content: bytes) -> Sequence[Component]:
    """The calendars of a file. Raises Unreadable, or another ValueError, for what is none or
    holds too much."""
    root = Component("")
    stack, components = [root], 0
    for line in _unfolded_lines(content):
        name = line.partition(":")[0].partition(";")[0].strip().upper()
        if name == "BEGIN":
            components += 1
            if components > MAX_COMPONENTS or len(stack) > _MAX_DEPTH:
                raise UnreadableCalendar("holds too many events, or too much inside of one")
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
    """Unfolded, and without empty ones."""
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
