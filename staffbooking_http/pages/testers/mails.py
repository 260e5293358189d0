"""The mails that the service sent, for testers to read."""

from typing import Annotated

from attrs import frozen
from litestar import get
from litestar.response import Template

from staffbooking_core.bounds import MAX_ID, IntegerBounds
from staffbooking_core.usecases import sandbox
from staffbooking_http.api import query_string
from staffbooking_http.pages.session import PageRequest, find_visitor, get_call, render

_PAGE_SIZE = 20


@frozen(kw_only=True)
class _MailsQuery:
    before: Annotated[int, IntegerBounds(1, MAX_ID)] | None = None


@get("/sandbox/mails")
async def show_mails(request: PageRequest) -> Template:
    """Show the newest mails with their links."""
    call = get_call(request)
    before = query_string.parse_query(_MailsQuery, call.scope["query_string"]).before
    mails, has_more = await sandbox.list_sent_mails(call.ports, before, _PAGE_SIZE)
    visitor = await find_visitor(call)
    return render("testers/mails.html", visitor, mails=mails, has_more=has_more, before=before)


PAGES = (show_mails,)
