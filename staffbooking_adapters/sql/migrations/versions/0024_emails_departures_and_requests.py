"""Lower-case e-mails, in which `ß` and `ss` differ; departures of users, to be claimed once; the
requests that caused operations, events and notifications."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    false,
    func,
    select,
    text,
)

revision = "0024"
down_revision = "0023"

_TABLES = ("users", "inquiries", "skipped_rows")


def upgrade() -> None:
    _fold_emails()
    for table in ("payment_operations", "events", "notices"):
        op.add_column(table, Column("request_id", Text()))
    is_unclaimed: Column[bool] = Column(
        "is_unclaimed", Boolean(), nullable=False, server_default=false()
    )
    op.add_column("last_seen", is_unclaimed)
    op.create_index(
        *("ix_last_seen_unclaimed", "last_seen", ["at"]),
        postgresql_where=text("is_unclaimed = true"),
        sqlite_where=text("is_unclaimed = 1"),
    )


def _fold_emails() -> None:
    """Fold addresses in Python, since the databases' own `lower` may know ASCII only."""
    connection = op.get_bind()
    for name in _TABLES:
        rows = Table(name, MetaData(), autoload_with=connection)
        key = list(rows.primary_key.columns)
        found = connection.execute(
            select(rows.c.email, *key).where(_is_not_ascii(rows.c.email))
        ).all()
        folded = [
            {"folded": email.lower(), **{f"of_{c.name}": v for c, v in zip(key, row, strict=True)}}
            for email, *row in found
        ]
        if folded:
            is_row = (column == bindparam(f"of_{column.name}") for column in key)
            change = rows.update().where(*is_row).values(email_folded=bindparam("folded"))
            connection.execute(change, folded)


def _is_not_ascii(email: ColumnElement[str]) -> ColumnElement[bool]:
    if op.get_context().dialect.name == "postgresql":
        return func.octet_length(email) != func.char_length(email)
    return func.length(cast(email, LargeBinary)) != func.length(email)
