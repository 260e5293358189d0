"""Many callers and processes at one document store of the fake processor, and one that fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from staffbooking_adapters.fake.documents import (
    FakeDocumentStore,
    FakeStoreReader,
    FakeStoreTransaction,
)
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import HOUR, NOW, SECOND
from staffbooking_adapters.testing.processor.base import (
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import (
    OperationKind,
    OutcomeUnknown,
    ProcessorBusy,
    ProcessorRefused,
    RefusalCode,
)
from tests.money.fake_helpers import UnavailableDocumentStore, run_concurrently
from tests.money.processors import due_event_ids, fake_processor_of, make_bench_on_store

pytestmark = pytest.mark.anyio


async def test_sixteen_clients_pay_once(bench: ProcessorBench) -> None:
    """Of sixteen concurrent payments of one page exactly one succeeds."""
    checkout, pages = await bench.open_checkout(), []

    async def pay(_: int) -> None:
        pages.append(
            await fake_processor_of(bench).sandbox.simulate_checkout(checkout.ref, "succeed")
        )

    await run_concurrently(16, pay)
    notes = sorted(page.message for page in pages if page is not None)
    assert notes == ["", *["This was already paid"] * 15]
    assert len((await bench.snapshot()).payments) == 1


async def test_two_processes_share_the_documents(
    benches: tuple[ProcessorBench, ProcessorBench],
) -> None:
    """Two processes share the documents and idempotency keys."""
    one, other = benches
    key = make_operation_key(OperationKind.OPEN_CHECKOUT)
    checkout = await one.open_checkout(key)
    assert await other.open_checkout(key) == checkout
    await other.outside_world.pay(checkout)
    assert len((await one.snapshot()).payments) == 1
    assert (
        await fake_processor_of(one).sandbox.balance()
        == await fake_processor_of(other).sandbox.balance()
        == 20_000
    )


async def test_two_processes_refund_once(benches: tuple[ProcessorBench, ProcessorBench]) -> None:
    """Sixteen calls under one key from two processes at once make one refund."""
    payment, key = await benches[0].make_payment(), make_operation_key(OperationKind.REFUND)

    async def refund(number: int) -> None:
        await benches[number % 2].refund(payment, 5_000, key)

    await run_concurrently(16, refund)
    assert len((await benches[0].snapshot()).refunds) == 1


async def test_two_processes_stay_within_a_payment(
    benches: tuple[ProcessorBench, ProcessorBench],
) -> None:
    """Concurrent refunds with different keys never exceed the payment."""
    payment = await benches[0].make_payment(amount=20_000)
    refused = []

    async def refund(number: int) -> None:
        try:
            await benches[number % 2].refund(payment, 6_000)
        except ProcessorRefused as error:
            refused.append(error.reason)

    await run_concurrently(8, refund)
    assert refused == [RefusalCode.EXCEEDS_REMAINING] * 5
    assert await fake_processor_of(benches[1]).sandbox.balance() == 2_000


async def test_two_processes_share_a_fault(benches: tuple[ProcessorBench, ProcessorBench]) -> None:
    """A fault applies exactly as often as requested across both processes."""
    await fake_processor_of(benches[0]).sandbox.add_fault("open_checkout", "rate_limit", 3)
    busy = []

    async def open_one(number: int) -> None:
        try:
            await benches[number % 2].open_checkout(intent_id=number + 1)
        except ProcessorBusy:
            busy.append(number)

    await run_concurrently(8, open_one)
    assert len(busy) == 3


async def test_an_event_is_taken_once(benches: tuple[ProcessorBench, ProcessorBench]) -> None:
    """Two concurrent workers together take each event once."""
    for number in range(4):
        await benches[0].make_payment(intent_id=number + 1)
    taken: list[str] = []

    async def take(number: int) -> None:
        taken.extend(await due_event_ids(benches[number % 2], 3))

    await run_concurrently(6, take)
    assert len(taken) == len(set(taken)) == 8


# The document store ----------------------------------------------------------------------------


class HangingDocumentStore(MemoryFakeDocumentStore):
    """A document store that never answers."""

    async def transact(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        await anyio.sleep_forever()


@pytest.mark.parametrize("store", [UnavailableDocumentStore(), HangingDocumentStore()])
async def test_an_unreachable_document_store_is_unknown(store: FakeDocumentStore) -> None:
    """Calls on an unreachable document store end in time with a port error."""
    payments = make_bench_on_store(store).payments
    with pytest.raises(OutcomeUnknown):
        await payments.open_checkout(
            make_checkout_command(), make_operation_key(OperationKind.OPEN_CHECKOUT), 0.01
        )


async def test_an_unreachable_document_store_has_no_snapshot() -> None:
    """A snapshot of an unreachable document store is unknown, never empty."""
    with pytest.raises(OutcomeUnknown):
        await make_bench_on_store(UnavailableDocumentStore()).snapshot()


async def test_a_raising_transaction_writes_nothing(bench: ProcessorBench) -> None:
    """An exception in a transaction rolls it back on every document store."""
    store: FakeDocumentStore = fake_processor_of(bench)._store

    async def work(tx: FakeStoreTransaction) -> None:
        await tx.put("kind", "key", "body")
        assert await tx.get("kind", "key") == "body"
        raise LookupError

    with pytest.raises(LookupError):
        await store.transact(work)
    assert await store.read(lambda view: view.get("kind", "key")) is None


async def test_transactions_wait_for_a_lock(bench: ProcessorBench) -> None:
    """The holder of a name sees the writes of the previous holder on every document store."""
    store: FakeDocumentStore = fake_processor_of(bench)._store

    async def count_one(tx: FakeStoreTransaction) -> None:
        await tx.lock("counter")
        counted = int(await tx.get("kind", "counter") or "0")
        await anyio.lowlevel.checkpoint()
        await tx.put("kind", "counter", str(counted + 1))

    await run_concurrently(8, lambda _: store.transact(count_one))
    assert await store.read(lambda view: view.get("kind", "counter")) == "8"


async def put_numbers(tx: FakeStoreTransaction) -> None:
    """Six hundred and one documents, due one second after the other."""
    for number in range(601):
        await tx.put("kind", f"{number:03d}", str(number), NOW + number * SECOND, amount=number)


async def test_documents_are_read_in_pages(bench: ProcessorBench) -> None:
    """Due documents come by 100 and keyed ones by 500, in a transaction and after it."""
    store: FakeDocumentStore = fake_processor_of(bench)._store

    async def look(view: FakeStoreReader) -> list[int]:
        due = await view.due("kind", NOW + 150 * SECOND)
        beyond = await view.after("kind", "099")
        last = await view.after("kind", "599")
        assert [key for key, _ in due] == [f"{number:03d}" for number in range(100)]
        assert [body for _, body in beyond] == [str(number) for number in range(100, 600)]
        assert last == [("600", "600")]
        return [len(due), await view.total("kind")]

    async def work(tx: FakeStoreTransaction) -> list[int]:
        await put_numbers(tx)
        return await look(tx)

    assert await store.transact(work) == await store.read(look) == [100, 180_300]


async def test_due_documents_are_deleted(bench: ProcessorBench) -> None:
    """All documents due by now are deleted; other kinds and undated ones are kept."""
    store: FakeDocumentStore = fake_processor_of(bench)._store

    async def work(tx: FakeStoreTransaction) -> None:
        await put_numbers(tx)
        await tx.put("kind", "700", "timeless")
        await tx.put("other", "000", "other", NOW)
        await tx.delete_due("kind", NOW + 599 * SECOND)

    await store.transact(work)
    left = await store.read(lambda view: view.after("kind", ""))
    assert left == [("600", "600"), ("700", "timeless")]
    assert await store.read(lambda view: view.get("other", "000")) == "other"


async def test_a_raising_transaction_restores_documents(bench: ProcessorBench) -> None:
    """A rollback restores replaced and deleted documents in every order."""
    store: FakeDocumentStore = fake_processor_of(bench)._store
    await store.transact(put_numbers)

    async def work(tx: FakeStoreTransaction) -> None:
        await tx.put("kind", "000", "changed", NOW + HOUR, amount=7)
        await tx.put("kind", "000", "again")
        await tx.delete("kind", "001")
        await tx.delete_due("kind", NOW + 100 * SECOND)
        assert await tx.total("kind") < 180_300
        raise LookupError

    async def look(view: FakeStoreReader) -> tuple[object, ...]:
        return await view.after("kind", ""), await view.due("kind", NOW), await view.total("kind")

    before = await store.read(look)
    with pytest.raises(LookupError):
        await store.transact(work)
    assert await store.read(look) == before
