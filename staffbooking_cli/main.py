"""The command `staffbooking`: also `python -m staffbooking_cli.main`."""

from __future__ import annotations

import io
import sys

from staffbooking_cli.app import app


def main() -> None:
    """Run the command line. Exit 0: done; 1: refused, with one line that says why; 2: usage."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a letter of somebody's name shows its escape instead.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="staffbooking")


if __name__ == "__main__":
    main()
