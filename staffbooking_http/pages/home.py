"""The home page: what needs the visitor, what is ahead and what is past; and all bookings."""

from typing import Any

from attrs import asdict, frozen
from litestar import Response, get
from litestar.response import Template

from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.representations.messaging import conversation_record
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.bookings.overview import get_overview
from staffbooking_core.usecases.messaging import messages
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.query_string import PageNumber
from staffbooking_http.pages.account import REGISTERED_CODE
from staffbooking_http.pages.agenda import agenda_context
from staffbooking_http.pages.first_steps import load_first_steps
from staffbooking_http.pages.landing import show_landing
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    has_flash_code,
    render,
    require_signed_in,
)

_HISTORY_PAGE_SIZE = 20
_MAX_CONVERSATIONS = 4


@frozen(kw_only=True)
class _HistoryQuery:
    status: BookingStatus | None = None
    page: PageNumber = 1


@get("/")
async def show_home(request: PageRequest) -> Template | Response[bytes]:
    """Show the visitor's bookings and newest conversations; admins see all bookings, and signed-out
    visitors what the service is for."""
    call = get_call(request)
    if (visitor := await find_visitor(call)) is None:
        return await show_landing(call, request.app.state.market)
    if visitor.user.role is Role.ADMIN:
        return await _render_history(call, visitor)
    overview = await get_overview(call.ports, visitor.actor)
    talks = await messages.list_conversations(call.ports, visitor.actor, 1, _MAX_CONVERSATIONS)
    is_staff = visitor.user.role is Role.STAFF
    return render(
        "overview.html",
        visitor,
        overview=overview,
        is_new=has_flash_code(call, REGISTERED_CODE.encode()),
        **(await agenda_context(call, visitor, overview) if is_staff else {}),
        conversations=[
            conversation_record(each, visitor.actor.user_id) for each in talks[:_MAX_CONVERSATIONS]
        ],
        steps=await load_first_steps(call, visitor) if visitor.user.role is Role.STAFF else (),
        photos=await messages.profile_photos(
            call.ports,
            [each.conversation for each in talks],
            [each.booking for each in overview.needs_you],
        ),
    )


@get("/history")
async def show_history(request: PageRequest) -> Template:
    """Show a page of all the visitor's bookings, of one status where the query names it."""
    call = get_call(request)
    return await _render_history(call, await require_signed_in(call))


async def _render_history(call: Call, visitor: SignedInUser) -> Template:
    query = query_string.parse_query(_HistoryQuery, drop_empty_fields(call.scope["query_string"]))
    found = await actions.list_bookings(
        call.ports,
        visitor.actor,
        role=None,
        **{**asdict(query), "limit": _HISTORY_PAGE_SIZE},
    )
    context: dict[str, Any] = {
        "bookings": found[:_HISTORY_PAGE_SIZE],
        "status": query.status,
        "statuses": list(BookingStatus),
        "number": query.page,
        "has_more": len(found) > _HISTORY_PAGE_SIZE,
    }
    return render("history.html", visitor, **context)


PAGES = (show_home, show_history)
