"""Decodes an uploaded image and encodes it again, keeping only its pixels.

Neither the upload's name nor its metadata is trusted. The decoder is chosen by content, and its
cost is bounded before decoding. Re-encoding drops metadata, color profiles, further frames and
trailing data.
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
"""Maximum pixels by format. Decoding takes up to 16 bytes per pixel for WebP and 9 for PNG and
JPEG, so at most 450 MB."""
MAX_JPEG_SCANS = 50
"""Maximum scans of a JPEG: each costs a pass over the whole image, however few bytes it has."""
STORED_SIDE_PIXELS = 2_048
MAX_PROFILE_BYTES = 1024 * 1024
"""Maximum bytes of a color profile; those of cameras and screens have a few thousand."""
_MULTI_STAGE_TAG = b"mpet"
"""A multi-process element of a color profile: an unbounded number of steps per color."""

_FOREIGN_SIGNATURES = {
    "an archive": re.compile(rb"PK\x05\x06"),
    "a document": re.compile(rb"%PDF-[12]\."),
    "a page or a program": re.compile(rb"(?i)<(\?php|script|html|!doctype html)[\s>]"),
}
_ARCHIVE_TAIL_BYTES = 22 + 0xFFFF
"""Bytes of a ZIP archive's end record and comment, where readers look for it."""

_TOO_LARGE = (
    "is too large: a JPEG may have 50 megapixels, a PNG or WebP 25, and each 12,000 pixels a side"
)

_FORMATS = ("JPEG", "PNG", "WEBP")
_KIND_BY_FORMAT = {
    "JPEG": ImageKind.JPEG,
    "MPO": ImageKind.JPEG,  # A JPEG with further images after the first.
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
    """As `ImageProcessor.process`, blocking."""
    pixels, kind = _decode(upload)
    encoded = BytesIO()
    pixels.save(encoded, kind, **_ENCODER_OPTIONS[kind])
    return ProcessedImage(encoded.getvalue(), kind)


def _decode(upload: bytes) -> tuple[Image.Image, ImageKind]:
    # Set on each call, since the embedding process may reset filters. Problems of an upload are
    # reported to the sender or repaired, so warnings about them are of no use.
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
        raise invalid_field("file", "is not a JPEG, PNG or WebP image") from None
    except DecompressionBombError:
        raise invalid_field("file", _TOO_LARGE) from None
    except Exception as error:  # Decoders raise any exception type for broken input.
        raise invalid_field("file", "is a broken image: it can't be read to its end") from error


def _check_not_polyglot(upload: bytes) -> None:
    """Refuse an upload that other programs would read as another kind of file. Other trailing
    data, such as a phone's video, is dropped by re-encoding."""
    for name, signature in _FOREIGN_SIGNATURES.items():
        searched = upload[-_ARCHIVE_TAIL_BYTES:] if name == "an archive" else upload
        if signature.search(searched):
            raise invalid_field("file", f"is {name} as well as an image")


def _check_decoding_cost(upload: bytes, kind: ImageKind, width: int, height: int) -> None:
    """Check the decoding cost by the image's header."""
    if width * height > _MAX_PIXELS[kind] or max(width, height) > _MAX_SIDE_PIXELS:
        raise invalid_field("file", _TOO_LARGE)
    if kind is ImageKind.JPEG and upload.count(b"\xff\xda") > MAX_JPEG_SCANS:
        raise invalid_field("file", f"has more than {MAX_JPEG_SCANS} scans")


def _normalized_pixels(opened: Image.Image, kind: ImageKind) -> Image.Image:
    """The pixels scaled down, upright, in sRGB and without metadata."""
    # A JPEG can be decoded at a reduced size.
    opened.draft(None, (STORED_SIDE_PIXELS, STORED_SIDE_PIXELS))
    opened.load()
    profile = opened.info.get("icc_profile")
    transpose = _TRANSPOSE_BY_ORIENTATION.get(_orientation(opened))
    pixels = _to_resizable_mode(opened)
    pixels.thumbnail((STORED_SIDE_PIXELS, STORED_SIDE_PIXELS))
    if transpose is not None:
        pixels = pixels.transpose(transpose)
    pixels = _to_srgb(pixels, profile)
    pixels.info = {}
    return pixels


def _orientation(opened: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 if it is missing or unreadable."""
    with suppress(Exception):  # Broken EXIF data does not make the image invalid.
        return int(opened.getexif().get(_ORIENTATION_TAG, 1))
    return 1


def _to_resizable_mode(opened: Image.Image) -> Image.Image:
    """The image with 8 bits per channel and without a palette."""
    if opened.mode.startswith("I"):  # 16 bits of grey
        opened = opened.point(lambda value: value * (1 / 256)).convert("L")
        opened.info.pop("transparency", None)
    if opened.mode == "CMYK":
        return opened
    mode = "RGBA" if opened.has_transparency_data else "RGB"
    return opened if opened.mode == mode else opened.convert(mode)


def _to_srgb(pixels: Image.Image, profile: bytes | None) -> Image.Image:
    """The pixels in sRGB, which browsers assume without a profile."""
    mode = "RGB" if pixels.mode == "CMYK" else pixels.mode
    if profile and len(profile) <= MAX_PROFILE_BYTES and _MULTI_STAGE_TAG not in profile:
        with suppress(ImageCms.PyCMSError):  # A broken profile, or one of another color space.
            srgb = ImageCms.createProfile("sRGB")
            converted = ImageCms.profileToProfile(pixels, BytesIO(profile), srgb, outputMode=mode)
            return pixels if converted is None else converted
    return pixels.convert(mode)
