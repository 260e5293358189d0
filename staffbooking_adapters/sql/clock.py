"""The clock of the database's server, which all processes of a deployment share (CONTRACT 10)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic, time

from sqlalchemy import func, select

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.system import SystemClock
from staffbooking_core.domain.shared.clock_skew import find_clock_fault, format_skew
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.policy import Policy

_log = logging.getLogger("staffbooking.clock")
_security_log = logging.getLogger("staffbooking.security")

_GET_TIME = Statement(postgresql=select(func.clock_timestamp()))

CHECK_INTERVAL_SECONDS = 1.0
"""Seconds between comparisons with this machine's clock, and between tries to measure while the
database is out of reach."""
_MEASURE_TIMEOUT_SECONDS = 2.0
_MAX_MISSED_MEASUREMENTS = 3
"""A measurement counts until this many later ones have failed."""


class DatabaseClock(SystemClock):
    """Wall time is that of the database's server, as measured every `Policy.clock_check_interval`.

    A measurement takes the middle of the round trip as the moment of the server's reading. Between
    measurements the monotonic clock counts, so that a change of this machine's clock changes
    nothing but `skew`, which shows it at once. Before the first measurement wall time is this
    machine's, and the skew unknown; it is unknown again after _MAX_MISSED_MEASUREMENTS, since the
    monotonic clock may stand still while a machine sleeps.
    """

    def __init__(self, database: Database, policy: Policy) -> None:
        self._database = database
        self._max_skew = policy.max_clock_skew
        self._interval_seconds = policy.clock_check_interval.total_seconds()
        self._offset: float | None = None
        """Seconds from the monotonic clock to the server's Unix time."""
        self._measured_at = 0.0
        """Monotonic time of the last measurement."""
        self._fault: str | None = None
        """The fault that was logged last, until it is over."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Measure now if the database is in reach, and keep measuring until `close`."""
        with suppress(StoreUnavailable):
            await self.measure()
            _log.info("%s", format_skew(self.skew() or timedelta()))
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wall(self) -> datetime:
        if self._offset is None:
            return super().wall()
        return datetime.fromtimestamp(monotonic() + self._offset, UTC)

    def skew(self) -> timedelta | None:
        now = monotonic()
        max_age = self._interval_seconds * _MAX_MISSED_MEASUREMENTS
        if self._offset is None or not 0 <= now - self._measured_at <= max_age:
            return None
        return timedelta(seconds=time() - (now + self._offset))

    async def measure(self) -> None:
        """Compare this machine's clocks with the server's. Raises StoreUnavailable."""
        with DatabaseTime(_MEASURE_TIMEOUT_SECONDS):
            # A transaction, so that no wait for a connection is part of the round trip.
            self._offset = await self._database.run_transaction(_read_offset)
        self._measured_at = monotonic()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            try:
                if self._is_measurement_due():
                    await self.measure()
            except StoreUnavailable as error:
                _log.debug("the database's clock can't be read: %s", error.reason)
            except Exception:
                _log.exception("the database's clock can't be read")
            self._log_changes()

    def _is_measurement_due(self) -> bool:
        age = monotonic() - self._measured_at
        return self._offset is None or not 0 <= age < self._interval_seconds

    def _log_changes(self) -> None:
        fault = find_clock_fault(self.skew(), self._max_skew)
        if fault is not None and self._fault is None:
            _security_log.error("clock_wrong", extra={"reason": fault})
        elif fault is None and self._fault is not None:
            _security_log.warning("clock_right")
        self._fault = fault


async def _read_offset(connection: Connection) -> float:
    before = monotonic()
    server_time: datetime = await connection.fetch_value(_GET_TIME)
    return server_time.timestamp() - (before + monotonic()) / 2
