"""From the bytes of an upload to a picture of ours: pixels out, pixels in, nothing else.

What was uploaded is believed in nothing, neither its name nor what it says of itself. The
decoder is chosen by the content, its work is bounded before it begins, and what is kept is
encoded anew: metadata, profiles, further frames and whatever hangs on behind are gone.
"""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from io import BytesIO
from typing import Any

from PIL import (
    Image,
    ImageCms,
    JpegImagePlugin,  # noqa: F401  # these three register themselves
    PngImagePlugin,  # noqa: F401
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401
)
from PIL.Image import DecompressionBombError, Transpose

from staffbooking_core.domain.companions.portfolio import ImageKind
from staffbooking_core.errors import InvalidField, invalid_field
from staffbooking_core.ports import ProcessedImage

_MAX_SIDE_PIXELS = 12_000
_MAX_PIXELS = {
    ImageKind.JPEG: 50_000_000,
    ImageKind.PNG: 25_000_000,
    ImageKind.WEBP: 25_000_000,
}
"""What a picture takes while it is decoded grows with these: 16 bytes a pixel of a WebP, 9 of a
PNG and of a JPEG, that is at most 450 MB."""
MAX_JPEG_SCANS = 50
"""Of a JPEG. Each makes the decoder walk over all of the picture, and may have but a few bytes."""
STORED_SIDE_PIXELS = 2_048
MAX_PROFILE_BYTES = 1024 * 1024
"""Bytes; those of cameras and screens have a few thousand."""
_MULTI_STAGE_TAG = b"mpet"
"""In a profile: as many steps of calculation as it likes to name, for each colour."""

_FOREIGN_SIGNATURES = {
    "an archive": re.compile(rb"PK\x05\x06"),
    "a document": re.compile(rb"%PDF-[12]\."),
    "a page or a program": re.compile(rb"(?i)<(\?php|script|html|!doctype html)[\s>]"),
}
_ARCHIVE_TAIL_BYTES = 22 + 0xFFFF
"""Bytes: the last entry of an archive and its comment, where readers look for them."""

_TOO_LARGE = (
    "is too large: a JPEG may have 50 megapixels, a PNG or WebP 25, and each 12,000 pixels a side"
)

_FORMATS = ("JPEG", "PNG", "WEBP")
_KIND_BY_FORMAT = {
    "JPEG": ImageKind.JPEG,
    "MPO": ImageKind.JPEG,  # one that has further pictures behind the first
    "PNG": ImageKind.PNG,
    "WEBP": ImageKind.WEBP,
}
_ORIENTATION_TAG = 0x0112
_TRANSPOSE_BY_ORIENTATION = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_ENCODER_OPTIONS: dict[ImageKind, dict[str, Any]] = {
    ImageKind.JPEG: {"quality": 85, "optimize": True, "progressive": True},
    ImageKind.PNG: {},
    ImageKind.WEBP: {"quality": 85},
}


def reencode_image(upload: bytes) -> ProcessedImage:
    """As `Pictures.remake`, at once."""
    pixels, kind = _decode(upload)
    made = BytesIO()
    pixels.save(made, kind, **_ENCODER_OPTIONS[kind])
    return ProcessedImage(made.getvalue(), kind)


def _decode(upload: bytes) -> tuple[Image.Image, ImageKind]:
    # Each time, since whoever embeds this may set filters anew. What is wrong with an upload is
    # told to who sent it, or made good; the process has no use for a warning of it.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    if not upload:
        raise invalid_field("file", "is empty")
    try:
        with Image.open(BytesIO(upload), formats=_FORMATS) as opened:
            kind = _KIND_BY_FORMAT[opened.format or ""]
            _check_not_polyglot(upload)
            _check_decoding_cost(upload, kind, *opened.size)
            return _normalized_pixels(opened, kind), kind
    except InvalidField:
        raise
    except UnidentifiedImageError:
        raise invalid_field("file", "is no JPEG, PNG or WebP image") from None
    except DecompressionBombError:
        raise invalid_field("file", _TOO_LARGE) from None
    except Exception as error:  # Decoders fail on broken input by whatever goes wrong in them.
        raise invalid_field("file", "is a broken image: it can't be read to its end") from error


def _check_not_polyglot(upload: bytes) -> None:
    """Refuse what is something else for other programs, as no camera makes it. Whatever hangs on
    besides, such as a telephone's video, is left out."""
    for name, sign in _FOREIGN_SIGNATURES.items():
        searched = upload[-_ARCHIVE_TAIL_BYTES:] if name == "an archive" else upload
        if sign.search(searched):
            raise invalid_field("file", f"is {name} as well as an image")


def _check_decoding_cost(upload: bytes, kind: ImageKind, width: int, height: int) -> None:
    """Judge by the header what decoding would take."""
    if width * height > _MAX_PIXELS[kind] or max(width, height) > _MAX_SIDE_PIXELS:
        raise invalid_field("file", _TOO_LARGE)
    if kind is ImageKind.JPEG and upload.count(b"\xff\xda") > MAX_JPEG_SCANS:
        raise invalid_field("file", f"has more than {MAX_JPEG_SCANS} scans")


def _normalized_pixels(opened: Image.Image, kind: ImageKind) -> Image.Image:
    """Small enough, upright, in sRGB, and free of what else was told of them."""
    opened.draft(
        None, (STORED_SIDE_PIXELS, STORED_SIDE_PIXELS)
    )  # a JPEG can be decoded smaller than it is
    opened.load()
    profile, turn = (
        opened.info.get("icc_profile"),
        _TRANSPOSE_BY_ORIENTATION.get(_orientation(opened)),
    )
    pixels = _to_resizable_mode(opened)
    pixels.thumbnail((STORED_SIDE_PIXELS, STORED_SIDE_PIXELS))
    if turn is not None:
        pixels = pixels.transpose(turn)
    pixels = _to_srgb(pixels, profile)
    pixels.info = {}
    return pixels


def _orientation(opened: Image.Image) -> int:
    """How the camera was held, from 1 to 8; 1 where that can't be made out."""
    with suppress(Exception):  # A camera's notes may be broken, the picture is good.
        return int(opened.getexif().get(_ORIENTATION_TAG, 1))
    return 1


def _to_resizable_mode(opened: Image.Image) -> Image.Image:
    """With 8 bits a channel, and colours instead of a palette's numbers."""
    if opened.mode.startswith("I"):  # 16 bits of grey
        opened = opened.point(lambda value: value * (1 / 256)).convert("L")
        opened.info.pop("transparency", None)
    if opened.mode == "CMYK":
        return opened
    mode = "RGBA" if opened.has_transparency_data else "RGB"
    return opened if opened.mode == mode else opened.convert(mode)


def _to_srgb(pixels: Image.Image, profile: bytes | None) -> Image.Image:
    """What browsers show of pixels without a profile."""
    mode = "RGB" if pixels.mode == "CMYK" else pixels.mode
    if profile and len(profile) <= MAX_PROFILE_BYTES and _MULTI_STAGE_TAG not in profile:
        with suppress(ImageCms.PyCMSError):  # A broken profile, or one of other colours.
            srgb = ImageCms.createProfile("sRGB")
            made = ImageCms.profileToProfile(pixels, BytesIO(profile), srgb, outputMode=mode)
            return pixels if made is None else made
    return pixels.convert(mode)
