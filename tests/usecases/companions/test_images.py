"""Uploaded images are stored whole or not at all, and kept while they are shown."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.images.processor import PillowImageProcessor
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.testing.builders import HOUR, POLICY, add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.companions.portfolio import ImageKind, image_kind_of, image_name
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken, StoreUnavailable
from staffbooking_core.inputs import AddPortfolioItem, ChangeProfile
from staffbooking_core.ports import ProcessedImage
from staffbooking_core.usecases.companions import images, profiles
from tests.support.memory_deployment import BookingScenario, make_booking_scenario, memory_ports
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio

FEW = evolve(POLICY, max_images=3, max_image_bytes=5_000)


@pytest.fixture
async def scene() -> BookingScenario:
    return await make_booking_scenario(FEW)


def kept(scene: BookingScenario) -> dict[str, bytes]:
    files = scene.ports.files
    assert isinstance(files, MemoryFiles)
    return files.contents


async def test_an_image_is_kept(scene: BookingScenario) -> None:
    """An upload stores the file and its row, with owner and business time."""
    scene.pass_time(HOUR)
    given = make_image_bytes("webp")
    image = await images.upload_image(scene.ports, scene.staff, given)
    assert image.owner_id == scene.staff.user_id
    assert image.created_at == await scene.now()
    assert image.path == f"media/{image.name}"
    assert image_kind_of(image.name) is ImageKind.WEBP
    assert list(await images.list_own_images(scene.ports, scene.staff)) == [image]

    content, kind = await images.get_image_content(scene.ports, image.name)

    assert kept(scene) == {image.name: content}
    assert (len(content), kind) == (image.size, ImageKind.WEBP)
    assert content != given


async def test_names_are_never_given_twice(scene: BookingScenario) -> None:
    """The same upload twice makes two images."""
    first, second = [
        await images.upload_image(scene.ports, scene.staff, make_image_bytes()) for _ in range(2)
    ]
    assert first.name != second.name
    assert len(kept(scene)) == 2


async def test_what_is_no_image_is_not_stored(scene: BookingScenario) -> None:
    """An invalid upload stores neither file nor row."""
    with pytest.raises(InvalidField):
        await images.upload_image(scene.ports, scene.staff, b"no image")
    assert not kept(scene)
    assert not await images.list_own_images(scene.ports, scene.staff)


async def test_too_many_bytes_are_not_looked_at(scene: BookingScenario) -> None:
    """The policy's size limit is exact."""

    class Taking(PillowImageProcessor):
        async def process(self, upload: bytes) -> ProcessedImage:
            return ProcessedImage(upload, ImageKind.PNG)

    ports = evolve(scene.ports, image_processor=Taking())
    await images.upload_image(ports, scene.staff, bytes(5_000))
    with pytest.raises(InvalidField, match="file: has more than 5000 bytes"):
        await images.upload_image(ports, scene.staff, bytes(5_001))
    assert len(kept(scene)) == 1


