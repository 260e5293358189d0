"""Users' own accounts: passwords, sessions, verification of addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.memory.doubles import PlainHasher, RecordingNotifier, VirtualClock
from staffbooking_adapters.testing.builders import (
    NOW,
    POLICY,
    SECOND,
    add_session,
    add_user,
    make_lease,
)
from staffbooking_core.domain.accounts.users import Session, User, session_public_id
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import (
    ChangePassword,
    ForgotPassword,
    Login,
    Register,
    RegistrationRole,
    ResetPassword,
)
from staffbooking_core.ports import Email, Ports, Transaction
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts, administration, sessions
from staffbooking_core.usecases.accounts.email_tokens import TokenPurpose
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.notifications import notifications
from tests.support.hashers import CountingHasher, SlowHasher
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

OLD, NEW = "correct horse", "battery staple"
HERE = "203.0.113.9"


@pytest.fixture
def hasher() -> CountingHasher:
    return CountingHasher()


@pytest.fixture
def ports(hasher: CountingHasher) -> Ports:
    return memory_ports(hasher=hasher)


@pytest.fixture
async def ada(ports: Ports) -> User:
    return await add_user(ports.store, email="ada@example.com", password_hash=f"plain:{OLD}")


def clock(ports: Ports) -> VirtualClock:
    assert isinstance(ports.clock, VirtualClock)
    return ports.clock


async def letters(ports: Ports, kind: NotificationKind) -> list[Email]:
    """The sent e-mails of a kind."""
    await notifications.send_notifications(ports)
    assert isinstance(ports.notifier, RecordingNotifier)
    return [letter for letter in ports.notifier.emails if letter.kind is kind]


async def token_of(ports: Ports, kind: NotificationKind) -> str:
    """The token of the last e-mail of a kind."""
    return ((await letters(ports, kind))[-1].url or "").rpartition("/")[2]


async def found(ports: Ports, user: User) -> User:
    async with ports.store.read_view() as view:
        now = await view.accounts.user(user.id)
    assert now is not None
    return now


async def change(ports: Ports, user: User, **fields: object) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.accounts.save_user(evolve(user, **fields))  # type: ignore[arg-type]

    await ports.store.run_transaction(unit)


async def can_sign_in(ports: Ports, password: str) -> bool:
    try:
        await sessions.login(ports, Login(email="ada@example.com", password=password), "elsewhere")
    except Unauthenticated:
        return False
    return True


async def open_sessions(ports: Ports, user: User) -> list[str]:
    return [session_public_id(each.digest) for each in await accounts.list_sessions(ports, user)]


def changing(current: str = OLD) -> ChangePassword:
    return ChangePassword(current_password=current, new_password=NEW)


# Passwords --------------------------------------------------------------------------------


async def test_a_password_is_changed(ports: Ports, ada: User) -> None:
    """A password change keeps this session, ends the user's others, and notifies the user."""
    here = await add_session(ports.store, ada.id)
    await add_session(ports.store, ada.id)
    sam = await add_user(ports.store)
    await add_session(ports.store, sam.id)
    await accounts.change_password(ports, here, changing(), HERE)
    assert await open_sessions(ports, ada) == [session_public_id(here.digest)]
    assert len(await open_sessions(ports, sam)) == 1
    assert [await can_sign_in(ports, each) for each in (OLD, NEW)] == [False, True]
    [letter] = await letters(ports, NotificationKind.PASSWORD_CHANGED)
    assert (letter.to, letter.unsubscribe_url) == ("ada@example.com", None)


async def test_a_wrong_password_changes_nothing(ports: Ports, ada: User) -> None:
    """A wrong current password fails like a login and sends no e-mail."""
    here = await add_session(ports.store, ada.id)
    await add_session(ports.store, ada.id)
    with pytest.raises(Unauthenticated) as raised:
        await accounts.change_password(ports, here, changing("wrong"), HERE)
    assert raised.value.code == "bad_credentials"
    assert await can_sign_in(ports, OLD)
    assert len(await open_sessions(ports, ada)) == 3
    assert await letters(ports, NotificationKind.PASSWORD_CHANGED) == []


