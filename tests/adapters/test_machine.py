"""Our services of the machine keep the contracts of their ports."""

from __future__ import annotations

import pytest

from staffbooking_adapters.memory.doubles import PlainHasher, SeededIds, VirtualClock
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.system import Argon2Hasher, SandboxClock, SystemClock, SystemIds
from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_adapters.testing.machine import (
    ClockContract,
    HasherContract,
    IdGeneratorContract,
    VaultContract,
)
from staffbooking_adapters.vault import KeyringVault
from staffbooking_core.ports import Clock, Hasher, IdGenerator, Vault


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestVirtualClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return VirtualClock(NOW)


class TestSandboxClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SandboxClock(MemoryStore(POLICY), SystemClock())


class TestArgon2Hasher(HasherContract):
    @pytest.fixture
    def hasher(self) -> Hasher:
        return Argon2Hasher()


class TestPlainHasher(HasherContract):
    @pytest.fixture
    def hasher(self) -> Hasher:
        return PlainHasher()


class TestSystemIds(IdGeneratorContract):
    @pytest.fixture
    def ids(self) -> IdGenerator:
        return SystemIds()


class TestSeededIds(IdGeneratorContract):
    @pytest.fixture
    def ids(self) -> IdGenerator:
        return SeededIds()


class TestKeyringVault(VaultContract):
    @pytest.fixture
    def vault(self) -> Vault:
        return KeyringVault(["a secret key"])


class TestRotatedVault(VaultContract):
    @pytest.fixture
    def vault(self) -> Vault:
        return KeyringVault(["a new secret key", "an old secret key"])
