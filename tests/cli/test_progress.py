"""Progress bars on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from staffbooking_cli import render


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replaces standard error during the test; not a fixture, since pytest would restore its
    own."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def test_a_bar_shows_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar shows the rate per second and the remaining time."""
    terminal = watched(monkeypatch)
    with render.progress("importing", 100, "rows") as tell:
        for done in (1, 50, 100):
            tell(done, 10 * done)
    shown = terminal.getvalue()
    assert "importing" in shown
    assert "rows/s" in shown
    assert ":" in shown.rpartition("importing")[2]


@pytest.mark.parametrize(("quiet", "is_terminal"), [(True, True), (False, False)])
def test_nothing_is_shown_to_programs(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, is_terminal: bool
) -> None:
    """No bar is shown with --json or without a terminal."""
    terminal = watched(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: is_terminal)
    with render.progress("importing", 100, "rows", quiet) as tell:
        tell(50, 10)
    assert terminal.getvalue() == ""


def test_the_answer_keeps_its_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output printed while the bar is shown goes to standard output."""
    terminal = watched(monkeypatch)
    with render.progress("importing", 100) as tell:
        tell(50)
        print("answer")
    assert "answer" not in terminal.getvalue()
    assert "answer" in capsys.readouterr().out