async def test_passwords_are_not_guessed_at(ports: Ports, ada: User) -> None:
    """Wrong current passwords count as failed logins."""
    here = await add_session(ports.store, ada.id)
    for _ in range(9):
        with pytest.raises(Unauthenticated):
            await accounts.change_password(ports, here, changing("wrong"), HERE)
    with pytest.raises(Unauthenticated):
        await sessions.login(ports, Login(email="ADA@example.com", password="wrong"), HERE)
    with pytest.raises(RateLimitExceeded):
        await accounts.change_password(ports, here, changing(), HERE)
    await accounts.change_password(ports, here, changing(), "198.51.100.1")


async def test_of_two_changes_at_once_one_counts(ports: Ports, ada: User) -> None:
    """Of two concurrent changes the second fails, since the password is no longer current."""
    here = await add_session(ports.store, ada.id)

    class Slow(PlainHasher):
        async def hash(self, password: str) -> str:
            await accounts.change_password(ports, here, changing(), HERE)
            return "plain:late and lost"

    with pytest.raises(Unauthenticated):
        await accounts.change_password(evolve(ports, hasher=Slow()), here, changing(), HERE)
    assert await can_sign_in(ports, NEW)


async def guess_by_login(ports: Ports, ada: User) -> None:
    await sessions.login(ports, Login(email=ada.email, password=OLD), HERE)


async def guess_by_change(ports: Ports, ada: User) -> None:
    here = await add_session(ports.store, ada.id)
    await accounts.change_password(ports, here, changing(), HERE)


async def guess_by_erasure(ports: Ports, ada: User) -> None:
    await privacy.erase_own_account(ports, ada.id, OLD, HERE)


@pytest.mark.parametrize("guess", [guess_by_login, guess_by_change, guess_by_erasure])
async def test_guesses_at_once_are_no_way_around_the_limit(
    ports: Ports, ada: User, guess: Callable[[Ports, User], Awaitable[None]]
) -> None:
    """The right password is refused where ten concurrent wrong ones finished before it."""

    async def guess_wrong() -> None:
        for _ in range(10):
            with pytest.raises(Unauthenticated):
                await sessions.login(ports, Login(email=ada.email, password="wrong"), HERE)

    with pytest.raises(RateLimitExceeded):
        await guess(evolve(ports, hasher=SlowHasher(guess_wrong)), ada)
    assert await found(ports, ada) == ada


async def forget(ports: Ports, email: str = "ada@example.com", address: str = HERE) -> None:
    await accounts.forgot_password(ports, ForgotPassword(email=email), address)


async def reset(ports: Ports, token: str, password: str = NEW) -> None:
    await accounts.reset_password(ports, ResetPassword(token=token, password=password))


async def test_a_forgotten_password_is_set_anew(ports: Ports, ada: User) -> None:
    """A reset ends every session, notifies the user and verifies the address."""
    await add_session(ports.store, ada.id)
    await forget(ports, "ADA@Example.com")
    token = await token_of(ports, NotificationKind.RESET_PASSWORD)
    await accounts.check_token(ports, TokenPurpose.RESET_PASSWORD, token)
    await reset(ports, token)
    assert await open_sessions(ports, ada) == []
    assert [await can_sign_in(ports, each) for each in (OLD, NEW)] == [False, True]
    assert len(await letters(ports, NotificationKind.PASSWORD_CHANGED)) == 1
    assert (await found(ports, ada)).email_verified_at == NOW


async def test_a_login_under_way_does_not_outlive_its_password(ports: Ports, ada: User) -> None:
    """A login during a password change fails."""
    await forget(ports)
    token = await token_of(ports, NotificationKind.RESET_PASSWORD)
    late = evolve(ports, hasher=SlowHasher(lambda: reset(ports, token)))
    with pytest.raises(Unauthenticated) as raised:
        await sessions.login(late, Login(email=ada.email, password=OLD), HERE)
    assert raised.value.code == "bad_credentials"
    assert await open_sessions(ports, ada) == []


async def test_a_login_under_way_does_not_outlive_its_account(ports: Ports, ada: User) -> None:
    """A login of a user who is disabled meanwhile fails."""

    async def disable() -> None:
        await disabling.disable_user(ports, ada.email)

    with pytest.raises(Unauthenticated):
        await guess_by_login(evolve(ports, hasher=SlowHasher(disable)), ada)
    await administration.enable_user(ports, ada.email)
    assert await open_sessions(ports, ada) == []


