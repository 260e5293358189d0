"""Counts and durations of requests, the channel, the work that is due, and webhooks: a few
additions a call, one look at the store in a while, families when scraped."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from attrs import frozen
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Backlog, Ports, WebhookFigures
from staffbooking_core.usecases import health

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


class Traffic:
    """What passes over the channel of this process."""

    __slots__ = ("connections", "messages", "slow")

    def __init__(self) -> None:
        self.connections = 0
        """Those that are open."""
        self.messages = 0
        """Told so far, to one connection each."""
        self.slow = 0
        """Connections that were closed since they did not read."""


KEPT = timedelta(seconds=5)


@frozen
class Work:
    """What waits to be done, by kind, and how webhooks fare."""

    due: Sequence[Backlog]
    webhooks: WebhookFigures


class Workload:
    """Work as the store knows it, asked for once in a while: however many read the figures,
    and however often, the store is spared."""

    __slots__ = ("_asked_at", "_seen")

    def __init__(self) -> None:
        self._asked_at: datetime | None = None
        self._seen: Work | None = None

    async def look(self, ports: Ports) -> Work | None:
        """None while the store is out of reach."""
        now = ports.clock.wall()
        if self._asked_at is None or now - self._asked_at >= KEPT:
            try:
                self._seen = Work(await health.backlog(ports), await health.webhooks(ports))
            except Unavailable:
                return None
            self._asked_at = now
        return self._seen


def page(tallies: Iterable[Tally], traffic: Traffic, work: Work | None) -> bytes:
    """All figures as Prometheus reads them; without work, those of the process alone."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Requests([tally for tally in tallies if tally.statuses]))
    registry.register(_Channel(traffic))
    if work is not None:
        registry.register(_DueWork(work.due))
        registry.register(_Webhooks(work.webhooks))
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


class _Channel(Collector):
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        name, traffic = "staffbooking_channel", self._traffic
        yield GaugeMetricFamily(
            f"{name}_connections", "Open connections of the channel", traffic.connections
        )
        yield CounterMetricFamily(
            f"{name}_messages", "Messages told, to one connection each", traffic.messages
        )
        yield CounterMetricFamily(
            f"{name}_slow", "Connections closed since they did not read", traffic.slow
        )


class _DueWork(Collector):
    def __init__(self, rows: Sequence[Backlog]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        name = "staffbooking_due_work"
        waiting = GaugeMetricFamily(name, "Work that is due and not done yet", labels=("kind",))
        oldest = GaugeMetricFamily(
            f"{name}_oldest_seconds", "How late the oldest of it is", labels=("kind",)
        )
        for row in self._rows:
            waiting.add_metric([row.kind], row.count)
            oldest.add_metric([row.kind], row.oldest)
        yield waiting
        yield oldest


class _Webhooks(Collector):
    def __init__(self, figures: WebhookFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        name, figures = "staffbooking_webhook", self._figures
        attempts = CounterMetricFamily(
            f"{name}_attempts", "Attempts to deliver a webhook", labels=("outcome",)
        )
        attempts.add_metric(["succeeded"], figures.succeeded)
        attempts.add_metric(["failed"], figures.failed)
        deliveries = GaugeMetricFamily(
            f"{name}_deliveries", "Deliveries that are not done yet", labels=("status",)
        )
        deliveries.add_metric(["pending"], figures.pending)
        deliveries.add_metric(["held"], figures.held)
        yield attempts
        yield deliveries
        yield GaugeMetricFamily(
            f"{name}_lag_seconds", "How late the most overdue delivery is", figures.lag
        )
        yield GaugeMetricFamily(
            f"{name}_events_unplaced", "Events that no worker has taken up", figures.unplaced
        )


def _cumulated(tally: Tally) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, number in zip((*BOUNDS, "+Inf"), tally.buckets, strict=True):
        total += number
        yield str(bound), total
