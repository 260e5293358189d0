"""Frames on the wire: incoming text is parsed into core requests, outgoing frames are encoded."""

from functools import cached_property
from typing import Any, TypeAlias

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.inputs import (
    MarkReadUpTo,
    QueryPresence,
    Resume,
    SendToConversation,
    SetTyping,
)
from staffbooking_core.representations.channel import (
    ClientEvent,
    Frame,
    MalformedFrame,
    UnknownClientEvent,
)
from staffbooking_http.api import request_body
from staffbooking_http.api.errors import HttpError

ClientRequest: TypeAlias = SendToConversation | SetTyping | MarkReadUpTo | QueryPresence | Resume

REQUEST_CLASSES: dict[ClientEvent, type[ClientRequest]] = {
    ClientEvent.SEND_MESSAGE: SendToConversation,
    ClientEvent.TYPING: SetTyping,
    ClientEvent.READ: MarkReadUpTo,
    ClientEvent.PRESENCE: QueryPresence,
    ClientEvent.RESUME: Resume,
}

CHANNEL_PATH = "/ws"
SOCKETIO_PATHS = ("/socket.io/", "/socket.io")
"""Where the channel is served."""

MAX_FRAME_BYTES = 64 * 1024
MAX_FRAME_DEPTH = 8
"""Levels of a frame."""


def parse_frame(text: str) -> tuple[ClientRequest | StaffbookingError, Any]:
    """Parse a text frame into its request, or the error in it, and its `ref`."""
    try:
        frame = request_body.parse_object(text.encode(), MAX_FRAME_DEPTH)
        ref = frame.get("ref")
        codec.encode(ref)  # The reply echoes it, so it must be encodable.
    except (HttpError, UnicodeEncodeError):
        return MalformedFrame(
            f"A frame is a JSON object, nested {MAX_FRAME_DEPTH} levels at most"
        ), None
    event, data = frame.get("event"), frame.get("data", {})
    if not isinstance(event, str) or not isinstance(data, dict):
        return MalformedFrame("A frame has an event's name and an object of data"), ref
    return parse_request(event, data), ref


def parse_request(event: str, data: Any) -> ClientRequest | StaffbookingError:
    """Parse an event into its request; returns the error if it is invalid."""
    if event not in REQUEST_CLASSES:
        return UnknownClientEvent()
    if not isinstance(data, dict):
        return MalformedFrame("The data of an event is an object")
    try:
        return structure(REQUEST_CLASSES[ClientEvent(event)], data)
    except StaffbookingError as error:
        return error


class EncodedFrame:
    """An outgoing frame, encoded once per transport for all its recipients."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @cached_property
    def json_bytes(self) -> bytes:
        """The JSON text."""
        frame = self.frame
        ref = {} if frame.ref is None else {"ref": frame.ref}
        return codec.encode({"event": frame.event, "data": frame.data, **ref})

    @cached_property
    def socketio_packet(self) -> str:
        """A Socket.IO event (protocol 5) in an Engine.IO message (protocol 4)."""
        return "42" + codec.encode([self.frame.event, self.frame.data]).decode()

    @cached_property
    def websocket_frame(self) -> bytes:
        """A complete, unmasked WebSocket text frame (RFC 6455, 5.2)."""
        size = len(self.json_bytes)
        if size < 126:
            return bytes((0x81, size)) + self.json_bytes
        if size < 1 << 16:
            return b"\x81\x7e" + size.to_bytes(2, "big") + self.json_bytes
        return b"\x81\x7f" + size.to_bytes(8, "big") + self.json_bytes
