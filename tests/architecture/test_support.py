"""What the end of a test run tells: budgets, and tests that were left out."""

from __future__ import annotations

import pytest

from tests.support import required
from tests.support.budget import table


def test_the_table_adds_up_a_tier() -> None:
    """Folders of one tier share a budget, a tier that did not run has no line."""
    rows = table({"tests/domain": 1.25, "tests/usecases": 2.5, "tests/e2e": 91.0, "tests/cli": 5})
    assert [row.split() for row in rows] == [
        ["tests/domain", "+", "tests/usecases", "3.8", "of", "90"],
        ["tests/e2e", "91.0", "of", "90", "OVER"],
    ]


@pytest.fixture
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(required, "_not_run", {})


@pytest.mark.usefixtures("nothing_noted")
def test_a_missing_tool_leaves_tests_out_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tool its tests are left out, and the end of the run says which."""
    monkeypatch.setenv("REQUIRE", "chromium")
    with pytest.raises(pytest.skip.Exception):
        required.unavailable("postgres", "PostgreSQL", "there is no initdb")
    assert required.not_run() == ["PostgreSQL tests NOT run: there is no initdb"]


@pytest.mark.usefixtures("nothing_noted")
def test_a_required_tool_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where REQUIRE names the tool, its absence fails the tests."""
    monkeypatch.setenv("REQUIRE", "chromium,postgres")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE names postgres"):
        required.unavailable("postgres", "PostgreSQL", "there is no initdb")
    assert required.not_run() == []
