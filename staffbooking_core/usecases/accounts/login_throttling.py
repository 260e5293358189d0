"""Rate limits against password guessing and flooding, by account and network address (CONTRACT
2)."""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import normalize_email
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimitExceeded,
)
from staffbooking_core.ports import Ports


async def count_hit(ports: Ports, subject: str, rule: RateLimit) -> None:
    """Count a hit in a subject's window of a rate limit. Raises RateLimitExceeded."""
    scope = f"{rule.name}:{subject}"
    _raise_if_exceeded(await ports.admission.count_hit(scope, rule, ports.clock.wall()))


async def verify_password(
    ports: Ports, email: str, password: str, hashed: str | None, ip_address: str
) -> bool:
    """Whether a password is right. Takes the same time with and without a hash. A wrong password
    counts in the windows of the account and of the network address.

    Raises RateLimitExceeded after too many wrong ones.
    """
    await _check_login_limits(ports, email, ip_address)
    is_right = await ports.hasher.verify(password, hashed)
    if is_right:
        # Checked again: concurrent wrong tries may be counted by now.
        await _check_login_limits(ports, email, ip_address)
    else:
        await _count_failed_login(ports, email, ip_address)
    return is_right


async def _check_login_limits(ports: Ports, email: str, ip_address: str) -> None:
    now = ports.clock.wall()
    for subject, rule in _login_windows(ports, email, ip_address):
        _raise_if_exceeded(await ports.admission.peek(f"{rule.name}:{subject}", rule, now))


async def _count_failed_login(ports: Ports, email: str, ip_address: str) -> None:
    for subject, rule in _login_windows(ports, email, ip_address):
        await count_hit(ports, subject, rule)


def _login_windows(ports: Ports, email: str, ip_address: str) -> tuple[tuple[str, RateLimit], ...]:
    limits = ports.policy.limits
    return (
        (f"{ip_address}:{normalize_email(email)}", limits.login_account),
        (ip_address, limits.login_address),
    )


def _raise_if_exceeded(verdict: RateLimitDecision) -> None:
    if not verdict.allowed:
        raise RateLimitExceeded(verdict)
