"""Valid and invalid images for uploads."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

from PIL import Image, ImageCms, ImageDraw

RED, GREEN, BLUE, WHITE = (220, 20, 30), (20, 200, 40), (30, 40, 210), (250, 250, 250)
CORNER_COLOURS = (RED, GREEN, BLUE, WHITE)
"""The corners of `draw_image`: top left, top right, bottom left, bottom right."""
METADATA_SECRET = b"38.7223 N 9.1393 W"
"""A location in metadata that must not be published."""


def draw_image(width: int = 40, height: int = 30) -> Image.Image:
    """Four rectangles of different colours, so that every rotation is detected."""
    image = Image.new("RGB", (width, height))
    pen, x, y = ImageDraw.Draw(image), width // 2, height // 2
    for place, colour in zip(((0, 0), (x, 0), (0, y), (x, y)), CORNER_COLOURS, strict=True):
        pen.rectangle((*place, place[0] + x, place[1] + y), fill=colour)
    return image


def encode_image(image: Image.Image, kind: str = "png", **options: Any) -> bytes:
    """The bytes of an image."""
    made = BytesIO()
    image.save(made, kind, **options)
    return made.getvalue()


def make_image_bytes(kind: str = "png", width: int = 40, height: int = 30, **options: Any) -> bytes:
    """The bytes of a small valid image."""
    return encode_image(draw_image(width, height), kind, **options)


def make_exif(orientation: int = 1) -> bytes:
    """EXIF data with an orientation, a description and a location."""
    notes = Image.Exif()
    notes[0x0112] = orientation
    notes[0x010E] = METADATA_SECRET.decode()
    notes.get_ifd(0x8825)[29] = METADATA_SECRET.decode()
    return notes.tobytes()


def decode_image(content: bytes) -> Image.Image:
    image = Image.open(BytesIO(content))
    image.load()
    return image


def corner_colours(content: bytes) -> tuple[tuple[int, ...], ...]:
    """The colours near the corners of an image, in the order of
    `CORNER_COLOURS`."""
    image = decode_image(content).convert("RGB")
    right, below = image.width * 7 // 8, image.height * 7 // 8
    left, above = image.width // 8, image.height // 8
    places = ((left, above), (right, above), (left, below), (right, below))
    return tuple(image.getpixel(place) for place in places)  # type: ignore[misc]


def are_similar_colours(
    some: tuple[tuple[int, ...], ...], others: tuple[tuple[int, ...], ...]
) -> bool:
    """Whether colours are equal up to the error of lossy encoding."""
    pairs = zip(some, others, strict=True)
    return all(abs(a - b) <= 24 for one, other in pairs for a, b in zip(one, other, strict=True))


def make_png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def make_png_header_of_size(width: int, height: int, rows: bytes = b"") -> bytes:
    """A grey PNG whose header has this size, whatever its rows are."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(make_png_chunk(name, body) for name, body in chunks)


def make_webp_header_of_size(width: int, height: int) -> bytes:
    """An animated WebP whose header has this size, with frames of 8 by 8 pixels."""
    small = make_image_bytes(
        "webp", 8, 8, save_all=True, append_images=[draw_image(8, 8).rotate(180)]
    )
    assert small[12:16] == b"VP8X"
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return small[:24] + sides + small[30:]


def make_jpeg_with_scans(count: int) -> bytes:
    """A JPEG whose last scan is repeated this many times."""
    whole = encode_image(draw_image(), "jpeg", progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + last * count + whole[-2:]


def make_colour_profile_with_stages(count: int) -> bytes:
    """A colour profile (ICC v4) with this many processing stages, which are all the same one."""
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    tags = int.from_bytes(plain[128:132], "big")
    listed, rest = plain[132 : 132 + 12 * tags], plain[132 + 12 * tags :]
    moved = [
        struct.pack(">4sII", name, place + 12, size)
        for name, place, size in struct.iter_unpack(">4sII", listed)
    ]
    step = struct.pack(">4sIHH12f", b"matf", 0, 3, 3, *(1, 0, 0, 0, 1, 0, 0, 0, 1), *(0, 0, 0))
    positions = struct.pack(">II", 16 + 8 * count, len(step)) * count
    stages = struct.pack(">4sIHHI", b"mpet", 0, 3, 3, count) + positions + step
    added = struct.pack(">4sII", b"D2B0", len(plain) + 12, len(stages))
    whole = struct.pack(">I", tags + 1) + b"".join([*moved, added]) + rest + stages
    return struct.pack(">I", 132 - 4 + len(whole)) + plain[4:128] + whole
