"""The types that openapi-typescript generates from the document, used by openapi-fetch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Service
from tests.support.npm_packages import install_npm_packages
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.clients

SOURCES = Path(__file__).parent / "node"
TITLE = "Generated TypeScript client"


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def compiled(service: Service, request: pytest.FixtureRequest) -> Path:
    """The folder of the compiled walk, with the types of the document beside it."""
    if shutil.which("node") is None:
        skip_or_fail("node", TITLE, "there is no node")
    folder = install_npm_packages(request.config, SOURCES, TITLE, "tsconfig.json", "walk.ts")
    tools = folder / "node_modules" / ".bin"
    types = run(folder, tools / "openapi-typescript", service.document, "-o", "schema.d.ts")
    assert types.returncode == 0, types.stderr
    checked = run(folder, tools / "tsc", "--project", ".")
    assert checked.returncode == 0, checked.stdout
    return folder


def test_a_booking_lives_by_the_generated_types(compiled: Path, service: Service) -> None:
    """The walk passes the strict type check; it finds, quotes, books, pays, cancels, and keeps
    webhooks."""
    walked = run(compiled, "node", "walk.js", service.url, service.api_key)
    assert walked.stdout.endswith("done\n"), walked.stderr


def test_a_wrong_field_is_a_type_error(compiled: Path) -> None:
    """The generated types refuse a body with a field of the wrong type."""
    wrong = compiled / "wrong.ts"
    wrong.write_text(
        'import type { components } from "./schema.js";\n'
        'type Quote = components["schemas"]["RequestQuote"];\n'
        'export const hours: Quote["duration_hours"] = "four";\n',
        encoding="utf-8",
    )
    tools = compiled / "node_modules" / ".bin"
    strict = ("--strict", "--noEmit", "--module", "nodenext")
    checked = run(compiled, tools / "tsc", *strict, wrong.name)
    assert checked.returncode != 0
    assert "wrong.ts(3," in checked.stdout
