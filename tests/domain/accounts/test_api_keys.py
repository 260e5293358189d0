"""API keys: generation, checksum, digest, mask and validity."""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.api_keys import (
    BASE62_ALPHABET,
    ApiKey,
    Permission,
    build_api_key,
    is_well_formed_api_key,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
KEY = build_api_key("a" * 55 + "wxyz")

bodies = st.text(BASE62_ALPHABET, min_size=59, max_size=59)
surrogates_too = st.characters(codec=None, exclude_categories=())


def record(**changes):
    key = ApiKey(
        id=1,
        owner_id=2,
        name="front desk",
        digest=api_keys.digest_api_key(KEY),
        masked_key=api_keys.mask_api_key(KEY),
        permissions=frozenset({Permission.READ}),
        created_at=NOW,
    )
    return evolve(key, **changes)


def test_a_key_has_the_published_form():
    """A key is the prefix, 59 random characters, and the CRC-32 of both in 6 base62 digits."""
    assert build_api_key("0" * 59) == "ps_" + "0" * 59 + "0tVbIl"
    assert build_api_key("a" * 53 + "022049") == "ps_" + "a" * 53 + "022049" + "0000pA"


@given(bodies)
def test_the_checksum_is_the_crc_of_what_stands_before(body):
    """The last six base62 digits are zlib's CRC-32 of the first 62 characters."""
    key = build_api_key(body)
    value = 0
    for digit in key[62:]:
        value = value * 62 + BASE62_ALPHABET.index(digit)
    assert (len(key), key[:62], value) == (68, "ps_" + body, zlib.crc32(key[:62].encode()))


@pytest.mark.parametrize("body", ["", "a" * 58, "a" * 60, "a" * 58 + "-", "a" * 58 + "é"])
def test_only_base62_of_the_right_length_makes_a_key(body):
    """Randomness of another length or alphabet is refused."""
    with pytest.raises(ValueError, match="59 base62 characters"):
        build_api_key(body)


@given(bodies)
def test_a_minted_key_is_well_formed(body):
    """Every generated key passes the format check."""
    assert is_well_formed_api_key(build_api_key(body))


@given(bodies, st.integers(0, 67), st.sampled_from(BASE62_ALPHABET))
def test_one_changed_character_is_noticed(body, place, character):
    """A key with one changed character anywhere is not well formed."""
    key = build_api_key(body)
    garbled = key[:place] + character + key[place + 1 :]
    assert is_well_formed_api_key(garbled) == (garbled == key)


@given(st.one_of(st.text(surrogates_too), st.text(surrogates_too, min_size=65, max_size=65)))
def test_any_text_may_be_asked_about(text):
    """The check returns False for any other text, including lone surrogates."""
    assert not is_well_formed_api_key(text)
    assert not is_well_formed_api_key("ps_" + text)


@pytest.mark.parametrize(
    "text", ["", KEY[:-1], KEY + "0", KEY + "\n", " " + KEY[1:], "PS_" + KEY[3:], "ps_" + "٣" * 65]
)
def test_near_misses_are_not_keys(text):
    """A text with a wrong length, prefix or alphabet is not well formed."""
    assert not is_well_formed_api_key(text)


def test_the_digest_is_sha_256():
    """The stored digest is the SHA-256 of the whole key."""
    assert api_keys.digest_api_key(KEY) == hashlib.sha256(KEY.encode()).digest()


def test_the_mask_shows_four_characters_at_each_end():
    """The mask distinguishes keys and does not reveal them."""
    assert api_keys.mask_api_key("ps_abcd" + "0" * 57 + "wxyz") == "ps_abcd…wxyz"


def test_a_key_without_end_stays_active():
    """A key without revocation and expiry is always active."""
    assert record().is_active(NOW + timedelta(days=10_000))


def test_a_revoked_key_is_not_active():
    """A key is inactive from its revocation, whatever the time is."""
    assert not record(revoked_at=NOW).is_active(NOW)


def test_a_key_works_until_it_expires():
    """A key is active until just before `expires_at`."""
    key = record(expires_at=NOW)
    assert key.is_active(NOW - timedelta(microseconds=1))
    assert not key.is_active(NOW)


def test_the_digest_is_not_printed():
    """The representation of a key record does not contain its digest."""
    assert "digest" not in repr(record())
