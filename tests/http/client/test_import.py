"""The client needs httpx alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIST_MODULES = (
    "import httpx, sys; old = set(sys.modules); import {}; print(*set(sys.modules) - old)"
)


def imported_by(module: str) -> set[str]:
    """The modules outside the standard library that importing this one loads beside httpx's."""
    listed = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(module)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = set(listed.stdout.split())
    return {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}


def test_the_client_imports_nothing_of_the_server() -> None:
    """Beside httpx and its anyio, the client loads its own modules and the kit for webhooks."""
    loaded = {
        name
        for name in imported_by("staffbooking_http.client")
        if name.partition(".")[0] not in {"anyio", "sniffio"}
        and not name.startswith("staffbooking_http.client")
    }
    assert loaded == {
        "staffbooking_http",
        "staffbooking_core",
        "staffbooking_core.webhook_receiver",
    }


@pytest.mark.parametrize("package", ["staffbooking_http", "staffbooking_core"])
def test_a_package_loads_none_of_its_modules(package: str) -> None:
    """Importing a package loads none of its modules and no other package."""
    assert imported_by(package) == {package}


def test_the_core_is_loaded_on_first_use() -> None:
    """Each name that the core exports can be imported from it."""
    import staffbooking_core

    for name in vars(staffbooking_core)["__all__"]:
        assert getattr(staffbooking_core, name) is not None
    with pytest.raises(AttributeError):
        _ = staffbooking_core.nothing  # type: ignore[attr-defined]
