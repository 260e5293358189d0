"""Erasure of an account by its owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from attrs import evolve

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import Unauthenticated
from staffbooking_core.inputs import Login
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.bookings import disabling
from tests.support.hashers import SlowHasher
from tests.support.memory_deployment import BookingScenario

pytestmark = pytest.mark.anyio

HERE = "203.0.113.9"


async def customer_of(scene: BookingScenario) -> User:
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(scene.customer.user_id)
    assert user is not None
    return user


async def with_password(scene: BookingScenario) -> User:
    user = evolve(await customer_of(scene), password_hash="plain:correct horse")
    await scene.ports.store.run_transaction(lambda tx: tx.accounts.save_user(user))
    return user


async def test_one_is_forgotten_by_the_password(scene: BookingScenario) -> None:
    """Erasure needs the right password, and ends logins."""
    user = await with_password(scene)
    with pytest.raises(Unauthenticated):
        await privacy.erase_own_account(scene.ports, user.id, "wrong", HERE)
    assert (await customer_of(scene)).erased_at is None
    await privacy.erase_own_account(scene.ports, user.id, "correct horse", HERE)
    assert (await customer_of(scene)).erased_at is not None
    given = Login(email=user.email, password="correct horse")
    with pytest.raises(Unauthenticated):
        await sessions.login(scene.ports, given, HERE)


async def test_by_a_password_of_yesterday_nobody_is_forgotten(scene: BookingScenario) -> None:
    """A password that changes during verification does not erase."""
    user = await with_password(scene)
    change = partial(administration.set_password, scene.ports, user.email, "battery staple")
    await not_forgotten(scene, user, change)


async def test_who_is_disabled_meanwhile_forgets_nobody(scene: BookingScenario) -> None:
    """A user who is disabled meanwhile cannot erase the account."""
    user = await with_password(scene)
    await not_forgotten(scene, user, partial(disabling.disable_user, scene.ports, user.email))


async def not_forgotten(
    scene: BookingScenario, user: User, meanwhile: Callable[[], Awaitable[object]]
) -> None:
    """Try to erase with the right password while something else happens."""
    ports = evolve(scene.ports, hasher=SlowHasher(meanwhile))
    with pytest.raises(Unauthenticated) as raised:
        await privacy.erase_own_account(ports, user.id, "correct horse", HERE)
    assert raised.value.code == "bad_credentials"
    assert (await customer_of(scene)).erased_at is None


async def test_the_password_is_not_guessed_at(scene: BookingScenario) -> None:
    """After ten wrong passwords the right one is refused."""
    user = await with_password(scene)
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            await privacy.erase_own_account(scene.ports, user.id, "wrong", HERE)
    with pytest.raises(RateLimitExceeded):
        await privacy.erase_own_account(scene.ports, user.id, "correct horse", HERE)
