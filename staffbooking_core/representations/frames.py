"""Records of the frames of the real-time channel, except messages (CONTRACT 6)."""

from typing import NotRequired, TypedDict

from staffbooking_core.representations.errors import ErrorRecord, FieldErrorRecord
from staffbooking_core.representations.json_types import Count, Id, Timestamp
from staffbooking_core.representations.messaging import MessageRecord


class ReadyRecord(TypedDict):
    """The user of a connection, and the id of the last message that they may read, 0 with none."""

    user_id: Id
    last_message_id: Count


class TypingRecord(TypedDict):
    """Whether a participant is typing in a conversation."""

    conversation_id: Id
    user_id: Id
    sender_name: str
    is_typing: bool


class PresenceRecord(TypedDict):
    """Whether a user is connected."""

    user_id: Id
    online: bool
    last_seen: Timestamp | None


class ReadMarkRecord(TypedDict):
    """The message up to which a participant has read a conversation."""

    conversation_id: Id
    message_id: Id
    user_id: Id


class AckRecord(TypedDict):
    """A message that was sent and is now stored."""

    message: MessageRecord


class FrameErrorRecord(ErrorRecord):
    """Why a frame was refused; `retry_after` is in seconds."""

    errors: NotRequired[list[FieldErrorRecord]]
    retry_after: NotRequired[int]
