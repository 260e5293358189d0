"""Keeps a subscription to other processes alive by reconnecting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

log = logging.getLogger("staffbooking.listening")

RETRY_DELAYS_SECONDS = (0.1, 1.0, 5.0)
"""Seconds before each reconnect; the last value repeats."""


async def keep_listening(
    listen: Callable[[Callable[[], None]], Awaitable[None]], on_listening: Callable[[], None]
) -> NoReturn:
    """Call `listen` again whenever it ends, until cancelled.

    `listen` runs until it fails and calls its argument once it is subscribed; each time
    `on_listening` is called, since notifications may have been missed before.
    """
    failures = 0

    def begin_listening() -> None:
        nonlocal failures
        if failures > 1:
            log.warning("Subscription to other processes restored")
        failures = 0
        on_listening()

    while True:
        try:
            await listen(begin_listening)
        except Exception as error:
            if failures == 1:
                # Log only the type: the text may hold a URL with a password.
                cause = type(error.__cause__ or error).__name__
                log.warning("Subscription to other processes failed: %s", cause)
        await asyncio.sleep(RETRY_DELAYS_SECONDS[min(failures, len(RETRY_DELAYS_SECONDS) - 1)])
        failures += 1
