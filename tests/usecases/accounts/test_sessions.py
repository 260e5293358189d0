"""Registration, login and logout, with limits against guessing."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.accounts.users import Role, Subscription, hash_session_token
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidField, Unauthenticated
from staffbooking_core.inputs import Login, Register, RegistrationRole
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.notifications import notifications

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"
EMAIL = "ada@example.com"
HERE, THERE = "192.0.2.1", "192.0.2.2"


async def register(scene, email=EMAIL, address=HERE, **given):
    fields = {"password": PASSWORD, "first_name": "Ada", "last_name": "Okoro"}
    new = Register(**{**fields, "role": RegistrationRole.CUSTOMER, **given}, email=email)
    may_ask = await sessions.may_send_verification(scene.ports, address)
    return await sessions.register_user(scene.ports, new, asks_verification=may_ask)


async def login(scene, email=EMAIL, password=PASSWORD, address=HERE):
    return await sessions.login(scene.ports, Login(email=email, password=password), address)


async def fails(scene, times, **given):
    """The errors of a number of login attempts."""
    ends = []
    for _ in range(times):
        try:
            await login(scene, **given)
        except (Unauthenticated, RateLimitExceeded) as error:
            ends.append(error.code)
        else:
            ends.append("in")
    return ends


async def is_in(scene, token):
    digest = hash_session_token(token)
    return (
        await scene.ports.admission.authenticate_session(digest, scene.ports.clock.wall())
        is not None
    )


@pytest.mark.parametrize("role", list(RegistrationRole))
async def test_anybody_registers_as_customer_or_staff(scene, role):
    """Registration needs no subscription and does not log in."""
    user = await register(scene, role=role)
    assert (user.role, user.subscription) == (Role(role), Subscription.NONE)
    assert user.password_hash != PASSWORD


@pytest.mark.parametrize("email", [EMAIL, "ADA@Example.Com"])
async def test_an_email_is_registered_once(scene, email):
    """An e-mail address can be registered once, in any case."""
    await register(scene)
    with pytest.raises(InvalidField) as caught:
        await register(scene, email)
    assert [fault.field for fault in caught.value.field_errors] == ["email"]


async def test_who_registers_many_has_few_mails_sent(scene):
    """Accounts beyond the limit of a network address are created without a verification e-mail."""
    rule = scene.ports.policy.limits.register_address
    for n in range(rule.limit + 2):
        await register(scene, f"new{n}@example.com")
    await register(scene, "elsewhere@example.com", THERE)
    scene.ports.clock.advance(rule.window)
    await register(scene, "later@example.com")
    await notifications.send_notifications(scene.ports, 100)
    told = [letter.to for letter in scene.ports.notifier.emails]
    assert told == [
        *(f"new{n}@example.com" for n in range(rule.limit)),
        "elsewhere@example.com",
        "later@example.com",
    ]


async def test_who_has_registered_signs_in(scene):
    """Login accepts the address in any case and gives a new token each time."""
    user = await register(scene)
    found, first = await login(scene, "Ada@EXAMPLE.com")
    _, second = await login(scene)
    assert found == user
    assert first != second
    assert await is_in(scene, first)


async def test_a_session_ends_with_the_logout(scene):
    """Logout ends only its session, and may be repeated."""
    await register(scene)
    (_, first), (_, second) = await login(scene), await login(scene)
    for _ in range(2):
        await sessions.logout(scene.ports, hash_session_token(first))
    assert (await is_in(scene, first), await is_in(scene, second)) == (False, True)


async def test_every_wrong_login_looks_the_same(scene):
    """Unknown address, wrong password, disabled account and missing password give the same
    error."""
    await register(scene)
    await register(scene, "closed@example.com")
    await disabling.disable_user(scene.ports, "closed@example.com")
    await administration.create_user(
        scene.ports,
        administration.CreateUser(
            email="no@example.com", first_name="N", last_name="O", role=Role.STAFF
        ),
    )
    said = set()
    for email, password in (
        ("nobody@example.com", PASSWORD),
        (EMAIL, "wrong"),
        ("closed@example.com", PASSWORD),
        ("no@example.com", ""),
        ("", ""),
        ("x" * 1000, "y" * 1000),
    ):
        with pytest.raises(Unauthenticated) as caught:
            await login(scene, email, password)
        said.add((caught.value.code, caught.value.message))
    assert said == {("bad_credentials", "The e-mail or the password is wrong")}


async def test_an_unknown_address_costs_the_same_work(scene, monkeypatch):
    """A password is always verified, so that the time reveals nothing."""
    seen = []
    real = scene.ports.hasher.verify

    async def verify(password, hashed):
        seen.append(hashed)
        return await real(password, hashed)

    monkeypatch.setattr(scene.ports.hasher, "verify", verify)
    assert await fails(scene, 1, email="nobody@example.com") == ["bad_credentials"]
    assert seen == [None]


@pytest.mark.parametrize("email", [EMAIL, "nobody@example.com"])
async def test_the_eleventh_wrong_try_has_to_wait(scene, email):
    """Ten failures in 15 minutes are allowed per account and network address."""
    await register(scene)
    ends = await fails(scene, 12, email=email, password="wrong")
    assert ends == ["bad_credentials"] * 10 + ["rate_limited"] * 2


async def test_the_right_password_waits_too(scene):
    """The right password is refused over the limit, and works from another address."""
    await register(scene)
    await fails(scene, 10, password="wrong")
    assert await fails(scene, 1) == ["rate_limited"]
    assert await fails(scene, 1, address=THERE) == ["in"]


async def test_case_makes_no_other_account_to_guess_at(scene):
    """All spellings of an address share a window."""
    await fails(scene, 10, email="ada@example.com", password="wrong")
    assert await fails(scene, 1, email="ADA@example.com", password="wrong") == ["rate_limited"]


async def test_a_window_ends(scene):
    """A window ends 15 minutes after its first failure."""
    await register(scene)
    await fails(scene, 10, password="wrong")
    scene.pass_time(15 * MINUTE - SECOND)
    with pytest.raises(RateLimitExceeded) as caught:
        await login(scene)
    assert caught.value.decision.retry_after == 1
    scene.pass_time(SECOND)
    assert await fails(scene, 1) == ["in"]


async def test_an_address_has_fifty_tries_over_all_accounts(scene):
    """A network address has fifty failures over all accounts."""
    await register(scene)
    for number in range(10):
        await fails(scene, 5, email=f"user{number}@example.com", password="wrong")
    assert await fails(scene, 1) == ["rate_limited"]
    assert await fails(scene, 1, address=THERE) == ["in"]


async def guess_from_many_networks(scene, times, email=EMAIL):
    """Wrong passwords for one e-mail, each from another address."""
    return [
        (
            await fails(
                scene, 1, email=email, password="wrong", address=f"198.51.{n // 250}.{n % 250}"
            )
        )
        for n in range(times)
    ]


@pytest.mark.parametrize("email", [EMAIL, "nobody@example.com"])
async def test_a_hundred_failures_close_an_email_to_unknown_addresses(scene, email):
    """After 100 failures from many networks, right and wrong passwords of an e-mail get the same
    error, registered or not."""
    await register(scene)
    ends = await guess_from_many_networks(scene, 102, email)
    assert ends == [["bad_credentials"]] * 100 + [["rate_limited"]] * 2
    assert await fails(scene, 1, email=email, address=THERE) == ["rate_limited"]


async def test_a_closed_email_opens_to_addresses_of_earlier_logins(scene):
    """The owner of a closed e-mail logs in from an address that they have used before."""
    await register(scene)
    await login(scene)
    await guess_from_many_networks(scene, 100)
    assert await fails(scene, 1) == ["in"]
    assert await fails(scene, 1, address=THERE) == ["rate_limited"]


async def test_a_closed_email_opens_24_hours_after_the_first_failure(scene):
    """The window of an e-mail ends 24 hours after its first failure, and refused tries do not
    extend it."""
    await register(scene)
    await guess_from_many_networks(scene, 100)
    scene.pass_time(DAY - SECOND)
    assert await fails(scene, 1, address=THERE) == ["rate_limited"]
    scene.pass_time(SECOND)
    assert await fails(scene, 1, address=THERE) == ["in"]


async def test_the_owner_of_a_closed_email_is_notified_once(scene):
    """The owner gets one mail when the e-mail is closed; an e-mail without a user gets none."""
    user = await register(scene)
    await notifications.send_notifications(scene.ports)
    for email in (EMAIL, "nobody@example.com"):
        await guess_from_many_networks(scene, 110, email)
    await notifications.send_notifications(scene.ports)
    sent = [mail for mail in scene.ports.notifier.emails if mail.kind == "login_closed"]
    assert [mail.user_id for mail in sent] == [user.id]


async def test_right_logins_cost_nothing(scene):
    """Successful logins are not counted."""
    await register(scene)
    assert await fails(scene, 60) == ["in"] * 60


async def test_a_session_in_use_does_not_idle_out(scene):
    """A used session lasts until its seventh day."""
    await register(scene)
    _, token = await login(scene)
    for _ in range(13):
        scene.pass_time(11 * HOUR)
        caller = await scene.ports.admission.authenticate_session(
            hash_session_token(token), scene.ports.clock.wall()
        )
        await sessions.touch_session(scene.ports, caller.session)
        assert await is_in(scene, token)
    scene.pass_time(7 * DAY - 13 * 11 * HOUR - SECOND)
    scene.pass_time(SECOND)
    assert not await is_in(scene, token)


async def test_a_session_unused_for_twelve_hours_is_gone(scene):
    """An unused session ends after twelve hours."""
    await register(scene)
    _, token = await login(scene)
    scene.pass_time(12 * HOUR - SECOND)
    assert await is_in(scene, token)
    scene.pass_time(SECOND)
    assert not await is_in(scene, token)


async def test_a_touch_is_written_now_and_then(scene, monkeypatch):
    """A touch is not written for every request."""
    await register(scene)
    _, token = await login(scene)
    digest = hash_session_token(token)

    async def session():
        async with scene.ports.store.read_view() as view:
            return (await view.accounts.session(digest))[0]

    first = await session()
    scene.pass_time(7 * MINUTE)
    await sessions.touch_session(scene.ports, first)
    assert await session() == first
    scene.pass_time(MINUTE)
    await sessions.touch_session(scene.ports, first)
    assert (await session()).seen_at == scene.ports.clock.wall()
