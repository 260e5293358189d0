"""The page on embedding does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/embedding.md").read_text(encoding="utf-8")


async def test_the_example_of_embedding_runs() -> None:
    """The code of docs/embedding.md takes a booking from request to payout in memory."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "docs/embedding.md", "exec"), names)

    outcome = await names["one_booking"]()

    assert f"`one_booking()` gives `{outcome}`" in PAGE
