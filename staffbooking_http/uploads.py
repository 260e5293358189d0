"""Reading a file out of a form (multipart/form-data), within bounds of size and time."""

from io import BytesIO
from typing import NoReturn
from urllib.parse import urlencode

from attrs import frozen
from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from staffbooking_core.errors import Fault, MissingField, invalid
from staffbooking_http import bodies
from staffbooking_http.endpoint import Call
from staffbooking_http.errors import Refused

FIELD = "file"
MOST_AROUND = 64 * 1024
"""Bytes of a form besides the file: boundaries, headers, fields that nobody asked for."""
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


async def read(call: Call, most: int) -> Upload:
    """The file, of at most so many bytes. Raises Refused, MissingField and InvalidField; only
    once all of the body has come, since it may be too large besides (CONTRACT 1)."""
    boundary = _boundary(call)
    form = _Form(boundary or "", most)
    await bodies.hand_over(call, form.take, most + MOST_AROUND, DEADLINE)
    if boundary is None:
        raise Refused(415, "unsupported_media_type", "The body must be multipart/form-data")
    return form.end()


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
    """What has come of a form so far. Of a broken form nothing is kept any more."""

    def __init__(self, boundary: str, most: int) -> None:
        self._most = most
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
        texts = [(name, bytes(text)) for name, text in self._texts]
        return Upload(self._file.getvalue(), self._media, urlencode(texts).encode())

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
                raise bodies.too_large(self._most)
        elif event:
            self._texts[-1][1].extend(event)
            if sum(len(text) for _, text in self._texts) > MOST_AROUND:
                raise bodies.too_large(self._most)


def _refuse() -> NoReturn:
    raise Refused(400, "malformed_form", "The body is not a form: it is broken, or not whole")