async def refused(ports: Ports, token: str) -> None:
    with pytest.raises(RuleBroken) as raised:
        await reset(ports, token)
    assert raised.value.code == "token_invalid"


async def test_a_link_sets_one_password(ports: Ports, ada: User, hasher: CountingHasher) -> None:
    """A used or earlier token is refused before the password is hashed."""
    await forget(ports)
    first = await token_of(ports, NotificationKind.RESET_PASSWORD)
    clock(ports).advance(SECOND)
    await forget(ports)
    second = await token_of(ports, NotificationKind.RESET_PASSWORD)
    assert first != second
    await reset(ports, second)
    hashed = hasher.hashed
    for token in (first, second):
        await refused(ports, token)
    assert hasher.hashed == hashed


async def test_a_link_ends_with_its_time(ports: Ports, ada: User) -> None:
    """A token is invalid after its expiry, another password change, or disabling."""
    await forget(ports)
    token = await token_of(ports, NotificationKind.RESET_PASSWORD)
    await change(ports, ada, disabled_at=NOW)
    await refused(ports, token)
    await change(ports, ada, password_hash="plain:another one")
    await refused(ports, token)
    await change(ports, ada)
    clock(ports).advance(POLICY.reset_lifetime - SECOND)
    await accounts.check_token(ports, TokenPurpose.RESET_PASSWORD, token)
    clock(ports).advance(SECOND)
    await refused(ports, token)


async def test_a_link_is_for_nobody_else(ports: Ports, ada: User) -> None:
    """A token with another user, expiry, purpose or signature is invalid."""
    sam = await add_user(ports.store)
    await forget(ports)
    token = await token_of(ports, NotificationKind.RESET_PASSWORD)
    number, until, signature = token.split(".")
    await accounts.send_verification(ports, ada, HERE)
    other = await token_of(ports, NotificationKind.VERIFY_EMAIL)
    for forged in (
        f"{sam.id}.{until}.{signature}",
        f"{number}.{int(until) + 3600}.{signature}",
        f"404.{until}.{signature}",
        f"{number}.{until}.{signature[::-1]}",
        other,
        "\N{DIGIT ONE}.1.1",
    ):
        await refused(ports, forged)


async def test_a_reset_request_does_not_reveal_users(ports: Ports, ada: User) -> None:
    """A reset request behaves the same for an unknown address, which gets no e-mail."""
    await forget(ports, "nobody@example.com")
    await forget(ports, "ada@example.com")
    [letter] = await letters(ports, NotificationKind.RESET_PASSWORD)
    assert letter.to == "ada@example.com"


async def test_nobody_is_flooded_with_links(ports: Ports, ada: User) -> None:
    """Reset links are limited to three an hour per address, existing or not."""
    for email in ("ada@example.com", "nobody@example.com"):
        for number in range(3):
            await forget(ports, email, f"198.51.100.{number}")
        with pytest.raises(RateLimitExceeded):
            await forget(ports, email.upper(), "198.51.100.9")


async def test_an_address_asks_for_so_many_links(ports: Ports) -> None:
    """Reset links are limited to twenty an hour per network address."""
    for number in range(20):
        await forget(ports, f"user{number}@example.com")
    with pytest.raises(RateLimitExceeded):
        await forget(ports, "another@example.com")


# Sessions ---------------------------------------------------------------------------------


async def signed_in(ports: Ports, user: User, ago: timedelta = timedelta()) -> Session:
    return await add_session(ports.store, user.id, created_at=NOW - ago, seen_at=NOW - ago)


async def test_sessions_are_listed(ports: Ports, ada: User) -> None:
    """Valid sessions of the user are listed, the newest first."""
    old = await signed_in(ports, ada, POLICY.session_idle - SECOND)
    new = await signed_in(ports, ada)
    await signed_in(ports, ada, POLICY.session_idle)
    await signed_in(ports, await add_user(ports.store))
    assert list(await accounts.list_sessions(ports, ada)) == [new, old]


async def test_another_session_is_ended(ports: Ports, ada: User) -> None:
    """A user ends an own session by its public id."""
    one, other = await signed_in(ports, ada), await signed_in(ports, ada)
    theirs = await signed_in(ports, await add_user(ports.store))
    for name in (session_public_id(theirs.digest), one.digest.hex(), "", "nothing"):
        with pytest.raises(NotFound):
            await accounts.end_session(ports, ada, name)
    await accounts.end_session(ports, ada, session_public_id(one.digest))
    assert await open_sessions(ports, ada) == [session_public_id(other.digest)]
    with pytest.raises(NotFound):
        await accounts.end_session(ports, ada, session_public_id(one.digest))


