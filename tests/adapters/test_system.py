"""The system's clock, identifiers and password hashes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.system import Argon2Hasher, SystemClock

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
