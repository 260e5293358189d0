"""Uploads of pictures on pages: an image is stored for a change, and removed where that fails."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from litestar.response import Template

from staffbooking_core.domain.companions.portfolio import Image
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, StaffbookingError
from staffbooking_core.usecases.companions import images
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.session import render_error

IMAGES_PATH = "/staff/images"
"""API upload path whose upload limiter the pages share."""
SHOWN_ERRORS = (InvalidInput, RateLimitExceeded, RuleBroken, HttpError)
"""Errors shown on the page of the submitted form."""
_TOO_LARGE = 413


@asynccontextmanager
async def uploaded_image(call: Call, visitor: SignedInUser, upload: Upload) -> AsyncIterator[Image]:
    """Store an uploaded image and yield it; remove it if the block raises an error."""
    image = await images.upload_image(call.ports, visitor.actor, upload.content, upload.media)
    try:
        yield image
    except StaffbookingError:
        await remove_image(call, visitor, image)
        raise


async def remove_image(call: Call, visitor: SignedInUser, image: Image) -> None:
    """Remove an image that is not shown; one that can't be removed stays."""
    with suppress(StaffbookingError):  # It may be in use; the first error is raised.
        await images.remove_image(call.ports, visitor.actor, image.name)


def render_upload_error(
    template_name: str,
    visitor: SignedInUser,
    error: StaffbookingError | HttpError,
    most_bytes: int,
    **context: Any,
) -> Template:
    """Render a page whose upload was refused; a file that is too large is a fault of its field."""
    page = render_error(template_name, visitor, error, most_bytes=most_bytes, **context)
    if page.status_code == _TOO_LARGE:
        page.context["faults"] = {"file": f"has more than {most_bytes} bytes"}
    return page
