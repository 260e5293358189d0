"""Tools that a machine may lack, and the skipping of tests that need them.

A developer's machine skips these tests and reports it at the end of the run. A machine that names
the tool in `REQUIRE` (a comma-separated list, as in `.ci/run`) fails them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest

_skipped_reasons: dict[str, str] = {}


def skip_or_fail(tool: str, title: str, reason: str) -> NoReturn:
    """Skip the current test, or fail it if `REQUIRE` names the tool.

    `title` names the skipped tests in the summary ("PostgreSQL").
    """
    leave_out(tool, title, reason)
    pytest.skip(reason)


def leave_out(tool: str, title: str, reason: str) -> None:
    """Note a part of the current test that is left out, or fail it if `REQUIRE` names the tool."""
    if tool in os.environ.get("REQUIRE", "").split(","):
        pytest.fail(f"REQUIRE names {tool}, but {reason}", pytrace=False)
    _skipped_reasons[title] = reason


def skipped_tools() -> dict[str, str]:
    """The skipped tests of this process by title, with the reason."""
    return dict(_skipped_reasons)


def merge_skipped_tools(other_process_skips: Mapping[str, str]) -> None:
    """Add the skipped tests of another process."""
    _skipped_reasons.update(other_process_skips)


def skipped_tool_lines() -> list[str]:
    """One line for the summary for each title of skipped tests."""
    return [f"{title} tests NOT run: {reason}" for title, reason in _skipped_reasons.items()]
