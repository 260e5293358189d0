"""Searches know the limits of bookings, and compare places without accents.

Places that differ only by accents become one. Calendars without limits have none stored.
"""

from __future__ import annotations

import unicodedata

from alembic import op
from sqlalchemy import (
    Column,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    bindparam,
    case,
    select,
)

from staffbooking_adapters.sql.engine.types import BigInt

revision = "0023"
down_revision = "0022"

_WITHOUT_STROKES = str.maketrans("đħıłøŧ", "dhilot")


def upgrade() -> None:
    op.create_table(
        "companion_limits",
        Column("companion_id", BigInt, autoincrement=False, nullable=False),
        Column("min_notice_hours", BigInt, nullable=False),
        Column("horizon_days", BigInt, nullable=False),
        PrimaryKeyConstraint("companion_id", name="pk_companion_limits"),
    )
    op.create_index("ix_companion_limits_notice", "companion_limits", ["min_notice_hours"])
    op.create_index("ix_companion_limits_horizon", "companion_limits", ["horizon_days"])
    _fold_places()


def _fold_places() -> None:
    connection, described = op.get_bind(), MetaData()
    locations = Table("locations", described, autoload_with=connection)
    search = Table("companion_search", described, autoload_with=connection)
    columns = (locations.c.id, locations.c.city_folded, locations.c.country_folded)
    kept: dict[tuple[str, str], int] = {}
    merged: dict[int, int] = {}
    changed: list[dict[str, int | str]] = []
    for number, *names in connection.execute(select(*columns).order_by(locations.c.id)).all():
        city, country = map(_without_accents, names)
        kept_id = kept.setdefault((city, country), number)
        if kept_id != number:
            merged[number] = kept_id
        elif [city, country] != names:
            changed.append({"number": number, "city": city, "country": country})
    if merged:
        moved = search.update().where(search.c.location_id.in_(merged))
        connection.execute(moved.values(location_id=case(merged, value=search.c.location_id)))
        connection.execute(locations.delete().where(locations.c.id.in_(merged)))
    # After the deletion: a changed name may equal that of a deleted row.
    if changed:
        named = locations.update().where(locations.c.id == bindparam("number"))
        renamed = named.values(city_folded=bindparam("city"), country_folded=bindparam("country"))
        connection.execute(renamed, changed)


def _without_accents(text: str) -> str:
    letters = unicodedata.normalize("NFD", text.translate(_WITHOUT_STROKES))
    kept = "".join(each for each in letters if unicodedata.combining(each) < 200)
    return unicodedata.normalize("NFC", kept)
