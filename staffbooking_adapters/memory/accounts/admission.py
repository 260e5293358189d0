"""Authentication and rate limit windows in memory. Counts are exact, since no check awaits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.domain.accounts.api_keys import Permission, start_of_hour
from staffbooking_core.domain.accounts.users import check_api_key, is_session_valid
from staffbooking_core.domain.shared import rate_limits
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision
from staffbooking_core.errors import Unauthenticated
from staffbooking_core.ports import ApiKeyCaller, SessionCaller


@frozen
class MemoryAdmission:
    """Authenticates credentials and counts requests in one step."""

    tx: MemoryTransaction

    async def authenticate_api_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[RateLimit],
        now: datetime,
    ) -> tuple[ApiKeyCaller, Sequence[RateLimitDecision]]:
        state = self.tx.state
        if (key_id := state.key_by_digest.get(digest)) is None:
            raise Unauthenticated("invalid_api_key", "The API key is not valid")
        key = state.keys[key_id]
        owner = state.users[key.owner_id]
        check_api_key(key, owner, permission, now)
        self.tx.shared.key_last_used_at[key.id] = now
        key_and_hour, calls = (key.id, start_of_hour(now)), self.tx.shared.key_calls
        calls[key_and_hour] = calls.get(key_and_hour, 0) + 1
        verdicts = [self._count_request(f"{rule.name}:key:{key.id}", rule, now) for rule in rules]
        return ApiKeyCaller(key, owner), verdicts

    async def authenticate_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        state, policy = self.tx.state, self.tx.policy
        if (session := state.sessions.get(digest)) is None:
            return None
        user = state.users[session.user_id]
        idle, lifetime = policy.session_idle, policy.session_lifetime
        signed_in = is_session_valid(session, user, now, idle_timeout=idle, lifetime=lifetime)
        return SessionCaller(session, user) if signed_in else None

    async def count_hit(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        return self._count_request(scope, rule, now)

    async def return_hit(self, scope: str, now: datetime) -> None:
        windows = self.tx.shared.rate_limit_windows
        if (window := rate_limits.return_hit(windows.get(scope), now)) is not None:
            windows[scope] = window

    async def peek(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        return rate_limits.peek(self.tx.shared.rate_limit_windows.get(scope), now, rule)

    async def peek_all(
        self, rules_by_scope: Mapping[str, RateLimit], now: datetime
    ) -> Mapping[str, RateLimitDecision]:
        windows = self.tx.shared.rate_limit_windows
        return {
            scope: rate_limits.peek(windows.get(scope), now, rule)
            for scope, rule in rules_by_scope.items()
        }

    def _count_request(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        windows = self.tx.shared.rate_limit_windows
        windows[scope], verdict = rate_limits.record_hits(windows.get(scope), now, rule)
        return verdict
