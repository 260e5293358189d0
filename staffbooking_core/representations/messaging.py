"""Records of messages and conversations (CONTRACT 6)."""

from typing import Annotated, TypedDict

from staffbooking_core.domain.messaging.conversations import (
    ConversationKind,
    ConversationOverview,
    Message,
    conversation_title,
)
from staffbooking_core.representations.json_types import (
    BookingCode,
    Count,
    Id,
    JsonSchema,
    Timestamp,
    format_instant,
)

__all__ = ["MessageRecord"]


class MessageRecord(TypedDict):
    """A message."""

    id: Annotated[Id, JsonSchema(description="increases over all conversations")]
    conversation_id: Id
    sender_id: Id
    sender_name: str
    content: str
    created_at: Timestamp


def message_record(message: Message) -> MessageRecord:
    """The record of a message."""
    return {
        "id": message.id,
        "conversation_id": message.conversation_id,
        "sender_id": message.sender_id,
        "sender_name": message.sender_name,
        "content": message.content,
        "created_at": format_instant(message.created_at),
    }


class _ParticipantRecord(TypedDict):
    """A participant of a conversation."""

    user_id: Id
    name: str
    online: bool


class ConversationRecord(TypedDict):
    """A conversation, as one of its participants sees it."""

    id: Id
    type: ConversationKind
    title: Annotated[
        str, JsonSchema(description="the other person's name, or a group's `event_ref`")
    ]
    booking_code: (
        Annotated[
            BookingCode, JsonSchema(description="the pair's newest booking; none for a group")
        ]
        | None
    )
    participants: list[_ParticipantRecord]
    last_message: MessageRecord | None
    unread_count: Count
    updated_at: Timestamp


def conversation_record(overview: ConversationOverview, reader_id: int) -> ConversationRecord:
    """The record of a conversation for the participant `reader_id`."""
    conversation, last = overview.conversation, overview.last_message
    return {
        "id": conversation.id,
        "type": conversation.kind,
        "title": conversation_title(conversation, reader_id),
        "booking_code": overview.booking_code,
        "participants": [
            {
                "user_id": member.user_id,
                "name": member.name,
                "online": member.user_id in overview.online,
            }
            for member in conversation.participants
        ],
        "last_message": None if last is None else message_record(last),
        "unread_count": overview.unread,
        "updated_at": format_instant(conversation.updated_at),
    }
