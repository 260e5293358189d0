"""Admission: authenticates requests and counts their rate limit hits in batches.

1. Requests that arrive while a batch runs are collected for the next one.
2. The API keys of a batch are looked up. On PostgreSQL the same statement checks them and
   counts all hits, so its check must agree with `check_api_key`.
3. `check_api_key` checks each key and chooses the error for a refused request.
4. On SQLite the hits of the accepted requests are counted in a second database file.
5. Each request gets its own decision: hits counted together are numbered in request order.

If the lookup fails with `StoreUnavailable`, requests with an API key get that error and hits
without a key are counted in this process. If only the count fails, all hits are counted in
this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import define, field

from staffbooking_adapters.batcher import Batcher
from staffbooking_adapters.sql.accounts import rate_limits as accounts_rate_limits
from staffbooking_adapters.sql.accounts.api_key_usage import ApiKeyUsageRecorder
from staffbooking_adapters.sql.accounts.api_keys import (
    find_callers,
    find_callers_and_count_hits,
)
from staffbooking_adapters.sql.accounts.rate_limits import HitCount
from staffbooking_adapters.sql.accounts.store import (
    GET_SESSION,
    SESSION_COLUMNS,
    to_session,
    to_user,
)
from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import check_api_key, is_session_valid
from staffbooking_core.domain.shared import rate_limits as shared_rate_limits
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimitWindow,
)
from staffbooking_core.errors import StaffbookingError, StoreUnavailable, Unauthenticated
from staffbooking_core.policy import Policy
from staffbooking_core.ports import ApiKeyCaller, SessionCaller

MAX_BATCH_SIZE = 500
"""Maximum number of requests in one batch."""
MAX_LOCAL_WINDOWS = 10_000
"""Number of in-process windows above which ended ones are removed."""


@define(eq=False)
class _AdmissionRequest:
    """An API key and its required permission or, without a digest, a scope to count a hit in."""

    digest: str
    permission: Permission | None
    scope: str
    rules: tuple[RateLimit, ...]
    now: datetime


_AdmissionResult: TypeAlias = tuple[ApiKeyCaller | None, list[RateLimitDecision]]
_JudgedRequest: TypeAlias = tuple[
    _AdmissionRequest, ApiKeyCaller | StaffbookingError | None, Sequence[str]
]
"""A request with its caller, None if it has no key, or the error that refuses it; and the scopes in
which it counts."""


@define
class SqlAdmission:
    """Authenticates callers and counts rate limit hits, many requests per statement."""

    database: Database
    counter_database: Database
    """Stores the rate limit windows; on PostgreSQL also the API keys."""
    policy: Policy
    key_usage: ApiKeyUsageRecorder
    _batcher: Batcher[_AdmissionRequest, _AdmissionResult] = field(init=False)
    _local_windows: dict[str, RateLimitWindow] = field(factory=dict, init=False)
    """Windows counted in this process while the counter database is unavailable."""

    def __attrs_post_init__(self) -> None:
        self._batcher = Batcher(self._admit_batch, max_batch_size=MAX_BATCH_SIZE)

    async def authenticate_api_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[RateLimit],
        now: datetime,
    ) -> tuple[ApiKeyCaller, Sequence[RateLimitDecision]]:
        request = _AdmissionRequest(digest.hex(), permission, "", tuple(rules), now)
        caller, verdicts = await self._batcher.submit(request)
        assert caller is not None
        self.key_usage.record(caller.key.id, now)
        return caller, verdicts

    async def authenticate_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        row = await self.database.fetch_one(GET_SESSION, session=digest.hex())
        if row is None:
            return None
        session, user = to_session(row), to_user(row[len(SESSION_COLUMNS) :])
        idle, lifetime = self.policy.session_idle, self.policy.session_lifetime
        signed_in = is_session_valid(session, user, now, idle_timeout=idle, lifetime=lifetime)
        return SessionCaller(session, user) if signed_in else None

    async def count_hit(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        _, (verdict,) = await self._batcher.submit(_AdmissionRequest("", None, scope, (rule,), now))
        return verdict

    async def return_hit(self, scope: str, now: datetime) -> None:
        try:
            await self.counter_database.execute(
                accounts_rate_limits.RETURN_HIT, window=scope, now=now
            )
        except StoreUnavailable:
            window = shared_rate_limits.return_hit(self._local_windows.get(scope), now)
            if window is not None:
                self._local_windows[scope] = window

    async def peek(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        try:
            window = await accounts_rate_limits.find_window(self.counter_database, scope)
        except StoreUnavailable:
            window = self._local_windows.get(scope)
        return shared_rate_limits.peek(window, now, rule)

    async def peek_all(
        self, rules_by_scope: Mapping[str, RateLimit], now: datetime
    ) -> Mapping[str, RateLimitDecision]:
        windows: Mapping[str, RateLimitWindow]
        try:
            windows = await accounts_rate_limits.find_windows(self.counter_database, rules_by_scope)
        except StoreUnavailable:
            windows = self._local_windows
        return {
            scope: shared_rate_limits.peek(windows.get(scope), now, rule)
            for scope, rule in rules_by_scope.items()
        }

    async def close(self) -> None:
        await self._batcher.close()
        await self.key_usage.close()

    async def _admit_batch(
        self, requests: Sequence[_AdmissionRequest]
    ) -> Sequence[_AdmissionResult | StaffbookingError]:
        now = max(request.now for request in requests)
        windows_by_scope: Mapping[str, RateLimitWindow] | None
        judged: list[_JudgedRequest]
        try:
            callers, windows_by_scope = await self._find_callers(requests, now)
        except StoreUnavailable as error:
            judged = [
                (request, error, ()) if request.digest else _count_without_key(request)
                for request in requests
            ]
            windows_by_scope = self._count_locally(_collect_hits(judged), now)
        else:
            judged = [_judge(request, callers, now) for request in requests]
        if windows_by_scope is None:
            windows_by_scope = await self._count_hits(_collect_hits(judged), now)
        return _decide(judged, windows_by_scope)

    async def _find_callers(
        self, requests: Sequence[_AdmissionRequest], now: datetime
    ) -> tuple[dict[str, ApiKeyCaller], dict[str, RateLimitWindow] | None]:
        """Callers by digest and, on PostgreSQL, the windows after counting."""
        digests = {request.digest for request in requests if request.digest}
        if self._counts_separately:
            return (await find_callers(self.database, digests) if digests else {}), None
        return await find_callers_and_count_hits(
            self.counter_database,
            digests,
            [
                (request.digest, request.permission, rule)
                for request in requests
                if request.digest
                for rule in request.rules
            ],
            _collect_hits(_count_without_key(each) for each in requests if not each.digest),
            now,
        )

    @property
    def _counts_separately(self) -> bool:
        return self.database.dialect == "sqlite"

    async def _count_hits(
        self, hits: Mapping[str, HitCount], now: datetime
    ) -> dict[str, RateLimitWindow]:
        if not hits:
            return {}
        try:
            return await accounts_rate_limits.count_hits(self.counter_database, hits, now)
        except StoreUnavailable:
            return self._count_locally(hits, now)

    def _count_locally(
        self, hits: Mapping[str, HitCount], now: datetime
    ) -> dict[str, RateLimitWindow]:
        if len(self._local_windows) > MAX_LOCAL_WINDOWS:
            kept = self._local_windows.items()
            self._local_windows = {
                scope: window for scope, window in kept if now < window.resets_at
            }
        for scope, hit in hits.items():
            self._local_windows[scope], _ = shared_rate_limits.record_hits(
                self._local_windows.get(scope), now, hit.rule, hit.count
            )
        return {scope: self._local_windows[scope] for scope in hits}


def _judge(
    request: _AdmissionRequest, callers: Mapping[str, ApiKeyCaller], now: datetime
) -> _JudgedRequest:
    if not request.digest:
        return _count_without_key(request)
    caller = callers.get(request.digest)
    if caller is None:
        return request, Unauthenticated("invalid_api_key", "The API key is not valid"), ()
    try:
        check_api_key(caller.key, caller.owner, request.permission, now)
    except StaffbookingError as error:
        return request, error, ()
    return request, caller, [f"{rule.name}:key:{caller.key.id}" for rule in request.rules]


def _count_without_key(request: _AdmissionRequest) -> _JudgedRequest:
    return request, None, [request.scope]


def _collect_hits(judged: Iterable[_JudgedRequest]) -> dict[str, HitCount]:
    """The hits of accepted requests by scope. Scopes are sorted, so that all processes lock
    their rows in the same order."""
    hits: dict[str, HitCount] = {}
    for request, caller, scopes in judged:
        if isinstance(caller, StaffbookingError):
            continue
        for scope, rule in zip(scopes, request.rules, strict=True):
            earlier = hits.get(scope)
            hits[scope] = HitCount(rule, 1 if earlier is None else earlier.count + 1)
    return dict(sorted(hits.items()))


def _decide(
    judged: Sequence[_JudgedRequest], windows_by_scope: Mapping[str, RateLimitWindow]
) -> Sequence[_AdmissionResult | StaffbookingError]:
    """The result of each request; hits counted together are decided one by one."""
    results: list[_AdmissionResult | StaffbookingError] = []
    later_hits: dict[str, int] = {}
    """The hits of the batch after the one that is decided, by scope."""
    for request, caller, scopes in reversed(judged):
        if isinstance(caller, StaffbookingError):
            results.append(caller)
            continue
        decisions = []
        for scope, rule in zip(scopes, request.rules, strict=True):
            later = later_hits.get(scope, 0)
            later_hits[scope] = later + 1
            window = windows_by_scope[scope]
            decisions.append(
                shared_rate_limits.decide(rule, window.count - later, window.resets_at, request.now)
            )
        results.append((caller, decisions))
    return results[::-1]
