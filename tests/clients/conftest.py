"""A running service with sample data, for generated clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from attrs import frozen

from tests.cli.processes import make_environment, read_until, run_in_background


@frozen
class Service:
    """A running demo."""

    url: str
    api_key: str
    document: Path
    """The OpenAPI document that it serves."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A demo of its own for each generator, and the document that it serves."""
    folder = tmp_path_factory.mktemp("service")
    arguments = ("demo", "--port", "0", "--dir", folder)
    with run_in_background(*arguments, env=make_environment()) as demo:
        text = read_until(demo.stdout, "API key ")
        url = re.search(r"runs at (http://\S+)", text)
        api_key = re.search(r"ps_\w{65}", text)
        assert url is not None
        assert api_key is not None
        document = folder / "openapi.json"
        document.write_bytes(httpx.get(f"{url[1]}/openapi.json").raise_for_status().content)
        yield Service(url[1], api_key[0], document)
