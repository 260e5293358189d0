"""Reading a file out of a form (multipart/form-data), within bounds of size and time."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import NoReturn
from urllib.parse import urlencode

from attrs import frozen
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from staffbooking_core.errors import Fault, InvalidInput, MissingField, invalid
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import Refused

FIELD = "file"
MOST_AROUND = 64 * 1024
"""Bytes of a form besides the file: boundaries, headers, other fields."""
MOST_PARTS = 50
DEADLINE = 60.0
"""Seconds that a file may take to come."""
LONGEST_BOUNDARY = 70
"""RFC 2046."""


@frozen
class Upload:
    """A file, and the media type that it was sent as: empty where nothing was said."""

    content: bytes
    media: str
    form: bytes
    """What stood beside it, as a form without a file is sent."""


async def read(call: Call, most: int, noted: Callable[[bytes], object] | None = None) -> Upload:
    """The file, of at most so many bytes. Raises Refused, MissingField and InvalidField; only
    once all of the body has come, since it may be too large besides (CONTRACT 1).

    Where it is refused, `noted` is told what stands beside it, as far as that had come.
    """
    boundary = _boundary(call)
    form = _Form(boundary or "", most)
    try:
        await request_body.hand_over(
            call,
            form.take,
            most + MOST_AROUND,
            DEADLINE,
            by_length=noted is None,
            refusal=form.too_large,
        )
        if boundary is None:
            raise Refused(415, "unsupported_media_type", "The body must be multipart/form-data")
        return form.end()
    except (Refused, InvalidInput):
        if noted is not None:
            noted(form.texts())
        raise


def _boundary(call: Call) -> str | None:
    """What parts the form's fields; None where it is no form, empty where it says nothing."""
    declared = call.headers(b"content-type")
    text = declared[0].decode("latin-1") if len(declared) == 1 else ""
    media, options = parse_options_header(text)
    boundary: str = options.get("boundary", "")
    if media != "multipart/form-data":
        return None
    return boundary if boundary.isascii() and len(boundary) <= LONGEST_BOUNDARY else ""


class _Form:
    """What has come of a form so far. Of a broken one no file is kept any more."""

    def __init__(self, boundary: str, most: int) -> None:
        self._most = most
        self.too_large = request_body.too_large(most, "A file")
        self._file: BytesIO | None = None
        self._media = ""
        self._files = 0
        self._is_file = False
        self._texts: list[tuple[str, bytearray]] = []
        self._parser: PushMultipartParser | None = None
        if boundary:
            self._parser = PushMultipartParser(boundary, max_segment_count=MOST_PARTS)

    def take(self, piece: bytes) -> None:
        """The next piece of the body."""
        if self._parser is None or not piece:
            return
        try:
            for event in self._parser.parse(piece):
                self._note(event)
        except MultipartError:
            self._parser = self._file = None

    def texts(self) -> bytes:
        """What has come beside the file, as a form without one is sent."""
        return urlencode([(name, bytes(text)) for name, text in self._texts]).encode()

    def end(self) -> Upload:
        """The file, once the body has come to its end."""
        if self._parser is None:
            _refuse()
        try:
            self._parser.close()
        except MultipartError:
            _refuse()
        if self._file is None:
            raise MissingField([Fault(FIELD, "is required")])
        if self._files > 1:
            raise invalid(FIELD, "is given more than once")
        return Upload(self._file.getvalue(), self._media, self.texts())

    def _note(self, event: MultipartSegment | bytes | None) -> None:
        if isinstance(event, MultipartSegment):
            self._is_file = event.name == FIELD
            self._files += self._is_file
            if not self._is_file:
                self._texts.append((event.name or "", bytearray()))
            # A page's form without a file chosen sends a nameless one of no bytes.
            elif event.filename != "":
                self._file = BytesIO()
                self._media = (event.content_type or "").lower()
        elif event and self._is_file:
            self._file = self._file or BytesIO()
            self._file.write(event)
            if self._file.tell() > self._most:
                raise self.too_large
        elif event:
            self._texts[-1][1].extend(event)
            if sum(len(text) for _, text in self._texts) > MOST_AROUND:
                raise request_body.too_large(MOST_AROUND, "What stands beside a file")


def _refuse() -> NoReturn:
    raise Refused(400, "malformed_form", "The body is not a form: it is broken, or not whole")
