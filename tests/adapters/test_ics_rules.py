"""Recurrence rules: the same occurrences as dateutil's, within bounds."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings, strategies as st
from icalendar.prop import vRecur

from staffbooking_adapters.ics.parsing import UnreadableCalendar
from staffbooking_adapters.ics.rules import MAX_INTERVAL, RecurrenceBudget, RecurrenceRule

DAY = timedelta(days=1)
START = datetime(2027, 3, 10, 9)
LAST = datetime(2029, 3, 10)
WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def times(rule, start=START, first=START, last=LAST, budget=1_000_000):
    return list(
        RecurrenceRule(vRecur.from_ical(rule), start).occurrences_between(
            first, last, RecurrenceBudget(budget)
        )
    )


def days(rule, **given):
    return [f"{at:%y-%m-%d}" for at in times(rule, **given)]


# Rules of RFC 5545, 3.8.5.3 ---------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, expected",
    [
        ("FREQ=DAILY;INTERVAL=10;COUNT=3", ["27-03-10", "27-03-20", "27-03-30"]),
        ("FREQ=WEEKLY;COUNT=3", ["27-03-10", "27-03-17", "27-03-24"]),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU", "27-03-14 27-03-23 27-03-28 27-04-06"),
        (
            "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
            "27-03-21 27-03-23 27-04-04 27-04-06",
        ),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=1FR", "27-04-02 27-05-07 27-06-04"),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=-2MO", "27-03-22 27-04-19 27-05-24"),
        ("FREQ=MONTHLY;COUNT=3;BYMONTHDAY=-1", "27-03-31 27-04-30 27-05-31"),
        ("FREQ=MONTHLY;COUNT=3;BYMONTHDAY=31", "27-03-31 27-05-31 27-07-31"),
        ("FREQ=MONTHLY;COUNT=2;BYDAY=FR;BYMONTHDAY=13", "27-08-13 28-10-13"),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "27-04-07 27-05-06 27-06-03"),
        ("FREQ=MONTHLY;COUNT=2;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "27-03-30 27-04-29"),
        ("FREQ=YEARLY;COUNT=2", "27-03-10 28-03-10"),
        ("FREQ=YEARLY;COUNT=3;BYDAY=MO,1TU;BYMONTH=4", "27-04-05 27-04-06 27-04-12"),
        ("FREQ=YEARLY;COUNT=2;BYDAY=20MO", "27-05-17 28-05-15"),
        ("FREQ=YEARLY;COUNT=3;BYYEARDAY=1,100,-1", "27-04-10 27-12-31 28-01-01"),
        ("FREQ=YEARLY;COUNT=2;BYWEEKNO=20;BYDAY=MO", "27-05-17 28-05-15"),
        ("FREQ=YEARLY;COUNT=2;BYWEEKNO=20", "27-05-19 28-05-17"),
        ("FREQ=YEARLY;COUNT=1;BYMONTH=2;BYMONTHDAY=29", "28-02-29"),
    ],
)
def test_rules_of_the_standard(rule, expected):
    """Rules with each part of RFC 5545 have the expected occurrences."""
    assert days(rule) == (expected.split() if isinstance(expected, str) else expected)


def test_a_day_may_have_several_times():
    """Times of a day are returned in order and are counted by BYSETPOS."""
    rule = "FREQ=DAILY;BYHOUR=18,9;BYMINUTE=30,0;COUNT=5"
    assert [f"{at:%d %H:%M}" for at in times(rule)] == [
        "10 09:00",
        "10 09:30",
        "10 18:00",
        "10 18:30",
        "11 09:00",
    ]
    assert [f"{at:%d %H:%M}" for at in times(f"{rule};BYSETPOS=-1")][:2] == ["10 18:30", "11 18:30"]


def test_count_includes_occurrences_before_the_window():
    """Occurrences before the window count towards COUNT."""
    first = START + 5 * DAY
    assert days("FREQ=DAILY;COUNT=7", first=first) == ["27-03-15", "27-03-16"]
    assert times("FREQ=DAILY;COUNT=5", first=first) == []


def test_an_early_start_is_within_the_budget():
    """A rule without COUNT is expanded from the window's start, in step with its own start."""
    start = datetime(1801, 1, 3, 9)
    for rule in ("FREQ=DAILY;INTERVAL=3", "FREQ=WEEKLY;INTERVAL=3", "FREQ=MONTHLY;INTERVAL=5"):
        found = times(rule, start=start, budget=6_000)
        assert found == rrulestr(rule, dtstart=start).between(START, LAST, inc=True)


# Comparison with dateutil -----------------------------------------------------------------


def _some(values, most):
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True).map(
        lambda chosen: ",".join(map(str, chosen))
    )


