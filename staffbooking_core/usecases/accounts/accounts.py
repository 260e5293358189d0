"""Users' own accounts: passwords, sessions, verification of the e-mail address (CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.accounts.users import (
    Role,
    Session,
    User,
    is_session_valid,
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
from staffbooking_core.validation import validated, validated_lookup

__all__ = [
    "change_password",
    "check_token",
    "end_other_sessions",
    "end_session",
    "forgot_password",
    "get_session",
    "list_sessions",
    "lock_caller",
    "reset_password",
    "send_verification",
    "verify_email",
]


async def lock_caller(accounts: AccountsWritePort, user_id: int, role: Role) -> None:
    """Lock the user who makes a call until the transaction ends, so that an erasure or a change of
    the role either sees what the call stores, or prevents it.

    Raises Unauthenticated where the user was disabled or erased, or got another role than this,
    since authentication.
    """
    held = await accounts.lock_user(user_id)
    if held is None or held.disabled_at is not None or held.role is not role:
        raise Unauthenticated


# Passwords ------------------------------------------------------------------------------


@validated
async def change_password(
    ports: Ports, session: Session, command: ChangePassword, ip_address: str
) -> None:
    """Set a new password. This session stays, all other sessions of the user end. Locks the user.

    A wrong password counts as a failed login. Raises Unauthenticated `bad_credentials`, and
    RateLimitExceeded after too many wrong ones.
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
            raise _wrong_password()  # The password changed since it was verified.
        await _set_password(tx, ports, held, new_hash, except_digest=session.digest)

    await ports.store.run_transaction(unit)


@validated
async def forgot_password(
    ports: Ports, command: ForgotPassword, ip_address: str, next_path: str | None = None
) -> None:
    """Send a link by which the password can be set, and which leads to `next_path` afterwards.
    Whether the account exists is only looked at when the e-mail is sent, so that neither the
    response nor its timing reveals it.

    Raises RateLimitExceeded per network address and per e-mail address.
    """
    limits = ports.policy.limits
    await login_throttling.count_hit(ports, ip_address, limits.reset_address)
    subject = login_throttling.email_subject(ports, command.email)
    await login_throttling.count_hit(ports, subject, limits.reset_account)
    notice = password_reset_notification(command.email, next_path)
    await ports.store.run_transaction(
        lambda tx: tx.notifications.add_notifications([notice], ports.clock.wall())
    )


@validated
async def check_token(ports: Ports, purpose: TokenPurpose, token_text: str) -> None:
    """Check that an e-mail token is valid for a purpose. Raises RuleBroken `token_invalid`."""
    token = email_tokens.parse_token(token_text)
    async with ports.store.read_view() as view:
        found = await view.accounts.user(token.user_id)
    email_tokens.check_token(ports, purpose, token, found)


@validated
async def reset_password(ports: Ports, command: ResetPassword) -> None:
    """Set a password with the token of an e-mail, once. All sessions end, and the address counts as
    verified. Locks the user.

    Raises RuleBroken `token_invalid`.
    """
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
    """Save a password and end the sessions, which were begun with the old one. API keys and the
    calendar feed do not depend on it and stay; each is revoked by its own call."""
    await tx.accounts.save_user(evolve(user, password_hash=password_hash))
    await tx.accounts.end_sessions_of(user.id, except_digest)
    await tx.notifications.add_notifications(
        [password_changed_notification(user.id)], ports.clock.wall()
    )


def _wrong_password() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The current password is wrong")


# Sessions -------------------------------------------------------------------------------


@validated
async def list_sessions(ports: Ports, user: User) -> Sequence[Session]:
    """The valid sessions of a user, the newest first."""
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


@validated_lookup("Session")
async def get_session(ports: Ports, user: User, name: str) -> Session:
    """A valid session of a user by its public id. Raises NotFound for a session of somebody
    else."""
    for session in await list_sessions(ports, user):
        if session_public_id(session.digest) == name:
            return session
    raise NotFound("Session")


@validated_lookup("Session")
async def end_session(ports: Ports, user: User, name: str) -> None:
    """End one session of a user by its public id. Raises NotFound for a session of somebody
    else."""
    session = await get_session(ports, user, name)
    await ports.store.run_transaction(lambda tx: tx.accounts.end_session(session.digest))


@validated
async def end_other_sessions(ports: Ports, session: Session) -> None:
    """End all sessions of a user but this one."""
    await ports.store.run_transaction(
        lambda tx: tx.accounts.end_sessions_of(session.user_id, session.digest)
    )


# The address ----------------------------------------------------------------------------


@validated
async def send_verification(ports: Ports, user: User, ip_address: str) -> None:
    """Send the verification link again.

    Raises RuleBroken `already_verified`, and RateLimitExceeded per network address and per user.
    """
    if user.email_verified_at is not None:
        raise RuleBroken("already_verified", "The address is confirmed already")
    limits = ports.policy.limits
    await login_throttling.count_hit(ports, ip_address, limits.verification_address)
    await login_throttling.count_hit(ports, f"user:{user.id}", limits.verification)
    notice = email_verification_notification(user.id)
    await ports.store.run_transaction(
        lambda tx: tx.notifications.add_notifications([notice], ports.clock.wall())
    )


@validated
async def verify_email(ports: Ports, token_text: str) -> User:
    """Verify the address with the token of an e-mail, once; returns the updated user. Locks the
    user.

    Raises RuleBroken `token_invalid`.
    """
    token = email_tokens.parse_token(token_text)

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(token.user_id)
        user = email_tokens.check_token(ports, TokenPurpose.VERIFY_EMAIL, token, held)
        verified = evolve(user, email_verified_at=ports.clock.wall())
        await tx.accounts.save_user(verified)
        return verified

    return await ports.store.run_transaction(unit)
