"""Listening that is taken up again whenever it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

log = logging.getLogger("staffbooking.listening")

RETRY_DELAYS_SECONDS = (0.1, 1.0, 5.0)
"""Seconds before each next try; the last stands for all that follow."""


async def keep_listening(
    listen: Callable[[Callable[[], None]], Awaitable[None]], on_listening: Callable[[], None]
) -> NoReturn:
    """Listen until cancelled. `listen` does so until it fails, and calls what it is given once
    it hears; so does this call `began`: something may have been missed before."""
    failures = 0

    def begin_listening() -> None:
        nonlocal failures
        if failures > 1:
            log.warning("Other processes are heard again")
        failures = 0
        on_listening()

    while True:
        try:
            await listen(begin_listening)
        except Exception as error:
            if failures == 1:  # Its text may hold an address, and so a password.
                cause = type(error.__cause__ or error).__name__
                log.warning("Other processes can't be heard: %s", cause)
        await asyncio.sleep(RETRY_DELAYS_SECONDS[min(failures, len(RETRY_DELAYS_SECONDS) - 1)])
        failures += 1
