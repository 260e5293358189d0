"""The codec: stored calendars, embedded JSON, and objects written in pieces."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest

from staffbooking_adapters import codec
from staffbooking_adapters.testing.builders import DAY, HOUR, make_calendar
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.search_index import MAX_CACHEABLE_SLOTS, is_cacheable

START = datetime(2027, 3, 1, 9, tzinfo=UTC)


def busy(number):
    """This many busy hours, each on a separate day."""
    starts = (START + day * DAY for day in range(number))
    return tuple(Interval(start, start + HOUR) for start in starts)


def test_busy_times_are_stored_as_unix_times():
    """A busy time is stored as two Unix timestamps."""
    text = codec.dump(Calendar("UTC", busy=busy(1), busy_until=date(2029, 3, 3)))
    assert json.loads(text)["busy"] == [[1_803_891_600, 1_803_895_200]]
    assert json.loads(text)["busy_until"] == "2029-03-03"


def test_calendars_without_busy_times_have_no_field_for_them():
    """A calendar without busy times has no field for them."""
    assert json.loads(codec.dump(Calendar("UTC"))) == {
        "timezone": "UTC",
        "weekly": [],
        "overrides": [],
    }


def test_a_calendar_from_before_busy_times_has_none():
    """A stored calendar without a field for busy times has none."""
    calendar = codec.load_calendar('{"timezone": "UTC", "weekly": [], "overrides": []}')
    assert calendar == Calendar("UTC")


def test_a_calendar_comes_back_as_it_was():
    """A calendar with hours and two thousand busy times is restored unchanged."""
    calendar = make_calendar(
        "Europe/Berlin", days=range(5), busy=busy(2_000), busy_until=date(2029, 3, 3)
    )
    assert codec.load_calendar(codec.dump(calendar)) == calendar


def test_only_short_calendars_are_cached():
    """A short calendar is cached and a long one is not."""
    short, long = codec.dump(Calendar("UTC")), codec.dump(Calendar("UTC", busy=busy(2_000)))
    assert codec.load_calendar(short) is codec.load_calendar(short)
    assert codec.load_calendar(long) is not codec.load_calendar(long)


def test_cacheable_hours_fit_into_the_cache():
    """The text of a cacheable calendar is within the cache's limit."""
    day = DateOverride(
        date(2027, 3, 1), tuple(Slot(number, 1440) for number in range(MAX_CACHEABLE_SLOTS - 1))
    )
    weekly = tuple(WeeklySlot(6, Slot(number, 1440)) for number in range(MAX_CACHEABLE_SLOTS))
    dates = tuple(
        DateOverride(date(2027, 3, 1) + number * DAY) for number in range(MAX_CACHEABLE_SLOTS)
    )
    for hours in ((weekly, ()), ((), dates), ((), (day,))):
        assert is_cacheable(*hours)
        calendar = Calendar("America/Argentina/ComodRivadavia", *hours)
        assert len(codec.dump(calendar)) <= codec.MAX_CACHED_CALENDAR_LENGTH


async def pages(*some):
    for page in some:
        yield page


@pytest.mark.anyio
async def test_json_pieces_form_one_object():
    """The pieces form one object with lists of pages, some empty, with at most one page per
    piece."""
    lists = {"all": pages([1, 2], [], [{"a": None}]), "none": pages([]), "nothing": pages()}
    found = [each async for each in codec.iterate_json({"one": "é", **lists, "last": [3]})]
    expected = {"one": "é", "all": [1, 2, {"a": None}], "none": [], "nothing": [], "last": [3]}
    assert json.loads(b"".join(found)) == expected
    assert not [piece for piece in found if b"2" in piece and b"a" in piece.replace(b"all", b"")]
    assert [each async for each in codec.iterate_json({})] == [b"{}"]


def test_ready_made_json_is_embedded_unchanged():
    """Raw JSON keeps its number formats and spaces anywhere in a structure."""
    row = b'{"rate": 1.50, "name":"\\u00e9"}'
    answer = {"rows": [codec.RawJson(row), codec.RawJson(row)], "has_more": False}
    assert codec.encode(answer) == b'{"rows":[%b,%b],"has_more":false}' % (row, row)
