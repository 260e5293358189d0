"""Files of histories that once had a violation, which the tests replay."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from staffbooking_adapters.codec import dump, load
from tests.simulation.plan import Plan

FOLDER = Path(__file__).parent / "regressions"


@frozen
class Regression:
    found: str
    """The violation, in one line."""
    store: str
    plan: Plan


def load_regression(path: Path) -> Regression:
    return load(path.read_text(encoding="utf-8"), Regression)


def save_regression(name: str, regression: Regression) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(f"{dump(regression)}\n", encoding="utf-8")
    return path
