"""What tests of the fake processor need beyond the bench of every processor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
from attrs import evolve

from staffbooking_adapters.fake.book import Reading, Writing
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeBook
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import Unavailable
from tests.money.processors import SECRET, Bench, FakeWorld, fake_bench, fake_of


def fake_with(**options: Any) -> Bench:
    """A fake processor in memory with options of its own."""
    bench, book = fake_bench(MemoryFakeBook()), MemoryFakeBook()
    given: dict[str, Any] = {"base_url": "http://test", "secret": SECRET, **options}
    processor = FakeProcessor(book, bench.clock, **given)
    return evolve(bench, payments=processor, world=FakeWorld(processor))


async def lines(bench: Bench) -> list[Movement]:
    """The whole statement. It always adds up to the balance."""
    found = [movement async for movement in bench.payments.statement()]
    assert sum(line.amount for line in found) == await fake_of(bench).balance()
    return found


async def together(times: int, act: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Act as often as that at once."""
    async with anyio.create_task_group() as group:
        for number in range(times):
            group.start_soon(act, number)


class BrokenBook:
    """A book that is out of reach."""

    async def read(self, work: Callable[[Reading], Awaitable[Any]]) -> Any:
        raise Unavailable("gone")

    async def transact(self, work: Callable[[Writing], Awaitable[Any]]) -> Any:
        raise Unavailable("gone")
