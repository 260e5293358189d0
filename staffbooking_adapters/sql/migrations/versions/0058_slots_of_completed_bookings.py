"""A booking that was completed holds no slot any more, also where it is disputed later: if it was
completed before its end, its time may have been booked again."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0058"
down_revision = "0057"

_HELD = "status IN ('accepted', 'disputed', 'paid') AND completed_at IS NULL"
_HELD_BY_NEW = "NEW.status IN ('accepted', 'disputed', 'paid') AND NEW.completed_at IS NULL"

_POSTGRESQL = (
    "ALTER TABLE bookings DROP CONSTRAINT ex_bookings_overlap",
    f"""
    ALTER TABLE bookings ADD CONSTRAINT ex_bookings_overlap EXCLUDE USING gist (
        int8range(companion_id, companion_id, '[]') WITH &&,
        tstzrange(starts_at, ends_at) WITH &&
    ) WHERE ({_HELD})
    """,
)

_SQLITE = tuple(
    statement
    for name, event in (
        ("insert", "INSERT"),
        ("update", "UPDATE OF companion_id, status, starts_at, ends_at, completed_at"),
    )
    for statement in (
        f"DROP TRIGGER ex_bookings_overlap_{name}",
        f"""
        CREATE TRIGGER ex_bookings_overlap_{name} BEFORE {event} ON bookings
        WHEN {_HELD_BY_NEW} AND EXISTS (
            SELECT 1 FROM bookings
            WHERE companion_id = NEW.companion_id
            AND {_HELD}
            AND starts_at < NEW.ends_at
            AND ends_at > NEW.starts_at
            AND id <> NEW.id
        )
        BEGIN SELECT RAISE(ABORT, 'ex_bookings_overlap'); END
        """,
    )
)


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in _POSTGRESQL if is_postgresql else _SQLITE:
        op.get_bind().exec_driver_sql(statement)
    op.drop_index("ix_bookings_slots", "bookings")
    op.create_index(
        *("ix_bookings_slots", "bookings", ["companion_id", "starts_at", "ends_at"]),
        postgresql_where=text(_HELD),
        sqlite_where=text(_HELD),
    )
