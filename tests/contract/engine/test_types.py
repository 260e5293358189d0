"""Values come back as they went in, and what cannot be kept says so."""

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


async def test_values_come_back_as_they_went_in(database: Database) -> None:
    """Every type returns what was stored, instants to the microsecond and in UTC."""
    key = await database.fetch_value(INSERT_PERSON, **SAMPLE_PERSON)
    row = await database.fetch_one(SELECT_PERSON, id=key)
    assert row is not None
    assert dict(zip(PERSON_FIELDS, row, strict=True)) == SAMPLE_PERSON
    assert [type(value) for value in row[:5]] == [str, int, bool, date, datetime]


async def test_null_comes_back_as_none(database: Database) -> None:
    """A value that isn't there is None for every type."""
    key = await database.fetch_value(
        INSERT_PERSON, **(dict.fromkeys(PERSON_FIELDS) | {"name": "Nobody"})
    )
    assert await database.fetch_one(SELECT_PERSON, id=key) == ("Nobody", *[None] * 6)


async def test_an_instant_is_kept_in_utc(database: Database) -> None:
    """An instant told in another zone is the same instant, told in UTC."""
    key = await database.fetch_value(
        INSERT_PERSON, **(SAMPLE_PERSON | {"seen_at": SAMPLE_INSTANT.astimezone(BERLIN_SUMMER)})
    )
    row = await database.fetch_one(SELECT_PERSON, id=key)
    assert row is not None
    assert row[4] == SAMPLE_INSTANT
    assert row[4].utcoffset() == timedelta(0)


async def test_a_naive_instant_is_refused(database: Database) -> None:
    """A time without a zone is nobody's instant, and stores nothing."""
    with pytest.raises(TypeError, match="zone"):
        await database.fetch_value(
            INSERT_PERSON, **(SAMPLE_PERSON | {"seen_at": SAMPLE_INSTANT.replace(tzinfo=None)})
        )
    assert await database.fetch_value(COUNT_PEOPLE) == 0


@given(st.datetimes(timezones=st.just(UTC)))
def test_sqlite_keeps_every_instant_exactly(moment: datetime) -> None:
    """Microseconds since 1970 give back any instant that a `datetime` can tell."""
    write, read = parameter_converter("sqlite", Instant), result_converter("sqlite", Instant)
    assert write is not None
    assert read is not None
    assert read(write(moment)) == moment


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
async def test_an_integer_beyond_64_bits_names_its_parameter(
    database: Database, value: int
) -> None:
    """A number that no column holds is the parameter's fault, not the store's."""
    with pytest.raises(InvalidField) as refused:
        await database.execute(INSERT_NAMED, name="Big", points=value)
    assert [fault.field for fault in refused.value.field_errors] == ["points"]


async def test_half_a_surrogate_names_its_parameter(database: Database) -> None:
    """Text that has no UTF-8 is the parameter's fault."""
    with pytest.raises(InvalidField, match="name"):
        await database.execute(INSERT_NAMED, name="\ud800", points=1)


async def test_postgres_names_the_parameter_with_a_nul(postgres: Database) -> None:
    """PostgreSQL keeps no NUL in text, and the error says in which parameter it was."""
    with pytest.raises(InvalidField, match="name"):
        await postgres.execute(INSERT_NAMED, name="a\0b", points=1)


async def test_bytes_are_no_item_of_an_array() -> None:
    """An array of bytes is refused when the statement is written."""
    with pytest.raises(TypeError, match="bytes"):
        array_of(LargeBinary())