async def test_all_other_sessions_are_ended(ports: Ports, ada: User) -> None:
    """Ending other sessions keeps this one."""
    here = await signed_in(ports, ada)
    for _ in "ab":
        await signed_in(ports, ada)
    await accounts.end_other_sessions(ports, here)
    assert await open_sessions(ports, ada) == [session_public_id(here.digest)]


# Verification of the address --------------------------------------------------------------


async def register(ports: Ports) -> User:
    new = Register(
        email="new@example.com",
        password=OLD,
        first_name="Ada",
        last_name="Okoro",
        role=RegistrationRole.CUSTOMER,
    )
    return await sessions.register_user(ports, new)


async def test_who_registers_is_asked_for_a_proof(ports: Ports) -> None:
    """Registration sends a verification e-mail, whose link works once."""
    user = await register(ports)
    assert user.email_verified_at is None
    token = await token_of(ports, NotificationKind.VERIFY_EMAIL)
    await accounts.check_token(ports, TokenPurpose.VERIFY_EMAIL, token)
    verified = await accounts.verify_email(ports, token)
    assert verified == await found(ports, user)
    assert verified.email_verified_at == NOW
    for used in (
        accounts.verify_email(ports, token),
        accounts.check_token(ports, TokenPurpose.VERIFY_EMAIL, token),
    ):
        with pytest.raises(RuleBroken) as raised:
            await used
        assert raised.value.code == "token_invalid"


async def test_a_proof_is_of_the_address_it_was_sent_to(ports: Ports) -> None:
    """A token for a previous address, or an expired one, is invalid."""
    user = await register(ports)
    token = await token_of(ports, NotificationKind.VERIFY_EMAIL)
    await change(ports, user, email="other@example.com")
    with pytest.raises(RuleBroken):
        await accounts.verify_email(ports, token)
    await change(ports, user)
    clock(ports).advance(POLICY.verification_lifetime)
    with pytest.raises(RuleBroken):
        await accounts.verify_email(ports, token)
    assert (await found(ports, user)).email_verified_at is None


async def test_the_proof_is_asked_for_again(ports: Ports, ada: User) -> None:
    """Verification e-mails are limited to three an hour, and refused once verified."""
    for _ in range(3):
        await accounts.send_verification(ports, ada, HERE)
    with pytest.raises(RateLimitExceeded):
        await accounts.send_verification(ports, ada, HERE)
    assert len(await letters(ports, NotificationKind.VERIFY_EMAIL)) == 3
    with pytest.raises(RuleBroken) as raised:
        await accounts.send_verification(ports, evolve(ada, email_verified_at=NOW), HERE)
    assert raised.value.code == "already_verified"


async def test_from_one_address_the_proof_is_asked_for_seldom(ports: Ports) -> None:
    """Verification e-mails are limited per network address over all users."""
    rule = POLICY.limits.verification_address
    users = [await add_user(ports.store) for _ in range(rule.limit + 1)]
    for user in users[:-1]:
        await accounts.send_verification(ports, user, HERE)
    with pytest.raises(RateLimitExceeded):
        await accounts.send_verification(ports, users[-1], HERE)
    await accounts.send_verification(ports, users[-1], "198.51.100.7")


async def test_who_has_proved_it_is_not_asked(ports: Ports, ada: User) -> None:
    """A verified user gets no pending verification e-mail."""
    await accounts.send_verification(ports, ada, HERE)
    await change(ports, ada, email_verified_at=NOW)
    assert await letters(ports, NotificationKind.VERIFY_EMAIL) == []


async def test_no_token_is_ever_stored(ports: Ports, ada: User) -> None:
    """Stored notifications have no link; tokens are made when they are sent."""
    await forget(ports)
    await accounts.send_verification(ports, ada, HERE)
    lease = make_lease()
    stored = await ports.store.run_transaction(
        lambda tx: tx.notifications.claim_notifications(NOW, lease, 10)
    )
    assert [due.notification.link for due in stored] == [None, None]
