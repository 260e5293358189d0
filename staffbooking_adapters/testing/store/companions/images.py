"""Contract of the stores: uploaded images and their owners."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import HOUR, NOW, add_user
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.companions.portfolio import Image

FINE = NOW + timedelta(microseconds=123_456)


def make_image(owner_id: int, name: str = "a.jpg", **given: Any) -> Image:
    return Image(**{"name": name, "owner_id": owner_id, "size": 9, "created_at": NOW, **given})


async def add(store, *images):
    for image in images:
        await store.run_transaction(lambda unit, image=image: unit.portfolio.add_image(image))


async def find(store, name):
    return await read_store(store, lambda view: view.portfolio.image(name))


async def names(store, owner_id):
    found = await read_store(store, lambda view: view.portfolio.images_of(owner_id))
    return [image.name for image in found]


async def delete(store, *names):
    await store.run_transaction(lambda unit: unit.portfolio.delete_images(names))


async def orphaned_names(store, after="", limit=10):
    return list(await read_store(store, lambda view: view.portfolio.orphaned_files(after, limit)))


class ImagesContract(StoreContract):
    """Uploaded images and their owners."""

    async def test_an_image_is_stored_as_added(self, store):
        """An image is stored with every field, the time to the microsecond."""
        owner = await add_user(store)
        image = make_image(owner.id, "Abc_-9.webp", size=2**40, created_at=FINE)
        await add(store, image)
        assert await find(store, "Abc_-9.webp") == image
        assert list(await read_store(store, lambda view: view.portfolio.images_of(owner.id))) == [
            image
        ]

    async def test_image_names_compare_exactly(self, store):
        """Image names compare exactly."""
        owner = await add_user(store)
        await add(store, make_image(owner.id, "abc.jpg"))
        assert [await find(store, name) for name in ("ABC.jpg", "abc.png", "abc", "%")] == [
            None
        ] * 4

    async def test_images_are_listed_for_their_owner(self, store):
        """An owner's images are listed newest first, then by name."""
        owner, other = await add_user(store), await add_user(store)
        await add(
            store,
            make_image(owner.id, "c.jpg"),
            make_image(owner.id, "b.jpg", created_at=NOW + HOUR),
            make_image(owner.id, "a.jpg"),
            make_image(other.id, "d.jpg", created_at=NOW + 2 * HOUR),
        )
        assert await names(store, owner.id) == ["b.jpg", "a.jpg", "c.jpg"]
        assert await names(store, other.id) == ["d.jpg"]
        assert await names(store, (await add_user(store)).id) == []

    async def test_a_deleted_image_is_gone(self, store):
        """Deleting images removes only these, and an unknown name leaves no orphaned file."""
        owner = await add_user(store)
        await add(store, make_image(owner.id, "a.jpg"), make_image(owner.id, "b.jpg"))
        for _ in range(2):
            await delete(store, "a.jpg", "none.jpg")
        assert await find(store, "a.jpg") is None
        assert await names(store, owner.id) == ["b.jpg"]
        assert await orphaned_names(store) == ["a.jpg"]

    async def test_files_of_deleted_images_are_orphaned(self, store):
        """The files of deleted images are listed by name, in pages, until
        `delete_orphaned_file`."""
        owner = await add_user(store)
        await add(store, *(make_image(owner.id, f"{name}.jpg") for name in "cabd"))
        await delete(store, "c.jpg", "a.jpg", "b.jpg")
        assert await orphaned_names(store) == ["a.jpg", "b.jpg", "c.jpg"]
        assert await orphaned_names(store, limit=2) == ["a.jpg", "b.jpg"]
        assert await orphaned_names(store, "b.jpg") == ["c.jpg"]
        for _ in range(2):
            await store.run_transaction(lambda unit: unit.portfolio.delete_orphaned_file("b.jpg"))
        assert await orphaned_names(store) == ["a.jpg", "c.jpg"]

    async def test_a_rollback_changes_no_images(self, store):
        """A rolled-back transaction neither adds nor removes images."""
        owner = await add_user(store)
        await add(store, make_image(owner.id, "a.jpg"))

        async def failing(unit):
            await unit.portfolio.add_image(make_image(owner.id, "b.jpg"))
            await unit.portfolio.delete_images(["a.jpg"])
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await store.run_transaction(failing)
        assert await names(store, owner.id) == ["a.jpg"]
        assert await orphaned_names(store) == []

    async def test_a_unit_of_work_sees_its_own_images(self, store):
        """A transaction lists the images that it added."""
        owner = await add_user(store)

        async def unit_of_work(unit):
            await unit.portfolio.add_image(make_image(owner.id, "a.jpg"))
            return len(await unit.portfolio.images_of(owner.id)), await unit.portfolio.image(
                "a.jpg"
            )

        assert await store.run_transaction(unit_of_work) == (1, make_image(owner.id, "a.jpg"))
