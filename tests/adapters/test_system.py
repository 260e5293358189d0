"""The system's clock, identifiers and password hashes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.system import Argon2Hasher, SandboxClock, SystemClock
from staffbooking_adapters.testing.builders import DAY, NOW, POLICY

pytestmark = pytest.mark.anyio


async def test_without_a_sandbox_business_time_is_real_time() -> None:
    """The system clock's business time is its wall time."""
    clock = SystemClock()

    before = clock.wall()
    business = await clock.business()

    assert before <= business <= before + timedelta(minutes=1)


async def test_a_password_verifies_only_against_its_own_hash() -> None:
    """The right password verifies; another password, no hash or a malformed hash does not."""
    hasher = Argon2Hasher()
    hashed = await hasher.hash("correct horse battery")

    assert hashed.startswith("$argon2id$")
    assert await hasher.verify("correct horse battery", hashed)
    assert not await hasher.verify("wrong horse battery", hashed)
    assert not await hasher.verify("correct horse battery", None)
    assert not await hasher.verify("correct horse battery", "not a hash")


async def test_waiting_calls_share_a_reading_of_the_sandbox_clock() -> None:
    """Calls that wait together for business time share one reading of the offset, which begins
    after them: none misses a change that was made before it."""
    store = MemoryStore(POLICY)
    clock, reads = SandboxClock(store, VirtualClock(NOW)), list[int]()  # type: ignore[arg-type]
    read_view = store.read_view

    def counting() -> Any:
        reads.append(1)
        return read_view()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "read_view", lambda _: counting())
        assert await asyncio.gather(*(clock.business() for _ in range(5))) == [NOW] * 5
        assert len(reads) == 1
        await store.run_transaction(lambda tx: tx.sandbox.set_clock_offset(DAY))
        assert await clock.business() == NOW + DAY


async def test_a_sandbox_clock_takes_an_offset_that_was_read_elsewhere() -> None:
    """Business time at an offset is wall time and the offset; without a sandbox it is wall time."""
    wall = VirtualClock(NOW)
    sandbox = SandboxClock(MemoryStore(POLICY), wall)  # type: ignore[arg-type]
    assert sandbox.business_at(DAY) == NOW + DAY
    before = SystemClock().wall()
    assert before <= SystemClock().business_at(DAY) < before + DAY


async def test_a_sandbox_clock_that_nobody_moves_reads_its_offset_once() -> None:
    """While the offset is kept, no call reads it; afterwards each does again."""
    store = MemoryStore(POLICY)
    clock = SandboxClock(store, VirtualClock(NOW))  # type: ignore[arg-type]
    async with clock.keeping_offset():
        await store.run_transaction(lambda tx: tx.sandbox.set_clock_offset(DAY))
        assert await clock.business() == NOW
    assert await clock.business() == NOW + DAY
