"""Admission: credentials and limits, shared by all processes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from attrs import frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.domain.shared.rate_limits import Rule, Verdict

T = TypeVar("T")


@frozen
class KeyCaller:
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

    async def by_key(
        self,
        digest: bytes,
        permission: Permission | None,
        rules: Sequence[Rule],
        now: datetime,
    ) -> tuple[KeyCaller, Sequence[Verdict]]:
        """The caller of a key, counted in the key's window of each rule.

        Raises Unauthenticated (unknown, revoked or expired key, disabled owner) and
        Forbidden (`subscription_required`, `permission_required`), as
        `accounts.judge_key` decides; then nothing was counted. An exceeded window is in
        the verdicts, not an error."""
        ...

    async def by_session(self, digest: bytes, now: datetime) -> SessionCaller | None:
        """The session and its user, unless either has ended or is disabled."""
        ...

    async def hit(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        """Count one hit in a window."""
        ...

    async def look(self, scope: str, rule: Rule, now: datetime) -> Verdict:
        """The state of a window, uncounted."""
        ...
