"""The contracts of the services of the machine: `Clock`, `Hasher`, `IdGenerator`, `Vault`."""

from __future__ import annotations

import re
from datetime import UTC, timedelta

import pytest

from staffbooking_core.domain.accounts.api_keys import build_api_key, is_well_formed_api_key
from staffbooking_core.errors import SealBroken
from staffbooking_core.ports import Clock, Hasher, IdGenerator, Vault

__all__ = ["ClockContract", "HasherContract", "IdGeneratorContract", "VaultContract"]

_SECRET = b"whsec_of-an-endpoint"


class ClockContract:
    """What every clock promises. Subclass it with a fixture `clock`."""

    pytestmark = pytest.mark.anyio

    async def test_times_are_in_utc(self, clock: Clock) -> None:
        """Wall time and business time are aware and have `datetime.UTC` as their timezone."""
        assert clock.wall().tzinfo is UTC
        assert (await clock.business()).tzinfo is UTC

    async def test_time_never_goes_back(self, clock: Clock) -> None:
        """Neither wall time nor business time is earlier than it was."""
        walls = [clock.wall() for _ in range(100)]
        times = [await clock.business() for _ in range(100)]
        assert walls == sorted(walls)
        assert times == sorted(times)

    async def test_an_offset_that_was_read_moves_business_time_ahead(self, clock: Clock) -> None:
        """Business time at an offset of zero is business time; a larger offset moves it ahead by as
        much, or not at all where business time is wall time."""
        hour, tolerance = timedelta(hours=1), timedelta(minutes=1)
        assert abs(clock.business_at(timedelta()) - await clock.business()) < tolerance
        ahead = clock.business_at(hour) - clock.business_at(timedelta())
        assert min(abs(ahead), abs(ahead - hour)) < tolerance

    async def test_sleep_takes_its_time(self, clock: Clock) -> None:
        """After `sleep` at least so much wall time has passed."""
        before = clock.wall()
        await clock.sleep(0.02)
        assert clock.wall() - before >= timedelta(milliseconds=15)

    async def test_the_skew_is_small(self, clock: Clock) -> None:
        """The machine's own clock was compared with real time and is not far from it, or there is
        nothing to compare: the service is not ready while the skew is unknown."""
        skew = clock.skew()
        assert skew is not None
        assert abs(skew) < timedelta(seconds=30)


class HasherContract:
    """What every hasher promises. Subclass it with a fixture `hasher`."""

    pytestmark = pytest.mark.anyio

    async def test_a_password_verifies_against_its_own_hash_only(self, hasher: Hasher) -> None:
        """The right password verifies; another one, and no hash, do not."""
        hashed = await hasher.hash("correct horse battery")
        assert await hasher.verify("correct horse battery", hashed)
        assert not await hasher.verify("wrong horse battery", hashed)
        assert not await hasher.verify("correct horse batter", hashed)
        assert not await hasher.verify("correct horse battery", None)

    async def test_a_malformed_hash_is_no_error(self, hasher: Hasher) -> None:
        """A hash that is none verifies nothing."""
        assert not await hasher.verify("correct horse battery", "not a hash")


class IdGeneratorContract:
    """What every generator of ids promises. Subclass it with a fixture `ids`."""

    def test_booking_codes_have_the_published_form(self, ids: IdGenerator) -> None:
        """A booking code is BK and 12 Crockford base32 characters, and codes are distinct."""
        codes = {ids.booking_code() for _ in range(200)}
        assert len(codes) == 200
        assert all(re.fullmatch("BK[0-9A-HJKMNP-TV-Z]{12}", code) for code in codes)

    def test_event_ids_ascend(self, ids: IdGenerator) -> None:
        """An event id is `evt_` and 26 characters; later ones are not smaller in their time."""
        made = [ids.event_id() for _ in range(200)]
        assert len({*made}) == 200
        assert all(re.fullmatch("evt_[0-9A-HJKMNP-TV-Z]{26}", each) for each in made)
        assert [each[:14] for each in made] == sorted(each[:14] for each in made)

    def test_secrets_are_long_and_distinct(self, ids: IdGenerator) -> None:
        """Tokens and webhook secrets have 256 bits or more, and never repeat."""
        tokens = {ids.token() for _ in range(200)}
        secrets = {ids.webhook_secret() for _ in range(200)}
        assert len(tokens) == len(secrets) == 200
        assert min(map(len, tokens)) >= 43
        assert all(each.startswith("whsec_") and len(each) >= 49 for each in secrets)

    def test_api_keys_are_well_formed(self, ids: IdGenerator) -> None:
        """The body of an API key makes a well-formed key."""
        assert is_well_formed_api_key(build_api_key(ids.api_key_body()))


class VaultContract:
    """What every vault promises. Subclass it with a fixture `vault`."""

    def test_a_signature_is_for_one_purpose_and_message(self, vault: Vault) -> None:
        """A signature verifies for its purpose and message alone."""
        signature = vault.sign("quote", b"message")
        assert vault.verify("quote", b"message", signature)
        assert not vault.verify("other", b"message", signature)
        assert not vault.verify("quote", b"messagf", signature)
        assert not vault.verify("quote", b"message", b"")

    @pytest.mark.parametrize("secret", [_SECRET, b"", bytes(4096)], ids=["short", "none", "long"])
    def test_a_seal_opens_to_its_secret(self, vault: Vault, secret: bytes) -> None:
        """A seal opens to the same bytes for its purpose and row, and is current."""
        sealed = vault.seal("webhook", secret, 7)
        assert vault.open("webhook", sealed, 7) == secret
        assert vault.is_current(sealed)

    def test_a_seal_does_not_contain_its_secret(self, vault: Vault) -> None:
        """Seals of the same secret differ, and do not contain it."""
        sealed = {vault.seal("webhook", _SECRET, 7) for _ in range(100)}
        assert len(sealed) == 100
        assert not any(_SECRET in each for each in sealed)

    @pytest.mark.parametrize(("purpose", "row"), [("webhook", 8), ("webhook", -7), ("other", 7)])
    def test_a_seal_is_bound_to_its_row_and_purpose(
        self, vault: Vault, purpose: str, row: int
    ) -> None:
        """A seal raises SealBroken for another row or purpose."""
        sealed = vault.seal("webhook", _SECRET, 7)
        with pytest.raises(SealBroken):
            vault.open(purpose, sealed, row)

    def test_a_changed_seal_is_broken(self, vault: Vault) -> None:
        """A seal with any byte changed, and no seal at all, raise SealBroken."""
        sealed = vault.seal("webhook", _SECRET, 7)
        changed = [
            sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
            for place in range(len(sealed))
        ]
        for each in [*changed, sealed[:-1], b""]:
            with pytest.raises(SealBroken):
                vault.open("webhook", each, 7)
