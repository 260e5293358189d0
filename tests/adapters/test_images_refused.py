"""Uploads that are not images, are polyglots or cost too much are refused."""

from __future__ import annotations

import subprocess
import sys
import threading
import zlib
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageCms

from staffbooking_adapters.images import reencoding
from staffbooking_adapters.images.processor import PillowImageProcessor
from staffbooking_adapters.images.reencoding import MAX_JPEG_SCANS, reencode_image
from staffbooking_core.errors import InvalidField
from staffbooking_core.ports import ProcessedImage
from tests.support.pictures import (
    CORNER_COLOURS,
    are_similar_colours,
    corner_colours,
    decode_image,
    draw_image,
    encode_image,
    make_colour_profile_with_stages,
    make_exif,
    make_image_bytes,
    make_jpeg_with_scans,
    make_png_chunk,
    make_png_header_of_size,
    make_webp_header_of_size,
)

KINDS = ["jpeg", "png", "webp"]
NO_IMAGE = "file: is not a JPEG, PNG or WebP image"
BROKEN = "file: is a broken image: it can't be read to its end"
LARGE = f"file: {reencoding._TOO_LARGE}"


def refusal(content: bytes) -> str:
    with pytest.raises(InvalidField) as caught:
        reencode_image(content)
    return str(caught.value)


def accepted(content: bytes) -> bool:
    """Whether an upload is accepted; any other outcome than re-encoding or a refusal fails the
    test."""
    try:
        made = reencode_image(content)
    except InvalidField:
        return False
    assert max(decode_image(made.content).size) <= reencoding.STORED_SIDE_PIXELS
    return True


# Other content --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        encode_image(draw_image(), "gif"),
        encode_image(draw_image(), "bmp"),
        encode_image(draw_image(), "tiff"),
        encode_image(draw_image(), "ico"),
        encode_image(draw_image(), "pdf"),
        encode_image(draw_image(), "eps"),
        encode_image(draw_image(), "ppm"),
        encode_image(draw_image(), "jpeg2000"),
        b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        b"<!doctype html><script>alert(1)</script>",
        b"GIF89a/*" + make_image_bytes("jpeg"),
        b"%PDF-1.7\n" + make_image_bytes("png"),
        b"RIFF\x04\x00\x00\x00WAVE",
        b"\x00" * 100,
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"x",
    ],
    ids=lambda content: repr(content[:9]),
)
def test_other_formats_are_refused(content: bytes) -> None:
    """Content that does not start as a JPEG, PNG or WebP image is refused."""
    assert refusal(content) == NO_IMAGE


def test_an_empty_upload_is_refused() -> None:
    """An empty upload is refused."""
    assert refusal(b"") == "file: is empty"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "other, name",
    [
        (b"PK\x05\x06" + bytes(18), "an archive"),
        (b"PK\x05\x06" + bytes(16) + b"\xff\xff" + bytes(0xFFFF), "an archive"),
        (b"%PDF-1.7\n", "a document"),
        (b"<?php system('id'); ?>", "a page or a program"),
        (b"<SCRIPT src=//x></SCRIPT>", "a page or a program"),
        (b"<!DOCTYPE html>", "a page or a program"),
    ],
    ids=["archive", "long archive", "document", "program", "script", "page"],
)
def test_a_polyglot_is_refused(kind: str, other: bytes, name: str) -> None:
    """A file that is both an image and another kind of file is refused."""
    assert refusal(make_image_bytes(kind) + other) == f"file: is {name} as well as an image"


def test_an_image_with_a_script_in_its_metadata_is_refused() -> None:
    """An image with a script in its EXIF data is refused."""
    notes = Image.Exif()
    notes[0x010E] = "<script>alert(1)</script>"
    assert accepted(make_image_bytes("jpeg", exif=make_exif()))
    assert not accepted(make_image_bytes("jpeg", exif=notes.tobytes()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_image_is_refused(kind: str) -> None:
    """An image truncated anywhere is refused, unless its pixels are complete."""
    whole = make_image_bytes(kind, exif=make_exif())
    taken = [size for size in range(len(whole)) if accepted(whole[:size])]
    assert len(taken) < len(whole) // 2
    assert all(
        are_similar_colours(corner_colours(reencode_image(whole[:size]).content), CORNER_COLOURS)
        for size in taken
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_image_is_reencoded_or_refused(kind: str) -> None:
    """An image with any one byte changed is re-encoded or refused."""
    whole = make_image_bytes(kind, 9, 7, exif=make_exif(3))
    for place in range(len(whole)):
        for value in (0x00, 0xFF, whole[place] ^ 0x01):
            accepted(whole[:place] + bytes([value]) + whole[place + 1 :])


SEEDS = [
    make_image_bytes("jpeg", exif=make_exif(5)),
    make_image_bytes("jpeg", progressive=True),
    encode_image(draw_image().convert("CMYK"), "jpeg"),
    encode_image(draw_image(), "mpo", save_all=True, append_images=[draw_image()]),
    make_image_bytes("png", exif=make_exif(8)),
    encode_image(draw_image().quantize(4), transparency=1),
    make_image_bytes(
        "png", save_all=True, append_images=[draw_image(40, 30).rotate(180)], duration=9
    ),
    make_image_bytes("webp"),
    make_image_bytes("webp", lossless=True, exif=make_exif(2)),
    make_image_bytes(
        "webp", save_all=True, append_images=[draw_image(40, 30).rotate(180)], duration=9
    ),
]


@settings(max_examples=400)
@given(
    seed=st.sampled_from(SEEDS),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=12)), max_size=6
    ),
)
def test_changed_images_are_reencoded_or_refused(
    seed: bytes, cuts: list[tuple[float, int, bytes]]
) -> None:
    """Images with parts removed or inserted are re-encoded or refused."""
    for where, length, put in cuts:
        place = int(where * len(seed))
        seed = seed[:place] + put + seed[place + length :]
    accepted(seed)


