"""Constraints of the store: no slot is held twice, and every posting balances.

A posting and its legs are written together and never changed. PostgreSQL checks their sum when the
transaction commits. SQLite has no such triggers, so the legs are written first; the posting
requires that they balance, and no leg is accepted after it.
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

HELD = "('accepted', 'disputed', 'paid')"

POSTGRESQL = (
    f"""
    ALTER TABLE bookings ADD CONSTRAINT ex_bookings_overlap EXCLUDE USING gist (
        int8range(companion_id, companion_id, '[]') WITH &&,
        tstzrange(starts_at, ends_at) WITH &&
    ) WHERE (status IN {HELD})
    """,
    """
    CREATE FUNCTION require_balanced_posting() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        wanted text;
    BEGIN
        IF TG_TABLE_NAME = 'ledger_legs' THEN
            wanted := NEW.posting_key;
        ELSE
            wanted := NEW.key;
        END IF;
        IF (SELECT count(*) < 2 OR sum(amount) <> 0 OR count(*) <> count(nullif(amount, 0))
            FROM ledger_legs WHERE posting_key = wanted) THEN
            RAISE EXCEPTION 'ck_ledger_postings_balanced';
        END IF;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION refuse_ledger_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'ledger_append_only';
    END $$
    """,
    *(
        f"""
        CREATE CONSTRAINT TRIGGER {table}_balanced AFTER INSERT ON {table}
        DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION require_balanced_posting()
        """
        for table in ("ledger_postings", "ledger_legs")
    ),
    *(
        f"""
        CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_ledger_change()
        """
        for table in ("ledger_postings", "ledger_legs")
    ),
)

SQLITE = (
    *(
        f"""
        CREATE TRIGGER ex_bookings_overlap_{name} BEFORE {event} ON bookings
        WHEN NEW.status IN {HELD} AND EXISTS (
            SELECT 1 FROM bookings AS other
            WHERE other.companion_id = NEW.companion_id
            AND other.status IN {HELD}
            AND other.starts_at < NEW.ends_at
            AND other.ends_at > NEW.starts_at
            AND other.id <> NEW.id
        )
        BEGIN SELECT RAISE(ABORT, 'ex_bookings_overlap'); END
        """
        for name, event in (
            ("insert", "INSERT"),
            ("update", "UPDATE OF companion_id, status, starts_at, ends_at"),
        )
    ),
    """
    CREATE TRIGGER ledger_legs_sealed BEFORE INSERT ON ledger_legs
    WHEN EXISTS (SELECT 1 FROM ledger_postings WHERE key = NEW.posting_key)
    BEGIN SELECT RAISE(ABORT, 'uq_ledger_postings_key'); END
    """,
    """
    CREATE TRIGGER ledger_postings_balanced BEFORE INSERT ON ledger_postings
    WHEN (SELECT count(*) < 2 OR sum(amount) <> 0 OR count(*) <> count(nullif(amount, 0))
          FROM ledger_legs WHERE posting_key = NEW.key)
    BEGIN SELECT RAISE(ABORT, 'ck_ledger_postings_balanced'); END
    """,
    *(
        f"""
        CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table}
        BEGIN SELECT RAISE(ABORT, 'ledger_append_only'); END
        """
        for table in ("ledger_postings", "ledger_legs")
        for event in ("UPDATE", "DELETE")
    ),
)


def upgrade() -> None:
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL if is_postgresql else SQLITE:
        op.get_bind().exec_driver_sql(statement)
