"""Broken adapters are found by the shipped contracts, with a message that says what is promised."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
from datetime import datetime, timedelta
import pytest
from staffbooking_adapters.memory.doubles import PlainHasher, SeededIds, VirtualClock
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.system import SystemClock
from staffbooking_adapters.testing.file_storage import FileStorageContract
from staffbooking_adapters.testing.machine import (
    ClockContract, HasherContract, IdGeneratorContract, VaultContract,
)
from staffbooking_adapters.vault import KeyringVault
"""

FILES = """
class {name}(MemoryFiles):
    {fault}

class Test{name}(FileStorageContract):
    @pytest.fixture
    def files(self):
        return {name}()
"""
CLOCK = """
class {name}(SystemClock):
    {fault}

class Test{name}(ClockContract):
    @pytest.fixture
    def clock(self):
        return {name}()
"""
HASHER = """
class {name}(PlainHasher):
    {fault}

class Test{name}(HasherContract):
    @pytest.fixture
    def hasher(self):
        return {name}()
"""
IDS = """
class {name}(SeededIds):
    {fault}

class Test{name}(IdGeneratorContract):
    @pytest.fixture
    def ids(self):
        return {name}()
"""
VAULT = """
class {name}(KeyringVault):
    {fault}

class Test{name}(VaultContract):
    @pytest.fixture
    def vault(self):
        return {name}(["a secret key"])
"""

FAULTS = {
    "files are cut": (
        FILES,
        "async def put(self, name, content): await super().put(name, content[:1_000_000])",
        "A stored file is returned byte for byte",
    ),
    "files are appended to": (
        FILES,
        "async def put(self, name, content):"
        " await super().put(name, (await self.get(name) or b'') + content)",
        "The last content replaces earlier ones",
    ),
    "files are never removed": (
        FILES,
        "async def remove(self, name): await self.get(name)",
        "Only the removed file is gone",
    ),
    "a missing file is empty": (
        FILES,
        "async def get(self, name): return await super().get(name) or b''",
        "A missing file is None",
    ),
    "any name is taken": (
        FILES,
        "async def get(self, name): return None",
        "An invalid name raises ValueError",
    ),
    "times are naive": (
        CLOCK,
        "def wall(self): return datetime.now()",
        "aware and in UTC",
    ),
    "time goes back": (
        CLOCK,
        "def wall(self):\n        self.n = getattr(self, 'n', 0) + 1\n"
        "        return super().wall() - timedelta(seconds=self.n)",
        "Neither wall time nor business time is earlier",
    ),
    "sleep returns at once": (
        CLOCK,
        "async def sleep(self, seconds): pass",
        "at least so much wall time has passed",
    ),
    "every password is right": (
        HASHER,
        "async def verify(self, password, hashed): return hashed is not None",
        "The right password verifies; another one",
    ),
    "no hash is a hash": (
        HASHER,
        "async def verify(self, password, hashed):"
        " return hashed is None or await super().verify(password, hashed)",
        "another one, and no hash, do not",
    ),
    "passwords are cut": (
        HASHER,
        "async def verify(self, password, hashed):"
        " return hashed is not None and hashed.startswith(f'plain:{password}')",
        "The right password verifies",
    ),
    "codes repeat": (
        IDS,
        "def booking_code(self): return 'BK0123456789AB'",
        "codes are distinct",
    ),
    "tokens are short": (
        IDS,
        "def token(self): return super().token()[:20]",
        "Tokens and webhook secrets have 256 bits",
    ),
    "any signature is valid": (
        VAULT,
        "def verify(self, purpose, message, signature): return bool(signature)",
        "A signature verifies for its purpose and message alone",
    ),
    "seals are not bound": (
        VAULT,
        "def seal(self, purpose, secret, row_id): return super().seal('', secret, 0)\n"
        "    def open(self, purpose, sealed, row_id): return super().open('', sealed, 0)",
        "SealBroken for another row or purpose",
    ),
    "nothing is sealed": (
        VAULT,
        "def seal(self, purpose, secret, row_id): return secret\n"
        "    def open(self, purpose, sealed, row_id): return sealed",
        "Seals of the same secret differ",
    ),
}


SOUND = {f"Sound{number}": each for number, each in enumerate((FILES, CLOCK, HASHER, IDS, VAULT))}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The reports of the failing tests by class, of one run over all adapters."""
    folder = tmp_path_factory.mktemp("planted")
    broken = [
        template.format(name=f"Broken{number}", fault=fault)
        for number, (template, fault, _) in enumerate(FAULTS.values())
    ]
    sound = [template.format(name=name, fault="pass") for name, template in SOUND.items()]
    (folder / "test_planted.py").write_text(HEAD + "".join([*broken, *sound]))
    conftest = 'pytest_plugins = ["staffbooking_adapters.testing.plugin"]'
    (folder / "conftest.py").write_text(conftest)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.split(r"^_+ Test(\w+)\.test_.* _+$", ran.stdout, flags=re.MULTILINE)
    by_class: dict[str, str] = defaultdict(str)
    for name, text in zip(found[1::2], found[2::2], strict=True):
        by_class[name] += " ".join(text.split())
    assert "passed" in ran.stdout, ran.stdout + ran.stderr
    return by_class


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(reports: Mapping[str, str], fault: str) -> None:
    """The contract fails on the broken adapter, and its report names the broken promise."""
    report = reports[f"Broken{list(FAULTS).index(fault)}"]
    assert "The port promises" in report
    assert FAULTS[fault][2] in report


def test_sound_adapters_pass(reports: Mapping[str, str]) -> None:
    """Each contract passes on the adapter from which the broken ones are derived."""
    assert [name for name in SOUND if name in reports] == []
