"""How much of their rate limits users have used (CONTRACT 8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from attrs import frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated


@frozen
class LimitUsage:
    """The running window of a limit."""

    rule: RateLimit
    key: ApiKey | None
    """The key whose window it is; None for a window of the user."""
    used: int
    """From 0 to the limit."""
    resets_at: datetime | None
    """When the window ends; None while none runs."""


@validated
async def read_usage(ports: Ports, user: User, keys: Sequence[ApiKey]) -> Sequence[LimitUsage]:
    """The windows of these keys of the user, and the user's own of the webhook calls, in one
    look-up."""
    now, limits = ports.clock.wall(), ports.policy.limits
    windows = [(rule, key) for key in keys for rule in (limits.general, limits.bookings)]
    subjects: list[tuple[RateLimit, ApiKey | None]] = [*windows, (limits.webhooks, None)]
    scopes = [
        f"{rule.name}:user:{user.id}" if key is None else f"{rule.name}:key:{key.id}"
        for rule, key in subjects
    ]
    rules = {scope: rule for scope, (rule, _) in zip(scopes, subjects, strict=True)}
    states = await ports.admission.peek_all(rules, now)
    usage = []
    for scope, (rule, key) in zip(scopes, subjects, strict=True):
        state = states[scope]
        used = state.limit - state.remaining
        resets_at = datetime.fromtimestamp(state.reset, UTC) if used else None
        usage.append(LimitUsage(rule, key, used, resets_at))
    return usage
