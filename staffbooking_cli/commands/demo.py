"""`demo`: the whole service with sample data, in one process."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from staffbooking_cli import render
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.session import ready_ports

if TYPE_CHECKING:
    import socket

    from staffbooking_adapters.settings import Settings
    from staffbooking_cli.sample.seed import DemoSample
    from staffbooking_core.ports import Ports

_HOST = "127.0.0.1"
_MAX_PORT = 65_535
_DATABASE_URL_SETTING = "STAFFBOOKING_DATABASE_URL"
COMMAND_FILE = "staffbooking"
GUIDE_FILE = "guide.txt"


def demo(
    port: Annotated[int, typer.Option(help="0 selects a free port.", min=0, max=_MAX_PORT)] = 8000,
    dir_: Annotated[
        Path, typer.Option("--dir", help="The folder that keeps the demo's data.")
    ] = Path("var/demo"),
) -> None:
    """Run the server and a worker with sample data, and print commands to try.

    STAFFBOOKING_DATABASE_URL selects another database than the folder's SQLite file; what belongs
    to its demo is in a folder of its own within the folder.
    """
    with _open_demo_socket(port) as listening:
        render.print_note("Starting staffbooking...")
        import anyio

        anyio.run(_run_demo, dir_.absolute(), listening, backend_options={"use_uvloop": True})


def _open_demo_socket(port: int) -> socket.socket:
    """The demo's listening socket. Raises CommandRefused, with what to do if the port is taken."""
    from staffbooking_adapters.extras import check_extra

    check_extra("http")
    check_extra("images")  # The sample has portraits.
    from staffbooking_http.server.listening import open_listening_socket

    try:
        return open_listening_socket(_HOST, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CommandRefused(f"port {port} of {_HOST} can't be used: {error}") from None
        another = port + 1 if port < _MAX_PORT else _MAX_PORT - 1
        raise CommandRefused(
            f"port {port} is in use. Stop what listens there, perhaps another demo, or use "
            f"another port: make demo PORT={another}"
        ) from None


def place_demo(parent: Path, port: int) -> tuple[Path, dict[str, str]]:
    """The demo's folder, and the environment with its defaults. The sandbox is always on: the
    printed commands need it.

    A database that is given has its own folder, so that demos on several databases can't take each
    other's API key for theirs.
    """
    import hashlib

    from staffbooking_adapters.settings import load_settings

    own = {
        _DATABASE_URL_SETTING: f"sqlite+aiosqlite:///{parent / 'staffbooking.db'}",
        "STAFFBOOKING_BASE_URL": f"http://{_HOST}:{port}",
    }
    environ = {**own, **os.environ, "STAFFBOOKING_SANDBOX": "1"}
    if _DATABASE_URL_SETTING not in os.environ:
        return parent, environ
    settings = load_settings(environ)
    kind = settings.database_url.partition("+")[0]
    digest = hashlib.sha256(settings.database_place.encode()).hexdigest()
    folder = parent / f"{kind}-{digest[:8]}"
    if kind != "sqlite":  # Images of SQLite are next to the file.
        environ = {"STAFFBOOKING_FILES_DIR": str(folder / "images"), **environ}
    return folder, environ


def _write_command(path: Path, environ: Mapping[str, str]) -> None:
    """Write a script that runs a command line with the demo's settings, from any folder."""
    settings = {name: value for name, value in environ.items() if name.startswith("STAFFBOOKING_")}
    settings["PYTHONPATH"] = str(Path(__file__).parents[2])
    assignments = " ".join(f"{name}={quote(value)}" for name, value in sorted(settings.items()))
    command = f'{quote(sys.executable)} -m staffbooking_cli.main "$@"'
    _write_private(path, f"#!/bin/sh\ncd {quote(str(Path.cwd()))} && {assignments} {command}\n")
    path.chmod(0o700)


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read: settings may hold a password, the guide a key."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


async def _run_demo(parent: Path, listening: socket.socket) -> None:
    import anyio

    from staffbooking_adapters.logs import configure_logging
    from staffbooking_adapters.settings import load_settings
    from staffbooking_adapters.wiring import find_schema_problem, upgrade_schema
    from staffbooking_cli.running import start_server, stop_on_signal
    from staffbooking_worker.main import run_worker

    folder, environ = place_demo(parent, listening.getsockname()[1])
    settings = load_settings(environ)
    configure_logging(settings.log_format, settings.log_level)
    folder.mkdir(parents=True, exist_ok=True)
    _write_command(folder / COMMAND_FILE, environ)
    async with stop_on_signal() as stop:
        if await find_schema_problem(settings):
            await upgrade_schema(settings)
        async with (
            ready_ports(settings, is_long_running=True) as ports,
            anyio.create_task_group() as jobs,
        ):
            text = await _prepare_sample(ports, settings, folder)
            await start_server(jobs, settings, listening, stop, ports)
            listening.close()  # The server has duplicated it.
            jobs.start_soon(run_worker, ports, stop)
            # The log follows on the screen, and pushes the text away.
            _write_private(folder / GUIDE_FILE, text + "\n")
            typer.echo(text)


async def _prepare_sample(ports: Ports, settings: Settings, folder: Path) -> str:
    """Fill an empty database with the sample; returns the text to print."""
    from staffbooking_cli.sample import guide, seed

    if await seed.is_sample_missing(ports):
        render.print_note("Filling the database with sample people and a year of their bookings...")
        # A time in which nobody else uses the database, if the store knows such times.
        async with getattr(ports.store, "filling", nullcontext)():
            await seed.fill_database(ports)
    await seed.open_accounts_of_older_samples(ports)
    sample = await seed.load_sample(ports, folder)
    place = guide.DemoPlace(
        database=settings.database_place,
        images=settings.files_folder.absolute(),
        command=folder / COMMAND_FILE,
        guide=folder / GUIDE_FILE,
    )
    welcome = guide.render_welcome(sample, settings.policy.base_url, place)
    return welcome + await _guide_lines(ports, sample, settings, folder)


async def _guide_lines(ports: Ports, sample: DemoSample, settings: Settings, folder: Path) -> str:
    """The commands to paste, or one line if the sample was changed so that they can't work."""
    from staffbooking_cli.sample import guide

    try:
        return await guide.render_guide(ports, sample, settings.policy.base_url, folder)
    except CommandRefused as error:
        return f"No commands to paste this time: {error}"
