"""Re-encoding of valid uploaded images."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest
from PIL import Image, ImageCms, PngImagePlugin

from staffbooking_adapters.images.reencoding import STORED_SIDE_PIXELS, reencode_image
from staffbooking_core.domain.companions.portfolio import ImageKind
from tests.support.pictures import (
    BLUE,
    CORNER_COLOURS,
    GREEN,
    METADATA_SECRET,
    RED,
    WHITE,
    are_similar_colours,
    corner_colours,
    decode_image,
    draw_image,
    encode_image,
    make_exif,
    make_image_bytes,
)

KINDS = ["jpeg", "png", "webp"]
METADATA = {"exif", "icc_profile", "xmp", "XML:com.adobe.xmp", "comment", "Comment", "dpi"}
CORNERS_BY_ORIENTATION = {
    1: (RED, GREEN, BLUE, WHITE),
    2: (GREEN, RED, WHITE, BLUE),
    3: (WHITE, BLUE, GREEN, RED),
    4: (BLUE, WHITE, RED, GREEN),
    5: (RED, BLUE, GREEN, WHITE),
    6: (BLUE, RED, WHITE, GREEN),
    7: (WHITE, GREEN, BLUE, RED),
    8: (GREEN, WHITE, RED, BLUE),
}
"""The expected corner colors for each EXIF orientation."""


def chunks(png: bytes) -> set[bytes]:
    """The names of a PNG's chunks."""
    names, place = set(), 8
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        names.add(png[place + 4 : place + 8])
        place += length + 12
    return names


def segments(jpeg: bytes) -> set[int]:
    """The markers of a JPEG's segments before its pixels."""
    markers, place = set(), 2
    while jpeg[place + 1] != 0xDA:
        markers.add(jpeg[place + 1])
        place += 2 + int.from_bytes(jpeg[place + 2 : place + 4])
    return markers


