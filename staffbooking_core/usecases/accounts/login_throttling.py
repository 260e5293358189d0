"""Rate limits against password guessing and flooding, by account and network address (CONTRACT
2, 10).

1. Wrong passwords count per account and address, per address, and per e-mail.
2. A used-up window of the first two refuses the login, whether the password is right or wrong.
3. A used-up window of an e-mail refuses logins from addresses from which its user has never logged
   in. Its owner is notified once. An e-mail without a user is treated in the same way.

E-mails and addresses are stored as keyed digests.
"""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import normalize_email
from staffbooking_core.domain.notifications.notifications import login_closed_notification
from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimitExceeded,
)
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated


@validated
async def count_hit(ports: Ports, subject: str, rule: RateLimit) -> None:
    """Count a hit in a subject's window of a rate limit. Raises RateLimitExceeded."""
    scope = f"{rule.name}:{subject}"
    _raise_if_exceeded(await ports.admission.count_hit(scope, rule, ports.clock.wall()))


@validated
async def verify_password(
    ports: Ports, email: str, password: str, hashed: str | None, ip_address: str
) -> bool:
    """Whether a password is right. Takes the same time with and without a hash. A wrong password
    counts in the windows of the account, the network address and the e-mail.

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
    rule = ports.policy.limits.login_email
    verdict = await ports.admission.peek(f"{rule.name}:{email_subject(ports, email)}", rule, now)
    if not verdict.allowed:
        async with ports.store.read_view() as view:
            digest = login_address_digest(ports, ip_address)
            is_known = await view.accounts.has_logged_in_from(email, digest)
        if not is_known:
            raise RateLimitExceeded(verdict)


async def _count_failed_login(ports: Ports, email: str, ip_address: str) -> None:
    for subject, rule in _login_windows(ports, email, ip_address):
        await count_hit(ports, subject, rule)
    rule = ports.policy.limits.login_email
    scope = f"{rule.name}:{email_subject(ports, email)}"
    verdict = await ports.admission.count_hit(scope, rule, ports.clock.wall())
    if verdict.allowed and verdict.remaining == 0:
        await _notify_owner(ports, email)


async def _notify_owner(ports: Ports, email: str) -> None:
    closed_for = ports.policy.limits.login_email.window

    async def unit(tx: Transaction) -> None:
        if (user := await tx.accounts.user_by_email(email)) is not None:
            notification = login_closed_notification(user.id, closed_for)
            await tx.notifications.add_notifications([notification], ports.clock.wall())

    await ports.store.run_transaction(unit)


def _login_windows(ports: Ports, email: str, ip_address: str) -> tuple[tuple[str, RateLimit], ...]:
    limits = ports.policy.limits
    return (
        (f"{ip_address}:{email_subject(ports, email)}", limits.login_account),
        (ip_address, limits.login_address),
    )


def email_subject(ports: Ports, email: str) -> str:
    """The subject of an e-mail's windows: a keyed digest, so that no window keeps an address that
    was erased."""
    return ports.vault.sign("rate-limit-email", normalize_email(email).encode()).hex()


def login_address_digest(ports: Ports, ip_address: str) -> bytes:
    """The keyed digest of a network address, as known addresses of users are stored."""
    return ports.vault.sign("login-address", ip_address.encode())


def _raise_if_exceeded(verdict: RateLimitDecision) -> None:
    if not verdict.allowed:
        raise RateLimitExceeded(verdict)
