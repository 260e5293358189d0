"""Images that staff members upload for their profile and portfolio (CONTRACT 3)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.companions.portfolio import (
    MEDIA_PATH_PREFIX,
    Image,
    ImageKind,
    image_kind_of,
    image_name,
)
from staffbooking_core.errors import NotFound, RuleBroken, StoreUnavailable, invalid_field
from staffbooking_core.ports import PortfolioReadPort, Ports, Transaction
from staffbooking_core.validation import validated, validated_lookup

__all__ = [
    "delete_unused_image",
    "find_own_image",
    "get_image_content",
    "get_own_image",
    "list_own_images",
    "remove_files",
    "remove_image",
    "remove_orphaned_files",
    "upload_image",
]

_ORPHANED_FILE_BATCH_SIZE = 200
"""Names of orphaned files that are read at a time."""


@validated
async def upload_image(ports: Ports, actor: Actor, uploaded: bytes, media_type: str = "") -> Image:
    """Store an uploaded image, reduced to its pixels. `media_type` is the declared type, if any.
    Nothing is stored where an error is raised. Locks the user, so that concurrent uploads respect
    the limit.

    Raises InvalidField on `file`, RuleBroken `too_many_images`, and NotFound for an erased user.
    """
    if len(uploaded) > ports.policy.max_image_bytes:
        raise invalid_field("file", f"has more than {ports.policy.max_image_bytes} bytes")
    picture = await ports.image_processor.process(uploaded)
    if not picture.kind.accepts_media_type(media_type):
        raise invalid_field(
            "file", f"is of type {picture.kind.media_type}, and was sent as another"
        )
    name = image_name(ports.ids.token(), picture.kind)
    image = Image(name, actor.user_id, len(picture.content), await ports.clock.business())

    async def unit(tx: Transaction) -> None:
        # Locked, so that concurrent uploads are counted one after the other.
        user = await tx.accounts.lock_user(actor.user_id)
        if user is None or user.erased_at is not None:
            raise NotFound("User")
        if len(await tx.portfolio.images_of(actor.user_id)) >= (most := ports.policy.max_images):
            raise RuleBroken("too_many_images", f"One may keep at most {most} images")
        await tx.portfolio.add_image(image)

    # The file is written first: a file without a row is harmless, a row without a file is not.
    await ports.files.put(name, picture.content)
    try:
        await ports.store.run_transaction(unit)
    except (NotFound, RuleBroken):
        await ports.files.remove(name)
        raise
    return image


@validated
async def list_own_images(ports: Ports, actor: Actor) -> Sequence[Image]:
    """The actor's images, the newest first."""
    async with ports.store.read_view() as view:
        return await view.portfolio.images_of(actor.user_id)


async def find_own_image(portfolio: PortfolioReadPort, actor: Actor, path: str) -> Image | None:
    """The actor's image with this public path; None where the path is not an image of theirs."""
    if not path.startswith(MEDIA_PATH_PREFIX):
        return None
    image = await portfolio.image(path.removeprefix(MEDIA_PATH_PREFIX))
    return image if image is not None and image.owner_id == actor.user_id else None


@validated_lookup("Image")
async def get_own_image(ports: Ports, actor: Actor, name: str) -> Image:
    """An image of the actor by its name. Raises NotFound."""
    async with ports.store.read_view() as view:
        image = await find_own_image(view.portfolio, actor, MEDIA_PATH_PREFIX + name)
    if image is None:
        raise NotFound("Image")
    return image


@validated_lookup("Image")
async def remove_image(ports: Ports, actor: Actor, name: str) -> None:
    """Remove an image of the actor. Locks the user. Where the file storage fails, the file is
    removed later (`remove_orphaned_files`).

    Raises NotFound, and RuleBroken `image_in_use` while the profile or the portfolio shows it.
    """

    async def unit(tx: Transaction) -> None:
        # Locked, as by everything that shows an image in the profile or the portfolio.
        await tx.accounts.lock_user(actor.user_id)
        image = await find_own_image(tx.portfolio, actor, MEDIA_PATH_PREFIX + name)
        if image is None:
            raise NotFound("Image")
        if not await delete_unused_image(tx, image):
            raise RuleBroken("image_in_use", "The profile or the portfolio shows this image")

    await ports.store.run_transaction(unit)
    await remove_files(ports, [name])


async def delete_unused_image(tx: Transaction, image: Image | None) -> Sequence[str]:
    """Delete an image's row unless the profile or the portfolio shows it; returns the names of
    files that the caller removes after the transaction. The caller holds the lock on the image's
    owner."""
    if image is None:
        return []
    portfolio_paths = {item.image for item in await tx.portfolio.portfolio_items_of(image.owner_id)}
    companion = await tx.companions.companion(image.owner_id)
    if image.path in portfolio_paths or (
        companion is not None and image.path == companion.profile_photo
    ):
        return []
    await tx.portfolio.delete_images([image.name])
    return [image.name]


@validated
async def remove_files(ports: Ports, names: Sequence[str]) -> None:
    """Remove the files of deleted images. Where the file storage or the store is unavailable, they
    stay listed as orphaned."""
    for name in names:
        with suppress(StoreUnavailable):
            await ports.files.remove(name)
            await _delete_orphaned_file(ports, name)


async def _delete_orphaned_file(ports: Ports, name: str) -> None:
    await ports.store.run_transaction(lambda tx: tx.portfolio.delete_orphaned_file(name))


async def remove_orphaned_files(ports: Ports) -> int:
    """Remove the files of deleted images that could not be removed then; returns their number."""
    after, seen = "", 0
    while True:
        async with ports.store.read_view() as view:
            names = await view.portfolio.orphaned_files(after, _ORPHANED_FILE_BATCH_SIZE)
        if not names:
            return seen
        await remove_files(ports, names)
        after, seen = names[-1], seen + len(names)


@validated_lookup("Image")
async def get_image_content(ports: Ports, name: str) -> tuple[bytes, ImageKind]:
    """The content and kind of an image. Raises NotFound."""
    kind = image_kind_of(name)
    found = None if kind is None else await ports.files.get(name)
    if kind is None or found is None:
        raise NotFound("Image")
    return found, kind
