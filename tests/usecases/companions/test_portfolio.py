"""Portfolio items of staff members, and their moderation."""

from __future__ import annotations

import json

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.memory.companions.store import CompanionsWriter
from staffbooking_adapters.testing.builders import POLICY, add_user
from staffbooking_adapters.testing.builders_portfolio import (
    add_portfolio_item as store_item,
    add_uploaded_image,
)
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken
from staffbooking_core.inputs import AddPortfolioItem, ChangeProfile
from staffbooking_core.usecases.companions import approvals, images, profiles
from tests.support.memory_deployment import actor_of, make_booking_scenario, with_another_companion

pytestmark = pytest.mark.anyio


async def add(scene, actor=None, title="The spring ball", image="photos/ball.jpg", **given):
    wanted = AddPortfolioItem(title=title, image=image, **given)
    return await profiles.add_portfolio_item(scene.ports, actor or scene.staff, wanted)


async def judge(scene, item, status=PortfolioItemStatus.APPROVED, reason=None):
    return await approvals.moderate_item(scene.ports, item.id, status, reason)


async def mine(scene):
    return list(await profiles.list_portfolio_items(scene.ports, scene.staff))


async def shown(scene):
    """The titles in the public detail."""
    async with scene.ports.store.read_view() as view:
        detail = json.loads(await view.companions.detail(scene.staff.user_id))
    return [item["title"] for item in detail["companion"]["portfolio"]]


# Owners ---------------------------------------------------------------------------------


async def test_an_item_waits_for_its_approval(scene):
    """A new item is visible to its owner only."""
    item = await add(scene, description="Two bars, 300 guests.")
    assert (item.title, item.image, item.description, item.status, item.created_at) == (
        "The spring ball",
        "photos/ball.jpg",
        "Two bars, 300 guests.",
        PortfolioItemStatus.PENDING,
        await scene.now(),
    )
    assert await mine(scene) == [item]
    assert await shown(scene) == []


async def test_items_are_listed_the_newest_first(scene):
    """A staff member lists only own items, the newest first."""
    first, second = await add(scene), await add(scene, title="A fair")
    await add(await with_another_companion(scene))
    assert await mine(scene) == [second, first]


async def test_a_newcomer_can_show_work(scene):
    """Adding an item creates a draft companion."""
    actor = actor_of(await add_user(scene.ports.store, role=Role.STAFF))
    item = await add(scene, actor)
    async with scene.ports.store.read_view() as view:
        made = await view.companions.companion(actor.user_id)
    assert (item.companion_id, made.approval) == (made.id, Approval.PENDING)


async def test_an_item_too_many_is_refused():
    """Over the limit an item is refused until one is removed."""
    scene = await make_booking_scenario(evolve(POLICY, max_portfolio_items=2))
    item = await add(scene)
    await add(scene)
    with pytest.raises(RuleBroken) as caught:
        await add(scene)
    assert caught.value.code == "too_many_portfolio_items"
    assert len(await mine(scene)) == 2
    await profiles.remove_portfolio_item(scene.ports, scene.staff, item.id)
    assert await add(scene)


async def test_of_items_at_once_none_is_too_many():
    """Concurrent calls respect the limit."""
    scene = await make_booking_scenario(evolve(POLICY, max_portfolio_items=2))
    met = []

    async def call():
        try:
            met.append((await add(scene)).status)
        except RuleBroken as error:
            met.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(call)
    assert sorted(met) == ["pending"] * 2 + ["too_many_portfolio_items"] * 3


async def test_an_upload_of_somebody_else_is_no_item(scene):
    """Only own uploads can be items."""
    await add_uploaded_image(scene.ports.store, scene.customer.user_id, "theirs.jpg")
    await add_uploaded_image(scene.ports.store, scene.staff.user_id, "mine.jpg")
    with pytest.raises(InvalidField) as caught:
        await add(scene, image="media/theirs.jpg")
    assert [fault.field for fault in caught.value.field_errors] == ["image"]
    assert (await add(scene, image="media/mine.jpg")).image == "media/mine.jpg"


async def test_an_item_is_removed_for_everybody(scene):
    """A removed item is gone from the owner's list and the detail."""
    item = await judge(scene, await add(scene))
    assert await shown(scene) == [item.title]
    await profiles.remove_portfolio_item(scene.ports, scene.staff, item.id)
    assert (await mine(scene), await shown(scene)) == ([], [])
    with pytest.raises(NotFound):
        await profiles.remove_portfolio_item(scene.ports, scene.staff, item.id)


@pytest.mark.parametrize(
    "remove", [profiles.remove_portfolio_item, profiles.remove_portfolio_item_and_image]
)
async def test_nobody_removes_anothers_item(scene, remove):
    """Removing another user's item raises NotFound."""
    item = await add(scene)
    other = (await with_another_companion(scene)).staff
    newcomer = actor_of(await add_user(scene.ports.store, role=Role.STAFF))
    for actor in (other, newcomer):
        with pytest.raises(NotFound):
            await remove(scene.ports, actor, item.id)
    assert await mine(scene) == [item]


# Images ---------------------------------------------------------------------------------


async def mine_kept(scene, actor=None):
    """The names of a user's images, and of orphaned files."""
    kept = await images.list_own_images(scene.ports, actor or scene.staff)
    async with scene.ports.store.read_view() as view:
        left = await view.portfolio.orphaned_files("", 10)
    return [image.name for image in kept], list(left)