async def test_one_too_many_is_refused(scene: BookingScenario) -> None:
    """Concurrent uploads respect the limit, and refused ones leave no file."""
    met: list[str] = []

    async def upload() -> None:
        try:
            await images.upload_image(scene.ports, scene.staff, make_image_bytes())
        except RuleBroken as error:
            met.append(error.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(upload)
    assert met == ["too_many_images"] * 2
    found = {image.name for image in await images.list_own_images(scene.ports, scene.staff)}
    assert len(found) == 3
    assert kept(scene).keys() == found

    await images.remove_image(scene.ports, scene.staff, found.pop())
    await images.upload_image(scene.ports, scene.staff, make_image_bytes())


async def test_others_have_their_own_number(scene: BookingScenario) -> None:
    """The limit is per user."""
    other = scene.admin
    for actor in (scene.staff, other) * 3:
        await images.upload_image(scene.ports, actor, make_image_bytes())
    assert len(kept(scene)) == 6


async def test_who_is_gone_leaves_no_images(scene: BookingScenario) -> None:
    """An unknown user, or one erased during the upload, stores nothing."""
    erased = await add_user(scene.ports.store, role=Role.STAFF)
    gone = evolve(erased, erased_at=await scene.now())
    await scene.ports.store.run_transaction(lambda tx: tx.accounts.save_user(gone))
    for number in (999, erased.id):
        with pytest.raises(NotFound):
            await images.upload_image(scene.ports, Actor(number, Role.STAFF), make_image_bytes())
    assert not kept(scene)


async def test_bytes_are_stored_before_the_name() -> None:
    """Where the file storage fails there is no row."""

    class Full(MemoryFiles):
        async def put(self, name: str, content: bytes) -> None:
            raise StoreUnavailable("full")

    scene = await make_booking_scenario(FEW, memory_ports(FEW, files=Full()))
    with pytest.raises(StoreUnavailable):
        await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    assert not await images.list_own_images(scene.ports, scene.staff)


async def test_bytes_stay_where_the_outcome_is_not_known(scene: BookingScenario) -> None:
    """Where the commit's outcome is unknown the file is kept."""

    class Lost:
        async def run_transaction(self, work: object) -> None:
            raise StoreUnavailable("the answer to the commit was lost")

    lost: Any = Lost()
    ports = evolve(scene.ports, store=lost)
    with pytest.raises(StoreUnavailable):
        await images.upload_image(ports, scene.staff, make_image_bytes())
    assert len(kept(scene)) == 1


# Removing -------------------------------------------------------------------------------


async def test_a_removed_image_is_gone(scene: BookingScenario) -> None:
    """A removed image is gone, and removing it again raises NotFound."""
    one, two = [
        await images.upload_image(scene.ports, scene.staff, make_image_bytes()) for _ in range(2)
    ]
    await images.remove_image(scene.ports, scene.staff, one.name)
    assert list(await images.list_own_images(scene.ports, scene.staff)) == [two]
    assert list(kept(scene)) == [two.name]
    for call in (
        images.remove_image(scene.ports, scene.staff, one.name),
        images.get_image_content(scene.ports, one.name),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_file_outlives_a_storage_that_fails(
    scene: BookingScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be removed is listed as orphaned and removed later."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())

    async def gone(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryFiles, "remove", gone)
        await images.remove_image(scene.ports, scene.staff, image.name)
        assert await images.remove_orphaned_files(scene.ports) == 1
    assert not await images.list_own_images(scene.ports, scene.staff)
    assert list(kept(scene)) == [image.name]
    assert [await images.remove_orphaned_files(scene.ports) for _ in range(2)] == [1, 0]
    assert not kept(scene)


async def test_an_image_that_goes_is_put_to_no_use(
    scene: BookingScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image being removed cannot be shown."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    remove = MemoryFiles.remove

    async def slow(files: MemoryFiles, name: str) -> None:
        given = ChangeProfile(profile_photo=image.path)
        with pytest.raises(InvalidField):
            await profiles.update_profile(scene.ports, scene.staff, given)
        await remove(files, name)

    monkeypatch.setattr(MemoryFiles, "remove", slow)
    await images.remove_image(scene.ports, scene.staff, image.name)
    assert not kept(scene)
    assert (await profiles.get_profile(scene.ports, scene.staff)).profile_photo == ""


async def test_a_removal_that_was_cut_short_is_finished(scene: BookingScenario) -> None:
    """A missing file does not prevent the removal of its row."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    kept(scene).clear()
    await images.remove_image(scene.ports, scene.staff, image.name)
    assert not await images.list_own_images(scene.ports, scene.staff)


async def test_an_image_of_somebody_else_is_not_there(scene: BookingScenario) -> None:
    """An image of another user cannot be removed."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    with pytest.raises(NotFound):
        await images.remove_image(scene.ports, scene.admin, image.name)
    assert list(await images.list_own_images(scene.ports, scene.admin)) == []
    assert list(kept(scene)) == [image.name]


async def test_an_image_that_is_shown_stays(scene: BookingScenario) -> None:
    """An image in the profile or the portfolio cannot be removed."""
    photo, work = [
        await images.upload_image(scene.ports, scene.staff, make_image_bytes()) for _ in range(2)
    ]
    await profiles.update_profile(scene.ports, scene.staff, ChangeProfile(profile_photo=photo.path))
    added = AddPortfolioItem(title="The spring ball", image=work.path)
    item = await profiles.add_portfolio_item(scene.ports, scene.staff, added)
    for image in (photo, work):
        with pytest.raises(RuleBroken) as caught:
            await images.remove_image(scene.ports, scene.staff, image.name)
        assert caught.value.code == "image_in_use"
    assert len(kept(scene)) == 2

    await profiles.remove_portfolio_item(scene.ports, scene.staff, item.id)
    await profiles.update_profile(scene.ports, scene.staff, ChangeProfile(profile_photo=""))
    for image in (photo, work):
        await images.remove_image(scene.ports, scene.staff, image.name)
    assert not kept(scene)


# Photo ----------------------------------------------------------------------------------


async def photo(scene: BookingScenario) -> str:
    return (await profiles.get_profile(scene.ports, scene.staff)).profile_photo


async def test_a_photo_goes_once_another_is_set(scene: BookingScenario) -> None:
    """A replaced profile photo is removed; setting the same one keeps it."""
    one, two = [
        await images.upload_image(scene.ports, scene.staff, make_image_bytes()) for _ in range(2)
    ]
    for path, left in (
        (one.path, {one.name, two.name}),
        (one.path, {one.name, two.name}),
        (two.path, {two.name}),
        ("", set()),
    ):
        await profiles.set_profile_photo(scene.ports, scene.staff, path)
        assert (await photo(scene), set(kept(scene))) == (path, left)
        assert {
            image.name for image in await images.list_own_images(scene.ports, scene.staff)
        } == left


async def test_a_photo_that_the_portfolio_shows_stays(scene: BookingScenario) -> None:
    """A replaced photo that the portfolio shows is kept."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    await profiles.set_profile_photo(scene.ports, scene.staff, image.path)
    added = AddPortfolioItem(title="The spring ball", image=image.path)
    await profiles.add_portfolio_item(scene.ports, scene.staff, added)
    await profiles.set_profile_photo(scene.ports, scene.staff, "")
    assert list(await images.list_own_images(scene.ports, scene.staff)) == [image]


async def test_a_photo_of_somebody_else_is_not_set(scene: BookingScenario) -> None:
    """A photo of another user is refused, and the previous one stays."""
    mine = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    theirs = await images.upload_image(scene.ports, scene.admin, make_image_bytes())
    await profiles.set_profile_photo(scene.ports, scene.staff, mine.path)
    with pytest.raises(InvalidField, match="profile_photo: is not an image that you uploaded"):
        await profiles.set_profile_photo(scene.ports, scene.staff, theirs.path)
    assert (await photo(scene), len(kept(scene))) == (mine.path, 2)


async def test_a_photo_is_set_though_the_storage_fails(
    scene: BookingScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the storage fails the previous photo's file is removed later."""
    image = await images.upload_image(scene.ports, scene.staff, make_image_bytes())
    await profiles.set_profile_photo(scene.ports, scene.staff, image.path)

    async def gone(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryFiles, "remove", gone)
        await profiles.set_profile_photo(scene.ports, scene.staff, "")
    assert (await photo(scene), len(kept(scene))) == ("", 1)
    assert (await images.remove_orphaned_files(scene.ports), kept(scene)) == (1, {})


# Showing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a.gif",
        "a.jpg.png",
        "../a.jpg",
        "a/b.jpg",
        ".jpg",
        "a.JPG",
        "a.jpg\n",
        "é.png",
        "a" * 65,
    ],
)
async def test_an_odd_name_is_no_image(scene: BookingScenario, name: str) -> None:
    """An invalid name raises NotFound without reading the storage."""
    assert image_kind_of(name) is None
    assert image_kind_of("a" * 65 + ".jpg") is None
    with pytest.raises(NotFound):
        await images.get_image_content(scene.ports, name)


def test_a_name_tells_its_kind() -> None:
    """The kind of an image follows from its name."""
    for kind in ImageKind:
        assert image_kind_of(image_name("Ab_-9", kind)) is kind
    assert [kind.media_type for kind in ImageKind] == ["image/jpeg", "image/png", "image/webp"]
    assert image_name("x", ImageKind.JPEG) == "x.jpg"
