"""The client that openapi-python-client generates from the document."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Service
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-clients" / "bin"
SOURCES = Path(__file__).parent / "python"


def run(*command: object, **environ: str) -> str:
    """The output of a command, which must succeed."""
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def generated(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the generated client. A warning of the generator is a failure."""
    generator = BIN / "openapi-python-client"
    if not generator.exists():
        skip_or_fail("clients", "Generated Python client", "there is no .venv-clients")
    folder = tmp_path_factory.mktemp("generated") / "client"
    config = ("--config", SOURCES / "config.yml", "--fail-on-warning")
    run(generator, "generate", "--path", service.document, "--output-path", folder, *config)
    return folder


def test_every_operation_is_generated(generated: Path, service: Service) -> None:
    """There is a module for each operation of the document, named after it."""
    paths = json.loads(service.document.read_bytes())["paths"].values()
    names = {operation["operationId"] for methods in paths for operation in methods.values()}
    modules = (generated / "staffbooking_client" / "api").rglob("[a-z]*.py")
    assert {module.stem.replace("_", "") for module in modules} == {name.lower() for name in names}


def test_a_booking_lives_by_the_generated_client(generated: Path, service: Service) -> None:
    """The generated client finds, quotes, books, pays and cancels, and keeps webhooks."""
    arguments = (SOURCES / "walk.py", service.url, service.api_key)
    assert run(BIN / "python", *arguments, PYTHONPATH=f"{generated}").endswith("done\n")
