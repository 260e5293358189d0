"""The home page: the visitor's bookings and newest conversations once signed in."""

from litestar import get
from litestar.response import Template

from staffbooking_core.representations.messaging import conversation_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.pages.session import PageRequest, find_visitor, get_call, page_number, render

_BOOKINGS_PAGE_SIZE = 20
_MAX_CONVERSATIONS = 5


@get("/")
async def show_home(request: PageRequest) -> Template:
    """Show a page of the visitor's bookings, in the API's order, and the newest conversations."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return render("home.html")
    page, actor = page_number(call), visitor.actor
    found = await actions.list_bookings(
        call.ports, actor, role=None, status=None, page=page, limit=_BOOKINGS_PAGE_SIZE
    )
    talks = await messages.list_conversations(call.ports, actor, 1, _MAX_CONVERSATIONS)
    return render(
        "bookings.html",
        visitor,
        bookings=found[:_BOOKINGS_PAGE_SIZE],
        number=page,
        has_more=len(found) > _BOOKINGS_PAGE_SIZE,
        conversations=[
            conversation_record(each, actor.user_id) for each in talks[:_MAX_CONVERSATIONS]
        ],
    )


PAGES = (show_home,)
