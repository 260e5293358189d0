"""The readiness check, shared by the callers of the same moment (CONTRACT 10)."""

import asyncio
import logging

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import health

_log = logging.getLogger("staffbooking.http")

_CHECK_TIMEOUT_SECONDS = 1.5
"""Database time of one check; every caller has its answer within two seconds."""


class ReadinessCheck:
    """Runs one check at a time. Callers that arrive during a check share its result."""

    def __init__(self) -> None:
        self._running_check: asyncio.Task[StoreUnavailable | None] | None = None

    async def run(self, ports: Ports) -> StoreUnavailable | None:
        """Why the service can't work, or None if it can."""
        if self._running_check is None or self._running_check.done():
            self._running_check = asyncio.create_task(_find_problem(ports))
        # A caller that disconnects does not cancel the check of the others.
        return await asyncio.shield(self._running_check)


async def _find_problem(ports: Ports) -> StoreUnavailable | None:
    try:
        with DatabaseTime(_CHECK_TIMEOUT_SECONDS):
            await health.check_readiness(ports)
    except StoreUnavailable as error:
        return error
    except Exception:
        _log.exception("the readiness check failed")
        return StoreUnavailable("the check failed")
    return None
