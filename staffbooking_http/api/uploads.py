"""Reading a file out of a form (multipart/form-data), within bounds of size and time."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import NoReturn
from urllib.parse import urlencode

from attrs import frozen
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from staffbooking_core.errors import FieldError, InvalidInput, MissingField, invalid_field
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import HttpError

FILE_FIELD = "file"
MAX_FORM_OVERHEAD_BYTES = 64 * 1024
"""Maximum bytes of a form in addition to the file: boundaries, headers, other fields."""
_MAX_FORM_PARTS = 50
UPLOAD_TIMEOUT_SECONDS = 60.0
"""Seconds that a file may take to arrive."""
_MAX_BOUNDARY_LENGTH = 70
"""RFC 2046."""


@frozen
class Upload:
    """A file and its declared media type, which is empty if none was declared."""

    content: bytes
    media: str
    other_fields: bytes
    """The form's other fields, URL-encoded."""


async def read_upload(
    call: Call, max_bytes: int, on_fields: Callable[[bytes], object] | None = None
) -> Upload:
    """The file, of at most `max_bytes`. Raises HttpError, MissingField and InvalidField, each only
    after the whole body was read, since 413 precedes them (CONTRACT 1).

    On an error, `on_fields` receives the other fields read so far.
    """
    boundary = _parse_boundary(call)
    form = _FormParser(boundary or "", max_bytes)
    try:
        await request_body.stream_body(
            call,
            form.feed,
            max_bytes + MAX_FORM_OVERHEAD_BYTES,
            UPLOAD_TIMEOUT_SECONDS,
            checks_content_length=on_fields is None,
            too_large_error=form.too_large_error,
        )
        if boundary is None:
            raise HttpError(415, "unsupported_media_type", "The body must be multipart/form-data")
        return form.finish()
    except (HttpError, InvalidInput):
        if on_fields is not None:
            on_fields(form.encode_other_fields())
        raise


def _parse_boundary(call: Call) -> str | None:
    """The form's boundary; None if the body is not a form, empty if the boundary is unusable."""
    declared = call.headers(b"content-type")
    text = declared[0].decode("latin-1") if len(declared) == 1 else ""
    media, options = parse_options_header(text)
    boundary: str = options.get("boundary", "")
    if media != "multipart/form-data":
        return None
    return boundary if boundary.isascii() and len(boundary) <= _MAX_BOUNDARY_LENGTH else ""


class _FormParser:
    """The part of a form received so far. A malformed form keeps no file."""

    def __init__(self, boundary: str, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.too_large_error = request_body.body_too_large(max_bytes, "A file")
        self._file: BytesIO | None = None
        self._media = ""
        self._file_count = 0
        self._is_file = False
        self._other_fields: list[tuple[str, bytearray]] = []
        self._parser: PushMultipartParser | None = None
        if boundary:
            self._parser = PushMultipartParser(boundary, max_segment_count=_MAX_FORM_PARTS)

    def feed(self, chunk: bytes) -> None:
        """The next piece of the body."""
        if self._parser is None or not chunk:
            return
        try:
            for event in self._parser.parse(chunk):
                self._handle_event(event)
        except MultipartError:
            self._parser = self._file = None

    def encode_other_fields(self) -> bytes:
        """The other fields received so far, URL-encoded."""
        return urlencode([(name, bytes(text)) for name, text in self._other_fields]).encode()

    def finish(self) -> Upload:
        """The file, after the whole body was fed."""
        if self._parser is None:
            _raise_malformed_form()
        try:
            self._parser.close()
        except MultipartError:
            _raise_malformed_form()
        if self._file is None:
            raise MissingField([FieldError(FILE_FIELD, "is required")])
        if self._file_count > 1:
            raise invalid_field(FILE_FIELD, "is given more than once")
        return Upload(self._file.getvalue(), self._media, self.encode_other_fields())

    def _handle_event(self, event: MultipartSegment | bytes | None) -> None:
        if isinstance(event, MultipartSegment):
            self._is_file = event.name == FILE_FIELD
            self._file_count += self._is_file
            if not self._is_file:
                self._other_fields.append((event.name or "", bytearray()))
            # Without a chosen file, browsers send an empty part with an empty file name.
            elif event.filename != "":
                self._file = BytesIO()
                self._media = (event.content_type or "").lower()
        elif event and self._is_file:
            self._file = self._file or BytesIO()
            self._file.write(event)
            if self._file.tell() > self._max_bytes:
                raise self.too_large_error
        elif event:
            self._other_fields[-1][1].extend(event)
            if sum(len(text) for _, text in self._other_fields) > MAX_FORM_OVERHEAD_BYTES:
                raise request_body.body_too_large(
                    MAX_FORM_OVERHEAD_BYTES, "The form without its file"
                )


def _raise_malformed_form() -> NoReturn:
    raise HttpError(400, "malformed_form", "The body is not a form: it is broken, or not whole")
