"""Values of each column type are stored unchanged or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st
from sqlalchemy import (
    LargeBinary,
)

from staffbooking_adapters.sql.engine.open import Database
from staffbooking_adapters.sql.engine.types import (
    Instant,
    array_of,
    parameter_converter,
    result_converter,
)
from staffbooking_core.errors import InvalidField
from tests.contract.engine.sample_schema import (
    COUNT_PEOPLE,
    INSERT_NAMED,
    INSERT_PERSON,
    PERSON_FIELDS,
    SAMPLE_INSTANT,
    SAMPLE_PERSON,
    SELECT_PERSON,
)

pytestmark = pytest.mark.anyio

BERLIN_SUMMER = timezone(timedelta(hours=2))


async def test_values_are_stored_unchanged(database: Database) -> None:
    """Every type returns what was stored, instants to the microsecond and in UTC."""
    key = await database.fetch_value(INSERT_PERSON, **SAMPLE_PERSON)
    row = await database.fetch_one(SELECT_PERSON, id=key)
    assert row is not None
    assert dict(zip(PERSON_FIELDS, row, strict=True)) == SAMPLE_PERSON
    assert [type(value) for value in row[:5]] == [str, int, bool, date, datetime]


async def test_null_is_read_as_none(database: Database) -> None:
    """NULL is read as None for every type."""
    key = await database.fetch_value(
        INSERT_PERSON, **(dict.fromkeys(PERSON_FIELDS) | {"name": "Nobody"})
    )
    assert await database.fetch_one(SELECT_PERSON, id=key) == ("Nobody", *[None] * 6)


async def test_an_instant_is_kept_in_utc(database: Database) -> None:
    """An instant in another time zone is read as the same instant in UTC."""
    key = await database.fetch_value(
        INSERT_PERSON, **(SAMPLE_PERSON | {"seen_at": SAMPLE_INSTANT.astimezone(BERLIN_SUMMER)})
    )
    row = await database.fetch_one(SELECT_PERSON, id=key)
    assert row is not None
    assert row[4] == SAMPLE_INSTANT
    assert row[4].utcoffset() == timedelta(0)


async def test_a_naive_instant_is_refused(database: Database) -> None:
    """A datetime without a time zone raises TypeError, and nothing is stored."""
    with pytest.raises(TypeError, match="zone"):
        await database.fetch_value(
            INSERT_PERSON, **(SAMPLE_PERSON | {"seen_at": SAMPLE_INSTANT.replace(tzinfo=None)})
        )
    assert await database.fetch_value(COUNT_PEOPLE) == 0


@given(st.datetimes(timezones=st.just(UTC)))
def test_sqlite_keeps_every_instant_exactly(moment: datetime) -> None:
    """SQLite's conversion of an instant is reversible for every UTC `datetime`."""
    write, read = parameter_converter("sqlite", Instant), result_converter("sqlite", Instant)
    assert write is not None
    assert read is not None
    assert read(write(moment)) == moment


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
async def test_an_integer_beyond_64_bits_names_its_parameter(
    database: Database, value: int
) -> None:
    """An integer beyond 64 bits raises InvalidField with its parameter."""
    with pytest.raises(InvalidField) as refused:
        await database.execute(INSERT_NAMED, name="Big", points=value)
    assert [fault.field for fault in refused.value.field_errors] == ["points"]


async def test_a_lone_surrogate_names_its_parameter(database: Database) -> None:
    """A lone surrogate in a text raises InvalidField with its parameter."""
    with pytest.raises(InvalidField, match="name"):
        await database.execute(INSERT_NAMED, name="\ud800", points=1)


async def test_postgres_names_the_parameter_with_a_nul(postgres: Database) -> None:
    """A NUL in a text raises InvalidField with its parameter on PostgreSQL."""
    with pytest.raises(InvalidField, match="name"):
        await postgres.execute(INSERT_NAMED, name="a\0b", points=1)


async def test_bytes_are_no_item_of_an_array() -> None:
    """An array type of bytes raises TypeError."""
    with pytest.raises(TypeError, match="bytes"):
        array_of(LargeBinary())
