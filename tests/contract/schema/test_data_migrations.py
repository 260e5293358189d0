"""Migrations of what is kept ready-made or is still to be done."""

from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import Connection

from staffbooking_adapters import codec
from staffbooking_adapters.sql.schema.upgrade import (
    alembic_config,
    run_migrations,
    run_on_sqlalchemy_connection,
)
from staffbooking_core.representations.companions import companion_detail, companion_summary
from tests.contract.schema.test_schema import add_row, empty_url, stored
from tests.contract.stores import open_sql_store, read_store
from tests.support.builders import NOW, POLICY, make_companion, make_user

__all__ = ["empty_url"]

pytestmark = pytest.mark.anyio


async def test_an_upgrade_to_left_files_keeps_what_is_to_be_done(empty_url):
    """Images of who was erased are left, those of others stay theirs; addresses of skipped rows
    are found whatever their case."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0010")
        for number, erased_at in ((1, stored(connection, NOW)), (2, None)):
            add_row(
                connection, "users", id=number, email_folded=f"user{number}", erased_at=erased_at
            )
            moment = stored(connection, NOW)
            add_row(connection, "images", name=f"{number}.jpg", owner_id=number, created_at=moment)
        for line, email in enumerate(("Ada@Example.com", "straße@X.org", None), 1):
            add_row(connection, "skipped_rows", fingerprint="x", line=line, email=email)

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        assert list(await read_store(store, lambda view: view.portfolio.orphaned_files("", 9))) == [
            "1.jpg"
        ]
        assert list(await read_store(store, lambda view: view.portfolio.images_of(1))) == []
        assert len(await read_store(store, lambda view: view.portfolio.images_of(2))) == 1

        async def forget(unit):
            for number, email in enumerate(("ada@example.com", "STRASSE@x.org"), 1):
                await unit.personal_data.erase(make_user(id=number), email)

        await store.run_transaction(forget)
        rows = await read_store(store, lambda view: view.imports.skipped_rows("x", 0, 9))
        assert [row.email for row in rows] == [None, None, None]


async def test_an_upgrade_to_first_names_takes_the_others_out(empty_url):
    """What is kept ready to be told of companions is as if it were made now, to the byte."""
    names = ('Ada "of" \\', "", "Å\n", '"last_name":"x",')
    people = [
        make_companion(id=number, first_name=name, last_name=name, tagline='"last_name":"x",')
        for number, name in enumerate(names, 1)
    ]
    made = [
        (companion_summary(one, POLICY.currency), companion_detail(one, POLICY.currency))
        for one in people
    ]
    found: list[tuple[bytes, bytes]] = []

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0012")
        for one, (summary, detail) in zip(people, made, strict=True):
            add_row(connection, "users", id=one.id, email_folded=f"user{one.id}")
            ready = {
                "summary": codec.encode(_named(summary, one.last_name)),
                "detail": codec.encode({"companion": _named(detail["companion"], one.last_name)}),
            }
            add_row(connection, "companions", id=one.id, **ready)

    def look(connection: Connection) -> None:
        rows = connection.exec_driver_sql("SELECT summary, detail FROM companions ORDER BY id")
        found.extend((bytes(summary), bytes(detail)) for summary, detail in rows)

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    assert found == [(codec.encode(summary), codec.encode(detail)) for summary, detail in made]


def _named(record, last_name):
    """As records told the last name, behind the first."""
    (number, first, *others) = record.items()
    return dict([number, first, ("last_name", last_name), *others])
