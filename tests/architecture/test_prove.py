"""`make prove` makes a row of each part, and fails where one of them fails."""

from __future__ import annotations

import json

from tests.prove import Part, kill_figures, run_part


def test_a_part_that_passes_is_a_row_with_its_figure() -> None:
    """The row has the last line of the output, the range and the command; settings before the
    command reach it."""
    command = "WORD=found python -c 'import os; print(os.environ[\"WORD\"])'"
    passed, row = run_part(Part("A search", "seeds 1 to 2", command))
    assert passed
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[0], cells[1], cells[-1]) == ("A search: found", "seeds 1 to 2", f"`{command}`")


def test_a_part_that_fails_says_so() -> None:
    """A part whose command fails has FAILED and the last line in its row."""
    command = "python -c 'print(\"seed 7: lost\"); exit(1)'"
    passed, row = run_part(Part("A search", "seeds 1 to 9", command))
    assert not passed
    assert "| A search: FAILED: seed 7: lost |" in row


def test_kills_are_told_with_what_was_lost() -> None:
    """The figure of a run of kills counts its faults."""
    found = {"kills": 20, "acknowledged": 4321, "longest_gap": 3.5, "wrong": []}
    assert kill_figures(json.dumps(found)) == (
        "20 kills, 4,321 answers: 0 lost, doubled or out of order; work goes on after 3.5 s at most"
    )
