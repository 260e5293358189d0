"""Terms by which operators find people; indexes of what operators list; answered inquiries."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKey, MetaData, PrimaryKeyConstraint, Table, Text, select, text

from staffbooking_adapters.sql.engine.types import BigInt, ByteOrderedText, Instant
from staffbooking_core.domain.accounts.users import search_terms

revision = "0033"
down_revision = "0031"

_BATCH_SIZE = 1_000


def upgrade() -> None:
    op.create_table(
        "person_terms",
        Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
        Column("term", ByteOrderedText, nullable=False),
        PrimaryKeyConstraint("user_id", "term", name="pk_person_terms"),
    )
    _add_terms()
    op.create_index("ix_person_terms_term", "person_terms", ["term", "user_id"])
    op.create_index("ix_users_role", "users", ["role", "id"])
    op.create_index("ix_audit_subject", "audit", ["subject_id", "subject", "id"])
    for name, column_type in (("answered_at", Instant), ("answered_by", BigInt), ("note", Text())):
        op.add_column("inquiries", Column(name, column_type))
    for name, table, condition in (
        ("ix_users_disabled", "users", "disabled_at IS NOT NULL"),
        ("ix_companions_pending", "companions", "approval = 'pending'"),
        ("ix_portfolio_items_pending", "portfolio_items", "status = 'pending'"),
        ("ix_inquiries_waiting", "inquiries", "answered_at IS NULL"),
    ):
        _create_partial_index(name, table, condition, condition)
    _create_partial_index("ix_reviews_hidden", "reviews", "hidden = true", "hidden = 1")
    is_silent = (
        "deleted_at IS NULL AND "
        "(disabled_at IS NOT NULL OR consecutive_failures > 0 OR troubled = {yes})"
    )
    _create_partial_index(
        *("ix_webhook_endpoints_silent", "webhook_endpoints"),
        *(is_silent.format(yes=yes) for yes in ("true", "1")),
    )


def _create_partial_index(name: str, table: str, on_postgresql: str, on_sqlite: str) -> None:
    op.create_index(
        *(name, table, ["id"]),
        postgresql_where=text(on_postgresql),
        sqlite_where=text(on_sqlite),
    )


def _add_terms() -> None:
    """Fold names in Python, since the databases' own functions may know ASCII only."""
    connection = op.get_bind()
    users = Table("users", MetaData(), autoload_with=connection)
    terms = Table("person_terms", MetaData(), autoload_with=connection, resolve_fks=False)
    columns = (users.c.id, users.c.first_name, users.c.last_name, users.c.email)
    after = 0
    while found := connection.execute(
        select(*columns)
        .where(users.c.id > after, users.c.erased_at.is_(None))
        .order_by(users.c.id)
        .limit(_BATCH_SIZE)
    ).all():
        rows = [
            {"user_id": user_id, "term": term}
            for user_id, *names in found
            for term in search_terms(*names)
        ]
        connection.execute(terms.insert(), rows)
        after = found[-1][0]
