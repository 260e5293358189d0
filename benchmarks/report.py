"""The results as Markdown tables, for a terminal and docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from benchmarks.measure import RoundSample
from benchmarks.pgbench import PgbenchResult

MAX_CPU_RATIO = 2.2
"""More than this is worse than what the service holds (decision 57)."""
"""Processor time of the service per request of the mix, relative to the yardstick."""

COMPARISON_HEADER = (
    "operation,target,requests/s,median ms,p99 ms,server µs,worker µs,PostgreSQL µs,round trips,"
    "memory MB"
).split(",")
PEER_HEADER = (
    "operation,peer,requests/s,median ms,p99 ms,server µs,PostgreSQL µs,memory MB,"
    "service's requests/s,service's µs"
).split(",")
FLOOR_HEADER = (
    "operation,pgbench/s,PostgreSQL µs,yardstick of that/s,its PostgreSQL µs of that"
).split(",")


@frozen
class OperationComparison:
    """Results of one operation for both targets."""

    operation: str
    service: RoundSample
    yardstick: RoundSample
    service_trips: float
    """Database round trips per request, with as many concurrent requests as in the load."""
    yardstick_trips: float
    peers: Mapping[str, RoundSample] = field(factory=dict)
    """Results of the peers by name, without a worker beside them."""

    @property
    def cpu_ratio(self) -> float:
        return self.service.server_us / self.yardstick.server_us

    @property
    def max_other_load(self) -> float:
        """The highest share of the machine used by other processes."""
        samples = (self.service, self.yardstick, *self.peers.values())
        return max(sample.others for sample in samples)


def format_comparison(measured: Iterable[OperationComparison]) -> str:
    """A table of the service, the yardstick, and their ratios."""
    rows = []
    for one in measured:
        service = _sample_figures(one.service, one.service_trips)
        yardstick = _sample_figures(one.yardstick, one.yardstick_trips)
        ratios = [a / b if b else 0.0 for a, b in zip(service, yardstick, strict=True)]
        rows += [
            [one.operation, "service", *map(_format_number, service)],
            ["", "yardstick", *map(_format_number, yardstick)],
            ["", "ratio", *(f"{ratio:.2f}" for ratio in ratios)],
        ]
    return _format_table(COMPARISON_HEADER, rows)


def format_floors(
    measured: Iterable[OperationComparison], known: Mapping[str, PgbenchResult]
) -> str:
    """A table of the yardstick and of the same SQL without HTTP, API keys and rate limits."""
    rows = []
    for one in measured:
        if floor := known.get(one.operation):
            rate = one.yardstick.rate / floor.rate
            cost = one.yardstick.database_us / floor.database_us
            figures = (_format_number(floor.rate), _format_number(floor.database_us))
            rows.append([one.operation, *figures, f"{rate:.2f}", f"{cost:.2f}"])
    return _format_table(FLOOR_HEADER, rows)


def format_peers(measured: Iterable[OperationComparison]) -> str:
    """A table of the peers, and of the service with its worker relative to each."""
    rows = []
    for one in measured:
        for name, peer in one.peers.items():
            figures = (peer.rate, peer.median_ms, peer.p99_ms, peer.server_us, peer.database_us)
            cells = [*map(_format_number, (*figures, peer.memory_mb))]
            rate = one.service.rate / peer.rate
            time = one.service.total_us / peer.total_us
            rows.append([one.operation, name, *cells, f"{rate:.2f} times", f"{time:.2f} times"])
    return _format_table(PEER_HEADER, rows) if rows else ""


def format_verdict(mix: OperationComparison) -> str:
    """The ratio of processor times for the mix, against its bound."""
    verdict = "too much" if mix.cpu_ratio > MAX_CPU_RATIO else "good"
    return (
        f"Processor time of the service per request of the mix: {mix.cpu_ratio:.2f} times the "
        f"yardstick's (at most {MAX_CPU_RATIO}): {verdict}."
    )


def _sample_figures(sample: RoundSample, trips: float) -> list[float]:
    return [
        sample.rate,
        sample.median_ms,
        sample.p99_ms,
        sample.server_us,
        sample.worker_us,
        sample.database_us,
        trips,
        sample.memory_mb,
    ]


def _format_number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_format_row(head, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join([*lines, *(_format_row(row, widths) for row in rows)])


def _format_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(map(str.ljust, cells, widths)) + " |"
