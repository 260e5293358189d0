"""The migration of files that are still to be removed, and of skipped rows."""

from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import Connection

from staffbooking_adapters.sql.schema import config, on_connection, upgrade
from tests.contract.stores import opened, read
from tests.contract.test_schema import add_row, empty_url, stored
from tests.support.builders import NOW, make_user

__all__ = ["empty_url"]

pytestmark = pytest.mark.anyio


async def test_an_upgrade_to_left_files_keeps_what_is_to_be_done(empty_url):
    """Images of who was erased are left, those of others stay theirs; addresses of skipped rows
    are found whatever their case."""

    def fill(connection: Connection) -> None:
        command.upgrade(config(connection), "0010")
        for number, erased_at in ((1, stored(connection, NOW)), (2, None)):
            add_row(
                connection, "users", id=number, email_folded=f"user{number}", erased_at=erased_at
            )
            moment = stored(connection, NOW)
            add_row(connection, "images", name=f"{number}.jpg", owner_id=number, created_at=moment)
        for line, email in enumerate(("Ada@Example.com", "straße@X.org", None), 1):
            add_row(connection, "skipped_rows", fingerprint="x", line=line, email=email)

    await on_connection(empty_url, fill)
    await upgrade(empty_url)
    async with opened(empty_url) as store:
        assert list(await read(store, lambda view: view.staff.files_left("", 9))) == ["1.jpg"]
        assert list(await read(store, lambda view: view.staff.images_of(1))) == []
        assert len(await read(store, lambda view: view.staff.images_of(2))) == 1

        async def forget(unit):
            for number, email in enumerate(("ada@example.com", "STRASSE@x.org"), 1):
                await unit.people.forget(make_user(id=number), email)

        await store.write(forget)
        rows = await read(store, lambda view: view.imports.skipped_rows("x", 0, 9))
        assert [row.email for row in rows] == [None, None, None]
