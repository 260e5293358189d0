"""What people do with their own accounts: passwords, sessions, the proof of their address
(CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.accounts.users import (
    Session,
    User,
    fold_email,
    judge_session,
    session_name,
)
from staffbooking_core.domain.notifications.notifications import (
    password_changed,
    password_forgotten,
    verification,
)
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, ForgotPassword, ResetPassword
from staffbooking_core.ports import Ports, Writing
from staffbooking_core.usecases.accounts import email_tokens, login_throttling
from staffbooking_core.usecases.accounts.email_tokens import Purpose


async def hold_caller(tx: Writing, user_id: int) -> None:
    """Hold whoever makes a call until the unit of work ends: what they store is erased with
    them, or is not stored. Raises Unauthenticated where they were disabled or erased since they
    were let in."""
    held = await tx.accounts.lock_user(user_id)
    if held is None or held.disabled_at is not None:
        raise Unauthenticated


# Passwords ------------------------------------------------------------------------------


async def change_password(
    ports: Ports, session: Session, given: ChangePassword, address: str
) -> None:
    """Set another password: this session stays, all others of the user end.

    A wrong password counts as a failed login does, and looks like one: Unauthenticated, and
    after too many of them LimitExceeded.
    """
    async with ports.store.reading() as view:
        user = await view.accounts.user(session.user_id)
    if user is None:
        raise _wrong_password()
    current, known = given.current_password, user.password_hash
    if not await login_throttling.verify(ports, user.email, current, known, address):
        raise _wrong_password()
    hashed = await ports.hasher.hash(given.new_password)

    async def unit(tx: Writing) -> None:
        held = await tx.accounts.lock_user(user.id)
        if held is None or held.password_hash != known:
            raise _wrong_password()  # Somebody was quicker: it is not the password any more.
        await _set_password(tx, ports, held, hashed, but=session.digest)

    await ports.store.write(unit)


async def forgot_password(
    ports: Ports, given: ForgotPassword, address: str, onward: str | None = None
) -> None:
    """Have a link sent by which a password can be set, and from there to a page of this service.
    Whether there is such an account is not looked at here, so that neither the answer nor its
    time tells."""
    limits = ports.policy.limits
    await login_throttling.spend(ports, address, limits.reset_address)
    await login_throttling.spend(ports, fold_email(given.email), limits.reset_account)
    notice = password_forgotten(given.email, onward)
    await ports.store.write(lambda tx: tx.notices.add([notice], ports.clock.wall()))


async def check_token(ports: Ports, purpose: Purpose, text: str) -> None:
    """Raises RuleBroken `token_invalid` where a token is not good for that (any more)."""
    token = email_tokens.read(text)
    async with ports.store.reading() as view:
        found = await view.accounts.user(token.user_id)
    email_tokens.check(ports, purpose, token, found)


async def reset_password(ports: Ports, given: ResetPassword) -> None:
    """Set a password by the token of a mail, once: every session ends, and the address is
    known to be theirs. Raises RuleBroken `token_invalid`."""
    await check_token(ports, Purpose.RESET_PASSWORD, given.token)  # Before the slow hash.
    hashed, token = await ports.hasher.hash(given.password), email_tokens.read(given.token)

    async def unit(tx: Writing) -> None:
        held = await tx.accounts.lock_user(token.user_id)
        user = email_tokens.check(ports, Purpose.RESET_PASSWORD, token, held)
        verified_at = user.email_verified_at or ports.clock.wall()
        await _set_password(tx, ports, evolve(user, email_verified_at=verified_at), hashed)

    await ports.store.write(unit)


async def _set_password(
    tx: Writing, ports: Ports, user: User, hashed: str, but: bytes | None = None
) -> None:
    """Sessions were begun with the password, and end with it. API keys and the calendar feed
    were not, and stay: each has its own call, and an operator's, by which it is revoked."""
    await tx.accounts.save_user(evolve(user, password_hash=hashed))
    await tx.accounts.end_sessions_of(user.id, but)
    await tx.notices.add([password_changed(user.id)], ports.clock.wall())


def _wrong_password() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The current password is wrong")


# Sessions -------------------------------------------------------------------------------


async def sessions(ports: Ports, user: User) -> Sequence[Session]:
    """Where a user is signed in, the newest first."""
    now, policy = ports.clock.wall(), ports.policy
    async with ports.store.reading() as view:
        found = await view.accounts.sessions_of(user.id)
    return [
        session
        for session in found
        if judge_session(
            session, user, now, idle=policy.session_idle, lifetime=policy.session_lifetime
        )
    ]


async def end_session(ports: Ports, user: User, name: str) -> None:
    """Sign a user out somewhere. Raises NotFound for a session that is not theirs."""
    found = [each for each in await sessions(ports, user) if session_name(each.digest) == name]
    if not found:
        raise NotFound("Session")
    await ports.store.write(lambda tx: tx.accounts.end_session(found[0].digest))


async def end_other_sessions(ports: Ports, session: Session) -> None:
    """Sign a user out everywhere else."""
    await ports.store.write(lambda tx: tx.accounts.end_sessions_of(session.user_id, session.digest))


# The address ----------------------------------------------------------------------------


async def send_verification(ports: Ports, user: User, address: str) -> None:
    """Send the link again, not too often for a user, nor from a network address. Raises
    RuleBroken `already_verified`."""
    if user.email_verified_at is not None:
        raise RuleBroken("already_verified", "The address is confirmed already")
    limits = ports.policy.limits
    await login_throttling.spend(ports, address, limits.verification_address)
    await login_throttling.spend(ports, f"user:{user.id}", limits.verification)
    notice = verification(user.id)
    await ports.store.write(lambda tx: tx.notices.add([notice], ports.clock.wall()))


async def verify_email(ports: Ports, text: str) -> User:
    """Take a token of a mail as proof of the address, once; the user as they are then. Raises
    RuleBroken `token_invalid`."""
    token = email_tokens.read(text)

    async def unit(tx: Writing) -> User:
        held = await tx.accounts.lock_user(token.user_id)
        user = email_tokens.check(ports, Purpose.VERIFY_EMAIL, token, held)
        verified = evolve(user, email_verified_at=ports.clock.wall())
        await tx.accounts.save_user(verified)
        return verified

    return await ports.store.write(unit)
