"""Admission: credentials and rate limits, shared by all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from attrs import field, frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Actor, Session, User
from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitDecision

__all__ = ["Admission", "ApiKeyCaller", "SessionCaller"]

T = TypeVar("T")


@frozen
class ApiKeyCaller:
    """The API key of a request, and its owner."""

    key: ApiKey
    owner: User
    actor: Actor = field(init=False, eq=False, repr=False)
    """The owner as an actor with this key. An adapter may return the same caller again, so that it
    is made once."""

    @actor.default
    def _make_actor(self) -> Actor:
        return Actor(self.owner.id, self.owner.role, self.key.id)


@frozen
class SessionCaller:
    """The session of a request, and its user."""

    session: Session
    user: User


class Admission(Protocol):
    """Lookups of credentials and exact counting, shared by all processes of a deployment.

    Rate-limit windows are named by scope, e.g. `general:key:7`. Concurrent requests may be looked
    up and counted together. Where the windows' store is unreachable, each process counts alone: a
    request over the limit is never let through because of that. `now` is wall time.
    """

    async def authenticate_api_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[RateLimit],
        now: datetime,
    ) -> tuple[ApiKeyCaller, Sequence[RateLimitDecision]]:
        """The caller of an API key, counted in the key's window of each rule. An exceeded window is
        in the decisions, and raises nothing.

        Raises Unauthenticated (unknown, revoked or expired key, disabled owner) and Forbidden
        (`subscription_required`, `permission_required`), as `check_api_key` decides; then nothing
        is counted.
        """
        ...

    async def authenticate_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        """The session of a digest with its user; None where it has expired or its user is
        disabled."""
        ...

    async def count_hit(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        """Count one hit in a window."""
        ...

    async def return_hit(self, scope: str, now: datetime) -> None:
        """Take one counted hit back from a running window: what it was counted for did not
        happen."""
        ...

    async def peek(self, scope: str, rule: RateLimit, now: datetime) -> RateLimitDecision:
        """The state of a window, without counting a hit."""
        ...

    async def peek_all(
        self, rules_by_scope: Mapping[str, RateLimit], now: datetime
    ) -> Mapping[str, RateLimitDecision]:
        """The state of several windows, by scope, in one look-up."""
        ...
