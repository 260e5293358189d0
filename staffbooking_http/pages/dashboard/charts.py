"""The chart of requests by the hour: its geometry, which the template draws as SVG."""

from collections.abc import Sequence

from attrs import frozen

from staffbooking_core.usecases.accounts.usage import HourOfCalls

_HEIGHT = 100
_STEP = 10
"""Units of one hour, of which the bar takes all but the gap."""
_GAP = 2
_LIMIT_IN_SIGHT = 0.25
"""Share of the limit from which on the chart reaches up to it."""


@frozen
class Bar:
    """One hour in the chart, in units of its view box."""

    hour: HourOfCalls
    x: float
    y: float
    height: float
    width: float = _STEP - _GAP


@frozen
class CallsChart:
    """The requests of the last hours, the highest of which reaches up to the top."""

    bars: Sequence[Bar]
    total: int
    peak: int
    """The most requests of one key in one hour, which a limit is compared with."""
    limit: int
    limit_y: float | None
    """Where the line of the limit is; None where all bars are far below it."""

    @property
    def view_box(self) -> str:
        return f"0 0 {_STEP * len(self.bars)} {_HEIGHT}"


def draw_calls(hours: Sequence[HourOfCalls], limit: int) -> CallsChart:
    """The chart of these hours beside a limit of requests an hour of each key."""
    peak = max((number for hour in hours for number in hour.calls.values()), default=0)
    shows_limit = peak >= limit * _LIMIT_IN_SIGHT
    top = max(1, limit if shows_limit else 0, *(hour.total for hour in hours))
    bars = []
    for place, hour in enumerate(hours):
        height = round(_HEIGHT * hour.total / top, 1)
        bars.append(Bar(hour, _STEP * place + _GAP / 2, round(_HEIGHT - height, 1), height))
    total = sum(hour.total for hour in hours)
    limit_y = round(_HEIGHT * (1 - limit / top), 1) if shows_limit else None
    return CallsChart(bars, total, peak, limit, limit_y)