async def test_an_item_is_removed_with_its_image(scene):
    """The item's image and its file are removed, and no other."""
    for name in ("ball.jpg", "other.jpg"):
        await add_uploaded_image(scene.ports.store, scene.staff.user_id, name)
    item = await judge(scene, await add(scene, image="media/ball.jpg"))
    await profiles.remove_portfolio_item_and_image(scene.ports, scene.staff, item.id)
    assert (await mine(scene), await shown(scene)) == ([], [])
    assert await mine_kept(scene) == (["other.jpg"], [])


async def test_an_image_that_another_item_shows_stays(scene):
    """An image is kept until the last item that shows it is removed."""
    await add_uploaded_image(scene.ports.store, scene.staff.user_id, "ball.jpg")
    made = [await add(scene, image="media/ball.jpg") for _ in range(2)]
    for item, left in zip(made, (["ball.jpg"], []), strict=True):
        await profiles.remove_portfolio_item_and_image(scene.ports, scene.staff, item.id)
        assert await mine_kept(scene) == (left, [])


async def test_an_image_that_the_profile_shows_stays(scene):
    """An image that the profile shows is kept."""
    await add_uploaded_image(scene.ports.store, scene.staff.user_id, "ball.jpg")
    photo = ChangeProfile(profile_photo="media/ball.jpg")
    await profiles.update_profile(scene.ports, scene.staff, photo)
    item = await add(scene, image="media/ball.jpg")
    await profiles.remove_portfolio_item_and_image(scene.ports, scene.staff, item.id)
    assert (await mine(scene), await mine_kept(scene)) == ([], (["ball.jpg"], []))


@pytest.mark.parametrize("path", ["media/theirs.jpg", "mine.jpg", "media/none.jpg"])
async def test_an_image_that_is_none_of_ones_own_stays(scene, path):
    """Another user's image and an external image are kept."""
    await add_uploaded_image(scene.ports.store, scene.customer.user_id, "theirs.jpg")
    await add_uploaded_image(scene.ports.store, scene.staff.user_id, "mine.jpg")
    item = await store_item(scene.ports.store, scene.staff.user_id, image=path)
    await profiles.remove_portfolio_item_and_image(scene.ports, scene.staff, item.id)
    assert await mine(scene) == []
    assert await mine_kept(scene) == (["mine.jpg"], [])
    assert await mine_kept(scene, scene.customer) == (["theirs.jpg"], [])


# Operators ------------------------------------------------------------------------------


async def test_a_judgement_shows_and_hides(scene):
    """Approval shows an item and rejection hides it; nothing else changes."""
    item = await add(scene)
    for status, seen in (
        (PortfolioItemStatus.APPROVED, [item.title]),
        (PortfolioItemStatus.REJECTED, []),
        (PortfolioItemStatus.APPROVED, [item.title]),
    ):
        assert await judge(scene, item, status) == evolve(item, status=status)
        assert await shown(scene) == seen
        assert (await mine(scene))[0].status is status


@pytest.mark.parametrize("status", [PortfolioItemStatus.APPROVED, PortfolioItemStatus.REJECTED])
async def test_the_same_judgement_again_changes_nothing(scene, status):
    """Repeating a decision changes nothing."""
    item = await add(scene)
    assert await judge(scene, item, status) == await judge(scene, item, status)


async def test_the_reason_of_a_rejection_is_corrected(scene):
    """Another reason for a rejected item replaces the first one; without one the reason stays."""
    item, rejected = await add(scene), PortfolioItemStatus.REJECTED
    for given, kept in (("Too dark", "Too dark"), ("Blurred", "Blurred"), (None, "Blurred")):
        await judge(scene, item, rejected, given)
        assert [each.rejection for each in await mine(scene)] == [kept]


async def test_items_are_paged_by_id(scene):
    """Items are paged by id, all or of a status."""
    other = await with_another_companion(scene)
    made = [await add(scene), await add(other), await add(scene)]
    approved = await judge(scene, made[1])
    listed = await approvals.list_portfolio_items_after(scene.ports, made[0].id, 1)
    assert list(listed) == [approved]
    listed = await approvals.list_portfolio_items(scene.ports, page=2, limit=1)
    assert list(listed) == [approved, made[2]]
    assert list(await approvals.list_portfolio_items(scene.ports, PortfolioItemStatus.PENDING)) == [
        made[0],
        made[2],
    ]


async def test_an_item_that_goes_meanwhile_is_not_judged(scene, monkeypatch):
    """Moderating an item that its owner removes meanwhile raises NotFound."""
    item, real = await add(scene), CompanionsWriter.lock_companion

    async def lock(writer, companion_id):
        writer.tx.state.portfolio.discard(item.id)
        return await real(writer, companion_id)

    monkeypatch.setattr(CompanionsWriter, "lock_companion", lock)
    with pytest.raises(NotFound):
        await judge(scene, item)


async def test_an_unknown_item_is_not_judged(scene):
    """Moderating an unknown or removed item raises NotFound."""
    item = await add(scene)
    await profiles.remove_portfolio_item(scene.ports, scene.staff, item.id)
    for unknown in (item, evolve(item, id=999)):
        with pytest.raises(NotFound):
            await judge(scene, unknown)
