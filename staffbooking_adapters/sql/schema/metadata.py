"""The schema's `MetaData` with its naming convention for constraints, and partial indexes."""

from __future__ import annotations

from sqlalchemy import Index, MetaData
from sqlalchemy.sql.elements import ColumnElement

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def partial_index(name: str, *columns: ColumnElement[object], where: ColumnElement[bool]) -> Index:
    """An index of some rows only."""
    return Index(name, *columns, postgresql_where=where, sqlite_where=where)
