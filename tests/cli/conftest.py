"""A deployment for each test, in place of the one that the environment names."""

from __future__ import annotations

import os

import pytest

from staffbooking_adapters import wiring
from tests.cli.deployment import Deployment


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    for name in [name for name in os.environ if name.startswith("STAFFBOOKING_")]:
        monkeypatch.delenv(name)
    made = Deployment()
    monkeypatch.setattr(wiring, "open_ports", made.open_ports)
    monkeypatch.setattr(wiring, "check_schema", made.check_schema)
    monkeypatch.setattr(wiring, "upgrade_schema", made.upgrade_schema)
    return made
