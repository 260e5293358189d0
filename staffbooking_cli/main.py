"""The entry point of the `staffbooking` command, also `python -m staffbooking_cli.main`."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from staffbooking_cli import garbage


def main() -> None:
    """Run the command line. Exit codes: 0 success, 1 error (one line on stderr), 2 usage,
    130 Ctrl-C."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The parent closed this stream: reserve it, or the next opened file would get its
            # descriptor.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for life
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal's encoding lacks are printed as escapes.
            stream.reconfigure(errors="backslashreplace")
    garbage.collect_rarely()
    garbage.forget_generated_source()
    try:
        _load_app()(prog_name="staffbooking")
    except KeyboardInterrupt:  # while the command is loaded; later typer does the same
        sys.exit(130)
    finally:
        gc.freeze()  # Otherwise Python looks through all modules for garbage before it exits.


def _load_app() -> Callable[..., Any]:
    try:
        from staffbooking_cli.app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        from staffbooking_adapters.extras import MissingExtra

        sys.exit(f"staffbooking: {MissingExtra('cli')}")
    return app


if __name__ == "__main__":
    main()
