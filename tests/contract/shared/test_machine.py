"""Stand-ins for the machine and the machine's own, held to the same words of their ports."""

from __future__ import annotations

import base64
import re

import pytest

from staffbooking_adapters.memory.doubles import (
    PlainHasher,
    RecordingNotifier,
    SeededIds,
    VirtualClock,
)
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.system import Argon2Hasher, SystemIds
from staffbooking_core.domain.accounts.api_keys import build_api_key, is_well_formed_api_key
from tests.support.builders import DAY, HOUR, NOW, POLICY, SECOND
from tests.support.notifications import make_email

pytestmark = pytest.mark.anyio

CROCKFORD = "[0-9A-HJKMNP-TV-Z]"


# Ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [SeededIds(), SystemIds()], ids=["seeded", "system"])
async def test_names_have_their_forms(ids):
    """As the port says, letter by letter; a key's body makes a well-formed key."""
    assert re.fullmatch(f"BK{CROCKFORD}{{12}}", ids.booking_code())
    assert re.fullmatch(f"evt_{CROCKFORD}{{26}}", ids.event_id())
    assert re.fullmatch("[A-Za-z0-9_-]{43}", ids.token())
    assert is_well_formed_api_key(build_api_key(ids.api_key_body()))
    prefix, secret = ids.webhook_secret().split("_")
    assert (prefix, len(base64.b64decode(secret, validate=True))) == ("whsec", 32)


@pytest.mark.parametrize("ids", [SeededIds(), SystemIds()], ids=["seeded", "system"])
@pytest.mark.parametrize(
    "name", ["booking_code", "event_id", "token", "api_key_body", "webhook_secret"]
)
async def test_no_name_comes_twice(ids, name):
    """Each call gives another."""
    assert len({getattr(ids, name)() for _ in range(1_000)}) == 1_000


async def test_a_seed_gives_the_same_names():
    """In the same order; another seed gives others."""
    first, same, other = SeededIds(7), SeededIds(7), SeededIds(8)
    names = [[ids.token(), ids.booking_code()] for ids in (first, same, other)]
    assert names[0] == names[1]
    assert names[0] != names[2]


async def test_event_ids_sort_by_their_making():
    """Seeded ones do so strictly."""
    ids = SeededIds()
    made = [ids.event_id() for _ in range(100)]
    assert made == sorted(made)


# Passwords --------------------------------------------------------------------------------


@pytest.mark.parametrize("hasher", [PlainHasher(), Argon2Hasher()], ids=["plain", "argon2"])
async def test_a_password_is_verified(hasher):
    """By its own hash alone; where there is none, nothing is right."""
    hashed = await hasher.hash("correct horse \N{GRINNING FACE}")
    assert await hasher.verify("correct horse \N{GRINNING FACE}", hashed)
    assert not await hasher.verify("correct horse", hashed)
    assert not await hasher.verify("correct horse", None)


# Time and alerts --------------------------------------------------------------------------


async def test_a_virtual_clock_stands_until_it_is_moved():
    """Moved ahead, both times move; business time may be set alone."""
    clock = VirtualClock(NOW)
    assert (clock.wall(), await clock.business()) == (NOW, NOW)
    clock.advance(HOUR)
    await clock.set_business(NOW + DAY)
    clock.advance(HOUR)
    assert (clock.wall(), await clock.business()) == (NOW + 2 * HOUR, NOW + DAY + HOUR)


async def test_sleeping_passes_virtual_time():
    """At once, however long."""
    clock = VirtualClock(NOW)
    await clock.sleep(86_400)
    assert clock.wall() == NOW + DAY


async def test_a_virtual_clock_follows_the_sandbox():
    """With a store, a move of the sandbox's clock there is a move of business time."""
    store = MemoryStore(POLICY)
    clock = VirtualClock(NOW, store=store)
    await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(DAY))
    assert (clock.wall(), await clock.business()) == (NOW, NOW + DAY)
    await clock.set_business(NOW + DAY + SECOND)
    assert await clock.business() == NOW + DAY + SECOND


async def test_alerts_are_recorded_in_order():
    """With the booking that each is of."""
    notifier = RecordingNotifier()
    await notifier.alert_operators(1, "one")
    await notifier.alert_operators(2, "two")
    assert notifier.alerts == [(1, "one"), (2, "two")]


async def test_letters_are_recorded_in_order():
    """Whole, with the user whom each is for."""
    notifier = RecordingNotifier()
    told = [make_email(user_id=user_id) for user_id in (1, 2)]
    for letter in told:
        await notifier.send_email(letter)
    assert notifier.emails == told
