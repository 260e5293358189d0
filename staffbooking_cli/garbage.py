"""How often a process of the command line looks for garbage.

By default Python does after every 700 new objects. The modules that a command loads are hundreds of
thousands of objects, all of which stay: looking through them took a quarter of a short command's
time.
"""

from __future__ import annotations

import gc

_RARE_THRESHOLD = 100_000
_usual_thresholds = gc.get_threshold()


def collect_rarely() -> None:
    """Collect after every 100,000 new objects: for the start of a process, and for commands that
    end soon or, as the import of rows does, create few cycles."""
    gc.set_threshold(_RARE_THRESHOLD, *_usual_thresholds[1:])


def collect_as_usual() -> None:
    """Collect as often as by default, but only what is made from now on: for a process that goes
    on and has loaded what it needs. No request waits while the modules are looked through."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_usual_thresholds)

