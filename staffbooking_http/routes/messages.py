"""Messages: conversations, their history, and sending without the channel (CONTRACT 6)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.inputs import SendMessage
from staffbooking_core.representations.json_types import Success
from staffbooking_core.representations.messaging import (
    ConversationRecord,
    MessageRecord,
    conversation_record,
    message_record,
)
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from staffbooking_http.api.access import SessionAccess
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListConversations, ReadHistory
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_RESOURCE_NAME = "Conversation"
_SENDING_CODES = ("content_blocked", "conversation_left")
_SENT_SCHEMA = reply_schema("MessageReply", success=Success, message=MessageRecord)
_REFUSAL_DESCRIPTION = (
    " A repeated `client_message_id` is stored once; with another content it is "
    "`idempotency_mismatch`. Refused as `content_blocked`: words that are not allowed here, and "
    "contact or payment details before the booking is paid."
)


def _sent_reply(message: Message) -> Reply:
    return Reply(201, codec.encode({"success": True, "message": message_record(message)}))


# Reading --------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/messages",
    SessionAccess(),
    operation_id="listConversations",
    summary="List your conversations",
    description=(
        "One conversation with each user with whom you share a booking, and the groups of "
        "events; the latest update first. A group exists once two of its bookings are accepted; a "
        "companion who is no longer booked can read its messages up to that time."
    ),
    query=ListConversations,
    response_schema=reply_schema(
        "ConversationPage", conversations=list[ConversationRecord], has_more=bool
    ),
)
async def list_conversations(call: Call) -> Reply:
    limit = call.parsed_input.limit
    found = await messages.list_conversations(call.ports, call.actor, call.parsed_input.page, limit)
    records = [conversation_record(each, call.actor.user_id) for each in found[:limit]]
    return Reply(200, codec.encode({"conversations": records, "has_more": len(found) > limit}))


async def _check_readable(call: Call) -> Reply:
    await messages.get_conversation(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200)


@endpoint(
    "GET",
    "/messages/conversation/{id}",
    SessionAccess(),
    operation_id="getConversation",
    summary="Read the messages of a conversation",
    description=(
        "Oldest first: the latest messages, those before `before`, or those after `after`; "
        "with both, those between. `has_more` says whether more follow in that direction. The "
        "returned messages are marked as read."
    ),
    query=ReadHistory,
    check_target=_check_readable,
    response_schema=reply_schema(
        "History", conversation=ConversationRecord, messages=list[MessageRecord], has_more=bool
    ),
    not_found_name=_RESOURCE_NAME,
)
async def read_conversation(call: Call) -> Reply:
    wanted = call.parsed_input
    found, shown, has_more = await messages.open_conversation(
        call.ports,
        call.actor,
        call.path_id(_RESOURCE_NAME),
        before=wanted.before,
        after=wanted.after,
        limit=wanted.limit,
    )
    answer = {
        "conversation": conversation_record(found, call.actor.user_id),
        "messages": [message_record(message) for message in shown],
        "has_more": has_more,
    }
    return Reply(200, codec.encode(answer))


# Sending --------------------------------------------------------------------------------


async def _check_user(call: Call) -> Reply:
    user_id = call.path_id("User")
    number = await messages.direct_conversation_with(call.ports, call.actor, user_id)
    if number is not None:
        await messages.authorize(call.ports, call.actor, number)
    return Reply(200)


@endpoint(
    "POST",
    "/messages/send/{id}",
    SessionAccess(),
    operation_id="sendMessageToUser",
    summary="Send a message to a user",
    description="Between the two parties of a booking, whatever its status." + _REFUSAL_DESCRIPTION,
    body=SendMessage,
    status=201,
    check_target=_check_user,
    response_schema=_SENT_SCHEMA,
    rule_codes=(*_SENDING_CODES, "message_to_oneself", "no_shared_booking"),
    not_found_name="User",
)
async def send_to_user(call: Call) -> Reply:
    user_id, given = call.path_id("User"), call.parsed_input
    return _sent_reply(
        await messages.send_to_user(
            call.ports, call.actor, user_id, given.content, given.client_message_id
        )
    )


async def _check_writable(call: Call) -> Reply:
    await messages.authorize(call.ports, call.actor, call.path_id(_RESOURCE_NAME))
    return Reply(200)


@endpoint(
    "POST",
    "/messages/conversation/{id}",
    SessionAccess(),
    operation_id="sendMessage",
    summary="Send a message to a conversation",
    description="Sent to all current members." + _REFUSAL_DESCRIPTION,
    body=SendMessage,
    status=201,
    check_target=_check_writable,
    rule_codes=_SENDING_CODES,
    response_schema=_SENT_SCHEMA,
    not_found_name=_RESOURCE_NAME,
)
async def send_to_conversation(call: Call) -> Reply:
    number, given = call.path_id(_RESOURCE_NAME), call.parsed_input
    letter = MessageDraft(call.actor.user_id, number, given.content, given.client_message_id)
    return _sent_reply(await messages.send_message(call.ports, letter))
