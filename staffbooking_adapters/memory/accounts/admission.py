"""Credentials and windows of requests in memory: exact, since nothing runs in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import Place
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import judge_key, judge_session
from staffbooking_core.domain.shared import rate_limits
from staffbooking_core.domain.shared.rate_limits import Rule, Verdict
from staffbooking_core.errors import Unauthenticated
from staffbooking_core.ports import KeyCaller, SessionCaller


@frozen
class MemoryAdmission:
    place: Place

    async def by_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[Rule],
        now: datetime,
    ) -> tuple[KeyCaller, Sequence[Verdict]]:
        state = self.place.state
        if (number := state.key_by_digest.get(digest)) is None:
            raise Unauthenticated("invalid_api_key", "The API key is not valid")
        key = state.keys[number]
        owner = state.users[key.owner_id]
        judge_key(key, owner, permission, now)
        self.place.shared.keys_used_at[key.id] = now
        verdicts = [self._count(f"{rule.name}:key:{key.id}", rule, now) for rule in rules]
        return KeyCaller(key, owner), verdicts

    async def by_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        state, policy = self.place.state, self.place.policy
        if (session := state.sessions.get(digest)) is None:
            return None
        user = state.users[session.user_id]
        idle, lifetime = policy.session_idle, policy.session_lifetime
        signed_in = judge_session(session, user, now, idle=idle, lifetime=lifetime)
        return SessionCaller(session, user) if signed_in else None

    async def hit(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        return self._count(scope, rule, now)

    async def look(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        return rate_limits.look(self.place.shared.windows.get(scope), now, rule)

    def _count(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        windows = self.place.shared.windows
        windows[scope], verdict = rate_limits.hit(windows.get(scope), now, rule)
        return verdict
