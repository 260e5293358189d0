"""Indexes by which an erasure finds who saved a person, and the person's payees and endpoints, the
deleted ones too."""

from __future__ import annotations

from alembic import op

revision = "0059"
down_revision = "0058"


def upgrade() -> None:
    op.create_index("ix_saved_people_companion", "saved_people", ["companion_id"])
    op.create_index("ix_payees_companion", "payees", ["companion_id"])
    op.drop_index("ix_webhook_endpoints_owner", "webhook_endpoints")
    op.create_index("ix_webhook_endpoints_owner", "webhook_endpoints", ["owner_id", "id"])
