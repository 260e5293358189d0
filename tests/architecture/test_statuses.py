"""Only the lifecycle tables write a status of a booking."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.garbage import no_collection

ROOT = Path(__file__).parents[2]
PACKAGES = [f"staffbooking_{name}" for name in ("core", "adapters", "http", "cli", "worker")]
BOOKING_TYPES = {"Booking", "BookingStatus", "Transition", "TransitionResult"}
MONEY_FIELDS = {"payment_status", "payout_status"}
ALWAYS_OF_A_BOOKING = {"Booking", "with_changes", "record_fact"}
COPYING_CALLS = {"evolve", "replace"}
PRESENTATIONS = ("staffbooking_core/representations/", "staffbooking_http/", "staffbooking_cli/")
TESTS = "staffbooking_adapters/testing/"

WRITERS = {
    ("staffbooking_core/domain/bookings/transitions.py", "_enter_status"),
    ("staffbooking_core/domain/bookings/payment_lifecycle.py", "move_payment"),
    ("staffbooking_core/domain/bookings/payout_lifecycle.py", "move_payout"),
    ("staffbooking_core/usecases/bookings/requests.py", "_build_booking"),
    ("staffbooking_adapters/sql/bookings/reader.py", "<module>"),
}
"""The functions of the tables, the constructor of a request, and the mapper from rows."""


def names_in(*nodes: ast.AST | None) -> set[str]:
    """All plain names in expressions."""
    return {
        name.id
        for node in nodes
        if node is not None
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }


def annotations_of(scope: ast.AST, name: str) -> set[str]:
    """The types in annotations of parameters and variables of this name."""
    return names_in(
        *(
            node.annotation
            for node in ast.walk(scope)
            if isinstance(node, ast.arg) and node.arg == name
        ),
        *(
            node.annotation
            for node in ast.walk(scope)
            if isinstance(node, ast.AnnAssign) and names_in(node.target) == {name}
        ),
    )


def types_of(scope: ast.AST, *expressions: ast.expr) -> set[str]:
    """The classes that expressions mention, directly or by the types of their variables."""
    names = names_in(*expressions)
    assigned = (
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and names & names_in(*node.targets)
    )
    found = names | names_in(*assigned)
    found = found.union(*(annotations_of(scope, name) for name in names))
    return {name for name in found if name[0].isupper()}


def is_of_something_else(scope: ast.AST, call: ast.Call, value: ast.expr) -> bool:
    """Whether a copied `status` is not of a booking, by the classes that the copied object and the
    value mention."""
    types = types_of(scope, value, *call.args[:1])
    return bool(types) and not types & BOOKING_TYPES


def is_write(scope: ast.AST, call: ast.Call, keyword: ast.keyword) -> bool:
    """Whether a call's keyword sets a status of a booking."""
    if keyword.arg in MONEY_FIELDS:
        return True
    called = (
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    )
    if keyword.arg != "status":
        return False
    return called in ALWAYS_OF_A_BOOKING or (
        called in COPYING_CALLS and not is_of_something_else(scope, call, keyword.value)
    )


def writes_in(scope: ast.AST, is_presentation: bool) -> Iterator[int]:
    """The lines of a scope that write a status of a booking: by keyword, or, outside of
    presentations, by the name of a field."""
    for node in ast.walk(scope):
        match node:
            case ast.Call(keywords=keywords):
                yield from (node.lineno for keyword in keywords if is_write(scope, node, keyword))
            case ast.Dict(keys=keys) if not is_presentation:
                named = {key.value for key in keys if isinstance(key, ast.Constant)}
                yield from [node.lineno] if named & MONEY_FIELDS else []
            case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store()) if (
                not is_presentation
            ):
                yield from [node.lineno] if name in MONEY_FIELDS | {"status"} else []


def writers_in(source: str, is_presentation: bool = False) -> Iterator[tuple[str, int]]:
    """The functions and methods of a source that write a status, each with its line."""
    scopes: list[ast.stmt] = list(ast.parse(source).body)
    for scope in scopes:
        if isinstance(scope, ast.ClassDef):
            scopes += scope.body
        else:
            name = getattr(scope, "name", "<module>")
            yield from ((name, line) for line in writes_in(scope, is_presentation))


def test_only_the_tables_write_a_status() -> None:
    """The functions that write a status of a booking are exactly `WRITERS`."""
    with no_collection():
        found = {
            (name, function): line
            for package in PACKAGES
            for path in sorted((ROOT / package).rglob("*.py"))
            for name in [path.relative_to(ROOT).as_posix()]
            if not name.startswith(TESTS)
            for function, line in writers_in(
                path.read_text(encoding="utf-8"), name.startswith(PRESENTATIONS)
            )
        }
    assert set(found) == WRITERS, found


@pytest.mark.parametrize(
    "line",
    [
        "result.with_changes(payout_status=PayoutStatus.PAID)",
        "evolve(booking, payment_status=to)",
        "evolve(booking, status=BookingStatus.PAID)",
        "evolve(booking, status=row.to_status)",
        "evolve(result.booking, status=status)",
        "record_fact(one, status=found)",
        "Booking(status=found)",
        "evolve(booking, **{'payout_status': to})",
        "fields['status'] = to",
    ],
)
def test_a_planted_write_is_seen(line: str) -> None:
    """The rule finds each way to write a status."""
    source = f"def planted(booking: Booking, status: BookingStatus):\n    {line}\n"
    assert list(writers_in(source)) == [("planted", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "evolve(operation, status=OperationStatus.DONE)",
        "evolve(operation, status=found)",
        "evolve(other, status=verdict)",
        "BookingQuery(status=status)",
        "result.with_changes(escrow=0)",
        "booking.payout_status is PayoutStatus.PAID",
    ],
)
def test_other_statuses_are_left_alone(line: str) -> None:
    """Writes of other statuses, and reads, are not reported."""
    source = f"def planted(operation: Operation, verdict: ChargebackStatus):\n    {line}\n"
    assert list(writers_in(source)) == []
