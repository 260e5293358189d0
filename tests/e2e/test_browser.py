"""The pages in a real browser, with their content security policy."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.e2e.deployment import ProcessDeployment
from tests.support.required_tools import skip_or_fail

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
)


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_a_browser_shows_the_pages_and_finds_nothing_to_block(
    deployment: ProcessDeployment,
) -> None:
    """Chromium renders the start page, the sign-in and the documentation, and reports no violation
    of their policy."""
    deployment.start_server()
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        skip_or_fail("chromium", "Browser", "there is no chromium on the path")
    profile = deployment.folder / "profile"
    for path, expected in (
        ("/", "csrf-token"),
        ("/account/sign-in", "current-password"),
        ("/docs", "/api/v1/bookings"),
    ):
        rendered = subprocess.run(
            [browser, *FLAGS, f"--user-data-dir={profile}", "--dump-dom", deployment.url + path],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert expected in rendered.stdout
        assert "Content Security Policy" not in rendered.stderr
