"""The yardstick's statements as transactions of pgbench."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import asyncpg
import msgspec

from benchmarks import operations, traffic
from benchmarks.operations import Wanted
from benchmarks.pgbench import Fresh, Transaction
from benchmarks.world import World
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
        ("search", traffic.search, _search),
        ("filter", traffic.filtered, _search),
        ("detail", traffic.detail, _detail),
        ("status", traffic.status, _status),
    ):
        dice = Random(name)
        made[name] = [transaction(maker(world, dice).path) for _ in range(VARIANTS)]
    return made


def _search(path: str) -> Transaction:
    sql, arguments, _, _ = operations.search_statement(path.partition("?")[2].encode())
    return [(sql, arguments)]


def _detail(path: str) -> Transaction:
    return [(operations.DETAIL, [int(path.rpartition("/")[2])])]


def _status(path: str) -> Transaction:
    return [(operations.BOOKING, [path.rpartition("/")[2]])]


async def _creation(connection: Any, world: World, dice: Random) -> Transaction:
    """The two statements of a creation; what must be new each time is `Fresh`."""
    wanted = msgspec.json.decode(traffic.create(world, dice).body, type=Wanted)
    asked = operations.context_arguments(wanted)
    rows = await connection.fetch(operations.CONTEXT, *asked)
    row, record, _ = operations.new_booking(wanted, rows, world.owners[0].id, datetime.now(UTC))
    arguments = operations.create_arguments(row, record)
    columns, (_, *others) = arguments[: len(operations.FIELDS)], arguments[len(operations.FIELDS) :]
    fresh = {"id": Fresh(), "code": Fresh("BK")}
    given = [fresh.get(name, value) for name, value in zip(operations.FIELDS, columns, strict=True)]
    return [
        (operations.CONTEXT, asked),
        (operations.CREATE, [*given, Fresh("evt_"), *others]),
    ]
