"""Events of an iCalendar file that replace occurrences of their series."""

from __future__ import annotations

import pytest

from tests.adapters.test_ics import NINE, busy
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio

DAILY = make_ics_hour("20270310T090000Z", "UID:1", "RRULE:FREQ=DAILY;COUNT=4")
MOVED = make_ics_hour("20270312T120000Z", "UID:1", "RECURRENCE-ID:20270311T090000Z")


@pytest.mark.parametrize(
    "instead, expected",
    [
        (MOVED, ["03-10 09", "03-12 09", "03-12 12", "03-13 09"]),
        (f"{MOVED}\nSTATUS:CANCELLED", ["03-10 09", "03-12 09", "03-13 09"]),
        (
            MOVED.replace("-ID:", "-ID;RANGE=THISANDFUTURE:"),
            ["03-10 09", "03-12 12", "03-13 12", "03-14 12"],
        ),
        (
            MOVED.replace("-ID:", "-ID;RANGE=thisandfuture:"),
            ["03-10 09", "03-12 12", "03-13 12", "03-14 12"],
        ),
    ],
)
async def test_an_event_may_replace_an_occurrence(instead, expected):
    """An event with a RECURRENCE-ID replaces that occurrence and may move the later ones."""
    for events in ((DAILY, instead), (instead, DAILY)):
        assert [span[:8] for span in await busy(make_ics_calendar(*events))] == expected


async def test_a_free_series_may_become_busy():
    """A free series whose later occurrences an event makes busy is busy from then on."""
    events = (f"{DAILY}\nTRANSP:TRANSPARENT", MOVED.replace("-ID:", "-ID;RANGE=THISANDFUTURE:"))
    assert [span[:8] for span in await busy(make_ics_calendar(*events))] == [
        "03-12 12",
        "03-13 12",
        "03-14 12",
    ]


@pytest.mark.parametrize(
    "start, length, expected",
    [
        ("20270217T090000Z", "PT1H", ["03-03 09", "03-17 09", "03-31 09", "04-14 09", "04-28 09"]),
        ("20270111T090000Z", "PT1H", ["03-08 09", "03-22 09", "04-05 09", "04-19 09"]),
        (
            "20270201T090000Z",
            "P13DT20H",
            ["03-01 00", "03-01 09", "03-15 09", "03-29 09", "04-12 09", "04-26 09"],
        ),
    ],
)
async def test_moved_occurrences_reach_into_the_window(start, length, expected):
    """Occurrences that are moved later or earlier, or made longer, are busy in all of the
    window."""
    weeks = make_ics_hour("20270104T090000Z", "UID:1", "RRULE:FREQ=WEEKLY;INTERVAL=2")
    event = f"DTSTART:{start}\nDURATION:{length}\nUID:1"
    moved = f"{event}\nRECURRENCE-ID;RANGE=THISANDFUTURE:20270201T090000Z"
    assert [span[:8] for span in await busy(make_ics_calendar(weeks, moved))] == expected


BERLIN = ";TZID=Europe/Berlin"


@pytest.mark.parametrize(
    "series, moved, expected",
    [
        (
            f"DTSTART{BERLIN}:20270306T100000\nDTEND{BERLIN}:20270306T110000",
            f"RECURRENCE-ID{BERLIN};RANGE=THISANDFUTURE:20270320T100000\n"
            f"DTSTART{BERLIN}:20270322T100000\nDTEND{BERLIN}:20270322T110000",
            ["03-22 09:00 - 03-22 10:00", "03-29 08:00 - 03-29 09:00"],
        ),
        (
            "DTSTART;VALUE=DATE:20270306\nDTEND;VALUE=DATE:20270307",
            "RECURRENCE-ID;VALUE=DATE;RANGE=THISANDFUTURE:20270320\n"
            "DTSTART;VALUE=DATE:20270321\nDTEND;VALUE=DATE:20270322",
            ["03-20 23:00 - 03-21 23:00", "03-27 23:00 - 03-28 22:00"],
        ),
    ],
    ids=["times", "days"],
)
async def test_a_moved_series_keeps_its_local_time(series, moved, expected):
    """Occurrences that are moved to other days keep their local time over a clock change."""
    weekly = f"UID:1\n{series}\nRRULE:FREQ=WEEKLY;COUNT=4"
    spans = await busy(make_ics_calendar(weekly, f"UID:1\n{moved}"), "Europe/Berlin")
    assert spans[-2:] == expected


async def test_the_newer_of_two_versions_counts():
    """The version with the higher SEQUENCE counts, wherever it stands in the file."""
    newer = make_ics_hour("20270310T090000Z", "UID:1", "SEQUENCE:2")
    older = make_ics_hour("20270311T090000Z", "UID:1", "SEQUENCE:1")
    assert await busy(make_ics_calendar(newer, older)) == NINE


@pytest.mark.parametrize("version", ["", "SEQUENCE:1"])
async def test_events_of_one_uid_and_version_all_count(version):
    """Different events with one UID count all where they have the same SEQUENCE, or none."""
    older = make_ics_hour("20270309T090000Z", "UID:1", "SEQUENCE:0") if version else ""
    one = make_ics_hour("20270310T090000Z", "UID:1", version)
    other = make_ics_hour("20270311T090000Z", "UID:1", version, "RRULE:FREQ=DAILY;COUNT=2")
    events = filter(None, (one, older, other))
    assert [span[:8] for span in await busy(make_ics_calendar(*events))] == [
        "03-10 09",
        "03-11 09",
        "03-12 09",
    ]
