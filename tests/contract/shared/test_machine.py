"""Contract of the machine's ports: ids, hashing, clock, alerts; system and test adapters."""

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
from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, POLICY, SECOND
from staffbooking_adapters.testing.builders_notifications import make_email
from staffbooking_core.domain.accounts.api_keys import build_api_key, is_well_formed_api_key

pytestmark = pytest.mark.anyio

CROCKFORD = "[0-9A-HJKMNP-TV-Z]"


# Ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [SeededIds(), SystemIds()], ids=["seeded", "system"])
async def test_generated_values_have_their_formats(ids):
    """Generated codes, ids, tokens, keys and secrets have the formats of the port."""
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
async def test_generated_values_are_unique(ids, name):
    """1,000 calls of a generator give 1,000 different values."""
    assert len({getattr(ids, name)() for _ in range(1_000)}) == 1_000


async def test_a_seed_gives_the_same_values():
    """SeededIds gives the same values for the same seed, and others for another seed."""
    first, same, other = SeededIds(7), SeededIds(7), SeededIds(8)
    names = [[ids.token(), ids.booking_code()] for ids in (first, same, other)]
    assert names[0] == names[1]
    assert names[0] != names[2]


async def test_event_ids_sort_by_generation():
    """Event ids of SeededIds sort in the order of their generation."""
    ids = SeededIds()
    made = [ids.event_id() for _ in range(100)]
    assert made == sorted(made)


# Passwords --------------------------------------------------------------------------------


@pytest.mark.parametrize("hasher", [PlainHasher(), Argon2Hasher()], ids=["plain", "argon2"])
async def test_a_password_is_verified(hasher):
    """A password is verified by its own hash only, and never without a hash."""
    hashed = await hasher.hash("correct horse \N{GRINNING FACE}")
    assert await hasher.verify("correct horse \N{GRINNING FACE}", hashed)
    assert not await hasher.verify("correct horse", hashed)
    assert not await hasher.verify("correct horse", None)


# Time and alerts --------------------------------------------------------------------------


async def test_a_virtual_clock_stands_until_it_is_moved():
    """Advancing a virtual clock moves both times, and business time can be set separately."""
    clock = VirtualClock(NOW)
    assert (clock.wall(), await clock.business()) == (NOW, NOW)
    clock.advance(HOUR)
    await clock.set_business(NOW + DAY)
    clock.advance(HOUR)
    assert (clock.wall(), await clock.business()) == (NOW + 2 * HOUR, NOW + DAY + HOUR)


async def test_sleeping_advances_virtual_time():
    """Sleeping advances a virtual clock."""
    clock = VirtualClock(NOW)
    await clock.sleep(86_400)
    assert clock.wall() == NOW + DAY


async def test_a_virtual_clock_follows_the_sandbox():
    """The business time of a virtual clock with a store follows the sandbox's offset."""
    store = MemoryStore(POLICY)
    clock = VirtualClock(NOW, store=store)
    await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(DAY))
    assert (clock.wall(), await clock.business()) == (NOW, NOW + DAY)
    await clock.set_business(NOW + DAY + SECOND)
    assert await clock.business() == NOW + DAY + SECOND


async def test_alerts_are_recorded_in_order():
    """Alerts are recorded in order, with their booking ids."""
    notifier = RecordingNotifier()
    await notifier.alert_operators(1, "one")
    await notifier.alert_operators(2, "two")
    assert notifier.alerts == [(1, "one"), (2, "two")]


async def test_emails_are_recorded_in_order():
    """E-mails are recorded in order."""
    notifier = RecordingNotifier()
    sent = [make_email(user_id=user_id) for user_id in (1, 2)]
    for email in sent:
        await notifier.send_email(email)
    assert notifier.emails == sent
