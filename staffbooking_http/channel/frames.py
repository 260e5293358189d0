"""Frames on the wire: what comes in becomes a request of the core, what goes out becomes bytes."""

from functools import cached_property
from typing import Any, TypeAlias

from staffbooking_adapters import codec
from staffbooking_adapters.inputs import structure
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.inputs import AskPresence, ReadUpTo, Resume, SendToConversation, Type
from staffbooking_core.representations.channel import Asked, BadFrame, Frame, UnknownEvent
from staffbooking_http.api import request_body
from staffbooking_http.api.errors import Refused

Request: TypeAlias = SendToConversation | Type | ReadUpTo | AskPresence | Resume

REQUESTS: dict[Asked, type[Request]] = {
    Asked.SEND_MESSAGE: SendToConversation,
    Asked.TYPING: Type,
    Asked.READ: ReadUpTo,
    Asked.PRESENCE: AskPresence,
    Asked.RESUME: Resume,
}

CHANNEL_PATH = "/ws"
"""Where the channel is served."""

FRAME_BYTES = 64 * 1024
DEEPEST = 8
"""Levels of a frame."""


def parse(text: str) -> tuple[Request | StaffbookingError, Any]:
    """A text frame as the request that it makes, or what is wrong with it; and its `ref`."""
    try:
        given = request_body.parse(text.encode(), DEEPEST)
        ref = given.get("ref")
        codec.encode(ref)  # It comes back: what can't be sent is refused before.
    except (Refused, UnicodeEncodeError):
        return BadFrame(f"A frame is a JSON object, nested {DEEPEST} levels at most"), None
    event, data = given.get("event"), given.get("data", {})
    if not isinstance(event, str) or not isinstance(data, dict):
        return BadFrame("A frame has an event's name and an object of data"), ref
    return understand(event, data), ref


def understand(event: str, data: Any) -> Request | StaffbookingError:
    """What a client asks for, or what is wrong with that."""
    if event not in REQUESTS:
        return UnknownEvent()
    if not isinstance(data, dict):
        return BadFrame("The data of an event is an object")
    try:
        return structure(REQUESTS[Asked(event)], data)
    except StaffbookingError as error:
        return error


class Outgoing:
    """A frame that goes out, perhaps to many: encoded once, whatever the transport."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @cached_property
    def text(self) -> bytes:
        """As JSON."""
        frame = self.frame
        answered = {} if frame.ref is None else {"ref": frame.ref}
        return codec.encode({"event": frame.event, "data": frame.data, **answered})

    @cached_property
    def socketio(self) -> str:
        """As a message of Engine.IO (protocol 4) that is an event of Socket.IO (protocol 5)."""
        return "42" + codec.encode([self.frame.event, self.frame.data]).decode()

    @cached_property
    def websocket(self) -> bytes:
        """As a whole WebSocket frame from the service (RFC 6455, 5.2)."""
        size = len(self.text)
        if size < 126:
            return bytes((0x81, size)) + self.text
        if size < 1 << 16:
            return b"\x81\x7e" + size.to_bytes(2, "big") + self.text
        return b"\x81\x7f" + size.to_bytes(8, "big") + self.text
