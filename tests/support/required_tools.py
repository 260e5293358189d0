"""Tools that a machine may lack, and what happens to the tests that need one.

On a developer's machine they are left out, and the end of the run says so loudly. A
machine that names the tool in `REQUIRE` (a comma list, as `.ci/run` does) fails instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest

_skipped_reasons: dict[str, str] = {}


def skip_or_fail(tool: str, title: str, reason: str) -> NoReturn:
    """Leave the asking test out, or fail it where `REQUIRE` names the tool.

    `title` is how the summary calls the tests that are left out ("PostgreSQL").
    """
    if tool in os.environ.get("REQUIRE", "").split(","):
        pytest.fail(f"REQUIRE names {tool}, but {reason}", pytrace=False)
    _skipped_reasons[title] = reason
    pytest.skip(reason)


def skipped_tools() -> dict[str, str]:
    """What was left out in this process, and why."""
    return dict(_skipped_reasons)


def merge_skipped_tools(other_process_skips: Mapping[str, str]) -> None:
    """Note what another process left out."""
    _skipped_reasons.update(other_process_skips)


def skipped_tool_lines() -> list[str]:
    """One loud line for each kind of tests that was left out."""
    return [f"{title} tests NOT run: {reason}" for title, reason in _skipped_reasons.items()]
