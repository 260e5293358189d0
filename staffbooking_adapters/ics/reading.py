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


class Unreadable(ValueError):
    """What is wrong with a file, in words for whoever sent it."""


MOST_COMPONENTS = 10_000
DEEPEST = 4
"""A calendar, an event, its alarm, and one more."""
LONGEST_LINE = 64 * 1024
"""Characters of a line that is parsed."""

KEPT = {
    "VEVENT": "UID SEQUENCE STATUS TRANSP DTSTART DTEND DURATION RRULE RDATE EXDATE RECURRENCE-ID",
    "VFREEBUSY": "FREEBUSY",
    "VTIMEZONE": "TZID",
    "STANDARD": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
    "DAYLIGHT": "DTSTART RRULE RDATE TZOFFSETFROM TZOFFSETTO",
}
"""Which properties of which components are parsed."""
_KEPT = {kind: frozenset(names.split()) for kind, names in KEPT.items()}


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
    inside: list[Component] = field(factory=list)

    def all(self, name: str) -> Sequence[Property]:
        return self.properties.get(name, ())

    def one(self, name: str) -> Property | None:
        """Where it comes twice, the first counts."""
        return next(iter(self.all(name)), None)

    def text(self, name: str) -> str:
        found = self.one(name)
        return "" if found is None else unescape_backslash(found.value).strip()


def calendars(content: bytes) -> Sequence[Component]:
    """The calendars of a file. Raises Unreadable, or another ValueError, for what is none or
    holds too much."""
    root = Component("")
    stack, components = [root], 0
    for line in _lines(content):
        name = line.partition(":")[0].partition(";")[0].strip().upper()
        if name == "BEGIN":
            components += 1
            if components > MOST_COMPONENTS or len(stack) > DEEPEST:
                raise Unreadable("holds too many events, or too much inside of one")
            stack.append(Component(_rest(line)))
            stack[-2].inside.append(stack[-1])
        elif len(stack) == 1 or (name == "END" and stack.pop().kind != _rest(line)):
            raise Unreadable(_NONE)
        elif name in _KEPT.get(stack[-1].kind, ()):
            stack[-1].properties.setdefault(name, []).append(_property(line))
    if len(stack) > 1 or {component.kind for component in root.inside} != {"VCALENDAR"}:
        raise Unreadable(_NONE)
    return root.inside


_NONE = "is not an iCalendar file"


def _lines(content: bytes) -> Iterator[Contentline]:
    """Unfolded, and without empty ones."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("is not in UTF-8") from None
    if "\x00" in text:
        raise Unreadable(_NONE)
    return (line for line in Contentlines.from_ical(text) if line and not line.isspace())


def _rest(line: Contentline) -> str:
    return line.partition(":")[2].strip().upper()


def _property(line: Contentline) -> Property:
    if len(line) > LONGEST_LINE:
        raise Unreadable("has a line that is too long")
    _, parameters, value = line.raw_parts()
    return Property(parameters, value)
