"""Message pages: the visitor's conversations, and each conversation with a form to reply.

Their paths differ from those of the API, which always responds in JSON.
"""

from collections.abc import Sequence
from datetime import UTC, date, time
from typing import Any
from zoneinfo import ZoneInfo

from attrs import frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.messaging.conversations import (
    BLOCKED_CONTENT_MESSAGES,
    Conversation,
    ConversationMember,
    Message,
)
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import Forbidden, InvalidInput
from staffbooking_core.inputs import Id, SendMessage
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.representations.messaging import conversation_record
from staffbooking_core.usecases.messaging import channel, messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from staffbooking_core.value_checks import FORBIDDEN_CHARACTER
from staffbooking_http.api import query_string
from staffbooking_http.api.access import authenticate_session
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    get_call,
    page_number,
    parse_counted_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
)

_LIST_PATH = "/conversations"
_TEMPLATE = "conversation.html"
_CONVERSATIONS_PAGE_SIZE = 20
_MESSAGES_PAGE_SIZE = 50


@frozen(kw_only=True)
class _HistoryQuery:
    before: Id | None = None


@frozen(kw_only=True)
class _MessageForm:
    """The submitted message before validation, to refill the form."""

    content: DraftText = ""
    after: DraftText = ""
    """The id of the last message on the page with the form."""


@get(_LIST_PATH)
async def list_conversations(request: PageRequest) -> Template:
    """Show a page of the visitor's conversations, the last updated first."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    last_id = await channel.last_message_id(call.ports, visitor.user.id)
    listed = await _list_context(call, visitor, page_number(call))
    return render("conversations.html", visitor, last_id=last_id, **listed)


async def _list_context(
    call: Call, visitor: SignedInUser, page: int, *opened: Conversation
) -> dict[str, Any]:
    """The template context of a page of the visitor's conversations, with the photos of people in
    them and in the `opened` one."""
    found = await messages.list_conversations(
        call.ports, visitor.actor, page, _CONVERSATIONS_PAGE_SIZE
    )
    shown = found[:_CONVERSATIONS_PAGE_SIZE]
    return {
        "conversations": [conversation_record(each, visitor.user.id) for each in shown],
        "photos": await messages.profile_photos(
            call.ports, [*opened, *(each.conversation for each in shown)]
        ),
        "number": page,
        "has_more_conversations": len(found) > _CONVERSATIONS_PAGE_SIZE,
    }


@get("/conversations/unread")
async def count_unread(request: PageRequest) -> Response[dict[str, int]]:
    """The number of unread messages, and the id of the last message: a script shows the number, and
    opens the channel after that message. Does not touch the session, which a page left open does
    not prolong."""
    call = get_call(request)
    visitor = await authenticate_session(call.ports, call.scope["headers"], call.now)
    unread, last_id = await messages.count_unread(call.ports, visitor.user.id)
    return Response({"unread": unread, "last_message_id": last_id})


@get("/conversations/with/{user:str}")
async def redirect_to_conversation(request: PageRequest) -> Redirect:
    """Redirect to the conversation with a user, or to the list for the visitor's own id."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    number = await messages.direct_conversation_with(
        call.ports, visitor.actor, call.path_id("User")
    )
    if number is None:
        return Redirect(_LIST_PATH, status_code=303)
    return _redirect_to_last_message(f"{_LIST_PATH}/{number}")


@get("/conversations/{number:str}")
async def show_conversation(request: PageRequest) -> Template:
    """Show the messages of a conversation and mark them as read."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    before = query_string.parse_query(_HistoryQuery, call.scope["query_string"]).before
    return render(_TEMPLATE, visitor, **await _conversation_context(call, visitor, before))


@post("/conversations/{number:str}", status_code=200)
async def submit_message(request: PageRequest) -> Template | Redirect:
    """Send a message and redirect to the page; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    form = await read_verified_form(call, visitor)
    draft = query_string.parse_form(_MessageForm, form)
    try:
        given = await parse_counted_form(call, visitor, SendMessage, form)
        await messages.send_message(
            call.ports, _message_draft(call, visitor, draft.after, given.content)
        )
    except (InvalidInput, Forbidden, RateLimitExceeded) as error:
        seen = await _conversation_context(call, visitor, None)
        return render_error(_TEMPLATE, visitor, error, draft=draft.content, **seen)
    return _redirect_to_last_message(call.scope["path"])


def _message_draft(call: Call, visitor: SignedInUser, after: str, content: str) -> MessageDraft:
    """The message with a client id derived from its text and the last message shown.

    A form submitted twice therefore sends one message. The id is a keyed hash, so that it reveals
    nothing of the text after erasure.
    """
    name = call.ports.vault.sign("message-of-page", f"{after} {content}".encode()).hex()
    return MessageDraft(visitor.user.id, call.path_id("Conversation"), content, name)


def _redirect_to_last_message(path: str) -> Redirect:
    return Redirect(f"{path}#last", status_code=303)


async def _conversation_context(
    call: Call, visitor: SignedInUser, before: int | None
) -> dict[str, Any]:
    """The template context of a conversation, with the messages before `before` or the newest."""
    number, user_id = call.path_id("Conversation"), visitor.user.id
    # Read first: whatever is newer than this message comes over the channel.
    last_id = await channel.last_message_id(call.ports, user_id)
    found, some, has_more = await messages.open_conversation(
        call.ports, visitor.actor, number, before=before, after=None, limit=_MESSAGES_PAGE_SIZE
    )
    conversation = found.conversation
    bookings = await messages.shared_bookings(call.ports, visitor.actor, conversation)
    timezone = visitor.user.timezone or (bookings[0].timezone if bookings else None)
    member = conversation.find_member(user_id)
    others = _other_members(conversation, user_id)
    return {
        **await _list_context(call, visitor, 1, conversation),
        "conversation": conversation_record(found, user_id),
        "others": others,
        "reads": {each.user_id: each.read_id for each in others},
        "is_read": bool(some and others) and all(each.read_id >= some[-1].id for each in others),
        "staff_ids": conversation.staff_ids,
        "bookings": bookings,
        "messages": _message_views(some, timezone),
        "timezone": timezone,
        "has_more": has_more,
        "is_last": before is None,
        "last_id": last_id,
        "refusals": (*BLOCKED_CONTENT_MESSAGES, FORBIDDEN_CHARACTER),
        "is_over": conversation.is_over,
        "takes_part": not conversation.is_over and member is not None and member.is_participant,
    }


def _other_members(conversation: Conversation, reader_id: int) -> list[ConversationMember]:
    """Everybody in a conversation but its reader; of a direct one, the other person."""
    return [member for member in conversation.participants if member.user_id != reader_id]


@frozen
class _MessageView:
    """A message with its time in the reader's zone, or that of the bookings, as long as no script
    shows another."""

    message: Message
    at: str
    day: date
    clock: time
    is_first_of_day: bool


def _message_views(found: Sequence[Message], timezone: str | None) -> list[_MessageView]:
    views: list[_MessageView] = []
    for message in found:
        local = message.created_at.astimezone(UTC if timezone is None else ZoneInfo(timezone))
        is_first = not views or views[-1].day != local.date()
        at = format_instant(message.created_at)
        views.append(_MessageView(message, at, local.date(), local.time(), is_first))
    return views


PAGES = (
    list_conversations,
    count_unread,
    redirect_to_conversation,
    show_conversation,
    submit_message,
)
