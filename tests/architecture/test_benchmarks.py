"""Benchmarks run where an optional tool is missing."""

from __future__ import annotations

import pytest

from benchmarks.peers.commands import peer_commands


def test_express_is_left_out_without_npm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without npm, one line says that Express is left out, and FastAPI is measured."""
    monkeypatch.setenv("PATH", "")
    lines: list[str] = []
    assert [*peer_commands(lines.append)] == ["fastapi"]
    assert lines == ["express is left out: there is no npm"]
