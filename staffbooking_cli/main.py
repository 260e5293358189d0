"""The command `staffbooking`: also `python -m staffbooking_cli.main`."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from staffbooking_cli.app import app


def main() -> None:
    """Run the command line. Exit 0: done; 1: refused, with one line that says why; 2: usage."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by who started us: the next file that is opened must not take its place.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - for life
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter of somebody's name shows its escape instead.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="staffbooking")


if __name__ == "__main__":
    main()
