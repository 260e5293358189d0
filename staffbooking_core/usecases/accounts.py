"""What people do with their own accounts: passwords, sessions, the proof of their address
(CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.accounts import (
    Session,
    User,
    fold_email,
    judge_session,
    session_name,
)
from staffbooking_core.domain.notices import Notice, NoticeKind
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, ForgotPassword, ResetPassword
from staffbooking_core.ports import Ports, Writing
from staffbooking_core.usecases import throttles, tokens
from staffbooking_core.usecases.tokens import Purpose

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
    if not await throttles.verify(ports, user.email, current, known, address):
        raise _wrong_password()
    hashed = await ports.hasher.hash(given.new_password)

    async def unit(tx: Writing) -> None:
        held = await tx.accounts.lock_user(user.id)
        if held is None or held.password_hash != known:
            raise _wrong_password()  # Somebody was quicker: it is not the password any more.
        await _set_password(tx, ports, held, hashed, but=session.digest)

    await ports.store.write(unit)


async def forgot_password(ports: Ports, given: ForgotPassword, address: str) -> None:
    """Have a link sent by which a password can be set. Whether there is such an account is not
    looked at here, so that neither the answer nor its time tells."""
    limits = ports.policy.limits
    await throttles.spend(ports, address, limits.reset_address)
    await throttles.spend(ports, fold_email(given.email), limits.reset_account)
    notice = Notice(
        user_id=None,
        kind=NoticeKind.RESET_PASSWORD,
        subject="Set a new password",
        text=(
            "Somebody, probably you, wants to set a new password for your account. "
            "The link can be used once, and not for long. If it was not you, do nothing: "
            "your password stays as it is."
        ),
        address=given.email,
    )
    await ports.store.write(lambda tx: tx.notices.add([notice], ports.clock.wall()))


async def check_reset(ports: Ports, text: str) -> None:
    """Raises RuleBroken `token_invalid` where a token sets no password (any more)."""
    token = tokens.read(text)
    async with ports.store.reading() as view:
        found = await view.accounts.user(token.user_id)
    tokens.check(ports, Purpose.RESET_PASSWORD, token, found)


async def reset_password(ports: Ports, given: ResetPassword) -> None:
    """Set a password by the token of a mail, once: every session ends, and the address is
    known to be theirs. Raises RuleBroken `token_invalid`."""
    await check_reset(ports, given.token)  # Before the slow hash.
    hashed, token = await ports.hasher.hash(given.password), tokens.read(given.token)

    async def unit(tx: Writing) -> None:
        held = await tx.accounts.lock_user(token.user_id)
        user = tokens.check(ports, Purpose.RESET_PASSWORD, token, held)
        verified_at = user.email_verified_at or ports.clock.wall()
        await _set_password(tx, ports, evolve(user, email_verified_at=verified_at), hashed)

    await ports.store.write(unit)


async def _set_password(
    tx: Writing, ports: Ports, user: User, hashed: str, but: bytes | None = None
) -> None:
    await tx.accounts.save_user(evolve(user, password_hash=hashed))
    await tx.accounts.end_sessions_of(user.id, but)
    notice = Notice(
        user_id=user.id,
        kind=NoticeKind.PASSWORD_CHANGED,
        subject="Your password was changed",
        text=(
            "The password of your account was changed, and whoever was signed in elsewhere "
            "is signed out. If it was not you, set a new password at once."
        ),
        link="/",
    )
    await tx.notices.add([notice], ports.clock.wall())


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


def verification(user_id: int) -> Notice:
    """What asks somebody to show that mail to their address reaches them."""
    return Notice(
        user_id=user_id,
        kind=NoticeKind.VERIFY_EMAIL,
        subject="Confirm your address",
        text="Please confirm that this is your address. The link can be used once.",
    )


async def send_verification(ports: Ports, user: User) -> None:
    """Send the link again, not too often. Raises RuleBroken `already_verified`."""
    if user.email_verified_at is not None:
        raise RuleBroken("already_verified", "The address is confirmed already")
    await throttles.spend(ports, f"user:{user.id}", ports.policy.limits.verification)
    notice = verification(user.id)
    await ports.store.write(lambda tx: tx.notices.add([notice], ports.clock.wall()))


async def check_verification(ports: Ports, text: str) -> None:
    """Raises RuleBroken `token_invalid` where a token proves nothing (any more)."""
    token = tokens.read(text)
    async with ports.store.reading() as view:
        found = await view.accounts.user(token.user_id)
    tokens.check(ports, Purpose.VERIFY_EMAIL, token, found)


async def verify_email(ports: Ports, text: str) -> User:
    """Take a token of a mail as proof of the address, once; the user as they are then. Raises
    RuleBroken `token_invalid`."""
    token = tokens.read(text)

    async def unit(tx: Writing) -> User:
        held = await tx.accounts.lock_user(token.user_id)
        user = tokens.check(ports, Purpose.VERIFY_EMAIL, token, held)
        verified = evolve(user, email_verified_at=ports.clock.wall())
        await tx.accounts.save_user(verified)
        return verified

    return await ports.store.write(unit)
