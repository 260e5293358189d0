"""Helpers for tests of the fake processor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio
from attrs import evolve

from staffbooking_adapters.fake.documents import FakeStoreReader, FakeStoreTransaction
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.processor.base import ProcessorBench
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import StoreUnavailable
from tests.money.processors import (
    SIGNING_SECRET,
    FakeProcessorWorld,
    fake_processor_of,
    make_bench_on_store,
)


def make_fake_bench(**options: Any) -> ProcessorBench:
    """A fake processor in memory with the given options."""
    bench, store = make_bench_on_store(MemoryFakeDocumentStore()), MemoryFakeDocumentStore()
    given: dict[str, Any] = {"base_url": "http://test", "secret": SIGNING_SECRET, **options}
    processor = FakeProcessor(store, bench.clock, **given)
    return evolve(bench, payments=processor, outside_world=FakeProcessorWorld(processor))


async def statement_lines(bench: ProcessorBench) -> list[Movement]:
    """The whole statement; asserts that it adds up to the balance."""
    found = [movement async for movement in bench.payments.statement()]
    assert sum(line.amount for line in found) == await fake_processor_of(bench).sandbox.balance()
    return found


async def run_concurrently(times: int, act: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run `act` concurrently with the numbers below `times`."""
    async with anyio.create_task_group() as group:
        for number in range(times):
            group.start_soon(act, number)


class UnavailableDocumentStore:
    """A document store that is unreachable."""

    async def read(self, work: Callable[[FakeStoreReader], Awaitable[Any]]) -> Any:
        raise StoreUnavailable("gone")

    async def transact(self, work: Callable[[FakeStoreTransaction], Awaitable[Any]]) -> Any:
        raise StoreUnavailable("gone")
