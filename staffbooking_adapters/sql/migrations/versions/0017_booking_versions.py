"""Bookings have a revision besides the published version, their refunds, the cancellation rule,
and the mark of a lifted hold on the payout.

The refunds of earlier bookings are built from their operations: one for each refund that no later
order replaces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from alembic import op
from attrs import frozen
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    MetaData,
    Row,
    Table,
    Text,
    bindparam,
    false,
    select,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant, result_converter

revision = "0017"
down_revision = "0016"

_BATCH_SIZE = 500


def upgrade() -> None:
    op.add_column("bookings", Column("revision", BigInt, nullable=False, server_default="0"))
    op.add_column("bookings", Column("cancel_rule", Text))
    op.add_column(
        "bookings",
        Column("payout_hold_lifted", Boolean, nullable=False, server_default=false()),
    )
    op.add_column("bookings", Column("refunds", Text, nullable=False, server_default="[]"))
    op.execute("UPDATE bookings SET revision = version")
    _fill_refunds(op.get_bind())


def _fill_refunds(connection: Connection) -> None:
    bookings, operations = (
        Table(name, MetaData(), autoload_with=connection)
        for name in ("bookings", "payment_operations")
    )
    is_refund = operations.c.kind == "refund"
    page = (
        select(bookings.c.id, bookings.c.intent, bookings.c.timeline)
        .where(
            bookings.c.id > bindparam("after"),
            bookings.c.id.in_(select(operations.c.booking_id).where(is_refund)),
        )
        .order_by(bookings.c.id)
        .limit(_BATCH_SIZE)
    )
    refunds_of = (
        select(operations)
        .where(is_refund, operations.c.booking_id == bindparam("booking"))
        .order_by(operations.c.n)
    )
    change = (
        bookings.update()
        .where(bookings.c.id == bindparam("booking"))
        .values(refunds=bindparam("filled"))
    )
    after = 0
    while found := connection.execute(page, {"after": after}).all():
        for booking_id, intent, timeline in found:
            orders = connection.execute(refunds_of, {"booking": booking_id}).all()
            reasons = _Reasons(json.loads(intent or "{}"), json.loads(timeline))
            filled = [*_build_refunds(connection, orders, reasons)]
            connection.execute(change, {"booking": booking_id, "filled": json.dumps(filled)})
        after = found[-1].id


@frozen
class _Reasons:
    """What the reason of a refund follows from."""

    intent: dict[str, Any]
    timeline: list[dict[str, Any]]

    def reason_of(self, payment_ref: str) -> str:
        if payment_ref in self.intent.get("extra_payments", ()):
            return "late_payment"
        resolutions = ("resolve_refund", "resolve_split")
        is_resolved = any(entry["trigger"] in resolutions for entry in self.timeline)
        return "dispute" if is_resolved else "cancellation"


def _build_refunds(
    connection: Connection, orders: Sequence[Row[Any]], reasons: _Reasons
) -> Iterator[dict[str, Any]]:
    """The refunds of one booking, as the column stores them."""
    postings = Table("ledger_postings", MetaData(), autoload_with=connection)
    is_sqlite = connection.dialect.name == "sqlite"
    to_instant = result_converter("sqlite" if is_sqlite else "postgresql", Instant) or _same
    commands = [json.loads(order.command) for order in orders]
    replaced = {command.get("replaces") for command in commands}
    for order, command in zip(orders, commands, strict=True):
        keys = [f"refund:{order.id}:ok", f"refund:{order.id}:bank"]
        settled_at = connection.execute(
            select(postings.c.at).where(postings.c.key.in_(keys))
        ).scalar()
        if order.n in replaced or (order.status == "void" and settled_at is None):
            continue
        status = _status_of(order)
        is_settled = status == "settled" and settled_at is not None
        yield {
            "n": order.n,
            "amount": command["amount"],
            "reason": reasons.reason_of(command["payment_ref"]),
            "created_at": to_instant(order.created_at).isoformat(),
            "status": status,
            "settled_at": to_instant(settled_at).isoformat() if is_settled else None,
        }


def _status_of(order: Row[Any]) -> str:
    """The status of a refund; a void one reached the customer by a lost chargeback."""
    if order.status == "void":
        return "settled"
    if order.status in ("refused", "dead"):
        return "failed"
    return order.settlement or "pending"


def _same(value: Any) -> Any:
    return value
