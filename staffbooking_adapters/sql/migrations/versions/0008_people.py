"""Settings of users, their notifications and the kinds they have muted, and imports."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    Boolean,
    Column,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    _add_showcases()
    _add_mail()
    _add_imports()
    op.add_column("users", Column("email_verified_at", Instant))
    op.add_column("users", Column("erased_at", Instant))
    _hide_reviews()


def _hide_reviews() -> None:
    op.add_column(
        "reviews", Column("hidden", Boolean(), nullable=False, server_default=text("false"))
    )
    op.drop_index("ix_reviews_newest", "reviews")
    op.create_index(
        "ix_reviews_newest",
        "reviews",
        ["reviewee_id", "id", "rating"],
        postgresql_where=text("NOT hidden"),
        sqlite_where=text("hidden = 0"),
    )


def _add_showcases() -> None:
    op.create_table(
        "portfolio_items",
        Column("companion_id", BigInt, nullable=False),
        Column("title", Text(), nullable=False),
        Column("image", Text(), nullable=False),
        Column("description", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("status", Text(), nullable=False),
        Column("id", BigInt, nullable=False),
        ForeignKeyConstraint(
            ["companion_id"], ["companions.id"], name="fk_portfolio_items_companion_id"
        ),
        PrimaryKeyConstraint("id", name="pk_portfolio_items"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_portfolio_items_companion", "portfolio_items", ["companion_id", "id"])
    op.create_table(
        "images",
        Column("name", Text(), nullable=False),
        Column("owner_id", BigInt, nullable=False),
        Column("size", BigInt, nullable=False),
        Column("created_at", Instant, nullable=False),
        ForeignKeyConstraint(["owner_id"], ["users.id"], name="fk_images_owner_id"),
        PrimaryKeyConstraint("name", name="pk_images"),
    )
    op.create_index("ix_images_owner", "images", ["owner_id", "created_at"])
    op.create_table(
        "calendar_feeds",
        Column("companion_id", BigInt, nullable=False, autoincrement=False),
        Column("digest", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        ForeignKeyConstraint(
            ["companion_id"], ["companions.id"], name="fk_calendar_feeds_companion_id"
        ),
        PrimaryKeyConstraint("companion_id", name="pk_calendar_feeds"),
        UniqueConstraint("digest", name="uq_calendar_feeds_digest"),
    )


def _add_mail() -> None:
    with op.batch_alter_table("notices") as notices:
        notices.alter_column("user_id", existing_type=BigInt, nullable=True)
        notices.add_column(Column("link", Text()))
        notices.add_column(Column("address", Text()))
        notices.add_column(Column("due_at", Instant))
        notices.add_column(Column("attempts", BigInt, nullable=False, server_default=text("0")))
    op.execute(text("UPDATE notices SET due_at = at"))
    with op.batch_alter_table("notices") as notices:
        notices.alter_column("due_at", existing_type=Instant, nullable=False)
    op.create_index("ix_notices_due", "notices", ["due_at", "id"])
    op.add_column(
        "conversation_members",
        Column("told_id", BigInt, nullable=False, server_default=text("0")),
    )
    # Messages sent so far cause no notification.
    op.execute(
        text(
            "INSERT INTO counters (name, value) "
            "SELECT 'messages_told', coalesce(max(id), 0) FROM messages"
        )
    )
    op.create_table(
        "mutes",
        Column("user_id", BigInt, nullable=False),
        Column("kind", Text(), nullable=False),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_mutes_user_id"),
        PrimaryKeyConstraint("user_id", "kind", name="pk_mutes"),
    )
    op.create_table(
        "inquiries",
        Column("id", BigInt, nullable=False),
        Column("name", Text(), nullable=False),
        Column("email", Text(), nullable=False),
        Column("subject", Text(), nullable=False),
        Column("message", Text(), nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("email_folded", Text(), nullable=False),
        PrimaryKeyConstraint("id", name="pk_inquiries"),
    )
    op.create_index("ix_inquiries_email", "inquiries", ["email_folded", "id"])


def _add_imports() -> None:
    op.create_table(
        "imports",
        Column("fingerprint", Text(), nullable=False),
        Column("line", BigInt, nullable=False),
        Column("imported", BigInt, nullable=False),
        Column("updated", BigInt, nullable=False),
        Column("skipped", BigInt, nullable=False),
        Column("at", Instant, nullable=False),
        PrimaryKeyConstraint("fingerprint", name="pk_imports"),
    )
    op.create_table(
        "skipped_rows",
        Column("fingerprint", Text(), nullable=False),
        Column("line", BigInt, nullable=False),
        Column("email", Text()),
        Column("reason", Text(), nullable=False),
        PrimaryKeyConstraint("fingerprint", "line", name="pk_skipped_rows"),
    )
