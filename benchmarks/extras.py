"""Packages, size and import time of the wheel with each extra: `python -m benchmarks.extras`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from staffbooking_adapters.extras import EXTRAS
from tests.support.distributions import ROOT, Environment, build_distributions, install_wheel

_ROUNDS = 7
_CORE_STATEMENTS = (
    "import staffbooking_core",
    "from staffbooking_core import Booking",
    "from staffbooking_core import Ports, run_all_due",
)
_STATEMENTS = {
    "": "from staffbooking_adapters import memory_ports; memory_ports()",
    "sqlite": "import staffbooking_adapters.sql.store",
    "postgres": "import staffbooking_adapters.sql.store, asyncpg",
    "stripe": "import staffbooking_adapters.stripe.processor",
    "redis": "import redis.asyncio",
    "images": "import staffbooking_adapters.images.reencoding",
    "calendar": "import staffbooking_adapters.ics.feed",
    "mail": "import staffbooking_adapters.notify.smtp",
    "socketio": "import socketio",
    "worker": "import staffbooking_adapters.webhook.sender",
    "http": "from staffbooking_http import create_app",
    "cli": "import staffbooking_cli.app",
    "client": "import staffbooking_http.client",
    "testing": "import hypothesis, pytest",
    "all": "from staffbooking_http import create_app",
}


def measure_import(environment: Environment, statement: str) -> float:
    """The fewest milliseconds of processor time that a statement takes in a new process."""
    code = (
        f"import time; started = time.process_time(); {statement}\n"
        "print((time.process_time() - started) * 1000)"
    )
    environment.run_python(code)  # Compiles what is imported.
    return min(float(environment.run_python(code)) for _ in range(_ROUNDS))


def measure_size(environment: Environment) -> float:
    """Megabytes of the installed files without bytecode."""
    [library] = environment.folder.glob("lib/python3*/site-packages")
    files = (path for path in library.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files) / 1e6


def main() -> None:
    """Print a table as Markdown."""
    print("| Extra | Packages | MB | Import, ms | of |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_distributions(ROOT, Path(folder, "dist")).wheel
        core = install_wheel(wheel, [], Path(folder, "core"))
        for statement in _CORE_STATEMENTS:
            print(f"| core | | | {measure_import(core, statement):.0f} | `{statement}` |")
        for extra in ("", *EXTRAS, "all"):
            environment = install_wheel(wheel, [extra] if extra else [], Path(folder, extra or "b"))
            count, size = len(environment.list_packages()), measure_size(environment)
            spent = measure_import(environment, _STATEMENTS[extra])
            name = f"`{extra}`" if extra else "none"
            print(f"| {name} | {count} | {size:.0f} | {spent:.0f} | `{_STATEMENTS[extra]}` |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
