"""People sign up, sign in and sign out (CONTRACT 2)."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.accounts import Session, User, fold_email, session_digest
from staffbooking_core.domain.limits import LimitExceeded, Verdict
from staffbooking_core.errors import (
    ConstraintViolated,
    Unauthenticated,
    invalid,
)
from staffbooking_core.inputs import ROLE_OF, Login, Register
from staffbooking_core.ports import EMAIL_TAKEN, NewUser, Ports, Writing


async def register(ports: Ports, new: Register) -> User:
    """Make an account; it does not sign in. Raises InvalidField where the e-mail is taken."""
    person = NewUser(
        email=new.email,
        first_name=new.first_name,
        last_name=new.last_name,
        role=ROLE_OF[new.role],
        created_at=await ports.clock.business(),
        password_hash=await ports.hasher.hash(new.password),
    )
    return await add_user(ports, person)


async def add_user(ports: Ports, person: NewUser) -> User:
    """Store a new person, whoever makes the account."""

    async def unit(tx: Writing) -> User:
        return await tx.accounts.add_user(person)

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
    await _refuse_guessing(ports, given.email, address)
    async with ports.store.reading() as view:
        user = await view.accounts.user_by_email(given.email)
    right = await ports.hasher.verify(given.password, user.password_hash if user else None)
    if user is None or not right or user.disabled_at is not None:
        await _count_failure(ports, given.email, address)
        raise Unauthenticated("bad_credentials", "The e-mail or the password is wrong")
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(session_digest(token), user.id, created_at=now, seen_at=now)

    async def unit(tx: Writing) -> None:
        await tx.accounts.add_session(session)

    await ports.store.write(unit)
    return user, token


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


def _scopes(email: str, address: str) -> tuple[str, str]:
    return f"login_account:{address}:{fold_email(email)}", f"login_address:{address}"


async def _refuse_guessing(ports: Ports, email: str, address: str) -> None:
    account, place = _scopes(email, address)
    limits, now = ports.policy.limits, ports.clock.wall()
    _must_pass(await ports.admission.look(account, limits.login_account, now))
    _must_pass(await ports.admission.look(place, limits.login_address, now))


async def _count_failure(ports: Ports, email: str, address: str) -> None:
    account, place = _scopes(email, address)
    limits, now = ports.policy.limits, ports.clock.wall()
    _must_pass(await ports.admission.hit(account, limits.login_account, now))
    _must_pass(await ports.admission.hit(place, limits.login_address, now))


def _must_pass(verdict: Verdict) -> None:
    if not verdict.allowed:
        raise LimitExceeded(verdict)
