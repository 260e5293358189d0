"""Signs and seals with the keys of SECRET_KEY."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from staffbooking_core.errors import SealBroken

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SEAL_VERSION = b"\x01"
_KEY_ID_LENGTH = 8
_NONCE_LENGTH = 12


class KeyringVault:
    """Signs with HMAC-SHA256 and seals with AES-256-GCM, using a derived key per purpose.

    The first secret key signs and seals; all of them verify and open. A sealed secret is a
    version byte, the key id, a random nonce and the ciphertext.
    """

    def __init__(self, secret_keys: Sequence[str]) -> None:
        keys = [key.encode() for key in secret_keys]
        self._keys = {_key_id_of(key): key for key in keys}
        self._key_id, self._key = _key_id_of(keys[0]), keys[0]

    def sign(self, purpose: str, message: bytes) -> bytes:
        return _sign(self._key, purpose, message)

    def verify(self, purpose: str, message: bytes, signature: bytes) -> bool:
        return any(
            hmac.compare_digest(_sign(key, purpose, message), signature)
            for key in self._keys.values()
        )

    def seal(self, purpose: str, secret: bytes, row_id: int) -> bytes:
        header, nonce = _SEAL_VERSION + self._key_id, secrets.token_bytes(_NONCE_LENGTH)
        return header + nonce + self._encrypt(_seal_key(self._key, purpose), nonce, secret, row_id)

    def open(self, purpose: str, sealed: bytes, row_id: int) -> bytes:
        header, rest = _split_at(sealed, len(_SEAL_VERSION) + _KEY_ID_LENGTH)
        nonce, encrypted = _split_at(rest, _NONCE_LENGTH)
        key = self._keys.get(header.removeprefix(_SEAL_VERSION))
        if key is None:
            raise SealBroken
        return self._decrypt(_seal_key(key, purpose), nonce, encrypted, row_id)

    def is_current(self, sealed: bytes) -> bool:
        return sealed.startswith(_SEAL_VERSION + self._key_id)

    def _encrypt(self, key: bytes, nonce: bytes, secret: bytes, row_id: int) -> bytes:
        return _cipher(key).encrypt(nonce, secret, _associated_data(row_id))

    def _decrypt(self, key: bytes, nonce: bytes, encrypted: bytes, row_id: int) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return _cipher(key).decrypt(nonce, encrypted, _associated_data(row_id))
        except (InvalidTag, ValueError):
            raise SealBroken from None


class MemoryVault(KeyringVault):
    """Signs as `KeyringVault` and seals with functions of the standard library, so that ports in
    memory need no library of ciphers. What outlives the process is sealed by `KeyringVault`."""

    def _encrypt(self, key: bytes, nonce: bytes, secret: bytes, row_id: int) -> bytes:
        return _authenticate(key, nonce, secret, row_id) + _mask(key, nonce, secret)

    def _decrypt(self, key: bytes, nonce: bytes, encrypted: bytes, row_id: int) -> bytes:
        code, masked = _split_at(encrypted, hashlib.sha256().digest_size)
        secret = _mask(key, nonce, masked)
        if not hmac.compare_digest(code, _authenticate(key, nonce, secret, row_id)):
            raise SealBroken
        return secret


def _sign(key: bytes, purpose: str, message: bytes) -> bytes:
    return hmac.digest(_derive_key(key, f"staffbooking:{purpose}"), message, hashlib.sha256)


def _seal_key(key: bytes, purpose: str) -> bytes:
    return _derive_key(key, f"staffbooking-seal:{purpose}")


def _cipher(key: bytes) -> AESGCM:
    # Imported on first use: the library is slow to load.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _authenticate(key: bytes, nonce: bytes, secret: bytes, row_id: int) -> bytes:
    return hmac.digest(key, nonce + _associated_data(row_id) + b":" + secret, hashlib.sha256)


def _mask(key: bytes, nonce: bytes, text: bytes) -> bytes:
    """The text XOR a stream of bytes derived from the key and the nonce. Masking again unmasks."""
    stream = hashlib.shake_256(key + nonce).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def _key_id_of(key: bytes) -> bytes:
    """An identifier of a key that reveals nothing about it."""
    return _derive_key(key, "staffbooking-name")[:_KEY_ID_LENGTH]


def _derive_key(key: bytes, purpose: str) -> bytes:
    return hmac.digest(key, purpose.encode(), hashlib.sha256)


def _associated_data(row_id: int) -> bytes:
    """The associated data that binds a seal to its row; its key binds it to its purpose."""
    return str(row_id).encode()


def _split_at(text: bytes, length: int) -> tuple[bytes, bytes]:
    return text[:length], text[length:]
