"""API keys: who may have one, limits, expiry and revocation."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, SECOND, add_subscriber, add_user
from staffbooking_core.domain.accounts import api_keys as domain
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.errors import Forbidden, InvalidField, NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import CreateApiKey, RotateApiKey
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import administration, api_keys, people
from staffbooking_core.usecases.bookings import disabling

pytestmark = pytest.mark.anyio


@pytest.fixture
async def owner(scene):
    return await add_subscriber(scene.ports.store)


async def create(scene, owner, name="Back office", **given):
    wanted = CreateApiKey(**{"name": name, "permissions": (Permission.READ,), **given})
    return await api_keys.create(scene.ports, owner, wanted)


async def use(scene, text, permission=Permission.READ):
    """Authenticate with a key, as admission does."""
    now = scene.ports.clock.wall()
    digest = domain.digest_api_key(text)
    return (await scene.ports.admission.authenticate_api_key(digest, permission, (), now))[0]


async def test_a_key_is_told_once_and_works(scene, owner):
    """A key works, and its record has only a mask."""
    text, record = await create(scene, owner)
    assert domain.is_well_formed_api_key(text)
    assert record.masked_key == domain.mask_api_key(text)
    assert text not in repr(record)
    assert (await use(scene, text)).owner == owner


async def test_a_key_has_the_permissions_it_was_given(scene, owner):
    """A key has exactly its permissions."""
    text, _ = await create(scene, owner)
    with pytest.raises(Forbidden):
        await use(scene, text, Permission.BOOK)


@pytest.mark.parametrize(
    "fields",
    [{}, {"subscription": Subscription.BASIC}],
)
async def test_a_key_needs_an_enterprise_subscription(scene, fields):
    """Users without an enterprise subscription get no key."""
    user = await add_user(scene.ports.store, **fields)
    with pytest.raises(Forbidden) as caught:
        await create(scene, user)
    assert caught.value.code == "subscription_required"


async def test_a_subscription_that_ends_ends_making_keys(scene, owner):
    """Keys can be created until a second before the subscription ends."""
    now = scene.ports.clock.wall()
    assert await create(scene, evolve(owner, subscription_expires_at=now + SECOND))
    with pytest.raises(Forbidden):
        await create(scene, evolve(owner, subscription_expires_at=now))


async def test_an_admin_has_keys_without_a_subscription(scene):
    """Admins get keys without a subscription (SPECIFICATION 5)."""
    user = await add_user(scene.ports.store, role=Role.ADMIN)
    assert await create(scene, user)


async def test_the_sixth_active_key_is_one_too_many(scene, owner):
    """A sixth active key is refused; revoked and expired ones do not count."""
    _, first = await create(scene, owner)
    await create(scene, owner, expires_at=format_instant(scene.ports.clock.wall() + HOUR))
    for _ in range(3):
        await create(scene, owner)
    with pytest.raises(RuleBroken) as caught:
        await create(scene, owner)
    assert caught.value.code == "too_many_keys"
    await api_keys.revoke(scene.ports, owner, first.id)
    await create(scene, owner)
    scene.pass_time(HOUR)
    await create(scene, owner)
    with pytest.raises(RuleBroken):
        await create(scene, owner)


async def test_each_account_has_its_own_five(scene, owner):
    """Keys of other accounts do not count."""
    for _ in range(5):
        await create(scene, owner)
    assert await create(scene, await add_subscriber(scene.ports.store))


async def test_who_is_locked_out_meanwhile_gets_no_key(scene, owner):
    """A user disabled or erased since authentication is unauthenticated."""
    await disabling.disable_user(scene.ports, owner.email)
    with pytest.raises(Unauthenticated):
        await create(scene, owner)
    await administration.enable_user(scene.ports, owner.email)
    await privacy.erase_person(scene.ports, owner.id)
    with pytest.raises(Unauthenticated):
        await create(scene, owner)
    assert await api_keys.list_keys(scene.ports, owner) == []


async def test_who_becomes_an_operator_meanwhile_gets_no_key(scene, owner):
    """A customer who was made an operator since authentication is unauthenticated: the key would be
    an operator's."""
    await people.set_role(scene.ports, owner.id, Role.ADMIN, scene.admin.user_id)
    with pytest.raises(Unauthenticated):
        await create(scene, owner)
    assert await api_keys.list_keys(scene.ports, owner) == []


async def test_who_becomes_a_customer_meanwhile_rotates_no_key(scene):
    """An operator who was made a customer since authentication is unauthenticated."""
    operator = await add_subscriber(scene.ports.store, role=Role.ADMIN)
    _, old = await create(scene, operator)
    await people.set_role(scene.ports, operator.id, Role.CUSTOMER, scene.admin.user_id)
    with pytest.raises(Unauthenticated):
        await api_keys.rotate(scene.ports, operator, old.id, RotateApiKey(overlap_hours=1))
    assert [key.id for key in await api_keys.list_keys(scene.ports, operator)] == [old.id]


@pytest.mark.parametrize("after, works", [(DAY - SECOND, True), (DAY, False)])
async def test_a_key_may_expire(scene, owner, after, works):
    """A key expires at its time, in wall time."""
    text, _ = await create(scene, owner, expires_at=format_instant(scene.ports.clock.wall() + DAY))
    await scene.jump_to(await scene.now() + 100 * DAY)
    scene.pass_time(after)
    if works:
        assert await use(scene, text)
    else:
        with pytest.raises(Unauthenticated):
            await use(scene, text)


