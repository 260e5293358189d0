"""Generator of docs/lifecycle.md: diagrams and tables of the three lifecycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from staffbooking_core.domain.bookings.lifecycle import (
    REFUSAL_CODES,
    REQUEST_TRANSITION,
    TIMER_TRIGGERS,
    TRANSITIONS,
    BookingStatus,
    Transition,
    Trigger,
)
from staffbooking_core.domain.bookings.payment_lifecycle import PAYMENT_TRANSITIONS
from staffbooking_core.domain.bookings.payout_lifecycle import (
    PAYOUT_EVENTS,
    PAYOUT_NOTIFICATIONS,
    PAYOUT_TRANSITIONS,
)

StatusT = TypeVar("StatusT", bound=StrEnum)
TriggerT = TypeVar("TriggerT", bound=StrEnum)


def render_lifecycle_page() -> str:
    """Render the page; `make docs` writes it, and a test compares it."""
    sections = (_render_booking(), _render_timers(), _render_refusals(), _render_money())
    return "\n".join(line for section in sections for line in section)


def _render_booking() -> Iterator[str]:
    yield "# The lifecycle of a booking"
    yield ""
    yield "Generated from the tables in `staffbooking_core/domain/bookings`: `lifecycle.py`,"
    yield "`payment_lifecycle.py` and `payout_lifecycle.py`. `make check` compares them."
    yield ""
    rows = [
        (was, trigger, row) for was, moves in TRANSITIONS.items() for trigger, row in moves.items()
    ]
    arrows = [(was, to, trigger) for was, trigger, row in rows for to in _next_statuses(row)]
    yield from _render_diagram(REQUEST_TRANSITION.to_status, Trigger.REQUEST, arrows)
    yield "| From | Trigger | By | Refused with | To | Effects | Event | Notifies | Timer |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield _render_row("(none)", Trigger.REQUEST, REQUEST_TRANSITION)
    for was, trigger, row in rows:
        yield _render_row(was, trigger, row)
    yield ""


def _render_row(was: str, trigger: Trigger, row: Transition) -> str:
    cells = (
        was,
        trigger,
        _join_names(sorted(row.allowed_parties)),
        _join_names(row.guards),
        " or ".join(_next_statuses(row)),
        _join_names(row.effects),
        row.event or "-",
        _join_names(row.notifications),
        row.timer or "-",
    )
    return f"| {' | '.join(cells)} |"


def _next_statuses(row: Transition) -> tuple[BookingStatus, ...]:
    return (row.to_status,) if row.returns_to is None else (row.to_status, row.returns_to)


def _render_timers() -> Iterator[str]:
    yield "A timer fires its row by itself. These run while a booking is in a status; of those"
    yield "that are set, the first:"
    yield ""
    yield "| Status | Timers |"
    yield "|---|---|"
    for status, timers in TIMER_TRIGGERS.items():
        yield f"| {status} | {_join_names(timers)} |"
    yield ""


def _render_refusals() -> Iterator[str]:
    yield "Any other pair of status and trigger is refused, and nothing changes:"
    yield ""
    yield "| Trigger | Code |"
    yield "|---|---|"
    for trigger, code in REFUSAL_CODES.items():
        yield f"| {trigger} | `{code}` |"
    yield ""


def _render_money() -> Iterator[str]:
    yield "## Its payment"
    yield ""
    yield "The triggers are effects of the transitions above, and facts from the processor. Any"
    yield "other pair is a defect of the program."
    yield ""
    yield from _render_statuses(PAYMENT_TRANSITIONS)
    yield ""
    yield "## Its payout"
    yield ""
    for status, notifications in PAYOUT_NOTIFICATIONS.items():
        yield f"Becoming `{status}` notifies: {_join_names(notifications)}."
    for status, event in PAYOUT_EVENTS.items():
        yield f"Becoming `{status}` publishes `{event}`."
    yield ""
    yield from _render_statuses(PAYOUT_TRANSITIONS)


def _render_statuses(
    table: Mapping[StatusT, Mapping[TriggerT, StatusT]],
) -> Iterator[str]:
    rows = [(was, to, trigger) for was, moves in table.items() for trigger, to in moves.items()]
    yield from _render_diagram("none", "", rows)
    yield "| From | Trigger | To |"
    yield "|---|---|---|"
    for was, to, trigger in rows:
        yield f"| {was} | {trigger} | {to} |"


def _render_diagram(
    first: str, cause: str, rows: Iterable[tuple[StrEnum, StrEnum, StrEnum]]
) -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {first}" + (f": {cause}" if cause else "")
    for was, to, trigger in rows:
        if was is not to:
            yield f"    {was} --> {to}: {trigger}"
    yield "```"
    yield ""


def _join_names(names: Iterable[StrEnum]) -> str:
    return ", ".join(names) or "-"
