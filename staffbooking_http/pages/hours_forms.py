"""Fields of hours in forms: rows of a start and an end, by weekday or for single days.

A row has the fields `from-KEY-N` and `to-KEY-N`: KEY is the weekday (Monday is 0) or `d`, N its
position. Without a script, buttons named `step` add and remove rows and copy Monday.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

from attrs import evolve, field, frozen
from litestar.response import Redirect

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.companions.availability import format_hhmm
from staffbooking_core.domain.companions.shifts import Shift, WeeklyShift
from staffbooking_core.errors import FieldError, InvalidField, InvalidInput, MissingField

WEEKDAYS = tuple("0123456")
"""The keys of the days of the week."""
SINGLE_DAY = "d"
"""The key of the hours of single days."""
_FIELD = re.compile(r"(from|to)-([0-6d])-([0-9]{1,2})")
_STEP = re.compile(r"(add|remove)-([0-6d])(?:-([0-9]{1,2}))?")
_MAX_FIELDS = 400
_MAX_QUERY_BYTES = 4_000
_NEW_ROW = ("09:00", "17:00")
_HALF_HOUR = 30
_WEEK = 7 * 24 * 60


@frozen
class HoursRow:
    """A start and an end as they were typed."""

    start: str = ""
    end: str = ""

    @property
    def ends_next_day(self) -> bool:
        """Whether the end is on the next day, later than at midnight."""
        return bool(self.start) and "00:00" < self.end <= self.start


@frozen
class HoursDraft:
    """A form with rows of hours as it was submitted, to check it and to show it again."""

    fields: Mapping[str, str] = field(factory=dict)
    """The fields other than rows."""
    rows: Mapping[str, Sequence[HoursRow]] = field(factory=dict)
    """The rows by the key of their day."""

    @property
    def step(self) -> str:
        """What its button does: `save`, or a step of `apply`."""
        return self.fields.get("step", "save")

    def apply(self, step: str) -> "HoursDraft":
        """The draft after a step: `add-KEY`, `remove-KEY-N` or `copy`, which gives Monday's hours
        to the other four working days."""
        rows = dict(self.rows)
        if step == "copy":
            rows |= dict.fromkeys(WEEKDAYS[1:5], rows.get(WEEKDAYS[0], ()))
        elif found := _STEP.fullmatch(step):
            action, key, position = found[1], found[2], int(found[3] or 0)
            kept = list(rows.get(key, ()))
            if action == "add":
                kept.append(HoursRow() if kept else HoursRow(*_NEW_ROW))
            elif position < len(kept):
                del kept[position]
            rows[key] = kept
        return evolve(self, rows=rows)

    def to_query(self) -> str:
        """The query string that `read_draft` reads again."""
        pairs = dict(self.fields)
        for key, rows in self.rows.items():
            for position, row in enumerate(rows):
                pairs |= {f"from-{key}-{position}": row.start, f"to-{key}-{position}": row.end}
        return urlencode(pairs)

    def shifts(self, keys: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """The complete rows of some days as input of a use-case, each with its weekday where it has
        one, and the names of their fields without `from-` and `to-`.

        Raises MissingField for rows of which one end is empty.
        """
        given, places, faults = [], [], []
        for key in keys:
            for position, row in enumerate(self.rows.get(key, ())):
                place = f"{key}-{position}"
                if row.start and row.end:
                    weekday = {} if key == SINGLE_DAY else {"weekday": int(key)}
                    given.append({**weekday, "start": row.start, "end": row.end})
                    places.append(place)
                elif row.start or row.end:
                    side = "to" if row.start else "from"
                    faults.append(FieldError(f"{side}-{place}", "is required"))
        if faults:
            raise MissingField(faults)
        return given, places


def read_draft(form: bytes) -> HoursDraft:
    """The draft of a form or of a query string. Raises InvalidField for one of too many fields."""
    try:
        pairs = parse_qsl(
            form.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise InvalidField([FieldError("when", "has too many hours")]) from None
    fields: dict[str, str] = {}
    found: dict[tuple[str, int], dict[str, str]] = {}
    for name, value in pairs:
        if place := _FIELD.fullmatch(name):
            found.setdefault((place[2], int(place[3])), {})[place[1]] = value.strip()[:20]
        elif name != "csrf":
            fields[name] = value
    rows: dict[str, list[HoursRow]] = {}
    for (key, _), row in sorted(found.items()):
        rows.setdefault(key, []).append(HoursRow(row.get("from", ""), row.get("to", "")))
    return HoursDraft(fields, rows)


def read_refused_draft(form: bytes) -> HoursDraft:
    """The draft that refills a refused form; empty for one of too many fields."""
    try:
        return read_draft(form)
    except InvalidInput:
        return HoursDraft()


def lead_to_draft(path: str, draft: HoursDraft, fragment: str) -> Redirect | None:
    """A redirect to a form that shows the draft in its address; None where it is too long."""
    query = draft.to_query()
    if len(query) > _MAX_QUERY_BYTES:
        return None
    return Redirect(f"{path}?{query}#{fragment}", status_code=303)


def draft_of_week(fields: Mapping[str, str], shifts: Iterable[WeeklyShift]) -> HoursDraft:
    """The draft that shows stored weekly shifts."""
    rows: dict[str, list[HoursRow]] = {}
    for each in shifts:
        rows.setdefault(WEEKDAYS[each.weekday], []).append(to_row(each.shift))
    return HoursDraft(fields, rows)


def to_row(shift: Shift) -> HoursRow:
    """A shift as a row; 00:00 as the end is midnight."""
    return HoursRow(format_hhmm(shift.start), format_hhmm(shift.end % (24 * 60)))


def structure_hours(cls: type, wanted: Mapping[str, Any], places: Sequence[str]) -> Any:
    """The input of a use-case with shifts at these places of a form. Raises InvalidInput."""
    try:
        return structure(cls, wanted)
    except InvalidInput as error:
        raise place_faults(error, places) from None


_SHIFT_PATH = re.compile(r"shifts\.([0-9]+)\.(start|end)")


def place_faults(error: InvalidInput, places: Sequence[str]) -> InvalidInput:
    """The error with faults of shifts at their fields."""
    faults = []
    for fault in error.field_errors:
        name = fault.field
        if found := _SHIFT_PATH.fullmatch(name):
            name = f"{'from' if found[2] == 'start' else 'to'}-{places[int(found[1])]}"
        elif name == "shifts":
            name = "when"
        faults.append(FieldError(name, fault.message))
    return type(error)(faults)


def half_hours(draft: HoursDraft) -> set[int]:
    """The half-hours of a week that the complete rows of a draft fill, counted from Monday's
    00:00; parts of half-hours count."""
    filled: set[int] = set()
    for key in WEEKDAYS:
        for row in draft.rows.get(key, ()):
            start, end = _minutes(row.start), _minutes(row.end)
            if start is None or end is None:
                continue
            begin = int(key) * 24 * 60 + start
            length = (end - start) % (24 * 60) or 24 * 60
            for minute in range(begin - begin % _HALF_HOUR, begin + length, _HALF_HOUR):
                filled.add(minute % _WEEK // _HALF_HOUR)
    return filled


def _minutes(text: str) -> int | None:
    found = re.fullmatch(r"([01][0-9]|2[0-3]):([0-5][0-9])", text, re.ASCII)
    return int(found[1]) * 60 + int(found[2]) if found else None
