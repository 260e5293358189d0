"""A small schema with every column type and kind of constraint, and statements on it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    func,
    insert,
    select,
    text,
    update,
)

from staffbooking_adapters.sql.engine.open import Connection, Statement, open_database
from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)
CITIES = Table("cities", METADATA, Column("id", BigInt, primary_key=True))
PEOPLE = Table(
    "people",
    METADATA,
    Column("id", BigInt, primary_key=True),
    Column("name", Text, nullable=False),
    Column("points", BigInt, CheckConstraint("points >= 0", name="points")),
    Column("active", Boolean),
    Column("born", CivilDate),
    Column("seen_at", Instant),
    Column("photo", LargeBinary),
    Column("city_id", BigInt, ForeignKey("cities.id")),
    UniqueConstraint("name", "born"),
    Index("ux_people_photo", "photo", unique=True, sqlite_where=text("photo IS NOT NULL")),
)
SAMPLE_INSTANT = datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)
PERSON_FIELDS = ("name", "points", "active", "born", "seen_at", "photo", "city_id")
SAMPLE_PERSON: dict[str, Any] = {
    "name": "Ada",
    "points": 2**62,
    "active": True,
    "born": date(1815, 12, 10),
    "seen_at": SAMPLE_INSTANT,
    "photo": b"\x00\xff",
    "city_id": None,
}

INSERT_PERSON = Statement(
    insert(PEOPLE)
    .values(**{name: bindparam(name) for name in PERSON_FIELDS})
    .returning(PEOPLE.c.id)
)
INSERT_NAMED = Statement(insert(PEOPLE).values(name=bindparam("name"), points=bindparam("points")))
SELECT_PERSON = Statement(
    select(*(PEOPLE.c[name] for name in PERSON_FIELDS)).where(PEOPLE.c.id == bindparam("id"))
)
SELECT_NAMES = Statement(select(PEOPLE.c.name).order_by(PEOPLE.c.id))
COUNT_PEOPLE = Statement(select(func.count()).select_from(PEOPLE))
ADD_POINTS = Statement(
    update(PEOPLE)
    .values(points=PEOPLE.c.points + bindparam("by", type_=BigInt))
    .where(PEOPLE.c.name == bindparam("who"))
)
SELECT_POINTS = Statement(select(PEOPLE.c.points).where(PEOPLE.c.name == bindparam("who")))


def named_person(name: str, points: int = 0) -> dict[str, Any]:
    """The parameters of INSERT_NAMED."""
    return {"name": name, "points": points}


async def list_names(connection: Connection) -> list[str]:
    """The names of all people, by id."""
    return [name for (name,) in await connection.fetch_all(SELECT_NAMES)]


async def add_two_people(unit: Connection) -> str:
    """A unit of work of two statements."""
    await unit.execute(INSERT_NAMED, **named_person("Ada"))
    await unit.execute(INSERT_NAMED, **named_person("Bob"))
    return "done"


TERMINATE_OTHER_BACKENDS = Statement(
    text(
        "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
)


async def terminate_connections(url: str) -> None:
    """End every connection to this PostgreSQL database, and wait until they are gone."""
    killer = await open_database(url, METADATA)
    try:
        await killer.execute(TERMINATE_OTHER_BACKENDS)
    finally:
        await killer.close()
