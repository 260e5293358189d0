"""How often a process of the command line looks for garbage.

By default Python does after every 700 new objects. A command's modules are 200,000 objects and a
server's 350,000, nearly all of which stay: looking through them again and again took a quarter of a
short command's time.
"""

from __future__ import annotations

import gc
import linecache
from typing import Any

_RARE_THRESHOLD = 500_000
_LOADING_THRESHOLD = 75_000
_usual_thresholds = gc.get_threshold()


def collect_rarely() -> None:
    """Collect after every 500,000 new objects: for the start of a process, and for commands that
    end soon or, as the import of rows does, create few cycles."""
    gc.set_threshold(_RARE_THRESHOLD, *_usual_thresholds[1:])


def collect_while_loading() -> None:
    """Collect after every 75,000 new objects, so that later modules take the place of garbage (4 MB
    of a server): for a process that will go on."""
    gc.set_threshold(_LOADING_THRESHOLD, *_usual_thresholds[1:])


def collect_as_usual() -> None:
    """Collect as often as by default, but only what is made from now on: for a process that goes
    on and has loaded what it needs. No request waits while the modules are looked through; what is
    garbage by now (a twentieth) is kept, since finding it would delay the start."""
    gc.freeze()
    gc.set_threshold(*_usual_thresholds)


def forget_generated_source() -> None:
    """Keep no source of generated methods: attrs leaves it in `linecache` for debuggers, 2 MB of a
    server. Source that is read from files is cached as before."""
    linecache.cache = _NoDefaults(linecache.cache)


class _NoDefaults(dict[str, Any]):
    """A dict that stores no defaults, which is how attrs adds source."""

    def setdefault(self, key: str, default: Any = None) -> Any:
        return self.get(key, default)
