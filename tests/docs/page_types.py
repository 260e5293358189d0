"""Type-checks the Python blocks of the pages that adopters copy from, by `mypy --strict`.

    python -m tests.docs.page_types

`make check` runs it after mypy has read the project: from mypy's cache it takes seconds, without
one it would be the longest of the tests.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
WITHOUT_ANNOTATIONS = "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls\n"
"""The methods of the adapters' page are those of a port, whose types the page does not repeat:
their bodies are checked."""
CALLER = 'base_url = api_key = ""\n'
"""What the caller's lines in the README take as given."""


def modules_of_pages() -> dict[str, str]:
    """The source of each module that a reader would write, by its name."""
    calling, embedding = blocks_of("README.md")
    return {
        "calling": CALLER + calling,
        "first_program": embedding,
        "embedding": "\n".join(blocks_of("docs/embedding.md")),
        "adapters": WITHOUT_ANNOTATIONS + "\n".join(blocks_of("docs/adapters.md")),
    }


def blocks_of(page: str) -> list[str]:
    """The Python blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def find_type_errors(modules: dict[str, str]) -> str:
    """What mypy says of modules, beside which the page's stand-in of a processor lies; empty if it
    finds nothing."""
    with TemporaryDirectory() as folder:
        shutil.copy(ROOT / "docs" / "till.py", folder)
        for name, text in modules.items():
            Path(folder, f"page_{name}.py").write_text(text, encoding="utf-8")
        files = sorted(str(path) for path in Path(folder).glob("page_*.py"))
        ran = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *files],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode == 0:
        return ""
    return (ran.stdout + ran.stderr).replace(f"{folder}/", "")


if __name__ == "__main__":
    sys.exit(find_type_errors(modules_of_pages()) or 0)
