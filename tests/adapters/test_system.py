"""The machine's clock, randomness, slow hashes and signatures."""

from __future__ import annotations

import re
from datetime import UTC, timedelta

import pytest

from staffbooking_adapters.system import Argon2Hasher, HmacVault, SystemClock, SystemIds
from staffbooking_core.domain import keys

pytestmark = pytest.mark.anyio


def test_the_wall_clock_is_aware_and_in_utc() -> None:
    """Times of the system clock are aware, in UTC."""
    assert SystemClock().wall().tzinfo is UTC


async def test_without_a_sandbox_business_time_is_real_time() -> None:
    """The system clock's business time is its wall time."""
    clock = SystemClock()

    before = clock.wall()
    business = await clock.business()

    assert before <= business <= before + timedelta(minutes=1)


def test_booking_codes_have_the_published_form() -> None:
    """A booking code is BK and 12 Crockford base32 characters, never twice the same."""
    codes = {SystemIds().booking_code() for _ in range(200)}

    assert len(codes) == 200
    assert all(re.fullmatch("BK[0-9A-HJKMNP-TV-Z]{12}", code) for code in codes)


def test_event_ids_sort_by_their_making() -> None:
    """An event id is evt_ and 26 characters, whose first ten are the time."""
    first, second = SystemIds().event_id(), SystemIds().event_id()

    assert re.fullmatch("evt_[0-9A-HJKMNP-TV-Z]{26}", first)
    assert first[:14] <= second[:14]


def test_key_bodies_make_well_formed_keys() -> None:
    """The drawn characters are what a key is minted from."""
    assert keys.is_well_formed(keys.mint(SystemIds().key_body()))


async def test_a_password_verifies_against_its_own_hash_alone() -> None:
    """The right password passes, another one and no hash at all don't."""
    hasher = Argon2Hasher()
    hashed = await hasher.hash("correct horse battery")

    assert hashed.startswith("$argon2id$")
    assert await hasher.verify("correct horse battery", hashed)
    assert not await hasher.verify("wrong horse battery", hashed)
    assert not await hasher.verify("correct horse battery", None)
    assert not await hasher.verify("correct horse battery", "not a hash")


def test_a_signature_is_for_one_purpose() -> None:
    """What is signed for one purpose doesn't verify for another."""
    vault = HmacVault(["first secret key"])

    signature = vault.sign("quote", b"message")

    assert vault.verify("quote", b"message", signature)
    assert not vault.verify("other", b"message", signature)
    assert not vault.verify("quote", b"messagf", signature)


def test_an_older_key_still_verifies() -> None:
    """After rotation the new key signs, and what the old one signed holds."""
    signature = HmacVault(["old secret key"]).sign("quote", b"message")
    rotated = HmacVault(["new secret key", "old secret key"])

    assert rotated.verify("quote", b"message", signature)
    assert rotated.sign("quote", b"message") != signature
