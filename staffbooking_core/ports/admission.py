"""Admission: credentials and limits, shared by all processes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from attrs import frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision

T = TypeVar("T")


@frozen
class ApiKeyCaller:
    """The key that was shown, and its owner."""

    key: ApiKey
    owner: User


@frozen
class SessionCaller:
    session: Session
    user: User


class Admission(Protocol):
    """Look-ups of credentials and exact counting, shared by all processes of a deployment.

    Windows are named by scope, e.g. `general:key:7`. Requests that wait at the same moment
    may be looked up and counted together. A window's store out of reach never lets more
    through: each process then counts alone.
    """

    async def authenticate_api_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[RateLimit],
        now: datetime,
    ) -> tuple[ApiKeyCaller, Sequence[RateLimitDecision]]:
        """The caller of a key, counted in the key's window of each rule.

        Raises Unauthenticated (unknown, revoked or expired key, disabled owner) and
        Forbidden (`subscription_required`, `permission_required`), as
        `accounts.judge_key` decides; then nothing was counted. An exceeded window is in
        the verdicts, not an error."""
        ...

    async def authenticate_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        """The session and its user, unless either has ended or is disabled."""
        ...

    async def count_hit(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        """Count one hit in a window."""
        ...

    async def peek(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        """The state of a window, uncounted."""
        ...
