"""What people do with their own accounts: passwords, sessions, the proof of their address
(CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.accounts.users import (
    Session,
    User,
    is_session_valid,
    normalize_email,
    session_public_id,
)
from staffbooking_core.domain.notifications.notifications import (
    email_verification_notification,
    password_changed_notification,
    password_reset_notification,
)
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, ForgotPassword, ResetPassword
from staffbooking_core.ports import AccountsWritePort, Ports, Transaction
from staffbooking_core.usecases.accounts import email_tokens, login_throttling
from staffbooking_core.usecases.accounts.email_tokens import TokenPurpose


async def lock_caller(accounts: AccountsWritePort, user_id: int) -> None:
    """Hold whoever makes a call until the unit of work ends: what they store is erased with
    them, or is not stored. Raises Unauthenticated where they were disabled or erased since they
    were let in."""
    held = await accounts.lock_user(user_id)
    if held is None or held.disabled_at is not None:
        raise Unauthenticated


# Passwords ------------------------------------------------------------------------------


async def change_password(
    ports: Ports, session: Session, command: ChangePassword, ip_address: str
) -> None:
    """Set another password: this session stays, all others of the user end.

    A wrong password counts as a failed login does, and looks like one: Unauthenticated, and
    after too many of them LimitExceeded.
    """
    async with ports.store.read_view() as view:
        user = await view.accounts.user(session.user_id)
    if user is None:
        raise _wrong_password()
    current, current_hash = command.current_password, user.password_hash
    if not await login_throttling.verify_password(
        ports, user.email, current, current_hash, ip_address
    ):
        raise _wrong_password()
    new_hash = await ports.hasher.hash(command.new_password)

    async def unit(tx: Transaction) -> None:
        held = await tx.accounts.lock_user(user.id)
        if held is None or held.password_hash != current_hash:
            raise _wrong_password()  # Somebody was quicker: it is not the password any more.
        await _set_password(tx, ports, held, new_hash, except_digest=session.digest)

    await ports.store.run_transaction(unit)


async def forgot_password(
    ports: Ports, command: ForgotPassword, ip_address: str, next_path: str | None = None
) -> None:
    """Have a link sent by which a password can be set, and from there to a page of this service.
    Whether there is such an account is not looked at here, so that neither the answer nor its
    time tells."""
    limits = ports.policy.limits
    await login_throttling.count_hit(ports, ip_address, limits.reset_address)
    await login_throttling.count_hit(ports, normalize_email(command.email), limits.reset_account)
    notice = password_reset_notification(command.email, next_path)
    await ports.store.run_transaction(
        lambda tx: tx.notifications.add_notifications([notice], ports.clock.wall())
    )


async def check_token(ports: Ports, purpose: TokenPurpose, token_text: str) -> None:
    """Raises RuleBroken `token_invalid` where a token is not good for that (any more)."""
    token = email_tokens.parse_token(token_text)
    async with ports.store.read_view() as view:
        found = await view.accounts.user(token.user_id)
    email_tokens.check_token(ports, purpose, token, found)


async def reset_password(ports: Ports, command: ResetPassword) -> None:
    """Set a password by the token of a mail, once: every session ends, and the address is
    known to be theirs. Raises RuleBroken `token_invalid`."""
    await check_token(ports, TokenPurpose.RESET_PASSWORD, command.token)  # Before the slow hash.
    hashed, token = (
        await ports.hasher.hash(command.password),
        email_tokens.parse_token(command.token),
    )

    async def unit(tx: Transaction) -> None:
        held = await tx.accounts.lock_user(token.user_id)
        user = email_tokens.check_token(ports, TokenPurpose.RESET_PASSWORD, token, held)
        verified_at = user.email_verified_at or ports.clock.wall()
        await _set_password(tx, ports, evolve(user, email_verified_at=verified_at), hashed)

    await ports.store.run_transaction(unit)


async def _set_password(
    tx: Transaction,
    ports: Ports,
    user: User,
    password_hash: str,
    except_digest: bytes | None = None,
) -> None:
    """Sessions were begun with the password, and end with it. API keys and the calendar feed
    were not, and stay: each has its own call, and an operator's, by which it is revoked."""
    await tx.accounts.save_user(evolve(user, password_hash=password_hash))
    await tx.accounts.end_sessions_of(user.id, except_digest)
    await tx.notifications.add_notifications(
        [password_changed_notification(user.id)], ports.clock.wall()
    )


def _wrong_password() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The current password is wrong")


# Sessions -------------------------------------------------------------------------------


async def list_sessions(ports: Ports, user: User) -> Sequence[Session]:
    """Where a user is signed in, the newest first."""
    now, policy = ports.clock.wall(), ports.policy
    async with ports.store.read_view() as view:
        found = await view.accounts.sessions_of(user.id)
    return [
        session
        for session in found
        if is_session_valid(
            session, user, now, idle_timeout=policy.session_idle, lifetime=policy.session_lifetime
        )
    ]


async def end_session(ports: Ports, user: User, name: str) -> None:
    """Sign a user out somewhere. Raises NotFound for a session that is not theirs."""
    found = [
        each for each in await list_sessions(ports, user) if session_public_id(each.digest) == name
    ]
    if not found:
        raise NotFound("Session")
    await ports.store.run_transaction(lambda tx: tx.accounts.end_session(found[0].digest))


async def end_other_sessions(ports: Ports, session: Session) -> None:
    """Sign a user out everywhere else."""
    await ports.store.run_transaction(
        lambda tx: tx.accounts.end_sessions_of(session.user_id, session.digest)
    )


# The address ----------------------------------------------------------------------------


async def send_verification(ports: Ports, user: User, ip_address: str) -> None:
    """Send the link again, not too often for a user, nor from a network address. Raises
    RuleBroken `already_verified`."""
    if user.email_verified_at is not None:
        raise RuleBroken("already_verified", "The address is confirmed already")
    limits = ports.policy.limits
    await login_throttling.count_hit(ports, ip_address, limits.verification_address)
    await login_throttling.count_hit(ports, f"user:{user.id}", limits.verification)
    notice = email_verification_notification(user.id)
    await ports.store.run_transaction(
        lambda tx: tx.notifications.add_notifications([notice], ports.clock.wall())
    )


async def verify_email(ports: Ports, token_text: str) -> User:
    """Take a token of a mail as proof of the address, once; the user as they are then. Raises
    RuleBroken `token_invalid`."""
    token = email_tokens.parse_token(token_text)

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(token.user_id)
        user = email_tokens.check_token(ports, TokenPurpose.VERIFY_EMAIL, token, held)
        verified = evolve(user, email_verified_at=ports.clock.wall())
        await tx.accounts.save_user(verified)
        return verified

    return await ports.store.run_transaction(unit)
