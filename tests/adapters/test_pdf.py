"""Uploaded PDFs: whole ones that only show pages pass, others are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from staffbooking_adapters.images import pdf
from staffbooking_adapters.images.pdf import check_pdf
from staffbooking_core.errors import InvalidField
from tests.support.pdfs import make_pdf, make_pdf_stream

ACTION = b"<< /S /JavaScript /JS (app.alert(1)) >>"
OBJECTS = b"/Type /ObjStm /N 1 /First 4 /Filter /FlateDecode"


def refusal(content: bytes) -> str:
    with pytest.raises(InvalidField) as caught:
        check_pdf(content)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        make_pdf(),
        make_pdf(header=b"%PDF-2.0\r\n"),
        make_pdf(end=b"%%EOF"),
        make_pdf(make_pdf_stream(b"BT (hello) Tj ET")),
        make_pdf(make_pdf_stream(b"4 0 << /Type /Font >>", OBJECTS)),
        make_pdf(b"<< /Length 4 >>\nstream\n\xff\xd8\xff\xe0\nendstream"),
    ],
)
def test_a_whole_pdf_passes(content: bytes) -> None:
    """A PDF with pages, texts, fonts and images passes."""
    check_pdf(content)


@pytest.mark.parametrize("header", [b"%PDF-3.0\n", b"%PDF-\n", b" %PDF-1.7\n"])
def test_another_version_is_refused(header: bytes) -> None:
    """A PDF of an unknown version, or with something before it, is refused."""
    assert refusal(make_pdf(header=header)) == "file: is a PDF of an unknown version"


def test_half_a_pdf_is_refused() -> None:
    """A PDF that was cut off is refused."""
    assert refusal(make_pdf()[:-6]) == "file: is a broken PDF: it does not end as one"


def test_a_pdf_with_something_behind_it_is_refused() -> None:
    """A PDF that is followed by something else is refused."""
    assert "does not end as one" in refusal(make_pdf() + b"<html>")


def test_an_archive_is_refused() -> None:
    """A PDF that is a ZIP archive as well is refused."""
    found = refusal(make_pdf(b"(PK\x05\x06)"))
    assert found == "file: is an archive as well as a PDF"


def test_an_encrypted_pdf_is_refused() -> None:
    """A PDF that can't be looked into is refused."""
    assert refusal(make_pdf(b"<< /Encrypt 5 0 R >>")) == "file: is an encrypted PDF"


@pytest.mark.parametrize(
    "content",
    [
        ACTION,
        b"<< /S /Java#53cript >>",
        b"<< /S /Launch /F (a.exe) >>",
        b"<< /Names << /EmbeddedFiles 9 0 R >> >>",
        b"<< /Type /EmbeddedFile >>",
        b"<< /AcroForm << /XFA [] >> >>",
        make_pdf_stream(ACTION, OBJECTS),
        make_pdf_stream(b" " * 2**20 + ACTION, OBJECTS),
        make_pdf_stream(b" " * (2**20 - 9) + ACTION, OBJECTS),
    ],
)
def test_what_may_do_more_than_show_pages_is_refused(content: bytes) -> None:
    """A PDF with a script, a program, a form or a file inside is refused, however it is
    written."""
    found = refusal(make_pdf(content))
    assert found == "file: is a PDF with scripts, programs, forms or files inside"


@pytest.mark.parametrize("name", [b"/LZWDecode", b"[/ASCII85Decode /FlateDecode]"])
def test_objects_in_another_encoding_are_refused(name: bytes) -> None:
    """Objects in an encoding that is not looked into are refused."""
    hidden = make_pdf_stream(b"4 0 << >>", b"/Type /ObjStm /Filter " + name)
    assert refusal(make_pdf(hidden)) == "file: is a PDF whose objects can't be read"


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PDF that expands to more than the limit is refused."""
    monkeypatch.setattr(pdf, "MAX_INFLATED_BYTES", 2**20)
    bomb = make_pdf_stream(b" " * (2**20 + 1))
    assert refusal(make_pdf(bomb)) == "file: is a PDF that expands to too many bytes"


def test_overlapping_streams_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with more stream starts than can be looked into is refused."""
    monkeypatch.setattr(pdf, "_MAX_DEFLATED_BYTES", 2**16)
    starts = b"stream\nx" * 1_000
    assert refusal(make_pdf(starts)) == "file: is a PDF that expands to too many bytes"


@settings(max_examples=50)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_any_content_is_judged(content: bytes, cut: int) -> None:
    """Any content either passes or is refused as an invalid field."""
    whole = make_pdf(make_pdf_stream(content), content)
    for upload in (whole, whole[:cut] + content + whole[cut:]):
        with suppress(InvalidField):
            check_pdf(upload)
