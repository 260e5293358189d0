"""The wheel and the source distribution: their content, their metadata, their reproduction."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from staffbooking_core import __version__
from tests.support.distributions import ROOT, Distributions, build_distributions, unpack_sdist

PACKAGES = [f"staffbooking_{name}" for name in ("core", "adapters", "http", "cli", "worker")]


@pytest.fixture(scope="module")
def wheel(built: Distributions) -> zipfile.ZipFile:
    """The wheel as an archive."""
    return zipfile.ZipFile(built.wheel)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Metadata:
    """The metadata of the wheel; it is invalid if this raises."""
    return Metadata.from_email(
        wheel.read(f"staffbooking-{__version__}.dist-info/METADATA"), validate=True
    )


def files_below(*folders: Path) -> dict[str, bytes]:
    """The files of the folders by their path in the project, without bytecode."""
    return {
        str(path.relative_to(folder.parent)): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    """The wheel has each file of the five packages (templates, static files, catalogues,
    migrations, `py.typed`), unchanged, and no test."""
    content = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}

    assert content == files_below(*(ROOT / package for package in PACKAGES))
    assert {f"{package}/py.typed" for package in PACKAGES} <= content.keys()
    for suffix in (".html", ".css", ".js", ".svg", ".po"):
        assert any(name.endswith(suffix) for name in content), suffix


def test_the_wheel_brings_one_command(wheel: zipfile.ZipFile) -> None:
    """The only program that the wheel puts on the PATH is `staffbooking`."""
    listed = wheel.read(f"staffbooking-{__version__}.dist-info/entry_points.txt").decode()

    assert re.findall(r"^\[(.*)\]|^(.*?) = ", listed, re.M) == [
        ("console_scripts", ""),
        ("", "staffbooking"),
    ]


def test_the_metadata_describes_the_project(metadata: Metadata) -> None:
    """The metadata is valid and names version, license, Python, keywords, status and typing."""
    assert (metadata.name, str(metadata.version)) == ("staffbooking", __version__)
    assert metadata.license_expression == "Apache-2.0"
    assert str(metadata.requires_python) == ">=3.11"
    assert len(metadata.keywords or ()) > 3
    kinds = {classifier.partition(" :: ")[0] for classifier in metadata.classifiers or ()}
    assert kinds >= {"Development Status", "Operating System", "Programming Language", "Typing"}


def test_the_description_holds_anywhere(metadata: Metadata) -> None:
    """The description is Markdown without a link to a file, which an index page could not
    follow, and has a row for each extra."""
    text = metadata.description or ""

    assert metadata.description_content_type == "text/markdown"
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if "://" not in link] == []
    described = {
        name
        for row in re.findall(r"^\| (`.*?) \|", text, re.M)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert described == set(metadata.provides_extra or ())


def test_builds_are_reproducible(built: Distributions, tmp_path: Path) -> None:
    """The source distribution, built elsewhere and at another time, gives the same wheel and the
    same source distribution, byte by byte."""
    project = unpack_sdist(built.sdist, tmp_path / "unpacked")
    for path in project.rglob("*"):
        os.utime(path, (1, 1))
    again = build_distributions(project, tmp_path / "again")

    assert again.wheel.name == built.wheel.name
    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert again.sdist.read_bytes() == built.sdist.read_bytes()


def test_checksums_are_signed(built: Distributions, tmp_path: Path) -> None:
    """`make sign` signs the checksums of a folder with the releaser's key; the verification that
    docs/release.md shows accepts them, and refuses a changed file and a changed list."""
    folder, key = tmp_path / "dist", tmp_path / "key"
    folder.mkdir()
    for path in (built.wheel, built.sdist):
        (folder / path.name).write_bytes(path.read_bytes())
    make = ["make", "sign", f"KEY={key}", f"DIST={folder}"]
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signed = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert signed.returncode == 0, signed.stderr
    (folder / "signers").write_text(f"me@example.com {key.with_suffix('.pub').read_text()}")
    page = (ROOT / "docs/release.md").read_text(encoding="utf-8")
    [commands] = re.findall(r"```\n(ssh-keygen -Y verify.*?)```", page, re.DOTALL)

    def verify() -> int:
        return subprocess.run(
            ["sh", "-ec", commands.replace("ADDRESS", "me@example.com")],
            cwd=folder,
            capture_output=True,
            check=False,
        ).returncode

    assert verify() == 0
    for name in (built.wheel.name, "SHA256SUMS"):
        original = (folder / name).read_bytes()
        (folder / name).write_bytes(original + b"\n")
        assert verify() != 0
        (folder / name).write_bytes(original)
