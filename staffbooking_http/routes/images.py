"""Images: uploads and public downloads (CONTRACT 3)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.companions.portfolio import ImageKind, image_kind_of
from staffbooking_core.errors import NotFound
from staffbooking_core.representations.companions import ImageRecord, image_record
from staffbooking_core.representations.json_types import ImagePath, Success
from staffbooking_core.usecases.companions import images
from staffbooking_http.api.access import PublicAccess, SessionAccess, require_staff
from staffbooking_http.api.endpoint import Call, Header, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_STAFF_SESSION = SessionAccess(check_user=require_staff)

_IMAGE_CACHE_CONTROL = b"public, max-age=31536000, immutable"
"""The image of a name never changes."""
_IMAGE_CONTENT_SECURITY_POLICY = b"default-src 'none'; sandbox"
"""Keeps browsers from running or loading anything, whatever type they detect."""


@endpoint(
    "POST",
    "/staff/images",
    _STAFF_SESSION,
    operation_id="uploadImage",
    summary="Upload an image",
    description=(
        "For `profile_photo` and for the `image` of portfolio items, which take the returned "
        "path. The image is re-encoded upright with at most 2,048 pixels a side, without metadata "
        "and further frames. At most 50 megapixels as JPEG, 25 as PNG or WebP."
    ),
    has_file=True,
    is_upload_limited=True,
    status=201,
    response_schema=reply_schema("NewImage", success=Success, image=ImagePath),
    rule_codes=("malformed_form", "staff_only", "too_many_images"),
)
async def upload_image(call: Call) -> Reply:
    image = await images.upload_image(
        call.ports, call.actor, call.parsed_input.content, call.parsed_input.media
    )
    return Reply(201, codec.encode({"success": True, "image": image.path}))


@endpoint(
    "GET",
    "/staff/images",
    _STAFF_SESSION,
    operation_id="listImages",
    summary="List your images",
    description="The newest first. `size` is in bytes.",
    response_schema=reply_schema("ImageList", images=list[ImageRecord]),
    rule_codes=("staff_only",),
)
async def list_images(call: Call) -> Reply:
    found = await images.list_own_images(call.ports, call.actor)
    return Reply(200, codec.encode({"images": [image_record(image) for image in found]}))


def _image_name(call: Call) -> str:
    """The name in the path. Raises NotFound for a text that is none."""
    name = call.params[0]
    if image_kind_of(name) is None:
        raise NotFound("Image")
    return name


async def _check_image(call: Call) -> Reply:
    await images.get_own_image(call.ports, call.actor, _image_name(call))
    return Reply(200)


@endpoint(
    "DELETE",
    "/staff/images/{name}",
    _STAFF_SESSION,
    operation_id="deleteImage",
    summary="Delete an image of yours",
    check_target=_check_image,
    description="Refused while your profile or your portfolio shows it.",
    response_schema=reply_schema("Success", success=Success),
    rule_codes=("image_in_use", "staff_only"),
    not_found_name="Image",
)
async def delete_image(call: Call) -> Reply:
    await images.remove_image(call.ports, call.actor, _image_name(call))
    return Reply(200, codec.encode({"success": True}))


@endpoint(
    "GET",
    "/media/{name}",
    PublicAccess(),
    operation_id="getImage",
    summary="Show an image",
    description=(
        "Public by a name that cannot be guessed. It never changes and can be cached; with "
        "`If-None-Match` the response is 304."
    ),
    response_schema={"description": "JPEG, PNG or WebP"},
    response_media_type="image/*",
    has_etag=True,
    not_found_name="Image",
)
async def show_image(call: Call) -> Reply:
    name = call.params[0]
    content, kind = await images.get_image_content(call.ports, name)
    tag = b'"%s"' % name.encode()
    if call.has_matching_etag(tag):
        return Reply(304, headers=_image_headers(tag))
    return Reply(200, content, _image_headers(tag), _MEDIA_TYPES[kind])


_MEDIA_TYPES = {kind: kind.media_type.encode() for kind in ImageKind}


def _image_headers(tag: bytes) -> tuple[Header, ...]:
    return (
        (b"etag", tag),
        (b"cache-control", _IMAGE_CACHE_CONTROL),
        (b"content-security-policy", _IMAGE_CONTENT_SECURITY_POLICY),
        (b"content-disposition", b"inline"),
    )
