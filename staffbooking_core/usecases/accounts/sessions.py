"""Registration, login and logout (CONTRACT 2)."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.accounts.devices import SignInOrigin
from staffbooking_core.domain.accounts.users import Session, User, hash_session_token
from staffbooking_core.domain.notifications.notifications import email_verification_notification
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import (
    ConstraintViolated,
    NotFound,
    StoreUnavailable,
    Unauthenticated,
    invalid_field,
)
from staffbooking_core.inputs import ROLE_BY_REGISTRATION_ROLE, Login, Register
from staffbooking_core.ports import EMAIL_TAKEN, NewUser, Ports, Transaction
from staffbooking_core.usecases.accounts import login_throttling
from staffbooking_core.validation import validated

__all__ = [
    "add_user",
    "login",
    "logout",
    "may_send_verification",
    "register_user",
    "start_session",
    "touch_session",
]


@validated
async def may_send_verification(ports: Ports, ip_address: str) -> bool:
    """Count a registration from a network address; returns whether a verification e-mail may be
    sent for it, or the address has used up its limit."""
    try:
        await login_throttling.count_hit(ports, ip_address, ports.policy.limits.register_address)
    except RateLimitExceeded:
        return False
    return True


@validated
async def register_user(ports: Ports, command: Register, *, asks_verification: bool = True) -> User:
    """Create an account, with a verification e-mail unless `asks_verification` is False. Does not
    log in.

    Raises InvalidField on `email` where it is taken.
    """
    person = NewUser(
        email=command.email,
        first_name=command.first_name,
        last_name=command.last_name,
        role=ROLE_BY_REGISTRATION_ROLE[command.role],
        created_at=await ports.clock.business(),
        password_hash=await ports.hasher.hash(command.password),
    )
    return await add_user(ports, person, asks_verification=asks_verification)


@validated
async def add_user(ports: Ports, person: NewUser, *, asks_verification: bool = False) -> User:
    """Store a new user, with a verification e-mail if `asks_verification`.

    Raises InvalidField on `email` where it is taken.
    """

    async def unit(tx: Transaction) -> User:
        user = await tx.accounts.add_user(person)
        if asks_verification:
            await tx.notifications.add_notifications(
                [email_verification_notification(user.id)], ports.clock.wall()
            )
        return user

    try:
        return await ports.store.run_transaction(unit)
    except ConstraintViolated as error:
        if error.constraint != EMAIL_TAKEN:
            raise
        raise invalid_field("email", "is registered already") from None


_UNKNOWN_ORIGIN = SignInOrigin()


@validated
async def login(
    ports: Ports, command: Login, ip_address: str, origin: SignInOrigin = _UNKNOWN_ORIGIN
) -> tuple[User, str]:
    """Log in; returns the user, and the token of a new session, which is not stored in plaintext.
    The session keeps its `origin`, by which its user recognizes it; without one it has none.

    An unknown e-mail address, a wrong password and a disabled account give the same error after the
    same time. Raises Unauthenticated `bad_credentials`, and RateLimitExceeded after too many
    failures (CONTRACT 2). Locks the user to add the session.
    """
    async with ports.store.read_view() as view:
        user = await view.accounts.user_by_email(command.email)
    hashed = None if user is None or user.disabled_at is not None else user.password_hash
    is_right = await login_throttling.verify_password(
        ports, command.email, command.password, hashed, ip_address
    )
    if user is None or not is_right:
        raise _bad_credentials()
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(
        *(hash_session_token(token), user.id, now, now),
        browser=origin.browser,
        system=origin.system,
        network=origin.network,
    )

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(user.id)
        if held is None or held.password_hash != hashed or held.disabled_at is not None:
            raise _bad_credentials()  # The password changed since it was verified.
        await tx.accounts.add_session(session)
        digest = login_throttling.login_address_digest(ports, ip_address)
        await tx.accounts.add_login_address(user.id, digest, now)
        return held

    return await ports.store.run_transaction(unit), token


def _bad_credentials() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The e-mail or the password is wrong")


@validated
async def start_session(ports: Ports, user_id: int) -> tuple[User, str]:
    """Start a session of a user whom the caller knows already; returns the user, and the token of
    the session. Raises NotFound, also for a disabled user."""
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(hash_session_token(token), user_id, created_at=now, seen_at=now)

    async def unit(tx: Transaction) -> User:
        held = await tx.accounts.lock_user(user_id)
        if held is None or held.disabled_at is not None:
            raise NotFound("Account")
        await tx.accounts.add_session(session)
        return held

    return await ports.store.run_transaction(unit), token


@validated
async def logout(ports: Ports, digest: bytes) -> None:
    """End a session; nothing happens where it has ended."""

    async def unit(tx: Transaction) -> None:
        await tx.accounts.end_session(digest)

    await ports.store.run_transaction(unit)


@validated
async def touch_session(ports: Ports, session: Session) -> Session:
    """Keep a used session from idling out; returns it as it is then. Written at most once per
    hundredth of the idle timeout. Where the store takes no changes, the session stays as it is:
    reading goes on."""
    now = ports.clock.wall()
    if now - session.seen_at < ports.policy.session_idle / 100:
        return session

    async def unit(tx: Transaction) -> None:
        await tx.accounts.touch_session(session.digest, now)

    try:
        await ports.store.run_transaction(unit)
    except StoreUnavailable:
        return session
    return evolve(session, seen_at=now)
