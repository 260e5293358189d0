"""Measures a run: the seconds from each fault's end until work continued, and the longest waits."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence

from attrs import frozen

from tests.kills.book import Entry

GOAL_SECONDS = 20.0
"""Seconds from a fault's end until work continues: the goal in docs/reliability.md."""
STARTS_ALLOWED = 4
"""A busy machine may take as long as this many starts, if that is longer."""


@frozen
class Figures:
    """Seconds are rounded up to hundredths."""

    kills: int
    faults: dict[str, int]
    acknowledged: int
    receipts: int
    repeated_receipts: int
    start: float
    """From the start of all processes until all servers respond, before any fault: a measure of how
    busy the machine is."""
    longest_gap: float
    """From a fault's end to the next acknowledged call of each server."""
    gaps_by_fault: dict[str, float]
    """The same for each kind of fault."""
    longest_effect_gap: float
    """From a fault's end to the next event that reached a receiver."""
    longest_answer: float
    """From the first try of one call to its acknowledgement, over all repetitions."""
    longest_delivery: float
    """From an acknowledged request to its event's first arrival."""
    duration: float


def is_late(figures: Figures) -> bool:
    """Whether work continued too late after a fault."""
    allowed = max(GOAL_SECONDS, STARTS_ALLOWED * figures.start)
    return max(figures.longest_gap, figures.longest_effect_gap) > allowed


def measure(entries: Sequence[Entry]) -> Figures:
    faults = [entry for entry in entries if entry["kind"] == "fault"]
    acks = [entry for entry in entries if entry["kind"] == "ack"]
    receipts = [entry for entry in entries if entry["kind"] == "receipt"]
    by_server = {
        server: [entry["at"] for entry in acks if entry["server"] == server]
        for server in {entry["server"] for entry in acks}
    }
    ends = [entry["at"] for entry in faults]
    ends_by_fault: defaultdict[str, list[float]] = defaultdict(list)
    for entry in faults:
        ends_by_fault[entry["name"]].append(entry["at"])
    arrivals = [entry["at"] for entry in receipts]
    pairs = {(entry["endpoint"], entry["event"]) for entry in receipts}
    return Figures(
        kills=sum(entry["is_kill"] for entry in faults),
        faults=dict(Counter(entry["name"] for entry in faults).most_common()),
        acknowledged=len(acks),
        receipts=len(receipts),
        repeated_receipts=len(receipts) - len(pairs),
        start=_rounded(max((e["took"] for e in entries if e["kind"] == "ready"), default=0.0)),
        longest_gap=_longest_gap_of_all(ends, by_server),
        gaps_by_fault={
            name: _longest_gap_of_all(these, by_server) for name, these in ends_by_fault.items()
        },
        longest_effect_gap=_longest_gap(ends, arrivals),
        longest_answer=_rounded(max((e["at"] - e["started"] for e in acks), default=0.0)),
        longest_delivery=_longest_delivery(acks, receipts),
        duration=_duration(entries),
    )


def _longest_gap_of_all(ends: Sequence[float], by_server: dict[str, list[float]]) -> float:
    return max((_longest_gap(ends, times) for times in by_server.values()), default=0.0)


def _longest_gap(ends: Sequence[float], times: Sequence[float]) -> float:
    """The longest time from an end to the next of the times. An end without a later time is left
    out: the run ended there, and the checker finds what is missing."""
    ordered = sorted(times)
    gaps = [ordered[n] - end for end in ends if (n := bisect_right(ordered, end)) < len(ordered)]
    return _rounded(max(gaps, default=0.0))


def _longest_delivery(acks: Sequence[Entry], receipts: Sequence[Entry]) -> float:
    first: dict[str, float] = {}
    for entry in receipts:
        if entry["name"] == "booking.created":
            first.setdefault(entry["booking"], entry["at"])
    waits = [
        first[entry["code"]] - entry["at"]
        for entry in acks
        if entry["op"] == "request" and entry.get("code") in first
    ]
    return _rounded(max(waits, default=0.0))


def _duration(entries: Sequence[Entry]) -> float:
    """The seconds of all runs of the book, without the pauses between them."""
    times = [entry["at"] for entry in entries]
    starts = [n for n, entry in enumerate(entries) if entry["kind"] == "start"] or [0]
    parts = zip(starts, [*starts[1:], len(entries)], strict=True)
    return _rounded(sum(times[after - 1] - times[before] for before, after in parts))


def _rounded(seconds: float) -> float:
    return math.ceil(seconds * 100) / 100
