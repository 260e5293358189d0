"""The distributions under test: those in the folder that DIST names, or built for the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.distributions import (
    ROOT,
    Distributions,
    build_distributions,
    find_distributions,
)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The distributions; `make release` names those that it has built."""
    if folder := os.environ.get("DIST"):
        return find_distributions(Path(folder).absolute())
    return build_distributions(ROOT, tmp_path_factory.mktemp("built"))