@pytest.mark.parametrize("kind", KINDS)
def test_format_size_and_colours_are_kept(kind: str) -> None:
    """Format, size and colors are kept."""
    picture = reencode_image(make_image_bytes(kind))
    shown = decode_image(picture.content)
    assert picture.kind == ImageKind(kind)
    assert shown.format == kind.upper()
    assert shown.size == (40, 30)
    assert are_similar_colours(corner_colours(picture.content), CORNER_COLOURS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation", CORNERS_BY_ORIENTATION)
def test_the_orientation_is_applied(kind: str, orientation: int) -> None:
    """The EXIF orientation is applied and then removed."""
    picture = reencode_image(make_image_bytes(kind, exif=make_exif(orientation)))
    shown = decode_image(picture.content)
    assert shown.size == ((40, 30) if orientation < 5 else (30, 40))
    assert are_similar_colours(corner_colours(picture.content), CORNERS_BY_ORIENTATION[orientation])
    assert not shown.getexif()


@pytest.mark.parametrize("value", [0, 9, 65_535])
def test_an_invalid_orientation_rotates_nothing(value: int) -> None:
    """An invalid orientation rotates nothing."""
    assert are_similar_colours(
        corner_colours(reencode_image(make_image_bytes("jpeg", exif=make_exif(value))).content),
        CORNER_COLOURS,
    )


BROKEN_EXIF = {
    "none": b"Exif\x00\x00no notes at all",
    "cut": b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff" + b"\x12\x01\x03\x00\xff" * 9,
    "text": b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x02\x00\x02\x00\x00\x00x\x00"
    + bytes(8),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("notes", BROKEN_EXIF.values(), ids=BROKEN_EXIF)
def test_broken_exif_is_ignored(kind: str, notes: bytes) -> None:
    """Unreadable EXIF data is ignored."""
    assert are_similar_colours(
        corner_colours(reencode_image(make_image_bytes(kind, exif=notes)).content), CORNER_COLOURS
    )


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_is_removed(kind: str) -> None:
    """EXIF with the location, XMP, comments, texts and profiles are removed."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    options: dict[str, Any] = {
        "exif": make_exif(),
        "icc_profile": profile,
        "xmp": METADATA_SECRET,
        "comment": METADATA_SECRET,
    }
    if kind == "png":
        texts = PngImagePlugin.PngInfo()
        texts.add_text("Author", METADATA_SECRET.decode())
        texts.add_itxt("XML:com.adobe.xmp", METADATA_SECRET.decode())
        texts.add_text("Comment", METADATA_SECRET.decode(), zip=True)
        options |= {"pnginfo": texts, "dpi": (300, 300)}
    given = make_image_bytes(kind, **options)
    assert METADATA_SECRET in given

    made = reencode_image(given).content

    assert METADATA_SECRET not in made
    assert not METADATA & decode_image(made).info.keys()


def test_files_have_only_the_parts_of_pixels() -> None:
    """PNG chunks, JPEG segments and WebP parts that pixels do not need are removed."""
    made = {
        kind: reencode_image(make_image_bytes(kind, exif=make_exif(6))).content for kind in KINDS
    }
    assert chunks(made["png"]) == {b"IHDR", b"IDAT", b"IEND"}
    assert segments(made["jpeg"]) == {0xE0, 0xDB, 0xC2, 0xC4}
    assert made["webp"][12:16] == b"VP8 "


@pytest.mark.parametrize("kind", KINDS)
def test_trailing_data_is_removed(kind: str) -> None:
    """Trailing data, such as a phone's video, is removed."""
    for tail in (b"\x00\x00\x00\x18ftypmp42" + bytes(99), METADATA_SECRET * 1000):
        made = reencode_image(make_image_bytes(kind) + tail).content
        assert tail not in made
        assert len(made) < 5_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_image_is_scaled_down(kind: str) -> None:
    """The longer side has at most 2,048 pixels, and the proportions are kept."""
    for size, kept in (((3_000, 1_500), (2_048, 1_024)), ((400, 4_096), (200, 2_048))):
        made = reencode_image(make_image_bytes(kind, *size)).content
        assert decode_image(made).size == kept
        assert are_similar_colours(corner_colours(made), CORNER_COLOURS)
    assert STORED_SIDE_PIXELS == 2_048


def test_an_image_of_one_pixel_is_accepted() -> None:
    """An image of one pixel is accepted; a long thin image keeps at least one pixel per side."""
    assert decode_image(reencode_image(make_image_bytes("png", 1, 1)).content).size == (1, 1)
    assert decode_image(reencode_image(make_image_bytes("png", 1, 9_000)).content).size == (
        1,
        2_048,
    )


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_only_the_first_frame_is_kept(kind: str) -> None:
    """Only the first frame of an animation is kept."""
    others = [Image.new("RGB", (40, 30), colour) for colour in (BLUE, GREEN)]
    given = make_image_bytes(kind, save_all=True, append_images=others, duration=50, lossless=True)
    assert getattr(decode_image(given), "n_frames", 1) == 3

    made = reencode_image(given).content

    assert getattr(decode_image(made), "n_frames", 1) == 1
    assert are_similar_colours(corner_colours(made), CORNER_COLOURS)


def test_only_the_first_image_of_an_mpo_is_kept() -> None:
    """Only the first image of a multi-picture JPEG is kept."""
    given = encode_image(
        draw_image(), "mpo", save_all=True, append_images=[Image.new("RGB", (40, 30), BLUE)]
    )
    picture = reencode_image(given)
    assert picture.kind is ImageKind.JPEG
    assert decode_image(picture.content).format == "JPEG"
    assert are_similar_colours(corner_colours(picture.content), CORNER_COLOURS)


# Colours --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_transparency_is_kept(kind: str) -> None:
    """Partial and full transparency are kept."""
    image = draw_image().convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    shown = decode_image(reencode_image(encode_image(image, kind, lossless=True)).content)
    assert shown.mode == "RGBA"
    alpha = shown.getchannel("A")
    assert (alpha.getpixel((0, 0)), alpha.getpixel((0, 29))) == (
        image.getpixel((0, 0))[3],  # type: ignore[index]
        image.getpixel((0, 29))[3],  # type: ignore[index]
    )


@pytest.mark.parametrize("transparency", [2, bytes((255, 255, 0, 128))], ids=["one", "each"])
def test_a_palette_keeps_its_transparency(transparency: object) -> None:
    """Palette colors are converted with their transparency."""
    image = Image.new("P", (40, 30))
    image.putpalette([channel for colour in CORNER_COLOURS for channel in colour])
    for number, place in enumerate(((0, 0), (20, 0), (0, 15), (20, 15))):
        image.paste(number, (*place, place[0] + 20, place[1] + 15))
    shown = decode_image(reencode_image(encode_image(image, transparency=transparency)).content)
    assert shown.mode == "RGBA"
    assert shown.getpixel((5, 5)) == (*RED, 255)
    assert shown.getpixel((5, 25))[3] == 0  # type: ignore[index]


def test_an_opaque_palette_stays_opaque() -> None:
    """An opaque palette image stays opaque."""
    made = reencode_image(encode_image(draw_image().quantize(4))).content
    assert decode_image(made).mode == "RGB"
    assert are_similar_colours(corner_colours(made), CORNER_COLOURS)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_grey_is_kept(kind: str) -> None:
    """Black, white and grey are kept."""
    grey = Image.linear_gradient("L")
    for image in (grey, grey.convert("1")) if kind == "png" else (grey,):
        shown = decode_image(reencode_image(encode_image(image, kind)).content).convert("L")
        assert abs(shown.getpixel((9, 0)) - image.getpixel((9, 0))) <= 4  # type: ignore[operator]
        assert abs(shown.getpixel((9, 255)) - image.getpixel((9, 255))) <= 4  # type: ignore[operator]


def test_sixteen_bits_become_eight() -> None:
    """16-bit grey keeps its brightness in 8 bits."""
    values = array("H", [0, 0x4000, 0x8000, 0xFFFF])
    image = Image.frombytes("I;16", (4, 1), values.tobytes())
    shown = decode_image(reencode_image(encode_image(image)).content).convert("L")
    assert [shown.getpixel((x, 0)) for x in range(4)] == [0, 0x40, 0x80, 0xFF]


def test_cmyk_is_converted_to_rgb() -> None:
    """CMYK is converted to RGB."""
    shown = decode_image(reencode_image(encode_image(draw_image().convert("CMYK"), "jpeg")).content)
    assert shown.mode == "RGB"
    assert are_similar_colours(corner_colours(encode_image(shown)), CORNER_COLOURS)


def swapped_profile() -> bytes:
    """A color profile that swaps red and green."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return profile.replace(b"rXYZ", b"tmpX").replace(b"gXYZ", b"rXYZ").replace(b"tmpX", b"gXYZ")


@pytest.mark.parametrize("kind", KINDS)
def test_colours_of_another_profile_are_converted(kind: str) -> None:
    """Colors of an embedded profile are converted to sRGB."""
    made = reencode_image(make_image_bytes(kind, icc_profile=swapped_profile())).content
    assert are_similar_colours(corner_colours(made)[:1], (GREEN_FOR_RED,))


GREEN_FOR_RED = (30, 220, 30)
"""Approximately RED after red and green are swapped."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    # A profile has the second it was made in, which must not be in the test's name.
    "profile",
    [b"no profile", b"\x00" * 128, swapped_profile()[:300]],
    ids=["none", "zeros", "cut"],
)
def test_a_broken_profile_is_ignored(kind: str, profile: bytes) -> None:
    """A broken profile is ignored."""
    assert are_similar_colours(
        corner_colours(reencode_image(make_image_bytes(kind, icc_profile=profile)).content),
        CORNER_COLOURS,
    )


def test_a_profile_of_another_colour_space_is_ignored() -> None:
    """A profile for another color space than the image's is ignored."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    assert are_similar_colours(
        corner_colours(reencode_image(make_image_bytes("png", icc_profile=profile)).content),
        CORNER_COLOURS,
    )


def test_transparency_is_kept_with_a_profile() -> None:
    """Converting colors by a profile keeps the transparency."""
    image = draw_image().convert("RGBA")
    image.putalpha(77)
    shown = decode_image(reencode_image(encode_image(image, icc_profile=swapped_profile())).content)
    assert shown.getpixel((5, 5))[3] == 77  # type: ignore[index]
