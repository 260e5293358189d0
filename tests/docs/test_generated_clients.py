"""`docs/generated-clients.md` shows what the tests of generated clients run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "generated-clients.md").read_text("utf-8")
CLIENTS = ROOT / "tests" / "clients"


def test_the_configuration_is_the_tested_one() -> None:
    """The lines of the configuration on the page are in the file that the tests use."""
    [shown] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert shown in (CLIENTS / "python" / "config.yml").read_text("utf-8")


def test_the_calls_are_those_of_the_tested_programs() -> None:
    """The functions and types in the page's code are used by the programs that the tests run."""
    for language, program in (("python", "python/walk.py"), ("ts", "node/walk.ts")):
        source = (CLIENTS / program).read_text("utf-8")
        [shown] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        calls = re.findall(r"([\w.]+|createClient<paths>)\(", shown)
        assert len(calls) == 2
        assert all(call.removeprefix("client.") in source for call in calls)
