"""Counts and durations of requests: a few additions a call, families when scraped."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram's buckets, in seconds."""


class Tally:
    """What became of the calls of one method and path."""

    __slots__ = ("buckets", "method", "path", "seconds", "statuses")

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        self.statuses: Counter[int] = Counter()
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


def page(tallies: Iterable[Tally]) -> bytes:
    """All tallies as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Requests([tally for tally in tallies if tally.statuses]))
    return generate_latest(registry)


class _Requests(Collector):
    def __init__(self, tallies: Sequence[Tally]) -> None:
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        name = "staffbooking_http"
        counted = CounterMetricFamily(
            f"{name}_requests", "Requests answered", labels=("method", "path", "status")
        )
        took = HistogramMetricFamily(
            f"{name}_request_seconds", "Time until the answer", labels=("method", "path")
        )
        for tally in self._tallies:
            labels = [tally.method, tally.path]
            for status, number in sorted(tally.statuses.items()):
                counted.add_metric([*labels, str(status)], number)
            took.add_metric(labels, list(_cumulated(tally)), tally.seconds)
        yield counted
        yield took


def _cumulated(tally: Tally) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, number in zip((*BOUNDS, "+Inf"), tally.buckets, strict=True):
        total += number
        yield str(bound), total
