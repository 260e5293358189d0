"""Checks uploaded PDFs, which are stored as they are.

A PDF is refused if it is not whole, can't be looked into, or may do more than show pages. Names are
searched in the file, in its compressed streams, and with their escapes resolved.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from staffbooking_core.errors import invalid_field

_HEADER = re.compile(rb"%PDF-(1\.[0-7]|2\.0)[\r\n ]")
_END = re.compile(rb"startxref\s+\d+\s+%%EOF\s*\Z")
_END_BYTES = 1_024
"""Bytes in which the end of a PDF stands."""
_ARCHIVE_END = b"PK\x05\x06"
_ARCHIVE_END_BYTES = 22 + 0xFFFF
"""Bytes of a ZIP archive's end record and comment, where readers look for it."""

_NAME_ESCAPE = re.compile(rb"#([0-9A-Fa-f]{2})")
_ACTIVE_NAMES = re.compile(
    rb"/(?:JavaScript|Launch|EmbeddedFiles?|RichMedia|SubmitForm|ImportData|XFA)(?=[\s/\[\]()<>])"
)
_ENCRYPTION = re.compile(rb"/Encrypt(?=[\s/\[\]()<>])")
_STREAM_START = re.compile(rb"stream\r?\n")
_OBJECT_STREAM = re.compile(rb"/ObjStm(?=[\s/\[\]()<>])")
_OBJECT_STREAM_FILTER = re.compile(rb"/Filter\s*(?:/FlateDecode|\[\s*/FlateDecode\s*\])")
_DICTIONARY_BYTES = 1_024
"""Bytes before and after its type in which the dictionary of an object stream stands."""
MAX_INFLATED_BYTES = 256 * 2**20
"""Maximum bytes of all compressed streams together, inflated."""
_MAX_DEFLATED_BYTES = 256 * 2**20
"""Maximum bytes that are given to be inflated; streams of a broken file may overlap."""
_FIRST_PIECE_BYTES, _LARGEST_PIECE_BYTES = 1_024, 2**20
_OVERLAP_BYTES = 64
"""Bytes that two neighbouring pieces share, so that a name between them is found."""


def check_pdf(upload: bytes) -> None:
    """As `ImageProcessor.check_pdf`, blocking."""
    if not _HEADER.match(upload):
        raise invalid_field("file", "is a PDF of an unknown version")
    if not _END.search(upload[-_END_BYTES:]):
        raise invalid_field("file", "is a broken PDF: it does not end as one")
    if _ARCHIVE_END in upload[-_ARCHIVE_END_BYTES:]:
        raise invalid_field("file", "is an archive as well as a PDF")
    _check_names(upload)
    _check_object_streams(upload)
    _check_compressed_streams(upload)


def _resolve_name_escapes(text: bytes) -> bytes:
    """The text with each `#XX` of a name replaced by its byte (ISO 32000-1, 7.3.5)."""
    return _NAME_ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), text)


def _check_names(text: bytes) -> None:
    resolved = _resolve_name_escapes(text)
    if _ENCRYPTION.search(resolved):
        raise invalid_field("file", "is an encrypted PDF")
    if _ACTIVE_NAMES.search(resolved):
        raise invalid_field("file", "is a PDF with scripts, programs, forms or files inside")


def _check_object_streams(upload: bytes) -> None:
    """Refuse object streams of another filter than FlateDecode, the only one that is inflated."""
    resolved = _resolve_name_escapes(upload)
    for match in _OBJECT_STREAM.finditer(resolved):
        before = resolved[max(0, match.start() - _DICTIONARY_BYTES) : match.start()]
        after = resolved[match.end() : match.end() + _DICTIONARY_BYTES]
        dictionary = before.rpartition(b"obj")[2] + after.partition(b"stream")[0]
        if b"/Filter" in dictionary and not _OBJECT_STREAM_FILTER.search(dictionary):
            raise invalid_field("file", "is a PDF whose objects can't be read")


def _check_compressed_streams(upload: bytes) -> None:
    """Check the names in streams that are compressed by zlib; others fail to inflate at once."""
    inflated_bytes = deflated_bytes = 0
    for match in _STREAM_START.finditer(upload):
        tail = b""
        for deflated_size, inflated in _inflate(memoryview(upload)[match.end() :]):
            deflated_bytes += deflated_size
            inflated_bytes += len(inflated)
            if inflated_bytes > MAX_INFLATED_BYTES or deflated_bytes > _MAX_DEFLATED_BYTES:
                raise invalid_field("file", "is a PDF that expands to too many bytes")
            _check_names(tail + inflated)
            tail = inflated[-_OVERLAP_BYTES:]


def _inflate(compressed: memoryview) -> Iterator[tuple[int, bytes]]:
    """Inflate a stream piece by piece; yields the number of bytes read and what they become."""
    inflater = zlib.decompressobj()
    position, size = 0, _FIRST_PIECE_BYTES
    while not inflater.eof and position < len(compressed):
        piece = compressed[position : position + size]
        try:
            inflated = inflater.decompress(piece, _LARGEST_PIECE_BYTES)
            yield len(piece), inflated
            while inflater.unconsumed_tail:
                yield 0, inflater.decompress(inflater.unconsumed_tail, _LARGEST_PIECE_BYTES)
        except zlib.error:  # Not compressed by zlib, or broken: readers see no more of it either.
            yield len(piece), b""
            return
        position, size = position + size, min(2 * size, _LARGEST_PIECE_BYTES)
