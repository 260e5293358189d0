"""Windows that stand against guessing and flooding, whoever asks (CONTRACT 2)."""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import fold_email
from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Rule, Verdict
from staffbooking_core.ports import Ports


async def spend(ports: Ports, whose: str, rule: Rule) -> None:
    """Count one in somebody's window of a rule. Raises LimitExceeded where it is spent."""
    scope = f"{rule.name}:{whose}"
    _must_pass(await ports.admission.hit(scope, rule, ports.clock.wall()))


async def verify(ports: Ports, email: str, password: str, hashed: str | None, address: str) -> bool:
    """Whether a password is right, which takes the same time whether there is a hash or not.
    Raises LimitExceeded after too many wrong ones for an account, or from an address."""
    await _refuse_guessing(ports, email, address)
    right = await ports.hasher.verify(password, hashed)
    if right:
        await _refuse_guessing(ports, email, address)  # Wrong ones may have ended meanwhile.
    else:
        await _count_failure(ports, email, address)
    return right


async def _refuse_guessing(ports: Ports, email: str, address: str) -> None:
    now = ports.clock.wall()
    for whose, rule in _windows(ports, email, address):
        _must_pass(await ports.admission.look(f"{rule.name}:{whose}", rule, now))


async def _count_failure(ports: Ports, email: str, address: str) -> None:
    for whose, rule in _windows(ports, email, address):
        await spend(ports, whose, rule)


def _windows(ports: Ports, email: str, address: str) -> tuple[tuple[str, Rule], ...]:
    limits = ports.policy.limits
    return (
        (f"{address}:{fold_email(email)}", limits.login_account),
        (address, limits.login_address),
    )


def _must_pass(verdict: Verdict) -> None:
    if not verdict.allowed:
        raise LimitExceeded(verdict)
