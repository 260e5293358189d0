"""Alembic's entry point: runs the migrations on the connection that `schema.upgrade` passes."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text

UPGRADING = 7_362_001
"""The advisory lock that lets one process upgrade at a time."""


def run(connection: Connection) -> None:
    context.configure(connection=connection, render_as_batch=connection.dialect.name == "sqlite")
    with context.begin_transaction():
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({UPGRADING})"))
        context.run_migrations()


run(context.config.attributes["connection"])
