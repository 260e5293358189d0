"""Message pages: the visitor's conversations, and each conversation with a form to reply.

Their paths differ from those of the API, which always responds in JSON.
"""

from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import Forbidden, InvalidInput
from staffbooking_core.inputs import Id, SendMessage
from staffbooking_core.representations.messaging import conversation_record, message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import MessageDraft
from staffbooking_http.api import query_string
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
    page = page_number(call)
    found = await messages.list_conversations(
        call.ports, visitor.actor, page, _CONVERSATIONS_PAGE_SIZE
    )
    records = [
        conversation_record(each, visitor.user.id) for each in found[:_CONVERSATIONS_PAGE_SIZE]
    ]
    return render(
        "conversations.html",
        visitor,
        conversations=records,
        number=page,
        has_more=len(found) > _CONVERSATIONS_PAGE_SIZE,
    )


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
    number = call.path_id("Conversation")
    found, some, has_more = await messages.open_conversation(
        call.ports, visitor.actor, number, before=before, after=None, limit=_MESSAGES_PAGE_SIZE
    )
    member = found.conversation.find_member(visitor.user.id)
    return {
        "conversation": conversation_record(found, visitor.user.id),
        "messages": [message_record(message) for message in some],
        "has_more": has_more,
        "is_last": before is None,
        "takes_part": member is not None and member.is_participant,
    }


PAGES = (list_conversations, redirect_to_conversation, show_conversation, submit_message)
