"""How much of their rate limits users have used (CONTRACT 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.api_keys import ApiKey, start_of_hour
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated

__all__ = ["HourOfCalls", "LimitUsage", "read_calls", "read_usage"]


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


@frozen
class HourOfCalls:
    """The requests of some keys in one hour."""

    starts_at: datetime
    calls: Mapping[int, int]
    """The number of requests by key; keys without any are left out."""

    @property
    def total(self) -> int:
        """The number of all calls."""
        return sum(self.calls.values())


@validated
async def read_calls(ports: Ports, keys: Sequence[ApiKey]) -> Sequence[HourOfCalls]:
    """The requests of these keys in each of the last 24 hours, the running one last."""
    first = start_of_hour(ports.clock.wall()) - timedelta(hours=_SHOWN_HOURS - 1)
    async with ports.store.read_view() as view:
        found = await view.accounts.api_key_calls([key.id for key in keys], first)
    hours = [first + timedelta(hours=number) for number in range(_SHOWN_HOURS)]
    return [
        HourOfCalls(hour, {key.id: found[key.id, hour] for key in keys if (key.id, hour) in found})
        for hour in hours
    ]


_SHOWN_HOURS = 24


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
