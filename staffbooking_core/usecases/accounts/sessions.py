"""People sign up, sign in and sign out (CONTRACT 2)."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.accounts.users import Session, User, session_digest
from staffbooking_core.domain.notifications.notifications import verification
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import (
    ConstraintViolated,
    Unauthenticated,
    invalid,
)
from staffbooking_core.inputs import ROLE_OF, Login, Register
from staffbooking_core.ports import EMAIL_TAKEN, NewUser, Ports, Writing
from staffbooking_core.usecases.accounts import login_throttling


async def may_ask(ports: Ports, address: str) -> bool:
    """Count one who registers from a network address: whether a mail may ask them for the proof
    of their e-mail, or too many were sent already for that address."""
    try:
        await login_throttling.spend(ports, address, ports.policy.limits.register_address)
    except LimitExceeded:
        return False
    return True


async def register(ports: Ports, new: Register, *, verifies: bool = True) -> User:
    """Make an account, and ask for the proof of its e-mail, unless it is left to them to want
    the mail once they are signed in; it does not sign in. Raises InvalidField where the e-mail
    is taken."""
    person = NewUser(
        email=new.email,
        first_name=new.first_name,
        last_name=new.last_name,
        role=ROLE_OF[new.role],
        created_at=await ports.clock.business(),
        password_hash=await ports.hasher.hash(new.password),
    )
    return await add_user(ports, person, verifies=verifies)


async def add_user(ports: Ports, person: NewUser, *, verifies: bool = False) -> User:
    """Store a new person, whoever makes the account; who `verifies` is asked to confirm the
    address."""

    async def unit(tx: Writing) -> User:
        user = await tx.accounts.add_user(person)
        if verifies:
            await tx.notices.add([verification(user.id)], ports.clock.wall())
        return user

    try:
        return await ports.store.write(unit)
    except ConstraintViolated as error:
        if error.constraint != EMAIL_TAKEN:
            raise
        raise invalid("email", "is registered already") from None


async def login(ports: Ports, given: Login, address: str) -> tuple[User, str]:
    """Sign in: the user, and the token of a fresh session, told this once.

    An unknown e-mail, a wrong password and a disabled account look and cost the same.
    After too many failures from an address the answer is LimitExceeded (CONTRACT 2).
    """
    async with ports.store.reading() as view:
        user = await view.accounts.user_by_email(given.email)
    hashed = None if user is None or user.disabled_at is not None else user.password_hash
    right = await login_throttling.verify(ports, given.email, given.password, hashed, address)
    if user is None or not right:
        raise _bad_credentials()
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(session_digest(token), user.id, created_at=now, seen_at=now)

    async def unit(tx: Writing) -> User:
        held = await tx.accounts.lock_user(user.id)
        if held is None or held.password_hash != hashed or held.disabled_at is not None:
            raise _bad_credentials()  # It changed meanwhile, and all sessions ended.
        await tx.accounts.add_session(session)
        return held

    return await ports.store.write(unit), token


def _bad_credentials() -> Unauthenticated:
    return Unauthenticated("bad_credentials", "The e-mail or the password is wrong")


async def logout(ports: Ports, digest: bytes) -> None:
    """End a session; nothing happens where it has ended already."""

    async def unit(tx: Writing) -> None:
        await tx.accounts.end_session(digest)

    await ports.store.write(unit)


async def touch(ports: Ports, session: Session) -> Session:
    """Keep a session that is in use from idling out; written at most every few minutes. The
    session as it is then."""
    now = ports.clock.wall()
    if now - session.seen_at < ports.policy.session_idle / 100:
        return session

    async def unit(tx: Writing) -> None:
        await tx.accounts.touch_session(session.digest, now)

    await ports.store.write(unit)
    return evolve(session, seen_at=now)