PLAIN_DAYS = _some(WEEKDAYS, 4)
NUMBERED_DAYS = _some([f"{n}{day}" for n in (-4, -1, 1, 2, 4) for day in WEEKDAYS], 4)
MONTHS = _some(range(1, 13), 4)
MONTH_DAYS = _some([*range(1, 29), *range(-28, 0), 31, -31], 8)
YEAR_DAYS = _some([*range(1, 366), *range(-365, 0)], 20)
WEEKS = _some([*range(1, 53), *range(-52, 0)], 8)
SHAPES = {
    "DAILY": [{}, {"BYDAY": PLAIN_DAYS}, {"BYMONTH": MONTHS}, {"BYMONTHDAY": MONTH_DAYS}],
    "WEEKLY": [{}, {"BYDAY": PLAIN_DAYS}, {"BYDAY": PLAIN_DAYS, "BYMONTH": MONTHS}],
    "MONTHLY": [{}, {"BYDAY": NUMBERED_DAYS}, {"BYMONTHDAY": MONTH_DAYS}, {"BYDAY": PLAIN_DAYS}],
    "YEARLY": [
        {},
        {"BYMONTH": MONTHS},
        {"BYDAY": NUMBERED_DAYS},
        {"BYMONTH": MONTHS, "BYDAY": NUMBERED_DAYS},
        {"BYMONTH": MONTHS, "BYMONTHDAY": _some(range(1, 29), 4)},
        {"BYYEARDAY": YEAR_DAYS},
        {"BYWEEKNO": WEEKS, "BYDAY": PLAIN_DAYS},
    ],
}


@st.composite
def rules(draw):
    """Random rules, usual and unusual, that have occurrences."""
    frequency = draw(st.sampled_from(sorted(SHAPES)))
    shape = draw(st.sampled_from(SHAPES[frequency]))
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.sampled_from([1, 1, 2, 5]))}"]
    parts += [f"{name}={draw(values)}" for name, values in shape.items()]
    if draw(st.booleans()):
        parts.append(f"COUNT={draw(st.integers(1, 60))}")
    if "BYWEEKNO" not in shape:
        parts.append(f"WKST={draw(st.sampled_from(WEEKDAYS))}")
    if draw(st.booleans()):
        parts.append(f"BYHOUR={draw(_some(range(24), 3))}")
    if shape and frequency != "WEEKLY" and draw(st.booleans()):
        parts.append(f"BYSETPOS={draw(_some([1, -1], 2))}")
    return ";".join(parts)


@given(
    rules(),
    st.integers(-8_000, 400).map(lambda n: START + n * DAY),
    st.integers(0, 400).map(lambda n: START + n * DAY),
    st.integers(0, 400),
)
@settings(max_examples=100)
def test_rules_give_the_same_times_as_dateutil(rule, start, first, length):
    """For any window and start the occurrences equal dateutil's."""
    last = first + length * DAY
    expected = rrulestr(rule, dtstart=start).between(first, last, inc=True)
    assert times(rule, start=start, first=first, last=last) == expected


# Bounds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
        "FREQ=YEARLY;BYWEEKNO=54",
    ],
)
def test_a_rule_without_occurrences_ends_with_the_window(rule):
    """A rule without occurrences is expanded only within the window."""
    assert times(rule, budget=6_000) == []


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;COUNT=1000000000",
        "FREQ=DAILY;COUNT=1000000000;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=YEARLY;BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE=0,1,2,3,4,5,6,7,8,9",
    ],
)
def test_a_budget_bounds_the_expansion(rule):
    """The budget bounds the expansion, with or without occurrences."""
    with pytest.raises(UnreadableCalendar, match="too many recurring"):
        times(rule, start=datetime(1, 1, 1), last=datetime(2300, 1, 1), budget=100_000)


def test_rules_share_one_budget():
    """Rules share one budget."""
    budget, rule = RecurrenceBudget(5_000), RecurrenceRule(vRecur.from_ical("FREQ=DAILY"), START)
    assert len(list(rule.occurrences_between(START, LAST, budget))) == 731
    with pytest.raises(UnreadableCalendar):
        list(rule.occurrences_between(START, LAST, budget))


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=MINUTELY",
        "FREQ=HOURLY",
        "FREQ=SOMETIMES",
        "COUNT=3",
        "",
        "FREQ=DAILY,WEEKLY",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;INTERVAL=-1",
        f"FREQ=DAILY;INTERVAL={MAX_INTERVAL + 1}",
        "FREQ=DAILY;COUNT=-1",
        "FREQ=DAILY;COUNT=1,2",
        "FREQ=DAILY;BYEASTER=1",
        "FREQ=DAILY;RSCALE=HEBREW",
        "FREQ=DAILY;BYHOUR=24",
        "FREQ=DAILY;BYSECOND=60",
        "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,10,20,30,40,50,55;BYSECOND=0,10,20",
        "FREQ=WEEKLY;BYDAY=XX",
        "FREQ=DAILY;WKST=XX",
        "FREQ=YEARLY;BYWEEKNO=20;WKST=SU",
        "FREQ=DAILY;BYYEARDAY=" + ",".join(map(str, range(1, 101))),
    ],
)
def test_invalid_rules_are_refused(rule):
    """Invalid rules, too short frequencies and too long lists are refused."""
    with pytest.raises(ValueError):
        times(rule)
