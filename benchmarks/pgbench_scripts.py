"""The yardstick's statements as transactions of pgbench."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import asyncpg
import msgspec

from benchmarks import load_requests, yardstick_operations
from benchmarks.dataset import World
from benchmarks.pgbench import Fresh, Transaction
from benchmarks.yardstick_operations import Wanted
from tests.support.postgres import driver_url

VARIANTS = 30
"""Different transactions of an operation; pgbench takes at most 128."""


async def transactions(url: str, world: World) -> dict[str, list[Transaction]]:
    """Of each operation, as many as `VARIANTS`."""
    connection = await asyncpg.connect(driver_url(url))
    try:
        creations = [await _creation(connection, world, Random(n)) for n in range(VARIANTS)]
    finally:
        await connection.close()
    made: dict[str, list[Transaction]] = {"create": creations}
    for name, maker, transaction in (
        ("search", load_requests.search, _search),
        ("filter", load_requests.filtered, _search),
        ("detail", load_requests.detail, _detail),
        ("status", load_requests.status, _status),
    ):
        dice = Random(name)
        made[name] = [transaction(maker(world, dice).path) for _ in range(VARIANTS)]
    return made


def _search(path: str) -> Transaction:
    sql, arguments, _, _ = yardstick_operations.search_statement(path.partition("?")[2].encode())
    return [(sql, arguments)]


def _detail(path: str) -> Transaction:
    return [(yardstick_operations.DETAIL, [int(path.rpartition("/")[2])])]


def _status(path: str) -> Transaction:
    return [(yardstick_operations.BOOKING, [path.rpartition("/")[2]])]


async def _creation(connection: Any, world: World, dice: Random) -> Transaction:
    """The two statements of a creation; what must be new each time is `Fresh`."""
    wanted = msgspec.json.decode(load_requests.create(world, dice).body, type=Wanted)
    asked = yardstick_operations.context_arguments(wanted)
    rows = await connection.fetch(yardstick_operations.CONTEXT, *asked)
    row, record, _ = yardstick_operations.new_booking(
        wanted, rows, world.owners[0].id, datetime.now(UTC)
    )
    arguments = yardstick_operations.create_arguments(row, record)
    columns, (_, *others) = (
        arguments[: len(yardstick_operations.FIELDS)],
        arguments[len(yardstick_operations.FIELDS) :],
    )
    fresh = {"id": Fresh(), "code": Fresh("BK")}
    given = [
        fresh.get(name, value)
        for name, value in zip(yardstick_operations.FIELDS, columns, strict=True)
    ]
    return [
        (yardstick_operations.CONTEXT, asked),
        (yardstick_operations.CREATE, [*given, Fresh("evt_"), *others]),
    ]