async def test_a_key_expires_in_the_future(scene, owner):
    """An expiry in the past or now is refused."""
    with pytest.raises(InvalidField) as caught:
        await create(scene, owner, expires_at=format_instant(scene.ports.clock.wall()))
    assert [fault.field for fault in caught.value.field_errors] == ["expires_at"]


async def test_keys_are_listed_newest_first(scene, owner):
    """A user's keys are listed, revoked ones too, the newest first."""
    _, first = await create(scene, owner)
    _, second = await create(scene, owner)
    await create(scene, await add_subscriber(scene.ports.store))
    await api_keys.revoke(scene.ports, owner, first.id)
    listed = await api_keys.list_keys(scene.ports, owner)
    assert [key.id for key in listed] == [second.id, first.id]
    assert listed[1].revoked_at == scene.ports.clock.wall()


async def test_a_revoked_key_is_gone_for_good(scene, owner):
    """A revoked key stops working, and revoking it again keeps the first time."""
    text, record = await create(scene, owner)
    await api_keys.revoke(scene.ports, owner, record.id)
    first = scene.ports.clock.wall()
    scene.pass_time(HOUR)
    await api_keys.revoke(scene.ports, owner, record.id)
    with pytest.raises(Unauthenticated):
        await use(scene, text)
    assert (await api_keys.list_keys(scene.ports, owner))[0].revoked_at == first


async def test_somebody_elses_key_is_not_there(scene, owner):
    """A key of another user raises NotFound; an operator may revoke any key."""
    text, record = await create(scene, owner)
    other = await add_subscriber(scene.ports.store)
    for user, number in ((other, record.id), (owner, 999), (None, 999)):
        with pytest.raises(NotFound):
            await api_keys.revoke(scene.ports, user, number)
    with pytest.raises(NotFound):
        await api_keys.get_key(scene.ports, other, record.id)
    await api_keys.get_key(scene.ports, owner, record.id)
    assert await use(scene, text)
    await api_keys.revoke(scene.ports, None, record.id)
    with pytest.raises(Unauthenticated):
        await use(scene, text)


async def test_a_lost_subscription_stops_the_keys(scene, owner):
    """Keys stop without a subscription and work again with one."""
    text, _ = await create(scene, owner)
    await administration.set_subscription(scene.ports, owner.email, Subscription.BASIC)
    with pytest.raises(Forbidden):
        await use(scene, text)
    await administration.set_subscription(scene.ports, owner.email, Subscription.ENTERPRISE)
    assert await use(scene, text)


async def test_a_disabled_owner_stops_the_keys(scene, owner):
    """Keys of a disabled owner stop at once."""
    text, _ = await create(scene, owner)
    await disabling.disable_user(scene.ports, owner.email)
    with pytest.raises(Unauthenticated):
        await use(scene, text)


# Rotation -------------------------------------------------------------------------------


async def rotate(scene, owner, record, hours, expires_at=None):
    command = RotateApiKey(overlap_hours=hours, expires_at=expires_at)
    return await api_keys.rotate(scene.ports, owner, record.id, command)


async def test_a_rotated_key_works_beside_the_new_one(scene, owner):
    """The new key has the name and the permissions of the old one, and both work until the
    overlap ends."""
    text, record = await create(scene, owner)
    new_text, new, old = await rotate(scene, owner, record, 2)
    assert (new.name, new.permissions) == (record.name, record.permissions)
    assert old.expires_at == scene.ports.clock.wall() + 2 * HOUR
    scene.pass_time(2 * HOUR - SECOND)
    assert await use(scene, text)
    scene.pass_time(SECOND)
    with pytest.raises(Unauthenticated):
        await use(scene, text)
    assert await use(scene, new_text)


async def test_a_key_that_ends_sooner_keeps_its_end(scene, owner):
    """An overlap does not prolong the old key."""
    end = scene.ports.clock.wall() + HOUR
    _, record = await create(scene, owner, expires_at=format_instant(end))
    assert (await rotate(scene, owner, record, 24))[2].expires_at == end


async def test_a_key_is_rotated_without_an_overlap(scene, owner):
    """Without an overlap the old key is revoked, also at the limit of keys."""
    made = [await create(scene, owner) for _ in range(5)]
    text, record = made[0]
    with pytest.raises(RuleBroken):
        await rotate(scene, owner, record, 1)
    assert await use(scene, text)
    new_text, _, old = await rotate(scene, owner, record, 0)
    assert old.revoked_at == scene.ports.clock.wall()
    assert await use(scene, new_text)
    with pytest.raises(Unauthenticated):
        await use(scene, text)
    with pytest.raises(RuleBroken) as caught:
        await rotate(scene, owner, record, 0)
    assert caught.value.code == "key_not_active"


async def test_only_owners_with_a_subscription_rotate_keys(scene, owner):
    """Keys of others and unknown ones are not found; without a subscription nothing is rotated;
    an overlap has bounds."""
    _, record = await create(scene, owner)
    other = await add_subscriber(scene.ports.store)
    for user, number in ((other, record.id), (owner, 999)):
        with pytest.raises(NotFound):
            await rotate(scene, user, evolve(record, id=number), 1)
    for hours in (-1, 31 * 24):
        with pytest.raises(InvalidField):
            await rotate(scene, owner, record, hours)
    with pytest.raises(Forbidden):
        await rotate(scene, evolve(owner, subscription=Subscription.BASIC), record, 1)
