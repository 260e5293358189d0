"""Signatures and seals: what holds, for whom, and for how long."""

from __future__ import annotations

import pytest

from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.errors import SealBroken

SECRET = b"whsec_of-an-endpoint"

OLD = KeyringVault(["old secret key"])
NEW = KeyringVault(["new secret key"])
ROTATED = KeyringVault(["new secret key", "old secret key"])


def test_a_signature_is_for_one_purpose() -> None:
    """What is signed for one purpose doesn't verify for another."""
    signature = OLD.sign("quote", b"message")

    assert OLD.verify("quote", b"message", signature)
    assert not OLD.verify("other", b"message", signature)
    assert not OLD.verify("quote", b"messagf", signature)


def test_an_older_key_still_verifies() -> None:
    """After rotation the new key signs, and what the old one signed holds."""
    signature = OLD.sign("quote", b"message")

    assert ROTATED.verify("quote", b"message", signature)
    assert ROTATED.sign("quote", b"message") == NEW.sign("quote", b"message")
    assert not NEW.verify("quote", b"message", signature)


@pytest.mark.parametrize("secret", [SECRET, b"", bytes(4096)], ids=["short", "none", "long"])
def test_what_is_sealed_opens(secret: bytes) -> None:
    """A seal opens to the very bytes, for its purpose and row."""
    assert OLD.open("webhook", OLD.seal("webhook", secret, 7), 7) == secret


def test_a_seal_shows_nothing_of_its_secret() -> None:
    """The same secret is sealed to other bytes each time, and stands in none of them."""
    sealed = {OLD.seal("webhook", SECRET, 7) for _ in range(100)}

    assert len(sealed) == 100
    assert not any(SECRET in each or b"old secret" in each for each in sealed)


@pytest.mark.parametrize(("purpose", "row"), [("webhook", 8), ("webhook", -7), ("other", 7)])
def test_a_seal_opens_in_no_other_place(purpose: str, row: int) -> None:
    """A seal that was moved to another row, or to another purpose, is broken."""
    sealed = OLD.seal("webhook", SECRET, 7)

    with pytest.raises(SealBroken):
        OLD.open(purpose, sealed, row)


def test_a_changed_seal_is_broken() -> None:
    """No bit of a seal can be turned without that being noticed."""
    sealed = OLD.seal("webhook", SECRET, 7)

    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealBroken):
            OLD.open("webhook", bytes(changed), 7)


def test_a_cut_seal_is_broken() -> None:
    """However little of a seal is missing, it is refused, not misread."""
    sealed = OLD.seal("webhook", SECRET, 7)

    for length in range(len(sealed)):
        with pytest.raises(SealBroken):
            OLD.open("webhook", sealed[:length], 7)


def test_an_older_key_still_opens() -> None:
    """After rotation the new key seals, and what the old one sealed opens still."""
    assert ROTATED.open("webhook", OLD.seal("webhook", SECRET, 7), 7) == SECRET
    assert NEW.open("webhook", ROTATED.seal("webhook", SECRET, 7), 7) == SECRET


def test_a_key_that_is_gone_opens_nothing() -> None:
    """Once the old key is dropped, what was never sealed anew is lost."""
    with pytest.raises(SealBroken):
        NEW.open("webhook", OLD.seal("webhook", SECRET, 7), 7)


def test_current_is_what_the_first_key_sealed() -> None:
    """So it is known what must be sealed anew before an old key may go."""
    assert ROTATED.is_current(NEW.seal("webhook", SECRET, 7))
    assert not ROTATED.is_current(OLD.seal("webhook", SECRET, 7))
    assert not ROTATED.is_current(b"")


def test_no_key_stands_in_a_representation() -> None:
    """Neither of the vault nor of what it raises."""
    with pytest.raises(SealBroken) as caught:
        NEW.open("webhook", OLD.seal("webhook", SECRET, 7), 7)

    for shown in (repr(ROTATED), repr(caught.value), str(caught.value)):
        assert "secret key" not in shown
