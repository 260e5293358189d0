"""Images: uploading them, and showing them to everybody (CONTRACT 3)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.companions.portfolio import ImageKind, kind_of
from staffbooking_core.errors import NotFound
from staffbooking_core.representations.records import Record, instant
from staffbooking_core.usecases.companions import images
from staffbooking_http.api.access import Unguarded, WithSession, staff_only
from staffbooking_http.api.endpoint import Call, Header, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    INSTANT,
    RELATIVE_PATH,
    SUCCESS,
    TEXT,
    WHOLE,
    Schema,
    items,
    shape,
)

_IMAGE: dict[str, Schema] = {
    "name": TEXT,
    "image": RELATIVE_PATH,
    "size": WHOLE,
    "created_at": INSTANT,
}
_BY_STAFF = WithSession(permit=staff_only)

LASTING = b"public, max-age=31536000, immutable"
"""Under its name an image never changes."""
POLICY = b"default-src 'none'; sandbox"
"""Whatever a browser may take an image for, it runs and loads nothing."""


@endpoint(
    "POST",
    "/staff/images",
    _BY_STAFF,
    summary="Upload an image",
    description=(
        "For `profile_photo` and for the `image` of portfolio items, which hold the path that "
        "you get. Kept is what is seen, upright and at most 2,048 pixels a side: no metadata, "
        "no further frames. At most 50 megapixels as JPEG, 25 as PNG or WebP."
    ),
    file=True,
    in_turn=True,
    status=201,
    answer=shape({"success": SUCCESS, "image": RELATIVE_PATH}),
    codes=("malformed_form", "staff_only", "too_many_images"),
)
async def upload(call: Call) -> Reply:
    image = await images.upload(call.ports, call.actor, call.given.content, call.given.media)
    return Reply(201, codec.encode({"success": True, "image": image.path}))


@endpoint(
    "GET",
    "/staff/images",
    _BY_STAFF,
    summary="List your images",
    description="The newest first. `size` is in bytes.",
    answer=shape({"images": items(shape(_IMAGE))}),
    codes=("staff_only",),
)
async def list_mine(call: Call) -> Reply:
    found = await images.mine(call.ports, call.actor)
    records: list[Record] = [
        {
            "name": image.name,
            "image": image.path,
            "size": image.size,
            "created_at": instant(image.created_at),
        }
        for image in found
    ]
    return Reply(200, codec.encode({"images": records}))


@endpoint(
    "DELETE",
    "/staff/images/{name}",
    _BY_STAFF,
    summary="Delete an image of yours",
    description="Refused while your profile or your portfolio shows it.",
    answer=shape({"success": SUCCESS}),
    codes=("image_in_use", "staff_only"),
    not_found="Image",
)
async def remove(call: Call) -> Reply:
    name = call.params[0]
    if kind_of(name) is None:
        raise NotFound("Image")
    await images.remove(call.ports, call.actor, name)
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "GET",
    "/media/{name}",
    Unguarded(),
    summary="Show an image",
    description=(
        "For everybody who knows its name, which can't be guessed. It may be kept for ever: with "
        "`If-None-Match` the answer is 304."
    ),
    answer={"description": "JPEG, PNG or WebP"},
    media="image/*",
    tagged=True,
    not_found="Image",
)
async def show(call: Call) -> Reply:
    name = call.params[0]
    content, kind = await images.content(call.ports, name)
    tag = b'"%s"' % name.encode()
    if call.has(tag):
        return Reply(304, headers=_headers(tag))
    return Reply(200, content, _headers(tag), _MEDIA[kind])


_MEDIA = {kind: kind.media.encode() for kind in ImageKind}


def _headers(tag: bytes) -> tuple[Header, ...]:
    return (
        (b"etag", tag),
        (b"cache-control", LASTING),
        (b"content-security-policy", POLICY),
        (b"content-disposition", b"inline"),
    )
