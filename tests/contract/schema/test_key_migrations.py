"""Migrations of what rows are found by: folded places and digests of keys."""

from __future__ import annotations

import hashlib

import pytest
from alembic import command
from sqlalchemy import Connection, MetaData, Table, select

from staffbooking_adapters.sql.schema.upgrade import (
    alembic_config,
    run_migrations,
    run_on_sqlalchemy_connection,
)
from tests.contract.schema.old_rows import add_row

pytestmark = pytest.mark.anyio


async def test_an_upgrade_to_places_without_accents_joins_equal_places(empty_url):
    """The upgrade folds the places of searches, and makes places one that differ by accents."""
    before = {
        1: ("zürich", "schweiz"),
        2: ("zurich", "schweiz"),
        3: ("são paulo", "brasil"),
        4: ("york", "united kingdom"),
        5: ("zúrich", "schweiz"),
        6: ("łódź", "polska"),
    }
    found: dict[str, list[tuple[object, ...]]] = {}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0021")
        for number, (city, country) in before.items():
            add_row(connection, "locations", id=number, city_folded=city, country_folded=country)
            add_row(connection, "companion_search", companion_id=number, location_id=number)

    def look(connection: Connection) -> None:
        for table, columns in (
            ("locations", "id, city_folded, country_folded"),
            ("companion_search", "companion_id, location_id"),
        ):
            rows = connection.exec_driver_sql(f"SELECT {columns} FROM {table} ORDER BY 1")
            found[table] = [tuple(row) for row in rows]

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    assert found["locations"] == [
        (1, "zurich", "schweiz"),
        (3, "sao paulo", "brasil"),
        (4, "york", "united kingdom"),
        (6, "lodz", "polska"),
    ]
    assert found["companion_search"] == [(1, 1), (2, 1), (3, 3), (4, 4), (5, 1), (6, 6)]


async def test_an_upgrade_to_idempotent_calls_digests_keys(empty_url):
    """Stored responses are found by the digest of their key; those of the interface have the path
    in their fingerprints, those of pages keep theirs."""
    body = hashlib.sha256(b"{}").digest()
    rows = {"key:1": (201, body), "user:1": (422, body), "user:2": (303, b"form")}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0016")
        for scope, (status, fingerprint) in rows.items():
            answer = {"key": "call 1", "status": status, "fingerprint": fingerprint}
            add_row(connection, "answers", scope=scope, **answer)

    def look(connection: Connection) -> None:
        answers = Table("answers", MetaData(), autoload_with=connection)
        names = ("scope", "key", "fingerprint", "headers", "is_sealed", "lease_token")
        selected = select(*(answers.c[name] for name in names)).order_by(answers.c.scope)
        found.extend(tuple(row) for row in connection.execute(selected))

    found: list[tuple[object, ...]] = []
    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    key = hashlib.sha256(b"call 1").hexdigest()
    fingerprints = [
        hashlib.sha256(b"/api/v1/bookings\0" + body).digest(),
        hashlib.sha256(b"/bookings\0" + body).digest(),
        b"form",
    ]
    assert found == [
        (scope, key, fingerprint, "", False, None)
        for scope, fingerprint in zip(rows, fingerprints, strict=True)
    ]


async def test_an_upgrade_to_lower_case_emails_folds_them_again(empty_url):
    """The upgrade stores lower case for the e-mail addresses that are not ASCII; addresses erased
    from skipped rows stay erased."""
    emails = {1: "Groß@example.com", 2: "ADA@example.com", 3: "gross@example.com"}
    found: dict[str, list[str | None]] = {}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0023")
        for number, email in emails.items():
            folded = {"email": email, "email_folded": email.casefold() + str(number)}
            add_row(connection, "users", id=number, **folded)
            add_row(connection, "inquiries", id=number, **folded)
            add_row(connection, "skipped_rows", line=number, **folded)
        add_row(connection, "skipped_rows", line=4, email=None, email_folded=None)

    def look(connection: Connection) -> None:
        for table, key in (("users", "id"), ("inquiries", "id"), ("skipped_rows", "line")):
            rows = connection.exec_driver_sql(f"SELECT email_folded FROM {table} ORDER BY {key}")
            found[table] = [folded for (folded,) in rows]

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    folded = ["groß@example.com", "ada@example.com2", "gross@example.com3"]
    assert found == {"users": folded, "inquiries": folded, "skipped_rows": [*folded, None]}
