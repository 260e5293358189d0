"""Rate limits of HTTP calls: subjects, counting and response headers (CONTRACT 8)."""

from collections.abc import Sequence

from staffbooking_core.domain.shared import rate_limits
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimitExceeded,
)
from staffbooking_core.errors import StoreUnavailable
from staffbooking_http.api.addresses import client_address_key
from staffbooking_http.api.endpoint import Call, Header

_ADDRESS_WINDOW_PREFIX = "general:addr:"
_RATE_LIMIT_HEADER_NAMES = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-reset")


def headers(verdict: RateLimitDecision) -> tuple[Header, Header, Header]:
    """The three rate limit headers of a response (SPECIFICATION 8)."""
    limit, remaining, reset = _RATE_LIMIT_HEADER_NAMES
    return (
        (limit, b"%d" % verdict.limit),
        (remaining, b"%d" % verdict.remaining),
        (reset, b"%d" % verdict.reset),
    )


async def count(call: Call, subject: str) -> None:
    """Count the call for a user or an address. Raises RateLimitExceeded if a limit is reached."""
    verdicts = [await _count_hit(call, f"{rule.name}:{subject}", rule) for rule in call.rules]
    apply_verdicts(call, verdicts, call.rules)


async def count_user(call: Call, user_id: int) -> None:
    """Count the call for a user. Raises RateLimitExceeded if a limit is reached."""
    await count(call, user_subject(user_id))


async def reserve(call: Call, rule: RateLimit, subject: str) -> str:
    """Count the call in the window of a rule; returns the window's key for `return_reserved`.
    Raises RateLimitExceeded, and then has counted nothing."""
    window_key = f"{rule.name}:{subject}"
    verdict = await _count_hit(call, window_key, rule)
    if not verdict.allowed:
        await return_reserved(call, window_key)
        raise RateLimitExceeded(verdict, rule)
    return window_key


async def return_reserved(call: Call, window_key: str) -> None:
    """Uncount a reserved call that made nothing: of what a page's form makes, only what succeeds
    spends the window of its kind (CONTRACT 8)."""
    await call.ports.admission.return_hit(window_key, call.now)


async def count_address(call: Call) -> None:
    """Count the call in the general window of the client's address. Raises RateLimitExceeded."""
    rule = call.ports.policy.limits.general
    apply_verdicts(call, [await _count_hit(call, _general_window_key(call), rule)], [rule])


async def _count_hit(call: Call, window_key: str, rule: RateLimit) -> RateLimitDecision:
    verdict = await call.ports.admission.count_hit(window_key, rule, call.now)
    if window_key.startswith(_ADDRESS_WINDOW_PREFIX):
        call.site.address_verdicts.add(window_key, verdict)
    return verdict


def user_subject(user_id: int) -> str:
    """The rate limit subject of a user."""
    return f"user:{user_id}"


def address_subject(call: Call) -> str:
    """The rate limit subject of a caller without credentials."""
    return f"addr:{client_address_key(call)}"


def apply_verdicts(
    call: Call, verdicts: Sequence[RateLimitDecision], rules: Sequence[RateLimit]
) -> None:
    """Set the call's verdict to the first decision, that of the most specific limit. Raises
    RateLimitExceeded if any of the limits, one for each decision, is exceeded."""
    call.verdict = verdicts[0]
    for verdict, rule in zip(verdicts, rules, strict=True):
        if not verdict.allowed:
            raise RateLimitExceeded(verdict, rule)


async def peek_verdict(call: Call) -> RateLimitDecision:
    """The decision shown in the response headers of a call that was refused before it was counted,
    without a hit: of the caller's most specific window, or the general one of the address."""
    if call.subject is None:
        rule, window_key = call.ports.policy.limits.general, _general_window_key(call)
    else:
        rule = call.rules[0]
        window_key = f"{rule.name}:{call.subject}"
    try:
        return await call.ports.admission.peek(window_key, rule, call.now)
    except StoreUnavailable:  # Headers must not fail the response.
        return rate_limits.peek(None, call.now, rule)


def unmatched_verdict(call: Call) -> RateLimitDecision:
    """The decision shown where no endpoint matches: the general window of the address, as this
    process knows it. The store is not asked (CONTRACT 10)."""
    known = call.site.address_verdicts.find(_general_window_key(call), call.now)
    return known or rate_limits.peek(None, call.now, call.ports.policy.limits.general)


def _general_window_key(call: Call) -> str:
    return f"general:{address_subject(call)}"
