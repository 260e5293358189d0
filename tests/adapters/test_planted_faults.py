"""Broken adapters are found by the shipped contracts, with a message that says what is promised."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.adapters.planted_adapters import ADAPTERS, HEAD
from tests.adapters.planted_processors import PROCESSORS
from tests.support.pytest_runs import without_other_plugins

ROOT = Path(__file__).parents[2]

FAULTS = {**ADAPTERS, **PROCESSORS}

CONFTEST = """
import pytest

from staffbooking_adapters.testing import pubsub, webhook_sender

pytest_plugins = ["staffbooking_adapters.testing.plugin"]


@pytest.fixture(autouse=True)
def short_waits(request, monkeypatch):
    if request.cls.__name__.startswith("TestBroken"):
        monkeypatch.setattr(pubsub, "WAIT_TIMEOUT_SECONDS", 0.5)
        monkeypatch.setattr(webhook_sender, "_AMPLE_SECONDS", 0.5)
"""
"""Some contracts wait all of their ample time for what a broken adapter never does."""

SOUND = {
    f"Sound{number}": each
    for number, each in enumerate(dict.fromkeys(template for template, _, _ in FAULTS.values()))
}


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
    (folder / "conftest.py").write_text(CONFTEST)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=native",
            "-c",
            "/dev/null",
            "-p",
            "no:cacheprovider",
            "-p",
            "anyio",
            folder,
        ],
        cwd=ROOT,
        env=without_other_plugins(),
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
