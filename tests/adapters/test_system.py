"""The system's clock, identifiers and password hashes."""

from __future__ import annotations

import re
from datetime import UTC, timedelta

import pytest

from staffbooking_adapters.system import Argon2Hasher, SystemClock, SystemIds
from staffbooking_core.domain.accounts import api_keys

pytestmark = pytest.mark.anyio


def test_the_wall_clock_is_aware_and_in_utc() -> None:
    """Wall time is timezone-aware, in UTC."""
    assert SystemClock().wall().tzinfo is UTC


async def test_without_a_sandbox_business_time_is_real_time() -> None:
    """The system clock's business time is its wall time."""
    clock = SystemClock()

    before = clock.wall()
    business = await clock.business()

    assert before <= business <= before + timedelta(minutes=1)


def test_booking_codes_have_the_published_form() -> None:
    """A booking code is BK and 12 Crockford base32 characters, and codes are distinct."""
    codes = {SystemIds().booking_code() for _ in range(200)}

    assert len(codes) == 200
    assert all(re.fullmatch("BK[0-9A-HJKMNP-TV-Z]{12}", code) for code in codes)


def test_event_ids_sort_by_time() -> None:
    """An event id is `evt_` and 26 characters, of which the first ten ascend with time."""
    first, second = SystemIds().event_id(), SystemIds().event_id()

    assert re.fullmatch("evt_[0-9A-HJKMNP-TV-Z]{26}", first)
    assert first[:14] <= second[:14]


def test_generated_api_keys_are_well_formed() -> None:
    """A generated key body makes a well-formed API key."""
    assert api_keys.is_well_formed_api_key(api_keys.build_api_key(SystemIds().api_key_body()))


async def test_a_password_verifies_only_against_its_own_hash() -> None:
    """The right password verifies; another password, no hash or a malformed hash does not."""
    hasher = Argon2Hasher()
    hashed = await hasher.hash("correct horse battery")

    assert hashed.startswith("$argon2id$")
    assert await hasher.verify("correct horse battery", hashed)
    assert not await hasher.verify("wrong horse battery", hashed)
    assert not await hasher.verify("correct horse battery", None)
    assert not await hasher.verify("correct horse battery", "not a hash")
