"""Packages of npm, installed from a lock of hashes and cached outside the sources."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.required_tools import skip_or_fail

_LOCK = ("package.json", "package-lock.json")
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


class NpmUnavailable(Exception):
    """The packages can't be installed; the message says why."""


def install_npm_packages(config: pytest.Config, sources: Path, title: str, *more: str) -> Path:
    """`install_packages` in pytest's cache. Skips the test, or fails it where `REQUIRE` names npm,
    if npm is missing or fails."""
    try:
        return install_packages(config.cache.mkdir("npm"), sources, *more)
    except NpmUnavailable as error:
        skip_or_fail("npm", title, str(error))


def install_packages(cache: Path, sources: Path, *more: str) -> Path:
    """The folder with `node_modules` of the package in `sources`, and copies of `more` files.

    Raises NpmUnavailable if npm is missing or fails.
    """
    if shutil.which("npm") is None:
        raise NpmUnavailable("there is no npm")
    contents = {name: (sources / name).read_bytes() for name in (*_LOCK, *more)}
    folder = cache / hashlib.sha256(b"".join(contents.values())).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Of several processes, one installs.
        for name, content in contents.items():
            (folder / name).write_bytes(content)
        if not (folder / "node_modules" / ".package-lock.json").exists():
            end = subprocess.run(_INSTALL, cwd=folder, capture_output=True, text=True, check=False)
            if end.returncode != 0:
                raise NpmUnavailable(f"npm can't install the packages: {end.stderr[-300:].strip()}")
    return folder
