"""Metrics of requests, the channel, due work and webhooks. Recording a call costs a few additions;
the store is queried rarely; metric families are built when scraped."""

from bisect import bisect_left
from collections import defaultdict
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

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Backlog, Ports, WebhookStats
from staffbooking_core.usecases import health

_HISTOGRAM_BOUNDS_SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of the histogram's buckets, in seconds."""


class RequestMetrics:
    """Response counts and durations of one method and path."""

    __slots__ = ("buckets", "method", "path", "statuses", "total_seconds")

    def __init__(self, method: str, path: str) -> None:
        self.method, self.path = method, path
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.buckets = [0] * (len(_HISTOGRAM_BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0

    def record(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.buckets[bisect_left(_HISTOGRAM_BOUNDS_SECONDS, seconds)] += 1
        self.total_seconds += seconds


class ChannelMetrics:
    """Counters of the channel in this process."""

    __slots__ = ("open_connections", "sent_messages", "slow_disconnects")

    def __init__(self) -> None:
        self.open_connections = 0
        """Connections that are open now."""
        self.sent_messages = 0
        """Messages sent so far, counted once per connection."""
        self.slow_disconnects = 0
        """Connections that were closed because they did not read."""


class LoadMetrics:
    """Requests that this process refused because it had more than it could serve."""

    __slots__ = ("refused_requests",)

    def __init__(self) -> None:
        self.refused_requests = 0


_BACKLOG_CACHE_PERIOD = timedelta(seconds=5)


@frozen
class BacklogSnapshot:
    """Due work by kind, and the state of webhook deliveries."""

    backlogs: Sequence[Backlog]
    webhooks: WebhookStats


class BacklogCache:
    """Caches the backlog, so that the number of scrapes does not add to the store's load."""

    __slots__ = ("_fetched_at", "_snapshot")

    def __init__(self) -> None:
        self._fetched_at: datetime | None = None
        self._snapshot: BacklogSnapshot | None = None

    async def get(self, ports: Ports) -> BacklogSnapshot | None:
        """Return the backlog, or None while the store is unavailable."""
        now = ports.clock.wall()
        if self._fetched_at is None or abs(now - self._fetched_at) >= _BACKLOG_CACHE_PERIOD:
            try:
                self._snapshot = BacklogSnapshot(
                    await health.get_backlog(ports), await health.get_webhook_stats(ports)
                )
            except StoreUnavailable:
                return None
            self._fetched_at = now
        return self._snapshot


def render_metrics(
    request_metrics: Iterable[RequestMetrics],
    channel_metrics: ChannelMetrics,
    load_metrics: LoadMetrics,
    backlog: BacklogSnapshot | None,
    clock_skew: timedelta | None = None,
) -> bytes:
    """Encode all metrics for Prometheus; without a backlog, only those of the process, and without
    a skew, none of the clock."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_RequestCollector([tally for tally in request_metrics if tally.statuses]))
    registry.register(_ChannelCollector(channel_metrics))
    registry.register(_LoadCollector(load_metrics))
    if backlog is not None:
        registry.register(_BacklogCollector(backlog.backlogs))
        registry.register(_WebhookCollector(backlog.webhooks))
    if clock_skew is not None:
        registry.register(_ClockCollector(clock_skew))
    return generate_latest(registry)


class _RequestCollector(Collector):
    def __init__(self, request_metrics: Sequence[RequestMetrics]) -> None:
        self._request_metrics = request_metrics

    def collect(self) -> Iterator[Metric]:
        name = "staffbooking_http"
        responses = CounterMetricFamily(
            f"{name}_requests",
            "Responses by method, path and status",
            labels=("method", "path", "status"),
        )
        durations = HistogramMetricFamily(
            f"{name}_request_seconds", "Duration of requests in seconds", labels=("method", "path")
        )
        for tally in self._request_metrics:
            labels = [tally.method, tally.path]
            for status, count in sorted(tally.statuses.items()):
                responses.add_metric([*labels, str(status)], count)
            durations.add_metric(labels, list(_cumulative_buckets(tally)), tally.total_seconds)
        yield responses
        yield durations


class _ChannelCollector(Collector):
    def __init__(self, channel_metrics: ChannelMetrics) -> None:
        self._channel_metrics = channel_metrics

    def collect(self) -> Iterator[Metric]:
        name, metrics = "staffbooking_channel", self._channel_metrics
        yield GaugeMetricFamily(
            f"{name}_connections", "Open connections of the channel", metrics.open_connections
        )
        yield CounterMetricFamily(
            f"{name}_messages", "Messages sent, counted once per connection", metrics.sent_messages
        )
        yield CounterMetricFamily(
            f"{name}_slow",
            "Connections closed because the client did not read",
            metrics.slow_disconnects,
        )


class _LoadCollector(Collector):
    def __init__(self, load_metrics: LoadMetrics) -> None:
        self._load_metrics = load_metrics

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "staffbooking_http_overloaded",
            "Requests refused because more waited than could be served",
            self._load_metrics.refused_requests,
        )


class _ClockCollector(Collector):
    def __init__(self, skew: timedelta) -> None:
        self._skew = skew

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "staffbooking_clock_skew_seconds",
            "Seconds by which the machine's clock is ahead of the database's",
            self._skew.total_seconds(),
        )


class _BacklogCollector(Collector):
    def __init__(self, rows: Sequence[Backlog]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        name = "staffbooking_due_work"
        waiting = GaugeMetricFamily(name, "Number of due work items", labels=("kind",))
        oldest = GaugeMetricFamily(
            f"{name}_oldest_seconds",
            "Seconds by which the oldest due item is overdue",
            labels=("kind",),
        )
        for row in self._rows:
            waiting.add_metric([row.kind], row.count)
            oldest.add_metric([row.kind], row.oldest)
        yield waiting
        yield oldest


class _WebhookCollector(Collector):
    def __init__(self, statistics: WebhookStats) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        name, statistics = "staffbooking_webhook", self._statistics
        attempts = CounterMetricFamily(
            f"{name}_attempts", "Webhook delivery attempts by outcome", labels=("outcome",)
        )
        attempts.add_metric(["succeeded"], statistics.succeeded)
        attempts.add_metric(["failed"], statistics.failed)
        deliveries = GaugeMetricFamily(
            f"{name}_deliveries", "Unfinished webhook deliveries by status", labels=("status",)
        )
        deliveries.add_metric(["pending"], statistics.pending)
        deliveries.add_metric(["held"], statistics.held)
        yield attempts
        yield deliveries
        yield GaugeMetricFamily(
            f"{name}_lag_seconds",
            "Seconds by which the oldest due delivery is overdue",
            statistics.lag,
        )
        yield GaugeMetricFamily(
            f"{name}_events_unplaced",
            "Events not yet published to feeds and endpoints",
            statistics.unplaced,
        )


def _cumulative_buckets(request_metrics: RequestMetrics) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip(
        (*_HISTOGRAM_BOUNDS_SECONDS, "+Inf"), request_metrics.buckets, strict=True
    ):
        total += count
        yield str(bound), total
