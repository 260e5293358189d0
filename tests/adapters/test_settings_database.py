"""The setting of the database's URL: what is taken, what is refused, and where it leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from staffbooking_adapters.settings import SettingsError, load_settings
from staffbooking_adapters.settings_database import database_place

POSTGRES = "postgresql+asyncpg://u:hush@h"


def load(url: str) -> str:
    return load_settings({"STAFFBOOKING_DATABASE_URL": url}).database_url


@pytest.mark.parametrize(
    "url",
    [
        "sqlite+aiosqlite:///it's mine.db",
        "sqlite+aiosqlite:////abs/x.db?timeout=5",
        "postgresql+asyncpg://u@h",
        "postgresql+asyncpg:///x",
        f"{POSTGRES}:5432/x",
        "postgresql+asyncpg://u:a/b#c?d@h:1/x",
        "postgresql+asyncpg://u@[::1]:65535/x",
        "postgresql+asyncpg://app@/x?host=/run/pg&port=5433",
        "postgresql+asyncpg://u@/x?host=one:5432,[::1]:5433,two",
        f"{POSTGRES}/x?sslmode=verify-full&sslrootcert=/etc/ca.pem&target_session_attrs=primary",
    ],
)
def test_a_valid_url_is_taken(url: str) -> None:
    """URLs that both drivers understand are taken as they are, with any character in a password
    that they take there."""
    assert load(url) == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"{POSTGRES}:99999/x", "must have a port from 1 to 65535"),
        (f"{POSTGRES}:0/x", "must have a port"),
        (f"{POSTGRES}:abc/x", "must have a port"),
        ("postgresql+asyncpg://u:not@hush:hush@h/x", "must have a port"),
        (f"{POSTGRES}/x?port=abc", "must have a port"),
        ("postgresql+asyncpg://u:hush@/x?host=one,two:99999", "must have a port"),
        ("postgresql+asyncpg://u:hush@/x?host=one,,two", "must have a port"),
        (f"{POSTGRES}/x?hush=1", "may only have these options, with values: database, dbname"),
        (f"{POSTGRES}/x?sslmode=", "may only have these options"),
        (f"{POSTGRES}/x?sslmode=hush", "must have one of these as sslmode: disable"),
        ("sqlite+aiosqlite:///x.db?hush=1", "must be sqlite"),
        ("sqlite+aiosqlite://hush/x.db", "must be sqlite"),
        ("sqlite+aiosqlite:///", "must be sqlite"),
        ("sqlite+aiosqlite:///:memory:", "must name a file: `memory_ports` keeps all in memory"),
        ("sqlite+aiosqlite:///:memory:?timeout=5", "must name a file"),
    ],
)
def test_a_wrong_url_is_refused_without_its_parts(url: str, reason: str) -> None:
    """A port or an option that no driver takes is refused in one line, which names the setting and
    shows no part of the URL."""
    with pytest.raises(SettingsError) as refused:
        load(url)
    assert refused.value.message.startswith(f"STAFFBOOKING_DATABASE_URL {reason}")
    assert "hush" not in refused.value.message


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite+aiosqlite:////abs/x.db?timeout=5", "/abs/x.db"),
        ("sqlite+aiosqlite:///x.db", str(Path("x.db").absolute())),
        (f"{POSTGRES}:5432/x?sslmode=require", "postgresql://h:5432/x"),
        ("postgresql+asyncpg://u:half@hush@h/x", "postgresql://h/x"),
        ("postgresql+asyncpg://app@/x?host=/run/pg&password=hush", "postgresql:///run/pg/x"),
        ("postgresql+asyncpg://[::1]?dbname=x", "postgresql://::1/x"),
    ],
)
def test_the_place_of_a_database_has_no_password(url: str, place: str) -> None:
    """The place is the file, or the host, port and name, without user and password."""
    assert database_place(url) == place


def test_a_short_secret_is_refused_with_both_lengths() -> None:
    """The refusal of a short key says how long keys must be here, and where strangers come."""
    assert load_settings({"STAFFBOOKING_SECRET_KEY": "x" * 16}).secret_keys == ("x" * 16,)
    with pytest.raises(SettingsError, match=r"at least 16 characters, 32 where strangers can"):
        load_settings({"STAFFBOOKING_SECRET_KEY": "x" * 15})
