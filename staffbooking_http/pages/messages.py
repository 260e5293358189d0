"""Pages of messages: one's conversations, and each of them with a form to answer in. Their paths
are not those of the interface, which answer in JSON to whoever asks."""

from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import Forbidden, InvalidInput
from staffbooking_core.inputs import Id, SendMessage
from staffbooking_core.representations.records import conversation_record, message_record
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.messaging.messages import Letter
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    Written,
    call_of,
    page_of,
    proven,
    refused,
    shown,
    signed_in,
    take,
)

_LIST = "/conversations"
_PAGE = "conversation.html"
_AT_A_TIME = 20
_MESSAGES = 50


@frozen(kw_only=True)
class _Back:
    before: Id | None = None


@frozen(kw_only=True)
class _Draft:
    """What somebody wrote, whether it can be sent or not."""

    content: Written = ""
    after: Written = ""
    """The last message on the page that it was written on."""


@get(_LIST)
async def listed(request: Asked) -> Template:
    """One's conversations, the one updated last first."""
    call = call_of(request)
    visitor = await signed_in(call)
    page = page_of(call)
    found = await messages.listing(call.ports, visitor.actor, page, _AT_A_TIME)
    records = [conversation_record(each, visitor.user.id) for each in found[:_AT_A_TIME]]
    return shown(
        "conversations.html",
        visitor,
        conversations=records,
        number=page,
        has_more=len(found) > _AT_A_TIME,
    )


@get("/conversations/with/{user:str}")
async def with_user(request: Asked) -> Redirect:
    """To the conversation with somebody with whom one shares a booking."""
    call = call_of(request)
    visitor = await signed_in(call)
    number = await messages.with_user(call.ports, visitor.actor, call.path_id("User"))
    if number is None:
        return Redirect(_LIST, status_code=303)
    return _to_last(f"{_LIST}/{number}")


@get("/conversations/{number:str}")
async def read(request: Asked) -> Template:
    """The messages of a conversation, which are read by that."""
    call = call_of(request)
    visitor = await signed_in(call)
    before = query_string.read(_Back, call.scope["query_string"]).before
    return shown(_PAGE, visitor, **await _seen(call, visitor, before))


@post("/conversations/{number:str}", status_code=200)
async def answer(request: Asked) -> Template | Redirect:
    """Say something, and come back to the page; what can't be said stays in the form."""
    call = call_of(request)
    visitor = await signed_in(call)
    form = await proven(call, visitor)
    draft = query_string.read_form(_Draft, form)
    try:
        given = await take(call, visitor, SendMessage, form)
        await messages.send(call.ports, _letter(call, visitor, draft.after, given.content))
    except (InvalidInput, Forbidden, LimitExceeded) as error:
        seen = await _seen(call, visitor, None)
        return refused(_PAGE, visitor, error, draft=draft.content, **seen)
    return _to_last(call.scope["path"])


def _letter(call: Call, visitor: Visitor, after: str, content: str) -> Letter:
    """The same words written at the same place are said once, however often a button is pressed.
    Their name is keyed, so that it tells nothing of them once they are erased."""
    name = call.ports.vault.sign("message-of-page", f"{after} {content}".encode()).hex()
    return Letter(visitor.user.id, call.path_id("Conversation"), content, name)


def _to_last(path: str) -> Redirect:
    return Redirect(f"{path}#last", status_code=303)


async def _seen(call: Call, visitor: Visitor, before: int | None) -> dict[str, Any]:
    """What the page shows of a conversation, up to a message or to the last one."""
    number = call.path_id("Conversation")
    found, some, has_more = await messages.visit(
        call.ports, visitor.actor, number, before=before, after=None, limit=_MESSAGES
    )
    member = found.conversation.member(visitor.user.id)
    return {
        "conversation": conversation_record(found, visitor.user.id),
        "messages": [message_record(message) for message in some],
        "has_more": has_more,
        "is_last": before is None,
        "takes_part": member is not None and member.takes_part,
    }


PAGES = (listed, with_user, read, answer)
