"""Where one arrives: with one's bookings and newest messages, once one is signed in."""

from litestar import get
from litestar.response import Template

from staffbooking_core.representations.records import conversation_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.pages.session import Asked, call_of, page_of, shown, visitor_of

_AT_A_TIME = 20
_CONVERSATIONS = 5


@get("/")
async def home(request: Asked) -> Template:
    """A page of one's bookings, in the interface's order, beside the newest conversations."""
    call = call_of(request)
    if (visitor := await visitor_of(call)) is None:
        return shown("home.html")
    page, actor = page_of(call), visitor.actor
    found = await actions.listing(
        call.ports, actor, role=None, status=None, page=page, limit=_AT_A_TIME
    )
    talks = await messages.listing(call.ports, actor, 1, _CONVERSATIONS)
    return shown(
        "bookings.html",
        visitor,
        bookings=found[:_AT_A_TIME],
        number=page,
        has_more=len(found) > _AT_A_TIME,
        conversations=[conversation_record(each, actor.user_id) for each in talks[:_CONVERSATIONS]],
    )


PAGES = (home,)
