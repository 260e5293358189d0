"""The difference between a machine's clock and the store's (CONTRACT 10)."""

from __future__ import annotations

from datetime import timedelta


def format_skew(skew: timedelta) -> str:
    """A skew in words, e.g. "this machine's clock is 0.004 s ahead of the database's"."""
    direction = "behind" if skew < timedelta(0) else "ahead of"
    return f"this machine's clock is {abs(skew).total_seconds():.3f} s {direction} the database's"


def find_clock_fault(skew: timedelta | None, max_skew: timedelta) -> str | None:
    """Why a machine must not act by its clock, in one line; None if it may. `skew` is positive
    where the machine is ahead, and None where the clocks were not compared lately."""
    if skew is None:
        return "this machine's clock could not be compared with the database's"
    return format_skew(skew) if abs(skew) > max_skew else None
