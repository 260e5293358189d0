"""The yardstick's check of API keys and exact rate limits, many requests in one statement.

As in the service, requests that arrive while a statement runs share the next one, a window counts
over all processes, and a revoked key is refused at once.
"""

from __future__ import annotations

import asyncio
from binascii import crc32
from collections import Counter
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil
from typing import Any, TypeAlias

import asyncpg

from staffbooking_adapters.sql.engine.postgres import CONNECT_OPTIONS, SERVER_SETTINGS
from staffbooking_core.domain.accounts.api_keys import (
    API_KEY_LENGTH,
    API_KEY_PREFIX,
    BASE62_ALPHABET,
)

RateLimitVerdict: TypeAlias = tuple[int, int, int]
"""Limit, remaining requests and end of the window, for the headers."""

_PendingAdmission: TypeAlias = tuple[str, str, asyncio.Future[Any]]

MAX_REQUESTS_PER_WINDOW = 1_000_000_000
WINDOW_PERIOD = timedelta(hours=1)
RATE_LIMIT_RULES = {"read": ("general",), "book": ("bookings", "general")}
"""The rate limits of each permission; the headers show the first."""

_DIGITS = BASE62_ALPHABET.encode()
_KEY_HEADER_PREFIX = b"Bearer " + API_KEY_PREFIX.encode()
_KEY_HEADER_LENGTH = len(b"Bearer ") + API_KEY_LENGTH

ADMIT_SQL = """
    WITH permitted AS MATERIALIZED (
        SELECT asked.digest, asked.permission, asked.rule, asked.n, k.owner_id,
            asked.rule || ':key:' || k.id AS scope
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
            AS asked (digest, permission, rule, n)
        CROSS JOIN LATERAL (
            SELECT id, owner_id, permissions FROM api_keys
            WHERE digest = asked.digest AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > $5)
            OFFSET 0
        ) AS k
        CROSS JOIN LATERAL (
            SELECT 1 FROM users
            WHERE id = k.owner_id AND disabled_at IS NULL AND (role = 'admin' OR (
                subscription = 'enterprise'
                AND (subscription_expires_at IS NULL OR subscription_expires_at > $5)
                AND strpos(k.permissions, asked.permission) > 0
            ))
            OFFSET 0
        ) AS u
    ), counted AS (
        INSERT INTO rate_windows AS w (scope, count, resets_at)
        SELECT scope, sum(n)::bigint, $6::timestamptz FROM permitted
        GROUP BY scope ORDER BY scope
        ON CONFLICT (scope) DO UPDATE SET
            count = CASE WHEN w.resets_at <= $5 THEN excluded.count
                ELSE w.count + excluded.count END,
            resets_at = CASE WHEN w.resets_at <= $5 THEN excluded.resets_at
                ELSE w.resets_at END
        RETURNING scope, count, resets_at
    )
    SELECT digest, permission, rule, owner_id, scope, count, resets_at
    FROM permitted JOIN counted USING (scope)
"""
"""OFFSET 0 makes the planner look up keys and owners one by one."""


class AdmissionRefused(Exception):
    """The request is refused; unlike the service, without a reason."""


class AdmissionGate:
    """Admits requests over one connection, since it runs one statement at a time."""

    def __init__(self) -> None:
        self.round_trips = 0
        self._waiting: list[_PendingAdmission] = []
        self._running: asyncio.Task[None] | None = None

    async def open(self, dsn: str) -> None:
        settings = SERVER_SETTINGS | {"synchronous_commit": "off"}
        options = CONNECT_OPTIONS | {"server_settings": settings}
        self._connection: Any = await asyncpg.connect(dsn, **options)
        self._statement = await self._connection.prepare(ADMIT_SQL)

    async def close(self) -> None:
        await self._connection.close()

    async def check_request(
        self, authorization: bytes, permission: str
    ) -> tuple[int, RateLimitVerdict]:
        """The owner of a key, and the state of its window after this request."""
        if not _is_valid_key(authorization):
            raise AdmissionRefused
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((sha256(authorization[7:]).hexdigest(), permission, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        found: tuple[int, RateLimitVerdict] = await answer
        return found

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await self._flush(batch)
            except Exception as error:
                for _, _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
        self._running = None

    async def _flush(self, batch: list[_PendingAdmission]) -> None:
        asked = Counter((digest, wanted) for digest, wanted, _ in batch)
        rows = [
            (digest, wanted, rule, n)
            for (digest, wanted), n in asked.items()
            for rule in RATE_LIMIT_RULES[wanted]
        ]
        now = datetime.now(UTC)
        columns = map(list, zip(*rows, strict=True))
        self.round_trips += 1
        found = await self._statement.fetch(*columns, now, now + WINDOW_PERIOD)
        stood, later = {}, Counter[str]()
        for row in found:
            stood[row[0], row[1], row[2]] = row
            later[row[4]] += asked[row[0], row[1]]
        for digest, wanted, answer in batch:
            shown = None
            for rule in RATE_LIMIT_RULES[wanted]:
                row = stood.get((digest, wanted, rule))
                if row is None or row[5] > MAX_REQUESTS_PER_WINDOW:
                    answer.set_exception(AdmissionRefused())
                    break
                later[row[4]] -= 1
                # Requests counted together still get decreasing remainders.
                left = MAX_REQUESTS_PER_WINDOW - row[5] + later[row[4]]
                shown = shown or (row[3], (MAX_REQUESTS_PER_WINDOW, left, ceil(row[6].timestamp())))
            else:
                answer.set_result(shown)


def _is_valid_key(shown: bytes) -> bool:
    if (
        len(shown) != _KEY_HEADER_LENGTH
        or not shown.startswith(_KEY_HEADER_PREFIX)
        or not shown[len(_KEY_HEADER_PREFIX) :].isalnum()
    ):
        return False
    rest, number = shown[-6:], 0
    for digit in rest:
        number = number * 62 + _DIGITS.index(digit)
    return number == crc32(shown[7:-6])
