"""The yardstick's statements as pgbench transactions."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import asyncpg
import msgspec

from benchmarks import load_requests, yardstick_operations
from benchmarks.dataset import BenchmarkDataset
from benchmarks.pgbench import PgbenchTransaction, UniqueValue
from benchmarks.yardstick_operations import BookingRequestBody
from tests.support.postgres import driver_url

VARIANT_COUNT = 30
"""Different transactions of an operation; pgbench takes at most 128."""


async def pgbench_transactions(
    url: str, world: BenchmarkDataset
) -> dict[str, list[PgbenchTransaction]]:
    """`VARIANT_COUNT` transactions of each operation."""
    connection = await asyncpg.connect(driver_url(url))
    try:
        creations = [
            await _creation_transaction(connection, world, Random(n)) for n in range(VARIANT_COUNT)
        ]
    finally:
        await connection.close()
    made: dict[str, list[PgbenchTransaction]] = {"create": creations}
    for name, maker, transaction in (
        ("search", load_requests.make_search, _search_transaction),
        ("filter", load_requests.make_filtered_search, _search_transaction),
        ("detail", load_requests.make_detail, _detail_transaction),
        ("status", load_requests.make_status, _status_transaction),
    ):
        dice = Random(name)
        made[name] = [transaction(maker(world, dice).path) for _ in range(VARIANT_COUNT)]
    return made


def _search_transaction(path: str) -> PgbenchTransaction:
    sql, arguments, _, _ = yardstick_operations.search_statement(path.partition("?")[2].encode())
    return [(sql, arguments)]


def _detail_transaction(path: str) -> PgbenchTransaction:
    return [(yardstick_operations.DETAIL_SQL, [int(path.rpartition("/")[2])])]


def _status_transaction(path: str) -> PgbenchTransaction:
    return [(yardstick_operations.BOOKING_SQL, [path.rpartition("/")[2]])]


async def _creation_transaction(
    connection: Any, world: BenchmarkDataset, dice: Random
) -> PgbenchTransaction:
    """The two statements of a creation; values that must be unique are `UniqueValue`."""
    wanted = msgspec.json.decode(
        load_requests.make_creation(world, dice).body, type=BookingRequestBody
    )
    asked = yardstick_operations.context_arguments(wanted)
    rows = await connection.fetch(yardstick_operations.CONTEXT_SQL, *asked)
    row, record, _ = yardstick_operations.new_booking(
        wanted, rows, world.owners[0].id, datetime.now(UTC)
    )
    arguments = yardstick_operations.create_arguments(row, record)
    columns, (_, *others) = (
        arguments[: len(yardstick_operations.NEW_BOOKING_COLUMNS)],
        arguments[len(yardstick_operations.NEW_BOOKING_COLUMNS) :],
    )
    fresh = {"id": UniqueValue(), "code": UniqueValue("BK")}
    given = [
        fresh.get(name, value)
        for name, value in zip(yardstick_operations.NEW_BOOKING_COLUMNS, columns, strict=True)
    ]
    return [
        (yardstick_operations.CONTEXT_SQL, asked),
        (yardstick_operations.CREATE_SQL, [*given, UniqueValue("evt_"), *others]),
    ]
