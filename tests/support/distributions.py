"""Builds the distributions of the project, and environments that have some of them installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from tests.support.required_tools import skip_or_fail

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"


@frozen
class Distributions:
    """A wheel and a source distribution."""

    wheel: Path
    sdist: Path


def find_distributions(folder: Path) -> Distributions:
    """The one wheel and the one source distribution in a folder."""
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel, sdist)


def build_distributions(project: Path, folder: Path) -> Distributions:
    """Build the project's wheel and source distribution into a folder."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=project,
        check=True,
        capture_output=True,
    )
    return find_distributions(folder)


def unpack_sdist(sdist: Path, folder: Path) -> Path:
    """Unpack a source distribution into a folder, and return the project's folder in it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [project] = folder.iterdir()
    return project


@frozen
class Environment:
    """An environment of its own, with the packages of the lock that some extras need."""

    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, outside the sources."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )

    def run_python(self, code: str) -> str:
        """What the code prints, with its errors."""
        ended = self.run("python", "-I", "-c", code)
        return ended.stdout + ended.stderr

    def list_packages(self) -> set[str]:
        """The names of the installed packages."""
        [library] = self.folder.glob("lib/python3*/site-packages")
        return {path.name.split("-")[0].lower() for path in library.glob("*.dist-info")}


def install_wheel(wheel: Path, extras: Sequence[str], folder: Path) -> Environment:
    """Make an environment with the wheel and these extras, of the versions in the lock.

    Skips the test, or fails it where `REQUIRE` names the registry, if uv or the packages can't be
    had.
    """
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        skip_or_fail("registry", "Installed wheels'", "there is no uv")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    named = f"staffbooking[{','.join(extras)}] @ {wheel.as_uri()}"
    # In the project's folder: its settings leave out what the lock leaves out.
    ended = subprocess.run(
        [uv, "pip", "install", "-q", "--python", str(folder), "-c", str(LOCK), named],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        reason = f"the packages can't be installed: {ended.stderr[-300:]}"
        skip_or_fail("registry", "Installed wheels'", reason)
    return Environment(folder)
