"""The command lines of the peers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.npm_packages import NpmUnavailable, install_packages

_SOURCES = Path(__file__).parent
_CACHE = Path(__file__).parents[2] / "build" / "npm"


def peer_commands(log: Callable[[str], None]) -> dict[str, Sequence[str]]:
    """The programs and their arguments before the port; a peer that can't run here is left out."""
    commands: dict[str, Sequence[str]] = {
        "fastapi": (sys.executable, "-m", "benchmarks.peers.fastapi_peer")
    }
    try:
        folder = install_packages(_CACHE, _SOURCES / "express", "server.js")
    except NpmUnavailable as error:
        log(f"express is left out: {error}")
        return commands
    return {"express": ("node", str(folder / "server.js")), **commands}
