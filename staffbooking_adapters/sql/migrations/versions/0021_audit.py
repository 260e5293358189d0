"""The append-only audit of operators' changes.

Its rows are never removed. They are changed by erasure alone, which may only set the reason and
the origin to NULL.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, PrimaryKeyConstraint, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0021"
down_revision = "0020"

KEPT = ("id", "at", "actor_id", "actor", "act", "subject", "subject_id")
ERASABLE = ("reason", "origin")

POSTGRESQL = (
    """
    CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'audit_append_only';
    END $$
    """,
    """
    CREATE TRIGGER audit_no_removal BEFORE DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()
    """,
    f"""
    CREATE TRIGGER audit_no_change BEFORE UPDATE ON audit FOR EACH ROW
    WHEN ({
        " OR ".join(
            (
                *(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in KEPT),
                *(
                    f"(NEW.{name} IS NOT NULL AND NEW.{name} IS DISTINCT FROM OLD.{name})"
                    for name in ERASABLE
                ),
            )
        )
    })
    EXECUTE FUNCTION refuse_audit_change()
    """,
)
SQLITE = (
    """
    CREATE TRIGGER audit_no_removal BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END
    """,
    f"""
    CREATE TRIGGER audit_no_change BEFORE UPDATE ON audit
    WHEN {
        " OR ".join(
            (
                *(f"NEW.{name} IS NOT OLD.{name}" for name in KEPT),
                *(
                    f"(NEW.{name} IS NOT NULL AND NEW.{name} IS NOT OLD.{name})"
                    for name in ERASABLE
                ),
            )
        )
    }
    BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END
    """,
)


def upgrade() -> None:
    op.create_table(
        "audit",
        Column("id", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        Column("actor_id", BigInt),
        Column("actor", Text),
        Column("act", Text, nullable=False),
        Column("subject", Text, nullable=False),
        Column("subject_id", Text, nullable=False),
        Column("reason", Text),
        Column("origin", Text),
        PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in POSTGRESQL if is_postgresql else SQLITE:
        op.get_bind().exec_driver_sql(statement)
