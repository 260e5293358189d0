"""Administration of accounts by operators."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import DAY, NOW, add_user
from staffbooking_core.domain.accounts.users import Role, Subscription, hash_session_token
from staffbooking_core.errors import InvalidField, NotFound, Unauthenticated
from staffbooking_core.inputs import Login
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.accounts.administration import CreateUser
from staffbooking_core.usecases.bookings import disabling

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery"


async def create(scene, email="ada@example.com", **given):
    fields = {"first_name": "Ada", "last_name": "Okoro", "role": Role.CUSTOMER}
    return await administration.create_user(
        scene.ports, CreateUser(**{**fields, **given}, email=email)
    )


async def login(scene, email="ada@example.com", password=PASSWORD):
    return await sessions.login(scene.ports, Login(email=email, password=password), "::1")


async def listed(scene, companion_id):
    async with scene.ports.store.read_view() as view:
        return (await view.companions.companion(companion_id)).is_listed


async def test_an_account_of_any_role_is_made(scene):
    """An account of any role is created with a subscription, and its password works."""
    user = await create(
        scene, role=Role.ADMIN, subscription=Subscription.ENTERPRISE, password=PASSWORD
    )
    assert (user.role, user.subscription) == (Role.ADMIN, Subscription.ENTERPRISE)
    assert (await login(scene))[0] == user


async def test_role_and_subscription_are_given_by_their_values(scene):
    """An account's role and subscription may be given by their values."""
    user = await create(scene, role="admin", subscription="enterprise")
    assert (user.role, user.subscription) == (Role.ADMIN, Subscription.ENTERPRISE)
    assert user.role is Role.ADMIN
    assert user.subscription is Subscription.ENTERPRISE


async def test_a_new_account_is_checked_like_other_inputs(scene):
    """Every field out of its bounds is named, and no account is created."""
    before = await administration.list_users(scene.ports)
    wrong = {"role": "king", "subscription": "gold", "first_name": "x" * 101, "last_name": ""}
    with pytest.raises(InvalidField) as caught:
        await create(scene, "no address", password=10_000_000_000, **wrong)
    fields = {error.field for error in caught.value.field_errors}
    assert fields == {*wrong, "email", "password"}
    assert await administration.list_users(scene.ports) == before


async def test_without_a_password_nobody_signs_in(scene):
    """An account without a password cannot log in until one is set."""
    await create(scene)
    with pytest.raises(Unauthenticated):
        await login(scene, password="")
    await administration.set_password(scene.ports, "ada@example.com", PASSWORD)
    assert await login(scene)


@pytest.mark.parametrize(
    "password, good",
    [
        ("x" * 9, False),
        (" " * 10, True),
        ("x" * 10, True),
        ("x" * 128, True),
        ("x" * 129, False),
    ],
)
async def test_a_password_has_10_to_128_characters(scene, password, good):
    """Passwords of other lengths are refused on creation and change; blanks count as any."""
    calls = [
        create(scene, "b@example.com", password=password),
        administration.set_password(scene.ports, (await create(scene)).email, password),
    ]
    for call in calls:
        if good:
            await call
        else:
            with pytest.raises(InvalidField) as caught:
                await call
            assert [fault.field for fault in caught.value.field_errors] == ["password"]


async def test_a_taken_email_is_refused(scene):
    """A taken e-mail address is refused in any case."""
    await create(scene)
    with pytest.raises(InvalidField):
        await create(scene, "ADA@example.com")


async def test_an_account_is_found_by_any_spelling(scene):
    """Accounts are found by address in any case; unknown ones raise NotFound in every call."""
    user = await create(scene)
    assert await administration.get_user(scene.ports, "Ada@Example.COM") == user
    ports, nobody = scene.ports, "nobody@example.com"
    for call in (
        administration.get_user(ports, nobody),
        administration.set_subscription(ports, nobody, Subscription.BASIC),
        disabling.disable_user(ports, nobody),
        administration.enable_user(ports, nobody),
        administration.set_password(ports, nobody, PASSWORD),
    ):
        with pytest.raises(NotFound):
            await call


async def test_accounts_are_paged_by_id(scene):
    """Accounts are listed by id, in pages with one more where another follows, or above an id."""
    ids = [(await add_user(scene.ports.store)).id for _ in range(4)]
    ports = scene.ports
    first, *_ = everybody = [user.id for user in await administration.list_users(ports)]
    assert everybody[-4:] == ids
    paged = await administration.list_users(ports, page=2, limit=1)
    assert [user.id for user in paged] == everybody[1:3]
    after = await administration.list_users_after(ports, first, 2)
    assert [user.id for user in after] == everybody[1:3]


async def test_a_subscription_is_set_with_or_without_an_end(scene):
    """Setting a subscription again without an end removes the end."""
    await create(scene)
    email, end = "ada@example.com", NOW + DAY
    user = await administration.set_subscription(scene.ports, email, Subscription.ENTERPRISE, end)
    assert (user.subscription, user.subscription_expires_at) == (Subscription.ENTERPRISE, end)
    user = await administration.set_subscription(scene.ports, email, Subscription.BASIC)
    assert user.subscription_expires_at is None


async def test_disabling_locks_at_once(scene):
    """Disabling ends sessions, refuses logins and unlists the companion; enabling reverts it."""
    async with scene.ports.store.read_view() as view:
        email = (await view.accounts.user(scene.staff.user_id)).email
    await administration.set_password(scene.ports, email, PASSWORD)
    _, token = await login(scene, email)
    user = (await disabling.disable_user(scene.ports, email)).user
    assert user.disabled_at == scene.ports.clock.wall()
    digest, wall = hash_session_token(token), scene.ports.clock.wall()
    assert await scene.ports.admission.authenticate_session(digest, wall) is None
    assert not await listed(scene, user.id)
    with pytest.raises(Unauthenticated):
        await login(scene, email)
    await administration.enable_user(scene.ports, email)
    assert await listed(scene, user.id)
    assert await scene.ports.admission.authenticate_session(digest, wall) is None
    assert await login(scene, email)


async def test_disabling_twice_keeps_the_first_time(scene):
    """Disabling again keeps the first time."""
    await create(scene)
    first = await disabling.disable_user(scene.ports, "ada@example.com")
    scene.pass_time(DAY)
    again = await disabling.disable_user(scene.ports, "ada@example.com")
    assert again.user.disabled_at == first.user.disabled_at


async def test_a_new_password_ends_all_sessions(scene):
    """Setting a password ends all sessions."""
    await create(scene, password=PASSWORD)
    _, token = await login(scene)
    await administration.set_password(scene.ports, "ada@example.com", "another " + PASSWORD)
    digest = hash_session_token(token)
    assert (
        await scene.ports.admission.authenticate_session(digest, scene.ports.clock.wall()) is None
    )
    with pytest.raises(Unauthenticated):
        await login(scene)


async def test_a_new_password_is_told_its_owner(scene):
    """Setting a password notifies the owner."""
    user = await create(scene)
    await administration.set_password(scene.ports, user.email, PASSWORD)
    await scene.drain()
    [letter] = scene.ports.notifier.emails
    assert (letter.user_id, letter.subject) == (user.id, "Your password was changed")
