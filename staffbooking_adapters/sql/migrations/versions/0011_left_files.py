"""A table of image files to delete, and case-insensitive search of emails in skipped rows."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, Table, Text, bindparam, select

revision = "0011"
down_revision = "0010"

_OF_ERASED = "SELECT id FROM users WHERE erased_at IS NOT NULL"
BATCH = 5_000


def upgrade() -> None:
    op.create_table(
        "dropped_images",
        Column("name", Text(), nullable=False),
        PrimaryKeyConstraint("name", name="pk_dropped_images"),
    )
    op.execute(
        "INSERT INTO dropped_images (name)"
        f" SELECT name FROM images WHERE owner_id IN ({_OF_ERASED})"
    )
    op.execute(f"DELETE FROM images WHERE owner_id IN ({_OF_ERASED})")
    op.add_column("skipped_rows", Column("email_folded", Text()))
    _fold()
    op.create_index("ix_skipped_rows_email", "skipped_rows", ["email_folded"])


def _fold() -> None:
    """Fold emails in Python, since the databases lack its `casefold`."""
    connection = op.get_bind()
    rows = Table("skipped_rows", MetaData(), autoload_with=connection)
    has_email = rows.c.email.is_not(None) & rows.c.email_folded.is_(None)
    page = select(rows.c.fingerprint, rows.c.line, rows.c.email).where(has_email).limit(BATCH)
    change = (
        rows.update()
        .where(rows.c.fingerprint == bindparam("file"), rows.c.line == bindparam("at"))
        .values(email_folded=bindparam("folded"))
    )
    while found := connection.execute(page).all():
        folded = [
            {"file": file, "at": line, "folded": email.casefold()} for file, line, email in found
        ]
        connection.execute(change, folded)
