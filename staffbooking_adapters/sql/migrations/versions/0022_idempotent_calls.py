"""Stored responses of every changing call: keys are digests, fingerprints have the path, bodies may
be sealed, and calls in progress hold a lease."""

from __future__ import annotations

import hashlib

from alembic import op
from sqlalchemy import Boolean, Column, MetaData, Table, Text, bindparam, select, text

from staffbooking_adapters.sql.engine.types import Instant

revision = "0022"
down_revision = "0021"

_PAGE_STATUS = 303
_BATCH_SIZE = 1_000


def upgrade() -> None:
    op.add_column("answers", Column("headers", Text(), nullable=False, server_default=text("''")))
    op.add_column(
        "answers", Column("is_sealed", Boolean(), nullable=False, server_default=text("false"))
    )
    op.add_column("answers", Column("lease_token", Text()))
    op.add_column("answers", Column("lease_until", Instant))
    _digest_keys()


def _digest_keys() -> None:
    """Until now the interface stored responses of booking requests only, those of API keys and of
    users each at one path; the fingerprints of pages stay as they are."""
    connection = op.get_bind()
    answers = Table("answers", MetaData(), autoload_with=connection)
    found = connection.execute(
        select(answers.c.scope, answers.c.key, answers.c.fingerprint, answers.c.status)
    ).all()
    change = (
        answers.update()
        .where(answers.c.scope == bindparam("of_scope"), answers.c.key == bindparam("of_key"))
        .values(key=bindparam("new_key"), fingerprint=bindparam("new_fingerprint"))
    )
    rows = [
        {
            "of_scope": scope,
            "of_key": key,
            "new_key": hashlib.sha256(key.encode()).hexdigest(),
            "new_fingerprint": fingerprint
            if status == _PAGE_STATUS
            else _fingerprint(scope, bytes(fingerprint)),
        }
        for scope, key, fingerprint, status in found
    ]
    for start in range(0, len(rows), _BATCH_SIZE):
        connection.execute(change, rows[start : start + _BATCH_SIZE])


def _fingerprint(scope: str, body_digest: bytes) -> bytes:
    path = "/api/v1/bookings" if scope.startswith("key:") else "/bookings"
    return hashlib.sha256(path.encode() + b"\0" + body_digest).digest()
