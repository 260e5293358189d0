"""Signatures and seals: purposes, rows and key rotation."""

from __future__ import annotations

import pytest

from staffbooking_adapters.vault import KeyringVault, MemoryVault
from staffbooking_core.errors import SealBroken

SECRET = b"whsec_of-an-endpoint"

OLD = KeyringVault(["old secret key"])
NEW = KeyringVault(["new secret key"])
ROTATED = KeyringVault(["new secret key", "old secret key"])


def test_an_older_key_still_verifies() -> None:
    """After a rotation the new key signs, and signatures of the old one still verify."""
    signature = OLD.sign("quote", b"message")

    assert ROTATED.verify("quote", b"message", signature)
    assert ROTATED.sign("quote", b"message") == NEW.sign("quote", b"message")
    assert not NEW.verify("quote", b"message", signature)


def test_a_seal_does_not_contain_its_secret() -> None:
    """Seals of the same secret differ, and contain neither the secret nor the key."""
    sealed = {OLD.seal("webhook", SECRET, 7) for _ in range(100)}

    assert len(sealed) == 100
    assert not any(SECRET in each or b"old secret" in each for each in sealed)


def test_a_broken_seal_names_no_setting() -> None:
    """The error speaks of the given keys: who embeds the library has no settings."""
    with pytest.raises(SealBroken, match=r"^A sealed secret can't be opened with the given"):
        NEW.open("webhook", OLD.seal("webhook", SECRET, 7), 7)


def test_a_cut_seal_is_broken() -> None:
    """A truncated seal is broken."""
    sealed = OLD.seal("webhook", SECRET, 7)

    for length in range(len(sealed)):
        with pytest.raises(SealBroken):
            OLD.open("webhook", sealed[:length], 7)


def test_an_older_key_still_opens() -> None:
    """After a rotation the new key seals, and seals of the old one still open."""
    assert ROTATED.open("webhook", OLD.seal("webhook", SECRET, 7), 7) == SECRET
    assert NEW.open("webhook", ROTATED.seal("webhook", SECRET, 7), 7) == SECRET


def test_a_removed_key_opens_nothing() -> None:
    """Without the old key, secrets that were not re-sealed can't be opened."""
    with pytest.raises(SealBroken):
        NEW.open("webhook", OLD.seal("webhook", SECRET, 7), 7)


def test_a_seal_of_the_first_key_is_current() -> None:
    """A seal is current if it was made with the first key."""
    assert ROTATED.is_current(NEW.seal("webhook", SECRET, 7))
    assert not ROTATED.is_current(OLD.seal("webhook", SECRET, 7))
    assert not ROTATED.is_current(b"")


def test_representations_contain_no_key() -> None:
    """The representations of the vault and its errors contain no key."""
    with pytest.raises(SealBroken) as caught:
        NEW.open("webhook", OLD.seal("webhook", SECRET, 7), 7)

    for shown in (repr(ROTATED), repr(caught.value), str(caught.value)):
        assert "secret key" not in shown


def test_a_vault_in_memory_signs_as_a_keyring() -> None:
    """Signatures of a vault in memory are those of a keyring with the same key."""
    vault = MemoryVault(["new secret key"])

    assert vault.sign("quote", b"message") == NEW.sign("quote", b"message")


@pytest.mark.parametrize("secret", [SECRET, b""], ids=["short", "none"])
def test_a_seal_in_memory_opens_to_its_secret_alone(secret: bytes) -> None:
    """A seal in memory opens for its purpose and row; for another, or with a byte changed or cut,
    it is broken."""
    vault = MemoryVault(["old secret key", "new secret key"])
    sealed = vault.seal("webhook", secret, 7)
    damaged = [sealed[:place] for place in range(len(sealed))]
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        damaged.append(bytes(changed))

    assert vault.open("webhook", sealed, 7) == secret
    assert SECRET not in sealed
    for purpose, row in (("webhook", 8), ("other", 7)):
        with pytest.raises(SealBroken):
            vault.open(purpose, sealed, row)
    for each in damaged:
        with pytest.raises(SealBroken):
            vault.open("webhook", each, 7)