@settings(max_examples=200)
@given(start=st.sampled_from([b"", *(seed[:40] for seed in SEEDS)]), rest=st.binary(max_size=300))
def test_random_bytes_are_reencoded_or_refused(start: bytes, rest: bytes) -> None:
    """Random bytes, alone or after the beginning of an image, are re-encoded or refused."""
    accepted(start + rest)


# Limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        make_png_header_of_size(30_000, 30_000, bytes(30_001 * 1_000)),
        make_png_header_of_size(12_001, 1),
        make_png_header_of_size(1, 12_001),
        make_png_header_of_size(5_000, 5_001),
        make_png_header_of_size(2**31 - 1, 2**31 - 1),
        make_image_bytes("jpeg", 10, 10).replace(b"\x08\x00\x0a\x00\x0a", b"\x08\xff\xff\xff\xff"),
        make_image_bytes("jpeg", 10, 10).replace(b"\x08\x00\x0a\x00\x0a", b"\x08\x1f\x40\x1f\x40"),
        make_webp_header_of_size(16_383, 16_383),
    ],
    ids=["30,000 a side", "wide", "high", "25 megapixels", "huge", "jpeg", "jpeg of 64", "webp"],
)
def test_an_image_of_too_many_pixels_is_refused(content: bytes) -> None:
    """The number of pixels is checked by the header before decoding."""
    assert refusal(content) == LARGE


def test_the_largest_image_is_accepted() -> None:
    """An image at exactly the limit is accepted."""
    rows = (b"\x00" + bytes(12_000)) * 2_083
    made = reencode_image(make_png_header_of_size(12_000, 2_083, rows))
    assert decode_image(made.content).size == (2_048, 355)


PEAK = """
import resource, sys
from staffbooking_adapters.images.reencoding import reencode_image
from staffbooking_core.errors import InvalidField

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
for content in sys.stdin.buffer.read().split(b"--next--"):
    try:
        reencode_image(content)
    except InvalidField as error:
        continue
    sys.exit("it was taken")
print((peak() - before) // 1024)
"""


def test_a_bomb_takes_no_memory() -> None:
    """Refusing images of 268 and 900 megapixels takes less than 64 MB."""
    bombs = [
        make_png_header_of_size(30_000, 30_000, bytes(30_001 * 1_000)),
        make_webp_header_of_size(16_383, 16_383),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PEAK],
        input=b"--next--".join(bombs),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) < 64


def test_texts_that_decompress_to_much_are_refused() -> None:
    """Compressed PNG text that would expand to a gigabyte is refused."""
    text = make_png_chunk(b"zTXt", b"note\x00\x00" + zlib.compress(bytes(2**26), 9))
    whole = make_image_bytes("png")
    assert refusal(whole[:33] + text * 16 + whole[33:]) == BROKEN


def test_a_jpeg_with_too_many_scans_is_refused() -> None:
    """A JPEG with too many scans is refused, since each scan is a pass over all pixels."""
    assert accepted(make_jpeg_with_scans(MAX_JPEG_SCANS - 10))
    assert (
        refusal(make_jpeg_with_scans(MAX_JPEG_SCANS))
        == f"file: has more than {MAX_JPEG_SCANS} scans"
    )


LARGE_PROFILE = make_colour_profile_with_stages(0).replace(b"mpet", b"text") + bytes(
    reencoding.MAX_PROFILE_BYTES
)


@pytest.mark.parametrize(
    ("kind", "profile"),
    [*((kind, make_colour_profile_with_stages(1)) for kind in KINDS), ("jpeg", LARGE_PROFILE)],
    ids=[*KINDS, "large"],
)
def test_a_too_expensive_profile_is_ignored(
    kind: str, profile: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile with unbounded stages or too many bytes is ignored."""
    used: list[object] = []
    monkeypatch.setattr(ImageCms, "profileToProfile", lambda *given, **_: used.append(given))
    made = reencode_image(make_image_bytes(kind, icc_profile=profile))
    assert are_similar_colours(corner_colours(made.content), CORNER_COLOURS)
    assert not used


# Threads and imports --------------------------------------------------------------------


@pytest.mark.anyio
async def test_images_are_processed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent uploads are processed one at a time without blocking the event loop."""
    go, threads = threading.Event(), set()

    def slow(content: bytes) -> ProcessedImage:
        threads.add(threading.get_ident())
        go.wait(30)
        return reencode_image(content)

    monkeypatch.setattr("staffbooking_adapters.images.processor._reencode", slow)
    processor = PillowImageProcessor()
    async with anyio.create_task_group() as tasks:
        for kind in KINDS:
            tasks.start_soon(processor.process, make_image_bytes(kind))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        limiter_statistics = processor._limiter.statistics()
        go.set()
    assert (limiter_statistics.borrowed_tokens, limiter_statistics.tasks_waiting) == (1, 2)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.anyio
async def test_a_refusal_is_raised_by_the_port() -> None:
    """The port raises the same errors as the function."""
    with pytest.raises(InvalidField):
        await PillowImageProcessor().process(b"no image")


def test_pillow_is_loaded_by_load() -> None:
    """`PillowImageProcessor.load` loads Pillow, which creating the object does not."""
    program = (
        "import sys; from staffbooking_adapters import wiring\n"
        "from staffbooking_adapters.images.processor import PillowImageProcessor\n"
        "made = PillowImageProcessor(); before = 'PIL' in sys.modules; made.load()\n"
        "print(before, 'PIL.WebPImagePlugin' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "True"]
