"""Messages: conversations, their history, and sending without the channel (CONTRACT 6)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.messaging.conversations import Message
from staffbooking_core.inputs import SendMessage
from staffbooking_core.representations.records import conversation_record, message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import Letter
from staffbooking_http.api.access import WithSession
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListConversations, ReadHistory
from staffbooking_http.api.response_schemas import FLAG, SUCCESS, items, ref, shape

_WHAT = "Conversation"
_SAID = shape({"success": SUCCESS, "message": ref("Message")})
_REFUSED = (
    " Refused as `content_blocked`: words that are not allowed here, and contact or payment "
    "details before the booking is paid."
)


def _said(message: Message) -> Reply:
    return Reply(201, codec.encode({"success": True, "message": message_record(message)}))


# Reading --------------------------------------------------------------------------------


@endpoint(
    "GET",
    "/messages",
    WithSession(),
    summary="List your conversations",
    description=(
        "One with everybody with whom you share a booking, and the groups of events; the one "
        "updated last first. A group is there once two of its bookings are accepted; who is not "
        "booked any more still reads what was said until then."
    ),
    query=ListConversations,
    answer=shape({"conversations": items(ref("Conversation")), "has_more": FLAG}),
)
async def list_mine(call: Call) -> Reply:
    limit = call.given.limit
    found = await messages.listing(call.ports, call.actor, call.given.page, limit)
    records = [conversation_record(each, call.actor.user_id) for each in found[:limit]]
    return Reply(200, codec.encode({"conversations": records, "has_more": len(found) > limit}))


async def _find(call: Call) -> Reply:
    await messages.overview(call.ports, call.actor, call.path_id(_WHAT))
    return Reply(200)


@endpoint(
    "GET",
    "/messages/conversation/{id}",
    WithSession(),
    summary="Read the messages of a conversation",
    description=(
        "Oldest first: the last ones, those before `before`, or those next after `after`; with "
        "both, those between. `has_more` tells of more that way. What is shown is marked as read."
    ),
    query=ReadHistory,
    find=_find,
    answer=shape(
        {
            "conversation": ref("Conversation"),
            "messages": items(ref("Message")),
            "has_more": FLAG,
        }
    ),
    not_found=_WHAT,
)
async def read(call: Call) -> Reply:
    wanted = call.given
    found, shown, has_more = await messages.visit(
        call.ports,
        call.actor,
        call.path_id(_WHAT),
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


async def _find_user(call: Call) -> Reply:
    await messages.with_user(call.ports, call.actor, call.path_id("User"))
    return Reply(200)


@endpoint(
    "POST",
    "/messages/send/{id}",
    WithSession(),
    summary="Send a message to a user",
    description="Between the two parties of a booking, whatever its status." + _REFUSED,
    body=SendMessage,
    status=201,
    find=_find_user,
    answer=_SAID,
    codes=("message_to_oneself",),
    not_found="User",
)
async def send_to_user(call: Call) -> Reply:
    user_id = call.path_id("User")
    return _said(await messages.send_to_user(call.ports, call.actor, user_id, call.given.content))


async def _find_to_write(call: Call) -> Reply:
    await messages.authorize(call.ports, call.actor, call.path_id(_WHAT))
    return Reply(200)


@endpoint(
    "POST",
    "/messages/conversation/{id}",
    WithSession(),
    summary="Send a message to a conversation",
    description="To all who are in it now." + _REFUSED,
    body=SendMessage,
    status=201,
    find=_find_to_write,
    answer=_SAID,
    not_found=_WHAT,
)
async def send(call: Call) -> Reply:
    letter = Letter(call.actor.user_id, call.path_id(_WHAT), call.given.content)
    return _said(await messages.send(call.ports, letter))
